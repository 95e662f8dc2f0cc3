"""The short text at the end of a line."""

from sollens.analysis.report import LineRow, TargetReport
from sollens.hardware.units import format_bound_seconds

LONGEST_LABEL = 25
PIPES = {
    "float64": "FP64",
    "float32": "FP32",
    "tf32": "TF32",
    "bfloat16": "BF16",
    "float16": "FP16",
    "float16_acc32": "FP16",
    "float8": "FP8",
    "float8_acc32": "FP8",
    "float6": "FP6",
    "float4": "FP4",
}


def limit_name(limit: str, memory: str) -> str:
    """A limit in a word: "memory" is the kind of memory, "matmul:tf32" is TF32."""
    if limit == "memory":
        return memory
    kind, _, pipe = limit.partition(":")
    return PIPES.get(pipe, pipe.upper()) if kind == "matmul" and pipe else limit


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
