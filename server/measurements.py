"""Times of real runs that the user imports, to be held against the bounds.

A file is CSV with the columns `name` and `time`, or JSON with a list of objects that have them. `name` is a target's
(`Model`) or that of one of its sub-modules (`Model.blocks.0`), `time` is seconds or has its unit (`1.8 ms`). Optional:
`hardware`, the id of the chip it ran on, and `file`, the end of the path of the source file; a row that is of another
chip or file is passed over.
"""

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sollens.analysis.report import Finding, ModuleRow, TargetReport
from sollens.hardware import catalog
from sollens.hardware.units import UnitError, format_ratio, format_seconds, parse_seconds

# A measurement so little above its bound is at the speed of light.
_AT_THE_BOUND = 1.05
_LARGEST_BYTES = 2**24


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One row: `hardware` and `file` are empty where it names none."""

    name: str
    time_s: float
    hardware: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class Measurements:
    """The rows of a file; of several with one name the fastest counts."""

    rows: tuple[Measurement, ...] = ()

    def of(self, target: TargetReport, path: Path | None) -> dict[str, float]:
        """Seconds by module path, "" for the whole target."""
        found: dict[str, float] = {}
        for row in self.rows:
            if row.hardware and row.hardware != target.hardware:
                continue
            if row.file and (path is None or not path.as_posix().endswith(f"/{row.file.removeprefix('./')}")):
                continue
            if row.name != target.name and not row.name.startswith(f"{target.name}."):
                continue
            module = row.name[len(target.name) + 1 :]
            found[module] = min(row.time_s, found.get(module, math.inf))
        return found


def load(path: Path) -> tuple[Measurements, list[str]]:
    """The measurements of a file, and what is wrong with it. Reads the file: not on the event loop."""
    try:
        # A workspace names the file: one that never ends must not be read.
        if path.exists() and not (path.is_file() and path.stat().st_size <= _LARGEST_BYTES):
            raise ValueError("no plain file of a sensible size")
        text = path.read_text(encoding="utf-8-sig")
        rows = _json_rows(text) if path.suffix == ".json" else list(csv.DictReader(io.StringIO(text)))
    except (OSError, UnicodeDecodeError, ValueError, csv.Error) as problem:
        return Measurements(), [f"{path}: expected CSV or JSON with name and time, found: {problem}"]
    found: list[Measurement] = []
    problems: list[str] = []
    for number, row in enumerate(rows, 1):
        try:
            found.append(_measurement(row))
        except ValueError as problem:
            problems.append(f"{path}: row {number}: {problem}")
    return Measurements(tuple(found)), problems[:1] + ([f"{path}: {len(problems) - 1} more"] if problems[1:] else [])


def _json_rows(text: str) -> list[Mapping[str, Any]]:
    found: object = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in cast(list[object], found)):
        raise ValueError("no list of objects")
    return cast(list[Mapping[str, Any]], found)


def _measurement(row: Mapping[str, Any]) -> Measurement:
    name, time, hardware = row.get("name"), row.get("time"), row.get("hardware") or ""
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"expected the name of a class, function or module (Model.blocks.0), found {name!r}")
    try:
        seconds = float(time) if isinstance(time, int | float) else _seconds(str(time))
    except UnitError as problem:
        raise ValueError(f"time of {name}: {problem}") from None
    if not math.isfinite(seconds) or seconds <= 0:
        raise ValueError(f"time of {name}: expected a time above 0, found {time!r}")
    try:
        chip = catalog.load(str(hardware)).id if hardware else ""
    except catalog.UnknownTarget as problem:
        raise ValueError(f"hardware of {name}: {problem}") from None
    return Measurement(name=name.strip(), time_s=seconds, hardware=chip, file=str(row.get("file") or ""))


def _seconds(text: str) -> float:
    """ "1.8 ms", or a bare number of seconds, as CSV has it."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return parse_seconds(text)
    except UnitError:
        raise UnitError("seconds, or a duration such as 1.8 ms", text) from None


def findings(target: TargetReport, measured: Mapping[str, float]) -> list[Finding]:
    """What the measurements say of a target: how far above its bound each scope is, or that it is below."""
    whole_s = measured.get("", 0.0)
    found: list[Finding] = []
    if whole_s:
        found += _finding(target.name, target.line, target.time_s.fused, whole_s, whole_s)
    for module in target.modules:
        if module.path and module.path in measured and module.line:
            name = f"{target.name}.{module.path}"
            took_s = measured[module.path]
            found += _finding(name, module.line, module.time_s, took_s, max(whole_s, took_s), count=module.count)
    return found


def _finding(name: str, line: int, bound_s: float, took_s: float, whole_s: float, count: int = 1) -> list[Finding]:
    if took_s < bound_s:
        message = (
            f"{name} was measured at {format_seconds(took_s, 'down')}, below its bound of {format_seconds(bound_s)}: "
            "either it ran other shapes or another chip, or the bound is wrong; please report it then"
        )
        return [Finding(code="bound-beaten", line=line, message=message, saves_s=None, severity="warning")]
    if took_s < _AT_THE_BOUND * bound_s:
        return []
    saves_s = took_s - bound_s
    above = (
        f", {format_ratio(took_s / bound_s, 'down')} its bound of {format_seconds(bound_s, 'down')}" if bound_s else ""
    )
    message = f"{name} was measured at {format_seconds(took_s)}{above}: up to {format_seconds(saves_s)} to gain"
    share = min(1.0, count * saves_s / whole_s)
    return [Finding(code="measured-headroom", line=line, message=message, saves_s=saves_s, share=share)]


def sentence(took_s: float, bound_s: float) -> str:
    """For hovers and lenses: "measured 1.80 ms, 1.87× the bound"."""
    times = f", {format_ratio(took_s / bound_s, 'down')} the bound" if bound_s else ""
    return f"measured {format_seconds(took_s)}{times}"


def of_module(target: TargetReport, line: int, measured: Mapping[str, float]) -> tuple[ModuleRow, float] | None:
    """The measured sub-module that is built in `line`, and its time; the slowest where several are."""
    here = [
        (module, measured[module.path]) for module in target.modules if module.line == line and module.path in measured
    ]
    return max(here, key=lambda pair: pair[1], default=None)
