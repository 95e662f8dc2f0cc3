"""What is known of tensors' values without running anything: constants and affine functions of the indices, by region.

A causal mask is known wherever it was built from `tril`, `triu`, `arange` and comparisons, at any size; a padded
tensor is known to be
zero on its border. The demand pass uses this to find work that cannot matter: products with zero, scores of minus
infinity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import islpy as isl

from sollens.analysis.einsum.constants import (
    ANY,
    Value,
    absorbs,
    cast,
    combine,
    folded_constant,
    is_any,
    is_neutral,
    neutral_value,
    scanned_constant,
    unary,
)
from sollens.analysis.einsum.kernels import FlatProgram, Kernel
from sollens.analysis.einsum.points import Interval
from sollens.analysis.einsum.polyhedra import access, along_axis, box_set, constraint_set, domain_set, to_aff
from sollens.analysis.ir.affine import Constraint
from sollens.analysis.ir.nodes import Apply, Expr, IndexValue, Literal, Read, Select, reads

MAX_PIECES = 8
MAX_PARTS = 24


@dataclass(frozen=True, slots=True)
class Piece:
    """On `where`, the value is `value`. `static`: it follows from the program's text; else from the example inputs,
    which a kernel must read to know."""

    where: isl.Set
    value: Value
    static: bool = True


Pieces: TypeAlias = tuple[Piece, ...]


class Knowledge:
    """Known pieces of base tensors, and of expressions over them."""

    def __init__(self) -> None:
        self.tensors: dict[str, Pieces] = {}

    def learn(self, flat: FlatProgram) -> None:
        """Add what the kernels of a flat program make known, in order."""
        for item in flat.items:
            if isinstance(item, Kernel) and 0 not in (d.extent for d in (*item.dims, *item.reduced)):
                pieces = self._of_kernel(item)
                if pieces:
                    self.tensors[item.name] = pieces

    def knows(self, expr: Expr) -> bool:
        """Whether the value of any part of the expression could be known somewhere, other than what the text says is
        a number.
        """
        if isinstance(expr, Read):
            return expr.tensor in self.tensors
        if next(reads(expr), None) is None:
            return False
        if self._possible(expr):
            return True
        match expr:
            case Apply():
                return any(self.knows(a) for a in expr.args) or (expr.op == "where" and self._possible(expr.args[0]))
            case Select():
                return self.knows(expr.then) or self.knows(expr.otherwise)
            case Literal() | IndexValue():
                return False

    def _possible(self, expr: Expr) -> bool:
        """Cheap test before the exact one: could any part of the expression's domain be known?"""
        match expr:
            case Literal() | IndexValue():
                return True
            case Read():
                return expr.tensor in self.tensors
            case Select():
                return self._possible(expr.then) or self._possible(expr.otherwise)
            case Apply():
                if expr.op == "where":
                    return self._possible(expr.args[1]) or self._possible(expr.args[2])
                if expr.op in ("mul", "and", "or", "div", "add", "sub", "bitand", "bitor"):
                    reads_known = any(not isinstance(a, Literal) and self._possible(a) for a in expr.args)
                    return reads_known or all(self._possible(a) for a in expr.args)
                return all(self._possible(a) for a in expr.args)

    def _of_kernel(self, kernel: Kernel) -> Pieces:
        possible = self._possible(kernel.body)
        if not possible and not kernel.guard:
            return ()
        names = [d.name for d in (*kernel.dims, *kernel.reduced)]
        intervals = [(0, d.extent - 1) for d in (*kernel.dims, *kernel.reduced)]
        if kernel.scan is not None:
            return self._of_scan(kernel, names, intervals)
        if kernel.reduction is None:
            pieces = self.of_expr(kernel.body, names, intervals) if possible else ()
            if not kernel.guard:
                return pieces
            inside = domain_set(list(zip(names, intervals, strict=True)), kernel.guard)
            outside = box_set(tuple(intervals)).subtract(inside)
            return _tidy([*(Piece(p.where.intersect(inside), p.value, p.static) for p in pieces), Piece(outside, 0)])
        neutral = neutral_value(kernel.reduction)
        if neutral is None:
            return ()
        domain = domain_set(list(zip(names, intervals, strict=True)), kernel.guard)
        kept, count = len(kernel.dims), len(kernel.reduced)
        outputs = box_set(tuple(intervals[:kept]))
        touched = domain.project_out(isl.dim_type.set, kept, count)
        active = unknown = domain
        static = True
        result: list[Piece] = []
        for piece in self.of_expr(kernel.body, names, intervals) if possible else ():
            unknown = unknown.subtract(piece.where) if piece.static else unknown
            if is_neutral(piece.value, kernel.reduction):
                active = active.subtract(piece.where)
                static &= piece.static
                continue
            folded = folded_constant(piece.value, kernel)
            if folded is not None:
                mixed = domain.subtract(piece.where).project_out(isl.dim_type.set, kept, count)
                result.append(Piece(touched.subtract(mixed), folded, piece.static))
        result.append(Piece(outputs.subtract(active.project_out(isl.dim_type.set, kept, count)), neutral, static))
        if unknown is not domain:
            # What folds constants only is one, whichever.
            rest = touched.subtract(unknown.project_out(isl.dim_type.set, kept, count))
            for piece in result:
                rest = rest.subtract(piece.where)
            result.append(Piece(rest, ANY))
        return _tidy(result)

    def _of_scan(self, kernel: Kernel, names: Sequence[str], intervals: Sequence[Interval]) -> Pieces:
        """A scan is known before the first value that changes it, and some constant before the first unknown one."""
        assert kernel.scan is not None
        kind, along, reverse = kernel.scan
        neutral = neutral_value(kind)
        if neutral is None:
            return ()
        domain = active = unknown = domain_set(list(zip(names, intervals, strict=True)), kernel.guard)
        static = True
        pieces = self.of_expr(kernel.body, names, intervals)
        for piece in pieces:
            unknown = unknown.subtract(piece.where) if piece.static else unknown
            if is_neutral(piece.value, kind):
                active = active.subtract(piece.where)
                static &= piece.static
        whole = box_set(tuple(intervals))
        onwards = along_axis(len(names), names.index(along), backwards=reverse)
        changed, undecided = (s.apply(onwards).intersect(whole) for s in (active, unknown))
        known = [Piece(whole.subtract(changed), neutral, static)]
        rest = changed.subtract(undecided)
        for piece in pieces:
            if piece.static and scanned_constant(piece.value, kind):
                same = rest.subtract(domain.subtract(piece.where).apply(onwards))
                known.append(Piece(same, piece.value))
                rest = rest.subtract(same)
        return _tidy([*known, Piece(rest, ANY)])

    def of_expr(self, expr: Expr, names: Sequence[str], intervals: Sequence[Interval]) -> Pieces:
        """Known pieces of a body over a loop nest."""
        positions = {name: k for k, name in enumerate(names)}
        return _Evaluator(self.tensors, list(names), positions, box_set(tuple(intervals))).pieces(expr)


def _tidy(pieces: list[Piece]) -> Pieces:
    """Pieces of equal value joined, empty ones dropped; nothing when there are too many to be of use."""
    joined: dict[object, Piece] = {}
    for piece in pieces:
        if piece.where.is_empty():
            continue
        key: object = (str(piece.value) if isinstance(piece.value, isl.Aff) else repr(float(piece.value)), piece.static)
        if key in joined:
            joined[key] = Piece(joined[key].where.union(piece.where), piece.value, piece.static)
        else:
            joined[key] = piece
    result = [Piece(p.where.coalesce(), p.value, p.static) for p in joined.values()]
    result = [p for p in result if p.where.n_basic_set() <= MAX_PARTS]
    return tuple(result) if len(result) <= MAX_PIECES else ()


class _Evaluator:
    def __init__(
        self, tensors: Mapping[str, Pieces], names: list[str], positions: dict[str, int], domain: isl.Set
    ) -> None:
        self.tensors, self.names, self.positions, self.domain = tensors, names, positions, domain

    def pieces(self, expr: Expr) -> Pieces:
        match expr:
            case Literal():
                return () if isinstance(expr.value, complex) else (Piece(self.domain, expr.value),)
            case IndexValue():
                return (Piece(self.domain, to_aff(expr.expr, self.positions, len(self.names))),)
            case Read():
                known = self.tensors.get(expr.tensor)
                return self._pulled_back(known, expr) if known else ()
            case Select():
                inside = self.domain
                for constraint in expr.condition:
                    inside = inside.intersect(self._constraint(constraint))
                outside = self.domain.subtract(inside)
                return _tidy(
                    [Piece(p.where.intersect(inside), p.value, p.static) for p in self.pieces(expr.then)]
                    + [Piece(p.where.intersect(outside), p.value, p.static) for p in self.pieces(expr.otherwise)]
                )
            case Apply():
                return self._apply(expr)

    def _constraint(self, constraint: Constraint) -> isl.Set:
        return constraint_set(constraint, self.positions, len(self.names))

    def _pulled_back(self, known: Pieces, read: Read) -> Pieces:
        function = access(read.index, self.names)
        result: list[Piece] = []
        for piece in known:
            where = piece.where.preimage_multi_aff(function).intersect(self.domain)
            value = piece.value.pullback_multi_aff(function) if isinstance(piece.value, isl.Aff) else piece.value
            result.append(Piece(where, value, piece.static))
        return _tidy(result)

    def _apply(self, expr: Apply) -> Pieces:
        if expr.op == "where":
            return self._where(expr)
        args = [self.pieces(a) for a in expr.args]
        if expr.op == "cast":
            return _tidy([Piece(p.where, cast(p.value, expr.dtype), p.static) for p in args[0]])
        if len(args) == 1:
            return _tidy([Piece(p.where, unary(expr.op, p.value), p.static) for p in args[0]])
        if len(args) == 2:
            return _tidy(self._binary(expr.op, args[0], args[1]))
        return ()

    def _binary(self, op: str, left: Pieces, right: Pieces) -> list[Piece]:
        result: list[Piece] = []
        for a in left:
            for b in right:
                where = a.where.intersect(b.where)
                if not where.is_empty():
                    result += [Piece(w, v, a.static and b.static) for w, v in combine(op, a.value, b.value, where)]
        for own, other in ((left, right), (right, left)):
            rest = self.domain
            for piece in other:
                rest = rest.subtract(piece.where)
            for piece in own:
                absorbed = absorbs(op, piece.value, first=own is left)
                if absorbed is not None:
                    result.append(Piece(piece.where.intersect(rest), absorbed, piece.static))
        return result

    def _where(self, expr: Apply) -> Pieces:
        condition, then, otherwise = (self.pieces(a) for a in expr.args)
        result: list[Piece] = []
        for choice in condition:
            if isinstance(choice.value, isl.Aff) or is_any(choice.value):
                continue
            for piece in then if choice.value else otherwise:
                result.append(Piece(piece.where.intersect(choice.where), piece.value, piece.static and choice.static))
        return _tidy(result)
