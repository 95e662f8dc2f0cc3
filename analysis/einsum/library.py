"""The demand of calls: which operand elements a set of result elements needs (bounds.md section 2).

Indices that are known (constants, `arange`, example inputs) give the elements really touched. Unknown ones give the
smallest region that any indices could, and the result is marked low confidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sollens.analysis.einsum.domain import Domain
from sollens.analysis.einsum.kernels import BaseTensor, Library, View
from sollens.analysis.einsum.points import Interval
from sollens.analysis.einsum.region import Region

MAX_RUNS = 64


@dataclass(slots=True)
class LibraryWork:
    """What a call reads and costs; `low` says why its region is only the smallest possible."""

    vector_ops: int = 0
    reads: dict[str, Region] = field(default_factory=dict)
    low: str = ""
    from_inputs: bool = False


class LibraryDemand:
    """Computes the reads of one call for the demanded regions of its results."""

    def __init__(self, item: Library, tensors: Mapping[str, BaseTensor], values: Mapping[str, NDArray[Any]]) -> None:
        self.item = item
        self.call = item.call
        self.tensors = tensors
        self.values = values
        self.work = LibraryWork()

    def of(self, demanded: Sequence[Region]) -> LibraryWork:
        """The work when these regions of the results (in order) are needed."""
        if all(r.is_empty for r in demanded):
            return self.work
        rule = _RULES.get(self.call.op)
        if rule is None:
            for position in range(len(self.item.operands)):
                self.read_all(position)
        else:
            rule(self, [self._own(r) for r in demanded])
        return self.work

    def _own(self, region: Region) -> Region:
        """The region without the enclosing loops' axes (their whole range is used)."""
        depth = len(self.item.loops)
        if not depth:
            return region
        shape = region.shape[depth:]
        if region.is_empty:
            return Region.empty(shape)
        return Region(shape, region.box[depth:]) if region.box is not None else Region.full(shape)

    # --- reading operands
    # -----------------------------------------------------------------------------------------------------

    def shape(self, position: int) -> tuple[int, ...]:
        """Shape of an operand."""
        return tuple(d.extent for d in self.item.operands[position].dims)

    def read_all(self, position: int) -> None:
        """Need the whole operand."""
        self.read(position, Region.full(self.shape(position)))

    def read_box(self, position: int, box: Sequence[Interval]) -> None:
        """Need a box of an operand."""
        self.read(position, Region.of_box(self.shape(position), box))

    def read(self, position: int, region: Region) -> None:
        """Need a region of an operand (over its own axes)."""
        if region.is_empty:
            return
        view = self.item.operands[position]
        loops = self.item.loops
        names = (*(d.name for d in loops), *(d.name for d in view.dims))
        prefix = tuple((0, d.extent - 1) for d in loops)
        if region.box is not None:
            domain = Domain(names, prefix + region.box)
        elif not loops:
            domain = Domain(names, tuple((0, e - 1) for e in region.shape), (), region.to_set())
        else:
            return
        touched = domain.image(view.index, self.tensors[view.base].shape)
        known = self.work.reads.get(view.base)
        self.work.reads[view.base] = touched if known is None else known.union(touched)

    def known(self, position: int) -> NDArray[Any] | None:
        """The operand's values, when they are known."""
        view = self.item.operands[position]
        base = self.values.get(view.base)
        if base is None or self.item.loops:
            return None
        declaration = self.tensors[view.base].declaration
        self.work.from_inputs |= declaration is not None and declaration.role == "input"
        return _through(view, base)


def _through(view: View, base: NDArray[Any]) -> NDArray[Any]:
    shape = tuple(d.extent for d in view.dims)
    grids = dict(zip((d.name for d in view.dims), np.indices(shape, sparse=True), strict=True))
    index = tuple(np.broadcast_to(np.asarray(i.evaluate(grids)), shape) for i in view.index)  # type: ignore[arg-type]
    return base[index] if index else np.broadcast_to(base, shape)


def rows_region(shape: tuple[int, ...], axis: int, rows: NDArray[Any], box: Sequence[Interval]) -> tuple[Region, bool]:
    """The region with these rows along `axis` and `box` on the other axes; False when it stands for the real one only
    in size.
    """
    unique = np.unique(rows)
    unique = unique[(unique >= 0) & (unique < shape[axis])]
    if unique.size == 0:
        return Region.empty(shape), True
    breaks = np.flatnonzero(np.diff(unique) > 1)
    starts = unique[np.concatenate(([0], breaks + 1))]
    ends = unique[np.concatenate((breaks, [unique.size - 1]))]

    def piece(low: int, high: int) -> Region:
        sides = list(box)
        sides[axis] = (low, high)
        return Region.of_box(shape, sides)

    if len(starts) > MAX_RUNS:
        return piece(0, int(unique.size) - 1), False
    result = Region.empty(shape)
    for low, high in zip(starts.tolist(), ends.tolist(), strict=True):
        result = result.union(piece(low, high))
    return result, True


def _box_of(region: Region) -> tuple[Interval, ...] | None:
    return region.box


# --- one rule a call
# -----------------------------------------------------------------------------------------------------------


def _take(d: LibraryDemand, results: list[Region]) -> None:
    region = results[0]
    axis = int(d.call.attribute("axis", 0))  # type: ignore[arg-type]
    source, indices = d.shape(0), d.shape(1)
    rank = len(indices)
    box = region.box or tuple((0, 0) for _ in region.shape)
    if region.box is None:
        d.work.low = "only part of a lookup's result is used"
    d.read_box(1, box[axis : axis + rank])
    other = [*box[:axis], (0, 0), *box[axis + rank :]]
    values = d.known(1)
    if values is None:
        d.work.low = "the indices of a lookup are not known"
        d.read_box(0, other)
        return
    chosen = values[tuple(slice(low, high + 1) for low, high in box[axis : axis + rank])] if rank else values
    rows, exact = rows_region(source, axis, np.where(chosen < 0, chosen + source[axis], chosen), other)
    if not exact:
        d.work.low = d.work.low or ""
    d.read(0, rows)


def _gather(d: LibraryDemand, results: list[Region]) -> None:
    region = results[0]
    axis = int(d.call.attribute("axis", 0))  # type: ignore[arg-type]
    d.read(1, region)
    d.work.low = "the indices of a gather are not known"
    box = list(region.box or tuple((0, 0) for _ in region.shape))
    if box:
        box[axis] = (0, 0)
    values = d.known(1)
    if values is not None and region.is_full and prod(values.shape[:axis] + values.shape[axis + 1 :]) == 1:
        d.work.low = ""
        rows, _ = rows_region(d.shape(0), axis, values.reshape(-1), box)
        d.read(0, rows)
        return
    d.read_box(0, box)


def _index(d: LibraryDemand, results: list[Region]) -> None:
    region = results[0]
    axes: tuple[int, ...] = d.call.attribute("axes", ())  # type: ignore[assignment]
    position = int(d.call.attribute("position", 0))  # type: ignore[arg-type]
    source = d.shape(0)
    shapes = [d.shape(1 + k) for k in range(len(axes))]
    spread = np.broadcast_shapes(*shapes) if shapes else ()
    if region.box is None:
        box = tuple((0, 0) for _ in region.shape)
        d.work.low = "only part of an indexed result is used"
    else:
        box = region.box
    if region.is_full:
        for k in range(len(axes)):
            d.read_all(1 + k)
    kept = [*box[:position], *box[position + len(spread) :]]
    sides: list[Interval] = []
    for axis in range(len(source)):
        sides.append((0, 0) if axis in axes else kept.pop(0))
    values = [d.known(1 + k) for k in range(len(axes))]
    if region.box is not None and len(axes) == 1 and values[0] is not None:
        chosen = np.broadcast_to(values[0], spread)[
            tuple(slice(low, high + 1) for low, high in box[position : position + len(spread)])
        ]
        chosen = np.where(chosen < 0, chosen + source[axes[0]], chosen)
        rows, _ = rows_region(source, axes[0], chosen, sides)
        d.read(0, rows)
        return
    d.work.low = d.work.low or "the indices of a lookup are not known"
    d.read_box(0, sides)


def _scatter(d: LibraryDemand, results: list[Region]) -> None:
    region = results[0]
    adds = d.call.attribute("reduce", "none") not in ("none", None)
    d.read_all(1)
    d.work.low = "the indices of a scatter are not known"
    if adds:
        d.read(0, region)
        d.read_all(2)
        d.work.vector_ops += prod(d.shape(2))
    else:
        axis = int(d.call.attribute("axis", 0))  # type: ignore[arg-type]
        sides = [(0, extent - 1) for extent in d.shape(2)]
        if sides:
            sides[axis] = (0, 0)
        d.read_box(2, sides)
        _read_untouched(d, region, prod(d.shape(2)))


def _index_put(d: LibraryDemand, results: list[Region]) -> None:
    region = results[0]
    last = len(d.item.operands) - 1
    for position in range(1, last):
        d.read_all(position)
    d.work.low = "the indices of an update are not known"
    if d.call.attribute("accumulate", False):
        d.read(0, region)
        d.read_all(last)
        d.work.vector_ops += prod(d.shape(last))
    else:
        _read_untouched(d, region, prod(results[0].shape))


def _read_untouched(d: LibraryDemand, region: Region, written: int) -> None:
    """At least the elements that `written` updates cannot cover are kept from the old value."""
    if region.is_full and region.count > written and region.shape:
        keep = (region.count - written) // max(1, prod(region.shape[1:]))
        if keep:
            d.read_box(0, [(0, keep - 1), *((0, extent - 1) for extent in region.shape[1:])])


def _along_axis(d: LibraryDemand, results: list[Region]) -> None:
    """Sorting needs whole fibres along the axis, and at least one comparison an element less one."""
    axis = int(d.call.attribute("axis", 0))  # type: ignore[arg-type]
    source = d.shape(0)
    if not source:
        d.read_all(0)
        return
    needed = Region.empty(source)
    for region in results:
        if region.is_empty:
            continue
        if region.box is None:
            box = [(0, 0)] * len(source)
            d.work.low = "only part of a sorted result is used"
        else:
            box = list(region.box)
        box[axis] = (0, source[axis] - 1)
        needed = needed.union(Region.of_box(source, box))
    d.read(0, needed)
    d.work.vector_ops += needed.count - needed.count // source[axis]


def _searchsorted(d: LibraryDemand, results: list[Region]) -> None:
    d.read_all(1)
    d.work.vector_ops += prod(d.shape(1))
    d.read_box(0, [(0, 0) for _ in d.shape(0)])


def _random(d: LibraryDemand, results: list[Region]) -> None:
    for position in range(len(d.item.operands)):
        d.read_all(position)


_RULES: dict[str, Callable[[LibraryDemand, list[Region]], None]] = {
    "take": _take,
    "gather": _gather,
    "index": _index,
    "scatter": _scatter,
    "index_add": _scatter,
    "index_put": _index_put,
    "sort": _along_axis,
    "topk": _along_axis,
    "searchsorted": _searchsorted,
    "random": _random,
}
