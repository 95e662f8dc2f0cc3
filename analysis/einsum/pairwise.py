"""The cheapest order to multiply several operands two at a time, by dynamic programming over subsets of the
operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

MAX_OPERANDS = 8


def pairwise_points(
    operands: Sequence[frozenset[str]],
    output: frozenset[str],
    count: Callable[[frozenset[str]], int],
    tied: frozenset[str] = frozenset(),
) -> int:
    """Multiplications of the cheapest pairwise order. `operands` are the dimensions that each operand uses, `output`
    those of the result, `count(dims)` the number of distinct points over these dimensions, `tied` dimensions that a
    guard ties to others, so that an operand cannot be summed over them on its own.

    Each step runs over the dimensions of its two sides; a dimension that nothing else uses is summed away with it (or
    before it, when one operand alone has it: additions, which are not counted). With more than MAX_OPERANDS operands:
    the largest operand, which every order has to touch.
    """
    everything = (1 << len(operands)) - 1

    @cache
    def left(members: int) -> frozenset[str]:
        inside: set[str] = set()
        outside = set(output)
        for k, dims in enumerate(operands):
            (inside if members >> k & 1 else outside).update(dims)
        return frozenset(inside & (outside if members & (members - 1) else outside | tied))

    if len(operands) > MAX_OPERANDS:
        return max(count(left(1 << k)) for k in range(len(operands)))

    @cache
    def best(members: int) -> int:
        if not members & (members - 1):
            return 0
        lowest = members & -members
        found: int | None = None
        part = (members - 1) & members
        while part:
            if part & lowest:
                other = members ^ part
                total = best(part) + best(other) + count(left(part) | left(other))
                found = total if found is None else min(found, total)
            part = (part - 1) & members
        assert found is not None
        return found

    return best(everything)
