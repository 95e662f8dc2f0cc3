"""Mistakes in where a tensor is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from mutations.places import Change, Scope, bodies, wrapped
from sollens.analysis.ir.affine import Affine, Atom, FloorDiv, Mod, dim
from sollens.analysis.ir.nodes import Expr, Read, Statement

# Other indices of an axis, from its index, its extent and the extents of what the index may use.
Indices = Callable[[Affine, int, Mapping[str, int]], Iterator[Affine]]


def axes(indices: Indices) -> Change:
    """A mutation of the index of one axis of one read; the axis has more than one element."""

    def variants(expr: Expr, node: Statement, scope: Scope) -> Iterator[Expr]:
        if not isinstance(expr, Read):
            return
        extents = scope.extents(node)
        for axis, extent in enumerate(scope.types[expr.tensor].shape):
            if extent < 2:
                continue
            for index in indices(expr.index[axis], extent, extents):
                new = wrapped(index, extent, extents)
                yield replace(expr, index=(*expr.index[:axis], new, *expr.index[axis + 1 :]))

    return bodies(variants)


def shifted(index: Affine, extent: int, extents: Mapping[str, int]) -> Iterator[Affine]:
    yield index + 1
    yield index - 1


def slice_shifted(index: Affine, extent: int, extents: Mapping[str, int]) -> Iterator[Affine]:
    if index.constant and index.terms:
        yield index + 1
        yield index - 1


def offset_dropped(index: Affine, extent: int, extents: Mapping[str, int]) -> Iterator[Affine]:
    if index.constant:
        yield Affine(0, index.terms)


def stride_changed(index: Affine, extent: int, extents: Mapping[str, int]) -> Iterator[Affine]:
    for atom, coefficient in index.terms:
        if _reach(atom, extents) > 1:
            yield _with(index, atom, coefficient + 1)
            if coefficient > 1:
                yield _with(index, atom, coefficient - 1)


def at_start(index: Affine, extent: int, extents: Mapping[str, int]) -> Iterator[Affine]:
    if _varies(index, extents):
        yield Affine()


def at_end(index: Affine, extent: int, extents: Mapping[str, int]) -> Iterator[Affine]:
    if _varies(index, extents):
        yield Affine(extent - 1)


def flipped(index: Affine, extent: int, extents: Mapping[str, int]) -> Iterator[Affine]:
    if _varies(index, extents):
        yield extent - 1 - index


def dimension_replaced(index: Affine, extent: int, extents: Mapping[str, int]) -> Iterator[Affine]:
    for name in sorted(index.names):
        for other, reach in extents.items():
            if other != name and (reach > 1 or extents.get(name, 0) > 1):
                yield index.substitute({name: dim(other)})


def term_dropped(index: Affine, extent: int, extents: Mapping[str, int]) -> Iterator[Affine]:
    if len(index.terms) > 1:
        for atom, _ in index.terms:
            if _reach(atom, extents) > 1:
                yield _with(index, atom, 0)


def divisor_changed(index: Affine, extent: int, extents: Mapping[str, int]) -> Iterator[Affine]:
    for atom, coefficient in index.terms:
        if isinstance(atom, str):
            continue
        for divisor in (atom.divisor + 1, atom.divisor - 1):
            if divisor > 0:
                new = atom.operand // divisor if isinstance(atom, FloorDiv) else atom.operand % divisor
                yield _with(index, atom, 0) + new * coefficient


def division_replaced(index: Affine, extent: int, extents: Mapping[str, int]) -> Iterator[Affine]:
    for atom, coefficient in index.terms:
        if not isinstance(atom, str):
            new = atom.operand % atom.divisor if isinstance(atom, FloorDiv) else atom.operand // atom.divisor
            yield _with(index, atom, 0) + new * coefficient


def _swapped(expr: Expr, node: Statement, scope: Scope) -> Iterator[Expr]:
    if not isinstance(expr, Read):
        return
    extents, shape = scope.extents(node), scope.types[expr.tensor].shape
    for a in range(len(shape)):
        for b in range(a):
            if max(shape[a], shape[b]) < 2 or not (_varies(expr.index[a], extents) or _varies(expr.index[b], extents)):
                continue
            index = list(expr.index)
            index[a] = wrapped(expr.index[b], shape[a], extents)
            index[b] = wrapped(expr.index[a], shape[b], extents)
            yield replace(expr, index=tuple(index))


def _with(index: Affine, atom: Atom, coefficient: int) -> Affine:
    return Affine.make(index.constant, {**dict(index.terms), atom: coefficient})


def _reach(atom: Atom, extents: Mapping[str, int]) -> int:
    """How many values an atom may take, at most."""
    if isinstance(atom, str):
        return extents.get(atom, 1)
    return atom.divisor if isinstance(atom, Mod) else 2


def _varies(index: Affine, extents: Mapping[str, int]) -> bool:
    return any(extents.get(name, 1) > 1 for name in index.names)


INDEX: Mapping[str, Change] = {
    "indices swapped": bodies(_swapped),
    "index shifted": axes(shifted),
    "slice shifted": axes(slice_shifted),
    "offset dropped": axes(offset_dropped),
    "stride changed": axes(stride_changed),
    "index fixed at the start": axes(at_start),
    "index fixed at the end": axes(at_end),
    "index flipped": axes(flipped),
    "index dimension replaced": axes(dimension_replaced),
    "index term dropped": axes(term_dropped),
    "divisor changed": axes(divisor_changed),
    "floordiv and mod exchanged": axes(division_replaced),
}
