"""Regions: exact sets of a tensor's elements, with union, intersection, difference and size.

Most regions are boxes (usually the whole tensor) and cost nothing; anything else is a point set.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import islpy as isl

from sollens.analysis.einsum.points import Interval
from sollens.analysis.einsum.pointset import PointSet


class Region:
    """A set of elements of a tensor of `shape`. Exactly one of `box` (intervals, ends included) and `points` is
    given.
    """

    __slots__ = ("_count", "box", "points", "shape")

    def __init__(
        self, shape: tuple[int, ...], box: tuple[Interval, ...] | None, points: PointSet | None = None
    ) -> None:
        self.shape = shape
        self.box = box
        self.points = points
        self._count: int | None = None

    @staticmethod
    def full(shape: tuple[int, ...]) -> Region:
        """Every element."""
        return _full(shape)

    @staticmethod
    def empty(shape: tuple[int, ...]) -> Region:
        """No element."""
        return _empty(shape)

    @staticmethod
    def of_box(shape: tuple[int, ...], box: Sequence[Interval]) -> Region:
        """The box, clipped to the tensor."""
        clipped = tuple((max(0, low), min(extent - 1, high)) for (low, high), extent in zip(box, shape, strict=True))
        if any(high < low for low, high in clipped):
            return _empty(shape)
        return Region(shape, clipped)

    @staticmethod
    def of_set(shape: tuple[int, ...], points: PointSet | isl.Set) -> Region:
        """The set (which must lie inside the tensor); kept as a box where it is one."""
        if isinstance(points, isl.Set):
            points = PointSet.of_isl(points, tuple((0, extent - 1) for extent in shape))
        if points.is_empty():
            return _empty(shape)
        box = points.bounding_box()
        return Region(shape, box) if points.fills(box) else Region(shape, None, points)

    @property
    def is_empty(self) -> bool:
        """No element."""
        return self.points is None and self.box is None

    @property
    def is_full(self) -> bool:
        """Every element of the tensor (an empty tensor's region is empty and full)."""
        if self.box is not None:
            return all(
                low == 0 and high == extent - 1 for (low, high), extent in zip(self.box, self.shape, strict=True)
            )
        return self.points is None and prod(self.shape) == 0

    @property
    def count(self) -> int:
        """Number of elements, exact."""
        if self._count is None:
            if self.box is not None:
                self._count = prod(high - low + 1 for low, high in self.box)
            elif self.points is not None:
                self._count = self.points.count()
            else:
                self._count = 0
        return self._count

    def to_set(self) -> PointSet:
        """The region as a point set inside the tensor."""
        if self.points is not None:
            return self.points
        whole = tuple((0, extent - 1) for extent in self.shape)
        return PointSet.nothing(whole) if self.box is None else PointSet.of_box(whole, self.box)

    def union(self, other: Region) -> Region:
        """Elements of either."""
        if other.is_empty or self is other or self.is_full:
            return self
        if self.is_empty or other.is_full:
            return other
        if self.box is not None and other.box is not None:
            if _inside(other.box, self.box):
                return self
            if _inside(self.box, other.box):
                return other
        elif self.points is not None and other.points is not None and self.points.plainly_equal(other.points):
            return self
        return Region.of_set(self.shape, self.to_set().union(other.to_set()))

    def intersect(self, other: Region) -> Region:
        """Elements of both."""
        if self.is_empty or other.is_full:
            return self
        if other.is_empty or self.is_full:
            return other
        if self.box is not None and other.box is not None:
            return Region.of_box(
                self.shape, [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(self.box, other.box, strict=True)]
            )
        return Region.of_set(self.shape, self.to_set().intersect(other.to_set()))

    def subtract(self, other: Region) -> Region:
        """Elements of this one only."""
        if self.is_empty or other.is_empty:
            return self
        if other.is_full:
            return _empty(self.shape)
        return Region.of_set(self.shape, self.to_set().subtract(other.to_set()))

    def key(self) -> object:
        """Something hashable that equal regions share (isl sets: by their text)."""
        if self.points is not None:
            return (self.shape, self.points.key())
        return (self.shape, self.box)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Region) or self.shape != other.shape:
            return NotImplemented if not isinstance(other, Region) else False
        if self.points is None and other.points is None:
            return self.box == other.box
        return bool(self.to_set().is_equal(other.to_set()))

    def __hash__(self) -> int:
        return hash((self.shape, self.count))

    def __repr__(self) -> str:
        if self.is_full:
            return f"Region(full {list(self.shape)})"
        return f"Region({self.box if self.points is None else self.points} of {list(self.shape)})"


@lru_cache(maxsize=8192)
def _full(shape: tuple[int, ...]) -> Region:
    return Region(shape, None if 0 in shape else tuple((0, extent - 1) for extent in shape))


@lru_cache(maxsize=8192)
def _empty(shape: tuple[int, ...]) -> Region:
    return Region(shape, None)


def _inside(inner: tuple[Interval, ...], outer: tuple[Interval, ...]) -> bool:
    return all(c <= a and b <= d for (a, b), (c, d) in zip(inner, outer, strict=True))
