"""Everything known about the line under the cursor."""

from sollens.server.render import (
    assumptions,
    inverse_table,
    line_parts,
    provenance,
)
from sollens.server.results import Result


def hover(result: Result | None, line: int) -> str | None:
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
    parts += [assumptions(target, result), provenance(target)]
    return "\n\n".join(part for part in parts if part)
