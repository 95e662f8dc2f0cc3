"""The command `sollens`. Exit status: 0 done, 1 findings over a limit, 2 unusable input, 130 interrupted."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import Any

from sollens.analysis.commands import cache, check, doctor, hw, llm, options, programs


def version() -> str:
    """The installed version of sollens."""
    try:
        return installed_version("sollens")
    except PackageNotFoundError:
        return "0+unknown"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status."""
    try:
        parser = _parser()
        parsed, rest = parser.parse_known_args(arguments)
        if rest and parsed.run is not _serve:
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
        parsed.rest = rest
        status: int = parsed.run(parsed)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return options.INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`| head`). Nothing more can be said; Python's own flush at exit must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return options.DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sollens", description="The speed of light of PyTorch and JAX code.")
    parser.add_argument("--version", action="version", version=f"sollens {version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (check, hw, programs, llm, doctor, cache):
        command.add(commands)
    # The server reads its own options, --help included.
    serve = commands.add_parser("serve", help="run the language server on stdin and stdout", add_help=False)
    serve.set_defaults(run=_serve)
    commands.add_parser("version", help="print the version").set_defaults(run=_version)
    return parser


def _serve(arguments: argparse.Namespace) -> int:
    # The one place that reaches past the analysis; imported late so that no other command pays for it.
    from importlib import import_module

    app: Any = import_module("sollens.server.app")
    return int(app.main(arguments.rest) or 0)


def _version(arguments: argparse.Namespace) -> int:
    print(f"sollens {version()}")
    return options.DONE


if __name__ == "__main__":
    sys.exit(main())
