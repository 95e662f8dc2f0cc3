"""One rule a call: what a demanded region of a result reads and costs. The calls' meaning stands in `ir/calls.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sollens.analysis.einsum.library import LibraryDemand, Rule, elements, runs_of
from sollens.analysis.einsum.region import Region
from sollens.analysis.ir.affine import Affine, Constraint, const, dim, equals, less

MAX_RUNS = 64


def _axis(d: LibraryDemand) -> int:
    return int(d.call.attribute("axis", 0))  # type: ignore[arg-type]


def _take(d: LibraryDemand, region: Region) -> None:
    _lookup(d, region, (_axis(d),), _axis(d), len(d.shape(1)))


def _index(d: LibraryDemand, region: Region) -> None:
    axes: tuple[int, ...] = d.call.attribute("axes", ())  # type: ignore[assignment]
    shapes = [d.shape(1 + k) for k in range(len(axes))]
    spread = len(np.broadcast_shapes(*shapes)) if shapes else 0
    _lookup(d, region, axes, int(d.call.attribute("position", 0)), spread)  # type: ignore[arg-type]


def _lookup(d: LibraryDemand, region: Region, axes: Sequence[int], position: int, rank: int) -> None:
    """Advanced indexing: result axes [position, position + rank) are those of the index tensors, broadcast together."""
    own = d.axes(region)
    domain = d.domain(region)
    chosen = own[position : position + rank]
    for k in range(len(axes)):
        shape = d.shape(1 + k)
        aligned = chosen[rank - len(shape) :]
        d.read(1 + k, domain, [const(0) if e == 1 else a for e, a in zip(shape, aligned, strict=True)])
    kept = [*own[:position], *own[position + rank :]]
    index = [const(0) if axis in axes else kept.pop(0) for axis in range(len(d.shape(0)))]
    spread = d.own_shape(region)[position : position + rank]
    values = [d.known(1 + k) for k in range(len(axes))]
    if all(v is not None for v in values):
        rows = [np.broadcast_to(v, spread) for v in values if v is not None]
        rows = [np.where(r < 0, r + d.shape(0)[a], r) for r, a in zip(rows, axes, strict=True)]
        if _known_rows(d, region, index, axes, position, rows):
            return
    d.work.low = "the indices of a lookup are not known"
    d.read_anywhere(0, domain, index, axes)


def _known_rows(
    d: LibraryDemand, region: Region, index: list[Affine], axes: Sequence[int], position: int, rows: list[NDArray[Any]]
) -> bool:
    """Read the rows that known indices choose; False when there are too many different ones."""
    spread = rows[0].shape if rows else ()
    rank = len(spread)
    if len(axes) == 1 and region.box is not None:
        box = region.box[len(d.loops) :]
        inside = tuple(slice(low, high + 1) for low, high in box[position : position + rank])
        runs = runs_of(rows[0][inside], d.shape(0)[axes[0]])
        if len(runs) <= MAX_RUNS:
            for low, high in runs:
                index[axes[0]] = dim("&") + low
                d.read(0, d.domain(region, [("&", high - low + 1)]), index)
            return True
        rows_read = sum(b - a + 1 for a, b in runs)
        d.read_anywhere(0, d.domain(region, [("&", rows_read)]), _at(index, axes[0]), axes, rows_read)
        return True
    if elements(spread) > MAX_RUNS:
        return False
    own = d.axes(region)
    for place in np.ndindex(*spread):
        for axis, found in zip(axes, rows, strict=True):
            index[axis] = const(int(found[place]))
        here = d.domain(region).restrict([equals(own[position + k], at) for k, at in enumerate(place)])
        d.read(0, here, index)
    return True


def _at(index: Sequence[Affine], axis: int) -> list[Affine]:
    return [dim("&") if k == axis else i for k, i in enumerate(index)]


def _gather(d: LibraryDemand, region: Region) -> None:
    axis = _axis(d)
    own = d.axes(region)
    d.read(1, d.domain(region), own)
    values = d.known(1)
    shape = d.shape(1)
    if values is not None and shape:
        values = np.where(values < 0, values + d.shape(0)[axis], values)
        if region.is_full and elements(shape) == shape[axis]:
            runs = runs_of(values.reshape(-1), d.shape(0)[axis])
            if len(runs) <= MAX_RUNS:
                for low, high in runs:
                    index = [dim("&") + low if k == axis else const(0) for k in range(len(own))]
                    d.read(0, d.domain(region, [("&", high - low + 1)]), index)
                return
        if values.size <= MAX_RUNS:
            for place in np.ndindex(*shape):
                here = d.domain(region).restrict([equals(own[k], at) for k, at in enumerate(place)])
                d.read(0, here, [const(int(values[place])) if k == axis else own[k] for k in range(len(own))])
            return
    d.work.low = "the indices of a gather are not known"
    d.read_anywhere(0, d.domain(region), [const(0) if k == axis else a for k, a in enumerate(own)], (axis,))


def _scatter(d: LibraryDemand, region: Region) -> None:
    _update(d, region, rows=False)


def _index_add(d: LibraryDemand, region: Region) -> None:
    _update(d, region, rows=True)


def _update(d: LibraryDemand, region: Region, *, rows: bool) -> None:
    """Elements of x are replaced by, or combined with, those of src whose index says so along one axis."""
    axis = _axis(d)
    own = d.axes(region)
    d.work.low = "the indices of a scatter are not known"
    source = d.shape(2) if rows else d.shape(1)
    if not own:
        d.read_everything(region)
        return
    length = source[axis]
    # Only positions that src covers can be written.
    covered = tuple(
        less(own[k], source[k]) for k in range(len(own)) if k != axis and source[k] < d.own_shape(region)[k]
    )
    hits = d.domain(region, [("&", length)], covered)
    along = _at(own, axis)
    d.read(1, hits, [dim("&")] if rows else along)
    adds = d.call.attribute("reduce", "none") not in ("none", None)
    keeps = adds and bool(d.call.attribute("include_self", True))
    fibre = _fibre(d, region, axis)
    if keeps:
        d.read(0, d.domain(region), own)
    elif fibre > length:
        # At least so many elements of each fibre keep their old value, whichever they are.
        low = region.box[len(d.loops) + axis][0] if region.box is not None else 0
        rest = d.domain(region).restrict([Constraint(const(low + fibre - length - 1) - own[axis])])
        d.read_anywhere(0, rest, [a - low if k == axis else a for k, a in enumerate(own)], (axis,), fibre - length)
    if fibre < d.own_shape(region)[axis]:
        return  # the updates may all fall elsewhere
    if not adds:
        d.read_anywhere(
            2, d.domain(region, (), covered), [const(0) if k == axis else a for k, a in enumerate(own)], (axis,)
        )
        return
    d.read(2, hits, along)
    folded = hits.distinct([*(dim(n) for n in d.loops), *along])
    if not keeps or d.item.operands[0].base in d.constants.names:
        folded -= min(folded, region.count)  # the first value at a place is not added to anything
    d.work.vector_ops += folded


def _fibre(d: LibraryDemand, region: Region, axis: int) -> int:
    """How many elements of each fibre along an axis are demanded; 0 when that differs."""
    if region.box is None:
        return 0
    low, high = region.box[len(d.loops) + axis]
    return high - low + 1


def _index_put(d: LibraryDemand, region: Region) -> None:
    last = len(d.item.operands) - 1
    for position in range(1, last):
        d.read_all(position, region)
    d.work.low = "the indices of an update are not known"
    if d.call.attribute("accumulate", False):
        d.read(0, d.domain(region), d.axes(region))
        if d.whole(region):
            d.read_all(last, region)
            d.work.vector_ops += elements(d.shape(last))
            if d.item.operands[0].base in d.constants.names:
                d.work.vector_ops -= min(elements(d.shape(last)), region.count)


def _along_axis(d: LibraryDemand, region: Region) -> None:
    """Sorting needs whole fibres along the axis, and at least one comparison an element less one."""
    own = d.axes(region)
    if not own:
        d.read_all(0, region)
        return
    axis = _axis(d)
    extent = d.shape(0)[axis]
    base = d.item.operands[0].base
    before = d.work.reads.get(base)
    touched = d.read(0, d.domain(region, [("&", extent)]), _at(own, axis))
    if before is not None:
        touched = touched.subtract(before)
    d.work.vector_ops += touched.count - touched.count // extent


def _searchsorted(d: LibraryDemand, region: Region) -> None:
    domain = d.domain(region)
    d.read(1, domain, d.axes(region))
    d.work.vector_ops += region.count
    d.read_anywhere(0, domain, [const(0) for _ in d.shape(0)], (len(d.shape(0)) - 1,))


def _random(d: LibraryDemand, region: Region) -> None:
    if d.whole(region):
        d.read_everything(region)


def _masked_select(d: LibraryDemand, region: Region) -> None:
    """The whole mask, and as many elements as it lets through (whole first-axis rows of them)."""
    d.read_all(1, region)
    shape = d.shape(0)
    rows = (
        region.count // elements(shape[1:]) if shape and shape == d.shape(1) and not d.loops and 0 not in shape else 0
    )
    if rows:
        free = [("&0", min(rows, shape[0])), *((f"&{k}", e) for k, e in enumerate(shape) if k)]
        d.read_anywhere(0, d.domain(region, free), [dim(name) for name, _ in free], (0,), rows)
    d.work.low = "what a mask selects is not known"


def _fft(d: LibraryDemand, region: Region) -> None:
    """Whole fibres along the transformed axes."""
    own = d.axes(region)
    axes = d.call.attribute("axes", None)
    if not isinstance(axes, tuple) or len(own) != len(d.shape(0)):
        d.read_everything(region)
        return
    free = [(f"&{k}", e) for k, e in enumerate(d.shape(0)) if k in axes]
    d.read(0, d.domain(region, free), [dim(f"&{k}") if k in axes else a for k, a in enumerate(own)])


RULES: Mapping[str, Rule] = {
    "take": _take,
    "gather": _gather,
    "index": _index,
    "scatter": _scatter,
    "index_add": _index_add,
    "index_put": _index_put,
    "sort": _along_axis,
    "topk": _along_axis,
    "searchsorted": _searchsorted,
    "random": _random,
    "masked_select": _masked_select,
    "fft": _fft,
}
