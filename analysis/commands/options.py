"""Options that several commands share, and how they read."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from sollens.analysis.interpreter import choose
from sollens.analysis.llm.config import BadConfig, LlmConfig, load
from sollens.analysis.pipeline import Request
from sollens.analysis.source import project as projects
from sollens.hardware import catalog
from sollens.hardware.units import UnitError, parse_quantity, parse_seconds

DEFAULT_HARDWARE = "h100-sxm"
DONE, OVER_LIMIT, UNUSABLE, INTERRUPTED = 0, 1, 2, 130
_SKIPPED_FOLDERS = {"node_modules", "__pycache__", "site-packages", "build", "dist"}


def add_analysis(parser: argparse.ArgumentParser) -> None:
    """Files and everything that an analysis depends on."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="a Python file, a folder of them, or a source with a pragma"
    )
    add_settings(parser)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Everything that an analysis depends on, besides files."""
    parser.add_argument("--hw", type=hardware, metavar="ID", help="chip (see `sollens hw`); wins over the file's own")
    parser.add_argument("--precision", choices=projects.PRECISIONS, help="which pipes a contraction may use")
    parser.add_argument("--target", type=seconds, metavar="TIME", help="latency to reach, such as 2ms")
    parser.add_argument("--interpreter", metavar="PYTHON", help="the Python that has the files' packages")
    parser.add_argument("--root", type=Path, help="root of the workspace (default: the working folder)")
    parser.add_argument("--deadline", type=seconds, default=30.0, metavar="TIME", help="for each trace (default 30s)")
    parser.add_argument("--memory", type=memory_bytes, default=4 * 2**30, metavar="SIZE", help="for each trace (4 GiB)")
    parser.add_argument("--no-cache", action="store_true", help="analyse anew and keep nothing")


def hardware(text: str) -> str:
    """A chip's id."""
    try:
        return catalog.load(text).id
    except catalog.UnknownTarget as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def seconds(text: str) -> float:
    """A duration."""
    try:
        value = parse_seconds(text)
    except UnitError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if value == 0:
        raise argparse.ArgumentTypeError("expected a duration above zero, found 0")
    return value


def memory_bytes(text: str) -> int:
    """A size in bytes."""
    try:
        return int(parse_quantity(text, "byte")[0])
    except UnitError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def python_files(names: list[str]) -> list[Path]:
    """The files named, and those in the folders named; each once. A name of nothing stays, to be reported."""
    found: dict[Path, None] = {}
    for name in names:
        path = Path(name)
        for file in _below(path) if path.is_dir() else [path]:
            found[file] = None
    return list(found)


def _below(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED_FOLDERS and not f.startswith("."))
        yield from (Path(root) / file for file in sorted(files) if file.endswith(".py"))


def request(arguments: argparse.Namespace, path: Path) -> Request:
    """What to ask of the pipeline for a file: the command line, else the file's project, else the defaults."""
    root = arguments.root or Path.cwd()
    project = projects.find(path, None)
    return Request(
        path=str(path),
        interpreter=choose(arguments.interpreter, [path.absolute().parent, Path.cwd()]),
        hardware=arguments.hw or _known(project.hardware) or DEFAULT_HARDWARE,
        precision=arguments.precision or project.precision or "as-written",
        target_s=arguments.target,
        root=str(root),
        deadline_s=arguments.deadline,
        memory_bytes=arguments.memory,
        explicit=arguments.hw is not None or arguments.target is not None,
        llm=llm(),
    )


@cache
def llm() -> LlmConfig | None:
    """The user's endpoint; None where none is configured, or not so that it could be used, which is said once."""
    try:
        config = load()
    except BadConfig as error:
        print(f"sollens: {error}; no model is asked", file=sys.stderr)
        return None
    return config if config.is_on else None


def _known(chip: str | None) -> str | None:
    return chip if chip in catalog.ids() else None
