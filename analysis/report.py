"""The result of an analysis: plain data in SI units, what `sollens check --format json` prints and the server shows.

The JSON names are a contract with scripts: keys may be added, never renamed. Not yet computed values are None. Encode
with msgspec (`encode`, `decode`). Lines are 1-based, columns 0-based UTF-8 bytes as `ast` has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Severity = Literal["error", "warning", "information", "hint"]
Confidence = Literal["high", "medium", "low"]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why something could not be analysed: a code of docs/diagnostics.md, what was expected and found, what to do."""

    code: str
    line: int
    message: str
    severity: Severity = "warning"
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    detail: str = ""
    # For "missing-shapes": the text of a pragma line to insert above `line`.
    pragma: str | None = None


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes between off-chip memory and the chip (bounds.md section 2)."""

    compulsory: int
    cache_aware: int | None
    unfused: int
    plan: int | None = None


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds (bounds.md section 3)."""

    fused: float
    cache_aware: float | None
    unfused: float
    plan: float | None = None


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the roofline: `name` is "memory", "vector" or "matmul:<pipe>"; amount in bytes or FLOP, peak per
    second.
    """

    name: str
    amount: float
    unit: str
    peak_per_s: float
    time_s: float


Element = bool | int | float | str


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """The first element that differs: what the original gave, and what the loop program's statement gave.

    Values that JSON has no number for (nan, infinities, complex numbers) are text. `line` is one of `file`.
    """

    tensor: str
    index: list[int]
    expected: Element
    found: Element
    statement: str = ""
    operator: str = ""
    file: str = ""
    line: int = 0
    column: int = 0


# The reason of a verdict that follows, and of one that nobody asked for.
VALIDATION_RUNS = "validation is running"
VALIDATION_OFF = "validation is off"


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """How far the program behind the numbers was checked (bounds.md section 5).

    `sizes` are the twin's, by name or line:column; empty where the program ran as it is. Of a failed one, `line` and
    `statement` are where it first differs from the original (line 0: in another file), `mismatch` has both values.
    """

    status: Literal["validated", "by-kernel", "not-validated", "failed"] = "not-validated"
    sizes: dict[str, int] = {}
    max_rel_error: float | None = None
    reason: str = ""
    line: int = 0
    statement: str = ""
    seconds: float = 0.0
    mismatch: Mismatch | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the verdict follows."""
        return self.status == "not-validated" and self.reason == VALIDATION_RUNS


def twin_sizes(sizes: Mapping[str, int]) -> str:
    """The sizes of a twin: "dim=16; 4, 32 on line 8" for dim and two numbers that stand in the text at line:column."""
    named = [f"{name}={size}" for name, size in sizes.items() if ":" not in name]
    on_lines: dict[str, list[str]] = {}
    for name, size in sizes.items():
        line, colon, _ = name.partition(":")
        if colon:
            on_lines.setdefault(line, []).append(str(size))
    written = [f"{', '.join(found)} on line {line}" for line, found in on_lines.items()]
    return "; ".join([*([", ".join(named)] if named else []), *written])


class InverseRow(msgspec.Struct, frozen=True, kw_only=True):
    """A rate the target latency asks for. `ratio` is needed / what this chip has."""

    resource: str
    needed_per_s: float
    available_per_s: float
    ratio: float
    unit: str


class Inverse(msgspec.Struct, frozen=True, kw_only=True):
    """Inverse roofline for `target_s`; `meets` lists the known chips whose fused bound is within it."""

    target_s: float
    rows: list[InverseRow]
    meets: list[str]
    reachable: bool


class ModuleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A sub-module, bounded as one fused kernel. `line` is where its parent builds it in this file (0: elsewhere)."""

    path: str
    line: int
    count: int
    macs: int
    bytes: int
    time_s: float
    type: str = ""
    limit: str = ""
    unfused_s: float | None = None
    vector_ops: int = 0


class LineRow(msgspec.Struct, frozen=True, kw_only=True):
    """A source line of this file, bounded as one fused kernel; `share` of the sum of all lines' times.

    `count`: how often the line ran. `kind`: "op" for lines of code, "module" for the line of `__init__` that builds a
    sub-module, "total" for class and def headers.
    """

    line: int
    time_s: float
    limit: str
    share: float
    count: int = 1
    macs: int = 0
    bytes: int = 0
    vector_ops: int = 0
    unfused_s: float | None = None
    kind: Literal["op", "module", "total"] = "op"
    operators: list[str] = []
    # Arithmetic intensity of the scope is macs*2+vector_ops over bytes; the roofline rows that made `limit`.
    resources: list[Resource] = []


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Headroom or a hint on a line: `saves_s` of the program's time."""

    code: str
    line: int
    message: str
    saves_s: float | None
    share: float = 0.0
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    severity: Severity = "information"
    lines: list[int] = []


class TargetReport(msgspec.Struct, frozen=True, kw_only=True):
    """One class or function of a file."""

    name: str
    line: int
    frontend: Literal["torch", "jax", "llm"]
    macs: int
    macs_by_pipe: dict[str, int]
    vector_ops: int
    flop: int
    bytes: Traffic
    time_s: Times
    limit: str
    confidence: Confidence
    partial: list[str]
    validation: Validation
    inverse: Inverse | None
    modules: list[ModuleRow]
    lines: list[LineRow]
    findings: list[Finding]
    stage_s: dict[str, float]
    hardware: str = ""
    precision: str = ""
    forward_line: int = 0
    resources: list[Resource] = []
    # Shapes, dtypes, interpreter and settings that the numbers stand on, one sentence each.
    assumptions: list[str] = []
    operators: int = 0


class FileReport(msgspec.Struct, frozen=True, kw_only=True):
    """One file."""

    path: str
    problems: list[Problem]
    targets: list[TargetReport]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run of `sollens check`."""

    version: str
    hardware: str
    precision: str
    files: list[FileReport]


def encode(report: Report | FileReport) -> bytes:
    """The report as JSON."""
    return msgspec.json.encode(report)


def decode_file(data: bytes) -> FileReport:
    """A file's report from JSON; raises msgspec.ValidationError when it is of another shape."""
    return msgspec.json.decode(data, type=FileReport)
