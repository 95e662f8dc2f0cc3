"""Exact numbers of integer points: boxes cut by affine constraints, counted by component, without approximation.

Dimensions that no constraint couples multiply. Within a coupled component all dimensions but one are enumerated
(NumPy) and the last is
solved, so a triangle of 4096 x 4096 costs 4096 steps and a convolution's border (rows x taps) a few hundred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sollens.analysis.ir.affine import Affine, Atom, Constraint

# lower and upper bound of a dimension, both included
Interval: TypeAlias = tuple[int, int]
Ints: TypeAlias = NDArray[np.int64]

MAX_ENUMERATED = 200_000_000
_CHUNK = 4_000_000


class TooManyPoints(ValueError):
    """A coupled component is too large to enumerate."""


def count_points(box: Mapping[str, Interval], constraints: Sequence[Constraint]) -> int:
    """Number of integer points of the box that meet every constraint.

    Raises TooManyPoints when the product of a component's extents, less its largest, exceeds MAX_ENUMERATED.
    """
    if any(high < low for low, high in box.values()):
        return 0
    return _count(tuple(sorted(box.items())), tuple(constraints))


@lru_cache(maxsize=4096)
def _count(box_items: tuple[tuple[str, Interval], ...], constraints: tuple[Constraint, ...]) -> int:
    box = dict(box_items)
    tightened = _tighten(box, constraints)
    if tightened is None:
        return 0
    box, coupled = tightened
    total = 1
    for names, inside in _components(coupled):
        total *= _count_component({n: box.pop(n) for n in names}, inside)
        if total == 0:
            return 0
    return total * prod(high - low + 1 for low, high in box.values())


def _tighten(
    box: dict[str, Interval], constraints: Sequence[Constraint]
) -> tuple[dict[str, Interval], list[Constraint]] | None:
    """Fold constraints on a single dimension into the box, drop those that always hold; None when nothing is left."""
    coupled: list[Constraint] = []
    for constraint in constraints:
        expr = constraint.expr
        if expr.is_constant:
            if (expr.constant != 0) if constraint.equal else (expr.constant < 0):
                return None
            continue
        if len(expr.terms) == 1 and isinstance(expr.terms[0][0], str):
            name, c = expr.terms[0]
            assert isinstance(name, str)
            low, high = box[name]
            if constraint.equal:
                if expr.constant % c:
                    return None
                low, high = max(low, -expr.constant // c), min(high, -expr.constant // c)
            elif c > 0:
                low = max(low, -(expr.constant // c))
            else:
                high = min(high, expr.constant // -c)
            if high < low:
                return None
            box[name] = (low, high)
        else:
            coupled.append(constraint)
    kept: list[Constraint] = []
    for constraint in coupled:
        low, high = expr_range(constraint.expr, box)
        if constraint.equal:
            if low > 0 or high < 0:
                return None
            if low == high == 0:
                continue
        else:
            if high < 0:
                return None
            if low >= 0:
                continue
        kept.append(constraint)
    return box, kept


def expr_range(expr: Affine, box: Mapping[str, Interval]) -> Interval:
    """Smallest and largest value over the box (exact for linear expressions, else a superset)."""
    low = high = expr.constant
    for atom, c in expr.terms:
        a, b = _atom_range(atom, box)
        low += c * (a if c > 0 else b)
        high += c * (b if c > 0 else a)
    return low, high


def _atom_range(atom: Atom, box: Mapping[str, Interval]) -> Interval:
    if isinstance(atom, str):
        return box[atom]
    a, b = expr_range(atom.operand, box)
    if type(atom).__name__ == "FloorDiv":
        return a // atom.divisor, b // atom.divisor
    if a // atom.divisor == b // atom.divisor:
        return a % atom.divisor, b % atom.divisor
    return 0, atom.divisor - 1


def _components(constraints: Sequence[Constraint]) -> list[tuple[set[str], list[Constraint]]]:
    groups: list[tuple[set[str], list[Constraint]]] = []
    for constraint in constraints:
        names, members = set(constraint.expr.names), [constraint]
        apart: list[tuple[set[str], list[Constraint]]] = []
        for group in groups:
            if group[0] & names:
                names |= group[0]
                members = group[1] + members
            else:
                apart.append(group)
        groups = [*apart, (names, members)]
    return groups


def _count_component(box: dict[str, Interval], constraints: list[Constraint]) -> int:
    extents = {n: high - low + 1 for n, (low, high) in box.items()}
    # The dimension that is solved must occur linearly everywhere.
    solvable = [n for n in box if all(_linear_in(c.expr, n) for c in constraints)]
    solved = max(solvable, key=lambda n: extents[n]) if solvable else None
    others = sorted((n for n in box if n != solved), key=lambda n: extents[n])
    size = prod(extents[n] for n in others)
    if size > MAX_ENUMERATED:
        raise TooManyPoints(f"expected at most {MAX_ENUMERATED} points to enumerate, found {size} over {others}")
    total = 0
    for grid in _grids(others, box, size):
        total += _count_grid(grid, solved, box, constraints)
    return total


def _linear_in(expr: Affine, name: str) -> bool:
    return all(isinstance(a, str) or name not in a.operand.names for a, _ in expr.terms)


def _grids(names: list[str], box: Mapping[str, Interval], size: int) -> list[dict[str, Ints]] | _Chunks:
    if size <= _CHUNK:
        return [_grid(names, box)]
    return _Chunks(names, box, max(1, _CHUNK * (box[names[-1]][1] - box[names[-1]][0] + 1) // size))


class _Chunks:
    """The grid in slices along its longest dimension, so that memory stays bounded."""

    def __init__(self, names: list[str], box: Mapping[str, Interval], step: int) -> None:
        self.names, self.box, self.step = names, dict(box), step

    def __iter__(self):
        name = self.names[-1]
        low, high = self.box[name]
        for start in range(low, high + 1, self.step):
            yield _grid(self.names, {**self.box, name: (start, min(high, start + self.step - 1))})


def _grid(names: list[str], box: Mapping[str, Interval]) -> dict[str, Ints]:
    axes = [np.arange(box[n][0], box[n][1] + 1, dtype=np.int64) for n in names]
    return dict(zip(names, np.meshgrid(*axes, indexing="ij", sparse=True), strict=True)) if axes else {}


def _count_grid(
    grid: dict[str, Ints], solved: str | None, box: Mapping[str, Interval], constraints: list[Constraint]
) -> int:
    shape = np.broadcast_shapes(*(a.shape for a in grid.values())) if grid else ()
    if solved is None:
        holds = np.ones(shape, dtype=bool)
        for constraint in constraints:
            value = constraint.expr.evaluate(grid)
            holds &= np.asarray(value == 0 if constraint.equal else value >= 0)
        return int(holds.sum())
    low = np.full(shape, box[solved][0], dtype=np.int64)
    high = np.full(shape, box[solved][1], dtype=np.int64)
    valid = np.ones(shape, dtype=bool)
    for constraint in constraints:
        c = dict(constraint.expr.terms).get(solved, 0)
        rest = np.asarray((constraint.expr - Affine(0, ((solved, c),)) if c else constraint.expr).evaluate(grid))
        if c == 0:
            valid &= (rest == 0) if constraint.equal else (rest >= 0)
        elif constraint.equal:
            valid &= rest % c == 0
            at = -rest // c
            low, high = np.maximum(low, at), np.minimum(high, at)
        elif c > 0:
            low = np.maximum(low, -(rest // c))
        else:
            high = np.minimum(high, rest // -c)
    return int(np.where(valid, np.maximum(high - low + 1, 0), 0).sum())
