"""Sliding windows: where the taps of a convolution or a pooling window read, and which of them fall outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sollens.analysis.ir.affine import Affine, Constraint, at_least, dim, less

# Names of the last axes, outermost first: output position, kernel tap, input position.
AXIS_NAMES = ("d", "h", "w")


@dataclass(frozen=True, slots=True)
class Tap:
    """One axis of a window: where it reads, which points are real, and the dimensions it is folded over."""

    output: tuple[str, int]
    index: Affine
    kernel: Affine
    over: tuple[tuple[str, int], ...]
    guard: tuple[Constraint, ...]


def axis_names(rank: int) -> tuple[str, ...]:
    """Names of `rank` spatial axes: `("h", "w")` for 2."""
    return AXIS_NAMES[len(AXIS_NAMES) - rank :]


def per_axis(value: Any, rank: int) -> tuple[int, ...]:
    """A number or a list of one or `rank` numbers, as `rank` numbers."""
    items: tuple[int, ...] = (value,) if isinstance(value, int) else tuple(value)
    return items * rank if len(items) == 1 else items


def in_bounds(index: Affine, size: int, extents: Mapping[str, int]) -> tuple[Constraint, ...]:
    """`0 <= index < size`, without the halves that always hold on the box of `extents`."""
    if any(e <= 0 for e in extents.values()):
        return ()
    low, high = index.bounds({name: extents[name] for name in index.names})
    found: list[Constraint] = []
    if low < 0:
        found.append(at_least(index, 0))
    if high >= size:
        found.append(less(index, size))
    return tuple(found)


def folded(name: str, extent: int) -> tuple[Affine, tuple[tuple[str, int], ...]]:
    """An index over a folded dimension; a dimension of extent 1 is left out and its index is 0."""
    return (Affine(), ()) if extent == 1 else (dim(name), ((name, extent),))


def sliding_tap(name: str, out: int, size: int, kernel: int, stride: int, padding: int, dilation: int) -> Tap:
    """The window of output `o` reads `o * stride + k * dilation - padding`."""
    k, over = folded(f"k{name}", kernel)
    index = dim(name) * stride + k * dilation - padding
    extents = {name: out, **dict(over)}
    return Tap((name, out), index, k, over, in_bounds(index, size, extents))


def dimensions(taps: Sequence[Tap]) -> tuple[list[tuple[str, int]], list[tuple[str, int]], list[Constraint]]:
    """Output dimensions, folded dimensions and guard of all axes."""
    return [t.output for t in taps], [d for t in taps for d in t.over], [c for t in taps for c in t.guard]
