"""The points of a loop nest at which something is needed, and what they touch.

A domain stays symbolic (a box and affine constraints) as long as possible: then counting is arithmetic and images of boxes are boxes.
It becomes an isl set when a demanded region or a known value has another form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import islpy as isl

from sollens.analysis.einsum.points import Interval, TooManyPoints, count_points, expr_range
from sollens.analysis.einsum.polyhedra import access, box_set, constraint_set, count_set, domain_set, image
from sollens.analysis.einsum.region import Region
from sollens.analysis.ir.affine import Affine, Constraint, FloorDiv, Mod, dim

_SET = isl.dim_type.set


class Domain:
    """Points over named dimensions: a box, constraints, and optionally an isl set that cuts further."""

    __slots__ = ("constraints", "intervals", "names", "points")

    def __init__(
        self,
        names: tuple[str, ...],
        intervals: tuple[Interval, ...],
        constraints: tuple[Constraint, ...] = (),
        points: isl.Set | None = None,
    ) -> None:
        self.names = names
        self.intervals = intervals
        self.constraints = constraints
        self.points = points

    @staticmethod
    def of(region: Region, names: Sequence[str], reduced: Sequence[tuple[str, int]], guard: tuple[Constraint, ...]) -> Domain:
        """The nest that computes `region` (whose axes are `names`) with the reduced dimensions appended, under a guard."""
        every = (*names, *(n for n, _ in reduced))
        tail = tuple((0, extent - 1) for _, extent in reduced)
        if region.box is not None:
            return Domain(every, region.box + tail, guard)
        if region.points is None:
            return Domain(every, tuple((0, -1) for _ in every), guard)
        intervals = tuple((0, extent - 1) for extent in region.shape) + tail
        points = region.points.add_dims(_SET, len(reduced)).intersect(box_set(intervals)) if reduced else region.points
        for constraint in guard:
            points = points.intersect(constraint_set(constraint, {n: k for k, n in enumerate(every)}, len(every)))
        return Domain(every, intervals, (), points)

    @property
    def is_empty(self) -> bool:
        """No point; exact."""
        if self.points is not None:
            return bool(self.points.is_empty())
        if any(high < low for low, high in self.intervals):
            return True
        if not self.constraints:
            return False
        box = dict(zip(self.names, self.intervals, strict=True))
        if any(expr_range(c.expr, box)[1] < 0 for c in self.constraints):
            return True
        return self.count(None) == 0

    def to_set(self) -> isl.Set:
        """The domain as an isl set."""
        if self.points is not None:
            return self.points
        return _domain_set(self.names, self.intervals, self.constraints)

    def restrict(self, constraints: Iterable[Constraint]) -> Domain:
        """Points that meet every constraint."""
        extra = tuple(constraints)
        if not extra:
            return self
        if self.points is None:
            return Domain(self.names, self.intervals, self.constraints + extra)
        points = self.points
        positions = {n: k for k, n in enumerate(self.names)}
        for constraint in extra:
            points = points.intersect(constraint_set(constraint, positions, len(self.names)))
        return Domain(self.names, self.intervals, (), points)

    def exclude(self, constraints: tuple[Constraint, ...]) -> Domain:
        """Points that violate at least one of the constraints."""
        if len(constraints) == 1 and not constraints[0].equal:
            return self.restrict([Constraint(-constraints[0].expr - 1)])
        inside = _domain_set(self.names, self.intervals, constraints)
        return self.subtract(inside)

    def subtract(self, points: isl.Set) -> Domain:
        """Points outside an isl set over the same dimensions."""
        return Domain(self.names, self.intervals, (), self.to_set().subtract(points).coalesce())

    def intersect(self, points: isl.Set) -> Domain:
        """Points inside an isl set over the same dimensions."""
        return Domain(self.names, self.intervals, (), self.to_set().intersect(points).coalesce())

    def union(self, other: Domain) -> Domain:
        """Points of either (same dimensions)."""
        if self is other:
            return self
        return Domain(self.names, self.intervals, (), self.to_set().union(other.to_set()).coalesce())

    def project(self, kept: int) -> Domain:
        """The points as seen through the first `kept` dimensions."""
        points = self.to_set().project_out(_SET, kept, len(self.names) - kept)
        return Domain(self.names[:kept], self.intervals[:kept], (), points)

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
        intervals = list(self.intervals)
        if used is not None:
            for k in range(len(self.names) - 1, -1, -1):
                if self.names[k] not in used:
                    points = points.project_out(_SET, k, 1)
                    del intervals[k]
        return count_set(points, intervals)

    def image(self, index: Sequence[Affine], shape: tuple[int, ...]) -> Region:
        """The elements of a tensor of `shape` that the points touch through `index`."""
        if not shape:
            return Region.empty(()) if self.is_empty else Region.full(())
        if self.points is None:
            return _symbolic_image(self.names, self.intervals, self.constraints, tuple(index), shape)
        return Region.of_set(shape, image(self.points, access(index, self.names)).intersect(box_set(tuple((0, e - 1) for e in shape))))

    def values(self, functions: Sequence[Affine]) -> tuple[isl.Set, list[Interval]]:
        """The values of a tuple of functions over the points, and a box that holds them."""
        box = dict(zip(self.names, self.intervals, strict=True))
        return image(self.to_set(), access(functions, self.names)), [expr_range(f, box) for f in functions]

    def distinct(self, functions: Sequence[Affine]) -> int:
        """Number of distinct values of the tuple of functions over the points."""
        box = dict(zip(self.names, self.intervals, strict=True))
        bounds = [expr_range(f, box) for f in functions]
        if self.points is None:
            return _distinct(self.names, self.intervals, self.constraints, tuple(functions))
        return count_set(image(self.points, access(functions, self.names)), bounds)


@lru_cache(maxsize=1024)
def _domain_set(names: tuple[str, ...], intervals: tuple[Interval, ...], constraints: tuple[Constraint, ...]) -> isl.Set:
    return domain_set(list(zip(names, intervals, strict=True)), constraints)


@lru_cache(maxsize=4096)
def _distinct(
    names: tuple[str, ...], intervals: tuple[Interval, ...], constraints: tuple[Constraint, ...], functions: tuple[Affine, ...]
) -> int:
    box = dict(zip(names, intervals, strict=True))
    points = _domain_set(names, intervals, constraints)
    return count_set(image(points, access(functions, names)), [expr_range(f, box) for f in functions])


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
    return Region.of_set(shape, image(points, access(index, kept)).intersect(box_set(tuple((0, e - 1) for e in shape))))


def _split_digits(
    index: tuple[Affine, ...], box: dict[str, Interval], constraints: tuple[Constraint, ...]
) -> tuple[tuple[Affine, ...], dict[str, Interval], tuple[Constraint, ...]]:
    """Replace dimensions that occur under `floordiv` and `mod` by independent digits, where their range is a full mixed radix."""
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
        if low != 0 or not steps or any(b % a for a, b in zip([*steps, extent], [*steps[1:], extent], strict=False)) or extent % steps[-1]:
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
            elif len(inner.terms) == 1 and inner.constant == 0 and isinstance(inner.terms[0][0], FloorDiv) and inner.terms[0][1] == 1:
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


@lru_cache(maxsize=256)
def along_axis(rank: int, axis: int, *, backwards: bool) -> isl.Map:
    """From each point to itself and every point after (`backwards`: before) it along an axis."""
    names = ", ".join(f"x{k}" for k in range(rank))
    targets = ", ".join(f"x{k}" if k != axis else "y" for k in range(rank))
    return isl.Map(f"{{ [{names}] -> [{targets}] : y {'<=' if backwards else '>='} x{axis} }}")
