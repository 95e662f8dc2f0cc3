"""The points of a loop nest at which something is needed, and what they touch.

A domain stays symbolic (a box and affine constraints) as long as possible: then counting is arithmetic and images of
boxes are boxes. It becomes a point set when a demanded region or a known value has another form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import islpy as isl

from sollens.analysis.einsum.points import Interval, TooManyPoints, count_points, expr_range
from sollens.analysis.einsum.pointset import PointSet
from sollens.analysis.einsum.region import Region
from sollens.analysis.ir.affine import Affine, Constraint, FloorDiv, Mod, dim


class Domain:
    """Points over named dimensions: a box, and either constraints or a point set inside it."""

    __slots__ = ("constraints", "intervals", "names", "points")

    def __init__(
        self,
        names: tuple[str, ...],
        intervals: tuple[Interval, ...],
        constraints: tuple[Constraint, ...] = (),
        points: PointSet | None = None,
    ) -> None:
        self.names = names
        self.intervals = intervals
        self.constraints = constraints
        self.points = points

    @staticmethod
    def of(
        region: Region, names: Sequence[str], reduced: Sequence[tuple[str, int]], guard: tuple[Constraint, ...]
    ) -> Domain:
        """The nest that computes `region` (whose axes are `names`) with the reduced dimensions appended, under a
        guard.
        """
        every = (*names, *(n for n, _ in reduced))
        tail = tuple((0, extent - 1) for _, extent in reduced)
        if region.box is not None:
            return Domain(every, region.box + tail, guard)
        if region.points is None:
            return Domain(every, tuple((0, -1) for _ in every), guard)
        points = region.points.extended(tail)
        if guard:
            points = points.restrict(guard, every)
        return Domain(every, points.box, (), points)

    @property
    def is_empty(self) -> bool:
        """No point; exact."""
        if self.points is not None:
            return self.points.is_empty()
        if any(high < low for low, high in self.intervals):
            return True
        if not self.constraints:
            return False
        box = dict(zip(self.names, self.intervals, strict=True))
        if any(expr_range(c.expr, box)[1] < 0 for c in self.constraints):
            return True
        return self.count(None) == 0

    def to_set(self) -> PointSet:
        """The domain as a point set over its box."""
        if self.points is not None:
            return self.points
        return _domain_set(self.names, self.intervals, self.constraints)

    def _with(self, points: PointSet) -> Domain:
        return Domain(self.names, points.box, (), points)

    def _over_box(self, points: PointSet | isl.Set) -> PointSet:
        if isinstance(points, isl.Set):
            return PointSet.of_isl(points, self.intervals)
        return points.within(self.intervals)

    def restrict(self, constraints: Iterable[Constraint]) -> Domain:
        """Points that meet every constraint."""
        extra = tuple(constraints)
        if not extra:
            return self
        if self.points is None:
            return Domain(self.names, self.intervals, self.constraints + extra)
        return self._with(self.points.restrict(extra, self.names))

    def exclude(self, constraints: tuple[Constraint, ...]) -> Domain:
        """Points that violate at least one of the constraints."""
        if len(constraints) == 1 and not constraints[0].equal:
            return self.restrict([Constraint(-constraints[0].expr - 1)])
        return self.subtract(_domain_set(self.names, self.intervals, constraints))

    def subtract(self, points: PointSet | isl.Set) -> Domain:
        """Points outside a set over the same dimensions."""
        return self._with(self.to_set().subtract(self._over_box(points)))

    def intersect(self, points: PointSet | isl.Set) -> Domain:
        """Points inside a set over the same dimensions."""
        return self._with(self.to_set().intersect(self._over_box(points)))

    def union(self, other: Domain) -> Domain:
        """Points of either (same dimensions)."""
        if self is other or other.is_empty:
            return self
        if any(high < low for low, high in self.intervals):
            return other
        hull = tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(self.intervals, other.intervals, strict=True))
        return self._with(self.to_set().within(hull).union(other.to_set().within(hull)))

    def project(self, kept: int) -> Domain:
        """The points as seen through the first `kept` dimensions."""
        points = self.to_set().projected(range(kept))
        return Domain(self.names[:kept], points.box, (), points)

    def count(self, used: frozenset[str] | None) -> int:
        """Number of distinct points as seen through the dimensions in `used` (None: all)."""
        names = frozenset(self.names) if used is None else used
        if self.points is None and not any(c.expr.names & names and c.expr.names - names for c in self.constraints):
            box = dict(zip(self.names, self.intervals, strict=True))
            if any(high < low for low, high in box.values()):
                return 0
            inside = [c for c in self.constraints if c.expr.names <= names]
            try:
                if len(inside) < len(self.constraints) and self.is_empty:
                    return 0
                return count_points({n: box[n] for n in self.names if n in names}, inside)
            except TooManyPoints:
                pass
        points = self.to_set()
        if used is not None:
            points = points.projected([k for k, name in enumerate(self.names) if name in used])
        return points.count()

    def image(self, index: Sequence[Affine], shape: tuple[int, ...]) -> Region:
        """The elements of a tensor of `shape` that the points touch through `index`."""
        if not shape:
            return Region.empty(()) if self.is_empty else Region.full(())
        if 0 in shape:
            return Region.empty(shape)
        if self.points is None:
            return _symbolic_image(self.names, self.intervals, self.constraints, tuple(index), shape)
        return Region.of_set(shape, self.points.image(index, self.names, tuple((0, e - 1) for e in shape)))

    def ranges(self, functions: Sequence[Affine]) -> list[Interval]:
        """A box that holds the values of the functions over the points."""
        box = dict(zip(self.names, self.intervals, strict=True))
        return [expr_range(f, box) for f in functions]

    def values(self, functions: Sequence[Affine], box: Sequence[Interval]) -> PointSet:
        """The values of a tuple of functions over the points, inside a box that holds them."""
        return self.to_set().image(functions, self.names, tuple(box))

    def distinct(self, functions: Sequence[Affine]) -> int:
        """Number of distinct values of the tuple of functions over the points."""
        if self.points is None:
            return _distinct(self.names, self.intervals, self.constraints, tuple(functions))
        return self.values(functions, self.ranges(functions)).count()


@lru_cache(maxsize=1024)
def _domain_set(
    names: tuple[str, ...], intervals: tuple[Interval, ...], constraints: tuple[Constraint, ...]
) -> PointSet:
    if any(high < low for low, high in intervals):
        return PointSet.nothing(intervals)
    return PointSet.of_box(intervals).restrict(constraints, names) if constraints else PointSet.of_box(intervals)


@lru_cache(maxsize=4096)
def _distinct(
    names: tuple[str, ...],
    intervals: tuple[Interval, ...],
    constraints: tuple[Constraint, ...],
    functions: tuple[Affine, ...],
) -> int:
    if any(high < low for low, high in intervals):
        return 0
    domain = Domain(names, intervals, constraints)
    return domain.values(functions, domain.ranges(functions)).count()


@lru_cache(maxsize=16384)
def _symbolic_image(
    names: tuple[str, ...],
    intervals: tuple[Interval, ...],
    constraints: tuple[Constraint, ...],
    index: tuple[Affine, ...],
    shape: tuple[int, ...],
) -> Region:
    box = dict(zip(names, intervals, strict=True))
    if any(high < low for low, high in intervals):
        return Region.empty(shape)
    split_index, split_box, split_constraints = _split_digits(index, box, constraints)
    found = _box_image(split_index, split_box, split_constraints, shape)
    if found is not None:
        return found
    used = {n for i in index for n in i.names}
    kept = tuple(n for n in names if n in used or any(n in c.expr.names for c in constraints))
    points = _domain_set(kept, tuple(box[n] for n in kept), constraints)
    return Region.of_set(shape, points.image(index, kept, tuple((0, e - 1) for e in shape)))


def _split_digits(
    index: tuple[Affine, ...], box: dict[str, Interval], constraints: tuple[Constraint, ...]
) -> tuple[tuple[Affine, ...], dict[str, Interval], tuple[Constraint, ...]]:
    """Replace dimensions that occur under `floordiv` and `mod` by independent digits, where their range is a full
    mixed radix.
    """
    radices: dict[str, set[int]] = {}
    for expr in (*index, *(c.expr for c in constraints)):
        _collect_radices(expr, radices)
    if not radices:
        return index, box, constraints
    values: dict[str, Affine] = {}
    result = dict(box)
    for name, found in radices.items():
        low, high = box[name]
        extent = high + 1
        steps = sorted(r for r in found if r < extent)
        if (
            low != 0
            or not steps
            or any(b % a for a, b in zip([*steps, extent], [*steps[1:], extent], strict=False))
            or extent % steps[-1]
        ):
            continue
        total = Affine()
        del result[name]
        for k, (step, following) in enumerate(zip([1, *steps], [*steps, extent], strict=True)):
            digit = f"{name}'{k}"
            result[digit] = (0, following // step - 1)
            total += dim(digit) * step
        values[name] = total
    if not values:
        return index, box, constraints
    extents = {n: high + 1 for n, (_, high) in result.items()}
    return (
        tuple(i.substitute(values).simplify(extents) for i in index),
        result,
        tuple(Constraint(c.expr.substitute(values).simplify(extents), c.equal) for c in constraints),
    )


def _collect_radices(expr: Affine, radices: dict[str, set[int]]) -> None:
    for atom, _ in expr.terms:
        if isinstance(atom, FloorDiv | Mod):
            inner = atom.operand
            name = inner.single_name
            if name is not None:
                radices.setdefault(name, set()).add(atom.divisor)
            elif (
                len(inner.terms) == 1
                and inner.constant == 0
                and isinstance(inner.terms[0][0], FloorDiv)
                and inner.terms[0][1] == 1
            ):
                nested = inner.terms[0][0]
                base = nested.operand.single_name
                if base is not None:
                    radices.setdefault(base, set()).update((nested.divisor, nested.divisor * atom.divisor))
            else:
                _collect_radices(inner, radices)


def _box_image(
    index: tuple[Affine, ...], box: dict[str, Interval], constraints: tuple[Constraint, ...], shape: tuple[int, ...]
) -> Region | None:
    """The image when every axis is an interval on its own; None when that cannot be seen cheaply."""
    pending: list[Constraint] = []
    box = dict(box)
    for constraint in constraints:
        low, high = expr_range(constraint.expr, box)
        if constraint.equal:
            return None
        if low >= 0:
            continue
        if high < 0:
            return Region.empty(shape)
        if len(constraint.expr.terms) == 1 and isinstance(constraint.expr.terms[0][0], str):
            name, c = constraint.expr.terms[0]
            assert isinstance(name, str)
            a, b = box[name]
            k = constraint.expr.constant
            box[name] = (max(a, -(k // c)), b) if c > 0 else (a, min(b, k // -c))
            if box[name][1] < box[name][0]:
                return Region.empty(shape)
        else:
            pending.append(constraint)
    result: list[Interval] = []
    seen: set[str] = set()
    for expr in index:
        if not expr.is_linear or expr.names & seen:
            return None
        seen |= expr.names
        interval = _interval_of(expr, box)
        if interval is None:
            return None
        low, high = interval
        rest: list[Constraint] = []
        for constraint in pending:
            # Constraints on this axis's own expression clip it; any other coupling is beyond this fast path.
            if constraint.expr.terms == expr.terms:
                low = max(low, expr.constant - constraint.expr.constant)
            elif (-constraint.expr).terms == expr.terms:
                high = min(high, expr.constant + constraint.expr.constant)
            else:
                rest.append(constraint)
        pending = rest
        result.append((low, high))
    if pending:
        return None
    return Region.of_box(shape, result)


def _interval_of(expr: Affine, box: dict[str, Interval]) -> Interval | None:
    """The values of a linear expression when they are a whole interval."""
    reach = 0
    for _, c, span in sorted((abs(c), c, box[a][1] - box[a][0]) for a, c in expr.terms if isinstance(a, str)):
        if span == 0:
            continue
        if abs(c) > reach + 1:
            return None
        reach += abs(c) * span
    return expr_range(expr, box)
