"""Operations that several places of a program apply to the same values: a clever kernel computes their union once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sollens.analysis.einsum.domain import Domain
from sollens.analysis.einsum.masks import TooComplex
from sollens.analysis.einsum.points import Interval, TooManyPoints
from sollens.analysis.einsum.pointset import PointSet
from sollens.analysis.ir.affine import Affine

# A domain, and functions of it whose values tell its operations apart.
Part: TypeAlias = tuple[Domain, tuple[Affine, ...]]


@dataclass(frozen=True, slots=True)
class Computed:
    """`count` distinct operations at `parts`; operations of one `key` with equal function values are the same one."""

    key: Hashable
    parts: tuple[Part, ...]
    count: int
    cost: int = 1
    is_mac: bool = False


def union_count(parts: Sequence[Part]) -> int:
    """Distinct values of corresponding functions over several domains."""
    kept = _columns(parts)
    chosen = [(domain, [functions[k] for k in kept]) for domain, functions in parts]
    bounds: list[Interval] = []
    for domain, functions in chosen:
        box = domain.ranges(functions)
        bounds = box if not bounds else [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(bounds, box, strict=True)]
    found = PointSet.nothing(tuple(bounds))
    for domain, functions in chosen:
        found = found.union(domain.values(functions, bounds))
    return found.count()


def _columns(parts: Sequence[Part]) -> list[int]:
    """Positions of the functions that tell more than those before them."""
    first: dict[tuple[Affine, ...], int] = {}
    for k, column in enumerate(zip(*(functions for _, functions in parts), strict=True)):
        first.setdefault(column, k)
    return list(first.values())


def that_may_meet(places: Sequence[tuple[int, Computed]]) -> Iterable[list[tuple[int, Computed]]]:
    """Places of one key in groups that could hold equal operations: time steps and gates that read elsewhere are apart
    at once.
    """
    groups: list[tuple[list[Interval], list[tuple[int, Computed]]]] = []
    for place in places:
        hull = _hull(place[1])
        members = [place]
        apart: list[tuple[list[Interval], list[tuple[int, Computed]]]] = []
        for other, found in groups:
            if all(a <= d and c <= b for (a, b), (c, d) in zip(hull, other, strict=True)):
                hull = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(hull, other, strict=True)]
                members = found + members
            else:
                apart.append((other, found))
        groups = [*apart, (hull, members)]
    return [members for _, members in groups if len(members) > 1]


def _hull(computed: Computed) -> list[Interval]:
    boxes = [domain.ranges(functions) for domain, functions in computed.parts]
    return [(min(low for low, _ in column), max(high for _, high in column)) for column in zip(*boxes, strict=True)]


def repeated(places: Sequence[Computed]) -> Iterable[tuple[int, int]]:
    """For places of one key: position and number of the operations there that another place has counted already.

    What is too complex to compare counts as contained in the largest.
    """
    order = sorted(range(len(places)), key=lambda k: -places[k].count)
    parts: list[Part] = []
    before = 0
    for k in order:
        parts += places[k].parts
        if not before:
            before = places[k].count
            continue
        try:
            after = max(before, union_count(parts))
        except (TooComplex, TooManyPoints):
            after = before
        if after - before < places[k].count:
            yield k, places[k].count - (after - before)
        before = after
