"""Sets of integer points that stay exact whatever happens to them.

A set is an isl set while that is simple (a triangle of any size is three constraints) and a bit mask over the coupled
axes once it is not (shifted windows through several reshapes are thousands of constraints, but 53,000 bits). Axes that
nothing couples are an interval each. isl works under an operation budget, so nothing here hangs: what fits neither
form raises TooComplex.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import islpy as isl
import numpy as np

from sollens.analysis.einsum.masks import MAX_BITS, Bits, Mask, TooComplex, holding, mask_image, mask_of, slim, spread
from sollens.analysis.einsum.points import Interval
from sollens.analysis.einsum.polyhedra import (
    access,
    along_axis,
    box_set,
    constraint_set,
    count_set,
    image,
    space,
)
from sollens.analysis.ir.affine import Affine, Constraint

_SET = isl.dim_type.set
MAX_PARTS = 8
MAX_DIVS = 10
MAX_OPERATIONS = 200_000


@contextmanager
def _budget() -> Generator[None]:
    context = isl.DEFAULT_CONTEXT
    context.reset_operations()
    context.set_max_operations(MAX_OPERATIONS)
    try:
        yield
    finally:
        context.set_max_operations(0)


class PointSet:
    """Points inside a box; exactly one of `isl_set` and `mask` is given."""

    __slots__ = ("box", "isl_set", "mask")

    def __init__(self, box: tuple[Interval, ...], isl_set: isl.Set | None, mask: Mask | None = None) -> None:
        self.box = box
        self.isl_set = isl_set
        self.mask = mask

    # --- making ------------------------------------------------------------------------------------------------------

    @staticmethod
    def of_box(box: tuple[Interval, ...], inner: tuple[Interval, ...] | None = None) -> PointSet:
        """Every point of the inner box (default: of the whole box)."""
        return PointSet(box, box_set(box if inner is None else inner))

    @staticmethod
    def nothing(box: tuple[Interval, ...]) -> PointSet:
        """No point."""
        return PointSet(box, isl.Set.empty(space(len(box))))

    @staticmethod
    def of_isl(points: isl.Set, box: tuple[Interval, ...]) -> PointSet:
        """An isl set inside the box, in whichever form suits it."""
        if points.n_basic_set() > 1:
            points = points.coalesce()
        parts = points.get_basic_sets()
        if len(parts) <= MAX_PARTS and sum(p.dim(isl.dim_type.div) for p in parts) <= MAX_DIVS:
            return PointSet(box, points)
        try:
            return PointSet(box, None, mask_of(points, box))
        except TooComplex:
            return PointSet(box, points)

    def _either(
        self,
        work: Callable[[], isl.Set],
        masked: Callable[[], PointSet],
        box: tuple[Interval, ...] | None = None,
    ) -> PointSet:
        """isl's answer (in `box`, else this set's) when it comes within budget, else the mask's."""
        if self.isl_set is not None:
            try:
                with _budget():
                    return PointSet.of_isl(work(), self.box if box is None else box)
            except isl.Error:
                pass
        return masked()

    def to_mask(self) -> Mask:
        """The set as a mask; raises TooComplex when it is too large."""
        if self.mask is None:
            assert self.isl_set is not None
            return mask_of(self.isl_set, self.box)
        return self.mask

    # --- questions ---------------------------------------------------------------------------------------------------

    def is_empty(self) -> bool:
        """No point."""
        if self.mask is not None:
            return not bool(self.mask.bits.any()) or any(high < low for low, high in self.box)
        assert self.isl_set is not None
        return bool(self.isl_set.is_empty())

    def count(self) -> int:
        """Number of points, exact."""
        if self.mask is None:
            assert self.isl_set is not None
            try:
                with _budget():
                    return count_set(self.isl_set, self.box)
            except isl.Error:
                pass
        mask = self.to_mask()
        free = prod(high - low + 1 for k, (low, high) in enumerate(self.box) if k not in mask.axes)
        return int(mask.bits.sum()) * free

    def is_equal(self, other: PointSet) -> bool:
        """The same points."""
        if self.isl_set is not None and other.isl_set is not None:
            return bool(self.isl_set.is_equal(other.isl_set))
        a, b, _ = self._aligned(other)
        return bool((a == b).all())

    def plainly_equal(self, other: PointSet) -> bool:
        """Equal at a glance (False says nothing)."""
        if self.isl_set is not None and other.isl_set is not None:
            return bool(self.isl_set.plain_is_equal(other.isl_set))
        return self.mask is not None and self.mask is other.mask

    def key(self) -> object:
        """Something hashable that sets of the same form and points share."""
        if self.isl_set is not None:
            return str(self.isl_set)
        assert self.mask is not None
        return self.mask.axes, self.mask.bits.shape, self.mask.bits.tobytes()

    def fills(self, box: tuple[Interval, ...]) -> bool:
        """Whether every point of the box is in the set."""
        if self.isl_set is not None:
            return bool(box_set(box).is_subset(self.isl_set))
        assert self.mask is not None
        window = tuple(slice(box[a][0] - self.box[a][0], box[a][1] - self.box[a][0] + 1) for a in self.mask.axes)
        return bool(self.mask.bits[window].all())

    def bounding_box(self) -> tuple[Interval, ...]:
        """The smallest box around the (non-empty) set."""
        if self.mask is None:
            assert self.isl_set is not None
            return tuple(
                (self.isl_set.dim_min_val(k).to_python(), self.isl_set.dim_max_val(k).to_python())
                for k in range(len(self.box))
            )
        result = list(self.box)
        for position, axis in enumerate(self.mask.axes):
            others = tuple(k for k in range(self.mask.bits.ndim) if k != position)
            hit = np.flatnonzero(self.mask.bits.any(axis=others))
            low = self.box[axis][0]
            result[axis] = (low + int(hit[0]), low + int(hit[-1]))
        return tuple(result)

    def within(self, box: tuple[Interval, ...]) -> PointSet:
        """The same points (those inside) seen in another box."""
        if box == self.box:
            return self
        if self.isl_set is not None:
            return PointSet(box, self.isl_set.intersect(box_set(box)))
        mask = self.to_mask()
        axes = tuple(k for k in range(len(box)) if k in mask.axes or box[k] != self.box[k])
        shape = tuple(box[a][1] - box[a][0] + 1 for a in axes)
        if prod(shape) > MAX_BITS:
            raise TooComplex(f"expected at most {MAX_BITS} bits, found {shape}")
        bits = np.zeros(shape, dtype=bool)
        theirs = [(max(box[a][0], self.box[a][0]), min(box[a][1], self.box[a][1])) for a in axes]
        target = tuple(
            slice(low - box[a][0], high - box[a][0] + 1) for a, (low, high) in zip(axes, theirs, strict=True)
        )
        source = tuple(
            slice(low - self.box[a][0], high - self.box[a][0] + 1) for a, (low, high) in zip(axes, theirs, strict=True)
        )
        bits[target] = spread(mask, axes, self.box)[source]
        return PointSet(box, None, Mask(axes, bits))

    # --- algebra ----------------------------------------------------------------------------------------------------

    def union(self, other: PointSet) -> PointSet:
        """Points of either (over the same box)."""
        return self._combined(other, lambda a, b: a.union(b), np.logical_or)

    def intersect(self, other: PointSet) -> PointSet:
        """Points of both."""
        return self._combined(other, lambda a, b: a.intersect(b), np.logical_and)

    def subtract(self, other: PointSet) -> PointSet:
        """Points of this one only."""
        return self._combined(other, lambda a, b: a.subtract(b), lambda a, b: a & ~b)

    def _combined(
        self, other: PointSet, exact: Callable[[isl.Set, isl.Set], isl.Set], bitwise: Callable[[Any, Any], Any]
    ) -> PointSet:
        def masked() -> PointSet:
            a, b, axes = self._aligned(other)
            return PointSet(self.box, None, slim(Mask(axes, bitwise(a, b))))

        left, right = self.isl_set, other.isl_set
        if left is None or right is None:
            return masked()
        return self._either(lambda: exact(left, right), masked)

    def _aligned(self, other: PointSet) -> tuple[Bits, Bits, tuple[int, ...]]:
        left, right = self.to_mask(), other.to_mask()
        axes = tuple(sorted({*left.axes, *right.axes}))
        return spread(left, axes, self.box), spread(right, axes, self.box), axes

    def restrict(self, constraints: Sequence[Constraint], names: Sequence[str]) -> PointSet:
        """Points that meet every constraint; `names` are the axes'."""
        positions = {n: k for k, n in enumerate(names)}

        def exact() -> isl.Set:
            assert self.isl_set is not None
            points = self.isl_set
            for constraint in constraints:
                points = points.intersect(constraint_set(constraint, positions, len(names)))
            return points

        def masked() -> PointSet:
            mask = self.to_mask()
            used = {positions[n] for c in constraints for n in c.expr.names}
            axes = tuple(sorted({*mask.axes, *used}))
            bits = spread(mask, axes, self.box).copy()
            bits &= holding(constraints, [names[k] for k in axes], [self.box[k] for k in axes])
            return PointSet(self.box, None, slim(Mask(axes, bits)))

        return self._either(exact, masked)

    def swept(self, axis: int, *, backwards: bool) -> PointSet:
        """With every point, all that lie before it (else after it) along an axis."""

        def masked() -> PointSet:
            mask = self.to_mask()
            if axis not in mask.axes:
                return self
            position = mask.axes.index(axis)
            bits = np.flip(mask.bits, position) if backwards else mask.bits
            bits = np.logical_or.accumulate(bits, axis=position)
            return PointSet(self.box, None, Mask(mask.axes, np.flip(bits, position) if backwards else bits))

        def exact() -> isl.Set:
            assert self.isl_set is not None
            return self.isl_set.apply(along_axis(len(self.box), axis, backwards=backwards)).intersect(box_set(self.box))

        return self._either(exact, masked)

    def extended(self, intervals: Sequence[Interval]) -> PointSet:
        """The set times a box of new last axes."""
        if not intervals:
            return self
        box = (*self.box, *intervals)
        if self.isl_set is not None:
            return PointSet(box, self.isl_set.add_dims(_SET, len(intervals)).intersect(box_set(box)))
        return PointSet(box, None, self.mask)

    def projected(self, kept: Sequence[int]) -> PointSet:
        """The points as seen through the kept axes (ascending)."""
        box = tuple(self.box[k] for k in kept)

        def exact() -> isl.Set:
            assert self.isl_set is not None
            points = self.isl_set
            for k in range(len(self.box) - 1, -1, -1):
                if k not in kept:
                    points = points.project_out(_SET, k, 1)
            return points

        def masked() -> PointSet:
            mask = self.to_mask()
            gone = tuple(p for p, a in enumerate(mask.axes) if a not in kept)
            axes = tuple(list(kept).index(a) for a in mask.axes if a in kept)
            return PointSet(box, None, Mask(axes, np.asarray(mask.bits.any(axis=gone))))

        return self._either(exact, masked, box)

    def image(self, index: Sequence[Affine], names: Sequence[str], box: tuple[Interval, ...]) -> PointSet:
        """The values of the functions on the points, inside `box`."""

        def exact() -> isl.Set:
            assert self.isl_set is not None
            return image(self.isl_set, access(index, names)).intersect(box_set(box))

        def masked() -> PointSet:
            return PointSet(box, None, mask_image(self.to_mask(), self.box, index, names, box))

        return self._either(exact, masked, box)
