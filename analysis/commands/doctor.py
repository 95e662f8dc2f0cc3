"""`sollens doctor`: what was found, whether a trace works here, and what to do where it does not."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sollens.analysis.cache import Cache
from sollens.analysis.commands import options
from sollens.analysis.interpreter import BadInterpreter, choose, describe, version_of
from sollens.hardware import catalog
from sollens.hardware.units import format_bound_seconds, format_bytes, format_seconds

_SAMPLE = """\
import torch


# sol: x=f32[64, 256]
class Sample(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(256, 256)

    def forward(self, x):
        return torch.relu(self.fc(x))
"""
_JAX_SAMPLE = """\
import jax


# sol: x=f32[64, 256], w=f32[256, 256]
def sample(x, w):
    return jax.nn.relu(x @ w)
"""


def add(commands: Any) -> None:
    """Declare the command."""
    parser: argparse.ArgumentParser = commands.add_parser("doctor", help="what was found and what is missing")
    parser.add_argument("--interpreter", metavar="PYTHON", help="the Python that has your packages")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print one line a check; 2 when an analysis cannot work."""
    usable = True
    for good, text in _checks(arguments.interpreter):
        usable = usable and good
        print(f"{'ok ' if good else 'NO '} {text}", flush=True)
    return options.DONE if usable else options.UNUSABLE


def _checks(wanted: str | None) -> Iterator[tuple[bool, str]]:
    from sollens.analysis.cli import version

    yield True, f"sollens {version()} on Python {sys.version.split()[0]} ({sys.executable})"
    info = Cache().info()
    yield True, f"cache {info.folder}: {info.entries} entries, {format_bytes(info.bytes)}"
    chips = [catalog.load(chip_id).name for chip_id in catalog.ids()]
    yield True, f"{len(chips)} chips: {', '.join(chips)}"
    interpreter = choose(wanted, [Path.cwd()])
    try:
        about = describe(interpreter)
    except BadInterpreter as error:
        yield False, error.problem.message
        return
    yield True, f"your Python {about.version.split()[0]} ({interpreter}); --interpreter or VIRTUAL_ENV choose another"
    found = {package: version_of(interpreter, package) for package in ("torch", "jax")}
    shown = ", ".join(f"{package} {number or 'not installed'}" for package, number in found.items())
    yield any(found.values()), f"{shown} in it" + ("" if any(found.values()) else ": install one of them there")
    for package, text in (("torch", _SAMPLE), ("jax", _JAX_SAMPLE)):
        if found[package]:
            yield _sample(interpreter, package, text)


def _sample(interpreter: str, package: str, text: str) -> tuple[bool, str]:
    from sollens.analysis.pipeline import Pipeline, Request

    pipeline = Pipeline(Cache(enabled=False))
    start = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "sample.py"
            path.write_text(text, encoding="utf-8")
            report = pipeline.analyse(Request(path=str(path), interpreter=interpreter))
    except Exception as error:
        return False, f"a sample of {package} could not be analysed: {type(error).__name__}: {error}"
    finally:
        pipeline.close()
    took = format_seconds(time.perf_counter() - start)
    if not report.targets:
        return False, f"a sample of {package} could not be analysed: {'; '.join(p.message for p in report.problems)}"
    bound = format_bound_seconds(report.targets[0].time_s.fused)
    return True, f"a sample of {package} was analysed in {took}, agent start included: {bound}"
