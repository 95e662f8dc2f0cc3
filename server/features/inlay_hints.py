"""The bound at the end of each line, and its tooltip."""

from dataclasses import dataclass

from sollens.server.document import Document
from sollens.server.render import line_parts, provenance
from sollens.server.results import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A text behind the end of a line; `row_line` and `serial` find its tooltip again."""

    line: int
    column: int
    label: str
    row_line: int
    serial: int


def hints(document: Document, result: Result | None, lines: tuple[int, int] | None = None) -> list[Hint]:
    """One hint a line, in the order of lines, between `lines` (both included) where given."""
    if result is None or not result.settings.inlay_hints_enabled:
        return []
    totals_only = result.settings.inlay_hints_lines == "totals"
    found: list[Hint] = []
    for row_line, label in result.labels.items():
        row = result.rows_by_line[row_line][0]
        now = result.line_now(row_line)
        if now is None or (totals_only and row.line.kind != "total") or (lines and not lines[0] <= now <= lines[1]):
            continue
        found.append(
            Hint(
                line=now,
                column=len(document.line(now)),
                label=label,
                row_line=row_line,
                serial=result.serial,
            )
        )
    return sorted(found, key=lambda hint: hint.line)


def tooltip(result: Result | None, *, serial: int, row_line: int) -> str | None:
    """The Markdown of a hint's tooltip; None when the hint is of an older result."""
    if result is None or result.serial != serial:
        return None
    rows = result.rows_by_line.get(row_line)
    if not rows:
        return None
    parts = [*line_parts(rows, result), provenance(rows[0].target)]
    return "\n\n".join(part for part in parts if part)
