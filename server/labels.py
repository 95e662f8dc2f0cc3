"""The short text at the end of a line."""

from sollens.analysis.report import LineRow, TargetReport
from sollens.hardware.limits import limit_name
from sollens.hardware.units import format_bound_seconds

LONGEST_LABEL = 25


def hint_label(row: LineRow, *, memory: str, checked: bool) -> str:
    """The text at the end of a line: bound, limit, count; "?" on totals of a program that was not validated.

    At most LONGEST_LABEL characters: the count goes first, then the limit.
    """
    mark = "" if checked or row.kind != "total" else " ?"
    bound = format_bound_seconds(row.time_s)
    limit = f" · {limit_name(row.limit, memory)}" if row.limit and row.time_s > 0 else ""
    count = f" ×{row.count}" if row.count > 1 else ""
    for label in (bound + limit + count, bound + limit, bound):
        if len(label + mark) <= LONGEST_LABEL:
            return label + mark
    return bound[:LONGEST_LABEL]


def is_checked(target: TargetReport) -> bool:
    return target.validation.status in ("validated", "by-kernel")
