"""Findings and analysis problems as marks on lines."""

from dataclasses import dataclass

from sollens.analysis.report import Finding, Problem, Severity
from sollens.server import measurements
from sollens.server.codes import documentation
from sollens.server.document import Document
from sollens.server.positions import from_utf8
from sollens.server.results import Result

_UNREACHABLE = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """An edit that a mark offers: `text` as a line of its own above the mark's line."""

    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A diagnostic. `key` tells which of its result's it is, so that a carried one can be recognised."""

    start: tuple[int, int]
    end: tuple[int, int]
    code: str
    href: str | None
    message: str
    severity: Severity
    fix: Fix | None
    key: str


def marks(document: Document, result: Result | None) -> list[Mark]:
    """All marks whose line is unedited, problems first.

    Findings below the threshold, or all of them by setting, are left out; problems never are.
    """
    if result is None:
        return []
    problems = result.report.problems
    found = [_mark(document, result, problem, f"problem-{index}") for index, problem in enumerate(problems)]
    if result.settings.diagnostics_enabled:
        found += [
            _mark(document, result, finding, f"finding-{number}-{index}")
            for number, target in enumerate(result.report.targets)
            for index, finding in enumerate(
                [*target.findings, *measurements.findings(target, result.measured_of(target, document.path))]
            )
            if target.validation.status != "failed"
            and _is_worth_showing(finding, result.settings.diagnostics_min_share)
        ]
    return [mark for mark in found if mark is not None]


def _is_worth_showing(finding: Finding, min_share: float) -> bool:
    """A finding that names no saving is about something else than time: it is shown."""
    return finding.saves_s is None or finding.share >= min_share


def _mark(document: Document, result: Result, of: Finding | Problem, key: str) -> Mark | None:
    # A problem with the file as a whole, or behind its end, is shown on the first line.
    last = result.anchor.original_count
    line = of.line if 1 <= of.line <= last else 1
    now = result.line_now(line)
    if now is None:
        return None
    start, end = _span(document, of, line, now)
    message, fix = of.message, None
    if isinstance(of, Problem):
        message = f"{of.message}\n{of.detail}" if of.detail else of.message
        if of.code == "missing-shapes" and of.pragma:
            fix = Fix(title="Insert a shape pragma to fill in", text=of.pragma)
    return Mark(
        start=start,
        end=end,
        code=of.code,
        href=documentation(of.code),
        message=message,
        severity=of.severity,
        fix=fix,
        key=f"{result.serial}-{key}",
    )


def _span(document: Document, of: Finding | Problem, line: int, now: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The given columns, else the code of the line; never empty where the line is not."""
    text = document.line(now)
    whole = ((now, len(text) - len(text.lstrip())), (now, len(text.rstrip())))
    if of.line != line or of.end_column <= 0:
        return whole
    start = (now, from_utf8(text, of.column))
    end_line = now + max(of.end_line - line, 0) if of.end_line else now
    end = (end_line, from_utf8(document.line(end_line), min(of.end_column, _UNREACHABLE)))
    return (start, end) if start < end else whole
