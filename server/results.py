"""A report together with where its lines are now: what the features show."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sollens.analysis.report import FileReport, LineRow, TargetReport
from sollens.server.anchor import Anchor
from sollens.server.chips import Chip
from sollens.server.config import Settings
from sollens.server.configuration import Surroundings
from sollens.server.environment import Interpreter
from sollens.server.labels import hint_label, is_checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of a report and the target that reaches it."""

    line: LineRow
    target: TargetReport


@dataclass(frozen=True, kw_only=True)
class Result:
    """The last report of a document. `version` is that of the text it belongs to; `serial` tells results apart.

    What takes long for a long file is worked out once: `prepare` does so off the event loop.
    """

    serial: int
    version: int
    report: FileReport
    anchor: Anchor
    surroundings: Surroundings

    chips: Mapping[str, Chip]

    def chip_of(self, target: TargetReport) -> Chip:
        """The chip that a target's numbers are for: a pragma or pyproject.toml may name another than the settings."""
        return self.chips.get(target.hardware, self.surroundings.chip)

    @property
    def settings(self) -> Settings:
        return self.surroundings.settings

    @property
    def interpreter(self) -> Interpreter:
        return self.surroundings.interpreter

    def measured_of(self, target: TargetReport, path: Path | None) -> dict[str, float]:
        """Seconds of real runs by module path, "" for the whole target."""
        return self.surroundings.measurements.of(target, path)

    def line_now(self, line: int) -> int | None:
        """The 0-based line of the document where the report's 1-based `line` is, None when it was edited."""
        return self.anchor.line_now(line - 1)

    def rows(self) -> Iterator[Row]:
        """All lines of all targets, headers of targets included; none of a target that failed its validation."""
        for target in self.report.targets:
            if target.validation.status == "failed":
                continue
            if not any(row.line == target.line for row in target.lines):
                yield Row(line=_total(target), target=target)
            for row in target.lines:
                yield Row(line=row, target=target)

    @cached_property
    def rows_by_line(self) -> dict[int, list[Row]]:
        """The rows of each 1-based line: a total before its parts, then the slowest first. The first is shown."""
        lines: dict[int, list[Row]] = {}
        for row in self.rows():
            lines.setdefault(row.line.line, []).append(row)
        for rows in lines.values():
            rows.sort(key=lambda row: (row.line.kind != "total", -row.line.time_s))
        return lines

    @cached_property
    def labels(self) -> dict[int, str]:
        """The text at the end of each 1-based line."""
        shown = {line: rows[0] for line, rows in self.rows_by_line.items()}
        return {
            line: hint_label(row.line, memory=self.chip_of(row.target).memory, checked=is_checked(row.target))
            for line, row in shown.items()
        }

    def prepare(self) -> "Result":
        assert self.labels is not None
        return self


def _total(target: TargetReport) -> LineRow:
    return LineRow(
        line=target.line,
        time_s=target.time_s.fused,
        limit=target.limit,
        share=1.0,
        macs=target.macs,
        bytes=target.bytes.compulsory,
        vector_ops=target.vector_ops,
        unfused_s=target.time_s.unfused,
        kind="total",
        resources=target.resources,
    )
