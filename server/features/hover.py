"""Everything known about the line under the cursor."""

from pathlib import Path

from sollens.server.measurements import of_module, sentence
from sollens.server.render import (
    assumptions,
    code,
    inverse_table,
    line_parts,
    provenance,
)
from sollens.server.results import Result, Row


def hover(result: Result | None, line: int, path: Path | None = None) -> str | None:
    """Markdown for a 0-based line, None where nothing is known about it."""
    if result is None:
        return None
    original = result.anchor.original_line(line)
    rows = result.rows_by_line.get(original + 1) if original is not None else None
    if not rows:
        return None
    row = rows[0]
    target = row.target
    parts = line_parts(rows, result)
    if target.inverse is not None and row.line.kind == "total":
        parts.append(inverse_table(target.inverse, result.chip_of(target).memory))
    parts.append(_measured(row, result, path))
    parts += [assumptions(target, result), provenance(target)]
    return "\n\n".join(part for part in parts if part)


def _measured(row: Row, result: Result, path: Path | None) -> str:
    """What a real run of the line's target or sub-module took; empty where none is known."""
    measured = result.measured_of(row.target, path)
    if row.line.kind == "total" and "" in measured:
        return f"Whole: {sentence(measured[''], row.target.time_s.fused)}."
    found = of_module(row.target, row.line.line, measured)
    return f"{code(found[0].path)}: {sentence(found[1], found[0].time_s)}." if found is not None else ""
