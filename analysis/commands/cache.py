"""`sollens cache clear|info`."""

from __future__ import annotations

import argparse
from typing import Any

from sollens.analysis.cache import Cache
from sollens.analysis.commands import options
from sollens.hardware.units import format_bytes


def add(commands: Any) -> None:
    """Declare the command."""
    parser: argparse.ArgumentParser = commands.add_parser("cache", help="the store of traces and reports")
    parser.add_argument("action", choices=("clear", "info"))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Clear the store, or say what it holds."""
    cache = Cache()
    if arguments.action == "clear":
        before = cache.clear()
        print(f"removed {before.entries} entries ({format_bytes(before.bytes)}) from {before.folder}")
        return options.DONE
    info = cache.info()
    print(
        f"{info.folder}: {info.entries} entries, {format_bytes(info.bytes)} of at most {format_bytes(info.limit_bytes)}"
    )
    return options.DONE
