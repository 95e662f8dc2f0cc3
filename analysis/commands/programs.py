"""`sollens ir FILE` and `sollens einsum FILE`: the program behind the numbers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from sollens.analysis.commands import options
from sollens.analysis.report import Problem


def add(commands: Any) -> None:
    """Declare both commands."""
    ir: argparse.ArgumentParser = commands.add_parser("ir", help="print the Affine Loop IR of a file's targets")
    einsum: argparse.ArgumentParser = commands.add_parser("einsum", help="print the einsum DAG of a file's targets")
    einsum.add_argument("--format", choices=("text", "dot", "json"), default="text")
    for parser, run in ((ir, _ir), (einsum, _einsum)):
        parser.add_argument("file", type=Path, metavar="FILE")
        options.add_settings(parser)
        parser.set_defaults(run=run)


def _ir(arguments: argparse.Namespace) -> int:
    from sollens.analysis.cache import Cache
    from sollens.analysis.pipeline import Pipeline

    pipeline = Pipeline(Cache(enabled=not arguments.no_cache))
    try:
        return _print(arguments.file, *pipeline.ir(options.request(arguments, arguments.file)))
    finally:
        pipeline.close()


def _einsum(arguments: argparse.Namespace) -> int:
    from sollens.analysis.cache import Cache
    from sollens.analysis.pipeline import Pipeline

    pipeline = Pipeline(Cache(enabled=not arguments.no_cache))
    try:
        return _print(arguments.file, *pipeline.einsum(options.request(arguments, arguments.file), arguments.format))
    finally:
        pipeline.close()


def _print(path: Path, text: str, problems: list[Problem]) -> int:
    if text:
        print(text)
    for problem in problems:
        print(f"{path}:{problem.line}: {problem.code}: {problem.message}", file=sys.stderr)
    return options.DONE if text else options.UNUSABLE
