"""What validation found: plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Literal

from sollens.analysis import report
from sollens.analysis.report import Validation
from sollens.analysis.validate.compare import Difference

Status = Literal["validated", "by-kernel", "not-validated", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """The first differing element of the first differing tensor, and the statement and source line at fault.

    `tensor` is the loop program's name; `output` whether the program returns it. Lines are 1-based.
    """

    tensor: str
    difference: Difference
    statement: str = ""
    operator: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    output: bool = False

    def __str__(self) -> str:
        at = f"[{', '.join(map(str, self.difference.index))}]"
        return (
            f"{self.tensor}{at}: expected {self.difference.expected}, found {self.difference.found}"
            f" ({self.operator or 'unknown operator'}, line {self.line})"
        )

    def row(self) -> report.Mismatch:
        """The report's row."""
        return report.Mismatch(
            tensor=self.tensor, index=list(self.difference.index), expected=_plain(self.difference.expected),
            found=_plain(self.difference.found), statement=self.statement, operator=self.operator, file=self.file,
            line=self.line, column=self.column,
        )  # fmt: skip


def _plain(value: complex) -> report.Element:
    """A number as JSON has it, as text where JSON has none."""
    return value if isinstance(value, (bool, int, float)) and isfinite(value) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How far a program was checked. `sizes` are the twin's, by name or line:column; empty where it ran as it is.

    `max_rel_error` is over all outputs, relative to each one's largest element. `kernels` counts the distinct kernels
    that were validated alone. Seconds by stage in `stage_s`. `code` is that of the agent's problem where it had one.
    """

    status: Status
    reason: str = ""
    code: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    max_rel_error: float | None = None
    mismatch: Mismatch | None = None
    tensors: int = 0
    kernels: int = 0
    points: int = 0
    stage_s: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def seconds(self) -> float:
        """Wall time of the whole validation."""
        return sum(self.stage_s.values())

    def validation(self) -> Validation:
        """The report's row."""
        found = self.mismatch
        return Validation(
            status=self.status,
            sizes=dict(self.sizes),
            max_rel_error=self.max_rel_error,
            reason=self.reason or (str(found) if found else ""),
            line=found.line if found else 0,
            statement=found.statement if found else "",
            seconds=self.seconds,
            mismatch=found.row() if found else None,
        )
