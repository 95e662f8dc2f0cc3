"""Whether every read of a statement stays inside its tensor, decided before any memory is touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from sollens.analysis.ir.affine import Affine, Constraint
from sollens.analysis.ir.nodes import Apply, Expr, IndexValue, Literal, Read, Select, Statement

_MOST_POINTS = 1 << 21


def proves(node: Statement, shapes: Mapping[str, tuple[int, ...]], trips: Mapping[str, int]) -> bool:
    """True when no live point reads outside; False when one does, or when it is too costly to tell.

    By intervals, by the guard's own inequalities, or by evaluating an index over the dims it depends on.
    """
    extents = {**trips, **{d.name: d.extent for d in node.domain}}
    seen: set[tuple[Affine, int, tuple[Constraint, ...]]] = set()
    for read, live in _reads(node.body, node.guard):
        shape = shapes[read.tensor]
        if len(shape) != len(read.index):
            return False
        for index, extent in zip(read.index, shape, strict=True):
            claim = (index, extent, live)
            if claim not in seen and not _inside(index, extent, live, extents):
                return False
            seen.add(claim)
    return True


def _reads(body: Expr, live: tuple[Constraint, ...]) -> Iterator[tuple[Read, tuple[Constraint, ...]]]:
    match body:
        case Read():
            yield body, live
        case Apply():
            for arg in body.args:
                yield from _reads(arg, live)
        case Select():
            yield from _reads(body.then, (*live, *body.condition))
            yield from _reads(body.otherwise, (*live, *_negated(body.condition)))
        case Literal() | IndexValue():
            pass


def _negated(condition: tuple[Constraint, ...]) -> tuple[Constraint, ...]:
    if len(condition) == 1 and not condition[0].equal:
        return (Constraint(-condition[0].expr - 1),)
    return ()


def _inside(index: Affine, extent: int, live: tuple[Constraint, ...], extents: Mapping[str, int]) -> bool:
    low, high = index.bounds(extents)
    if low >= 0 and high < extent:
        return True
    needs = [need for need, fails in ((index, low < 0), (extent - 1 - index, high >= extent)) if fails]
    if all(_follows(need, live, extents) for need in needs):
        return True
    names = index.names
    touching = frozenset(n for c in live if not c.expr.names.isdisjoint(names) for n in c.expr.names)
    return any(_evaluated(index, extent, live, {n: extents[n] for n in among}) for among in (names, names | touching))


def _follows(need: Affine, live: tuple[Constraint, ...], extents: Mapping[str, int]) -> bool:
    """Whether `need >= 0` is one live inequality plus something that is never negative."""
    return any((need - c.expr).bounds(extents)[0] >= 0 for c in live)


def _evaluated(index: Affine, extent: int, live: tuple[Constraint, ...], box: Mapping[str, int]) -> bool:
    """Whether the index stays inside at every point of the box where the constraints over it hold."""
    if prod(box.values()) > _MOST_POINTS:
        return False
    grid = {
        name: np.arange(n).reshape((-1,) + (1,) * (len(box) - axis - 1)) for axis, (name, n) in enumerate(box.items())
    }
    at = np.asarray(index.evaluate(grid))
    outside = (at < 0) | (at >= extent)
    for c in live:
        if c.expr.names <= box.keys():
            value = np.asarray(c.expr.evaluate(grid))
            outside = outside & (value == 0 if c.equal else value >= 0)
    return not outside.any()
