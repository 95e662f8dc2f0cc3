# pyright: basic
"""How often a loop runs, and which of its carries count: read off its jaxprs."""

from __future__ import annotations

import contextlib
from typing import Any


def counters_of(body: Any, given: list[Any], consts: int, carries: int) -> list[list[int]]:
    """[carry, start, step] of integer carries that begin at a number and grow by a number each iteration."""
    inner = getattr(body, "jaxpr", body)
    variables = inner.invars[consts : consts + carries]
    made = {v: eqn for eqn in inner.eqns for v in eqn.outvars}
    found: list[list[int]] = []
    for position, (variable, start) in enumerate(zip(variables, given, strict=False)):
        out = inner.outvars[position]
        eqn = made.get(out) if not hasattr(out, "val") else None
        if (
            isinstance(start, bool)
            or not isinstance(start, int)
            or eqn is None
            or eqn.primitive.name not in ("add", "sub")
        ):
            continue
        left, right = eqn.invars
        with contextlib.suppress(TypeError):
            if left is variable and hasattr(right, "val"):
                step = int(right.val)
                found.append([position, start, step if eqn.primitive.name == "add" else -step])
    return found


def trips_of(
    condition: Any, consts: list[Any], given: list[Any], skipped: int, counters: dict[int, tuple[int, int]]
) -> int | None:
    """How often a while loop runs whose condition compares a counter with a number; None when data decides."""
    inner = getattr(condition, "jaxpr", condition)
    if len(inner.eqns) != 1 or len(inner.outvars) != 1 or inner.eqns[0].outvars[0] is not inner.outvars[0]:
        return None
    eqn = inner.eqns[0]
    if eqn.primitive.name not in ("lt", "le", "gt", "ge") or len(eqn.invars) != 2:
        return None
    left, right = eqn.invars
    known = dict(zip(inner.invars, [*consts, *given], strict=False))
    limit = int(right.val) if hasattr(right, "val") else known.get(right)
    if left not in inner.invars or isinstance(limit, bool) or not isinstance(limit, int):
        return None
    position = inner.invars.index(left) - skipped
    if position not in counters:
        return None
    if not hasattr(right, "val") and inner.invars.index(right) >= skipped:
        return None  # a limit that is carried may change
    start, step = counters[position]
    sign = 1 if eqn.primitive.name in ("lt", "le") else -1
    distance = sign * (limit - start) + (eqn.primitive.name in ("le", "ge"))
    if distance <= 0:
        return 0
    return -(-distance // (sign * step)) if sign * step > 0 else None
