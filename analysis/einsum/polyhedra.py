"""The bridge between our affine expressions and isl's sets and maps: integer sets with exact union, difference and
image.

Everything lives in unnamed set spaces; dimension k of a set is axis k of a tensor, or dimension k of a loop nest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import islpy as isl

from sollens.analysis.einsum.points import Interval, count_points
from sollens.analysis.ir.affine import Affine, Constraint, FloorDiv, dim

_SET, _DIV, _IN = isl.dim_type.set, isl.dim_type.div, isl.dim_type.in_
_CONTEXT = isl.DEFAULT_CONTEXT


@lru_cache(maxsize=64)
def space(rank: int) -> isl.Space:
    """The set space of `rank` dimensions."""
    return isl.Space.set_alloc(_CONTEXT, 0, rank)


@lru_cache(maxsize=64)
def _local_space(rank: int) -> isl.LocalSpace:
    return isl.LocalSpace.from_space(space(rank))


def to_aff(expr: Affine, positions: Mapping[str, int], rank: int) -> isl.Aff:
    """The expression as an isl function on the set space of `rank` dimensions."""
    result = isl.Aff.zero_on_domain(_local_space(rank)).set_constant_val(isl.Val(expr.constant))
    for atom, c in expr.terms:
        if isinstance(atom, str):
            result = result.add_coefficient_val(_IN, positions[atom], isl.Val(c))
            continue
        inner = to_aff(atom.operand, positions, rank)
        if isinstance(atom, FloorDiv):
            part = inner.scale_down_val(isl.Val(atom.divisor)).floor()
        else:
            part = inner.mod_val(isl.Val(atom.divisor))
        result = result.add(part.scale_val(isl.Val(c)))
    return result


def constraint_set(constraint: Constraint, positions: Mapping[str, int], rank: int) -> isl.Set:
    """Points where the constraint holds."""
    aff = to_aff(constraint.expr, positions, rank)
    return isl.Set.from_basic_set(aff.zero_basic_set() if constraint.equal else _nonneg(aff))


def _nonneg(aff: isl.Aff) -> isl.BasicSet:
    return isl.BasicSet.from_constraint(isl.Constraint.inequality_from_aff(aff))


@lru_cache(maxsize=4096)
def box_set(intervals: tuple[Interval, ...]) -> isl.Set:
    """The box of these intervals, one a dimension, ends included."""
    rank = len(intervals)
    local = _local_space(rank)
    result = isl.BasicSet.universe(space(rank))
    for k, (low, high) in enumerate(intervals):
        aff = isl.Aff.var_on_domain(local, _SET, k)
        result = result.intersect(_nonneg(aff.add_constant_val(isl.Val(-low))))
        result = result.intersect(_nonneg(aff.neg().add_constant_val(isl.Val(high))))
    return isl.Set.from_basic_set(result)


def domain_set(intervals: Sequence[tuple[str, Interval]], constraints: Sequence[Constraint]) -> isl.Set:
    """The named box cut by constraints; dimensions in the given order."""
    result = box_set(tuple(interval for _, interval in intervals))
    positions = {name: k for k, (name, _) in enumerate(intervals)}
    for constraint in constraints:
        result = result.intersect(constraint_set(constraint, positions, len(intervals)))
    return result


def access(index: Sequence[Affine], names: Sequence[str]) -> isl.MultiAff:
    """The function from a loop nest over `names` to a tensor's elements."""
    positions = {name: k for k, name in enumerate(names)}
    rank = len(names)
    pair = isl.Space.alloc(_CONTEXT, 0, rank, len(index))
    result = isl.MultiAff.zero(pair)
    for k, expr in enumerate(index):
        result = result.set_aff(k, to_aff(expr, positions, rank))
    return result


def image(domain: isl.Set, function: isl.MultiAff) -> isl.Set:
    """The values of `function` on `domain`."""
    return domain.apply(isl.Map.from_multi_aff(function))


def count_set(points: isl.Set, bounds: Sequence[Interval]) -> int:
    """Exact number of points; `bounds` is any box that holds the set."""
    return sum(_count_basic(part, bounds) for part in points.compute_divs().make_disjoint().get_basic_sets())


def _count_basic(part: isl.BasicSet, bounds: Sequence[Interval]) -> int:
    names = [f"x{k}" for k in range(len(bounds))]
    return count_points(dict(zip(names, bounds, strict=True)), basic_constraints(part, names))


def basic_constraints(part: isl.BasicSet, names: Sequence[str]) -> list[Constraint]:
    """The constraints of a basic set whose divs are known, over named dimensions; divs become floor divisions."""
    rank = len(names)
    divs: list[Affine] = []
    for k in range(part.dim(_DIV)):
        div = part.get_div(k)
        denominator = div.get_denominator_val().to_python()
        operand = Affine((div.get_constant_val().mul(isl.Val(denominator))).to_python())
        for j in range(rank):
            operand += dim(names[j]) * div.get_coefficient_val(_IN, j).mul(isl.Val(denominator)).to_python()
        for j in range(k):
            operand += divs[j] * div.get_coefficient_val(_DIV, j).mul(isl.Val(denominator)).to_python()
        divs.append(operand // denominator)
    constraints: list[Constraint] = []
    for constraint in part.get_constraints():
        expr = Affine(constraint.get_constant_val().to_python())
        for j in range(rank):
            expr += dim(names[j]) * constraint.get_coefficient_val(_SET, j).to_python()
        for j, div in enumerate(divs):
            expr += div * constraint.get_coefficient_val(_DIV, j).to_python()
        constraints.append(Constraint(expr, constraint.is_equality()))
    return constraints


@lru_cache(maxsize=256)
def along_axis(rank: int, axis: int, *, backwards: bool) -> isl.Map:
    """From each point to itself and every point after (`backwards`: before) it along an axis."""
    names = ", ".join(f"x{k}" for k in range(rank))
    targets = ", ".join(f"x{k}" if k != axis else "y" for k in range(rank))
    return isl.Map(f"{{ [{names}] -> [{targets}] : y {'<=' if backwards else '>='} x{axis} }}")
