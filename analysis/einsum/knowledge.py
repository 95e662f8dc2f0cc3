"""What is known of tensors' values without running anything: constants and affine functions of the indices, by region.

A causal mask is known wherever it was built from `tril`, `triu`, `arange` and comparisons, at any size; a padded tensor is known to be
zero on its border. The demand pass uses this to find work that cannot matter: products with zero, scores of minus infinity.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import islpy as isl

from sollens.analysis.einsum.kernels import FlatProgram, Kernel
from sollens.analysis.einsum.points import Interval
from sollens.analysis.einsum.polyhedra import access, box_set, constraint_set, domain_set, to_aff
from sollens.analysis.ir.affine import Constraint
from sollens.analysis.ir.nodes import Apply, Expr, IndexValue, Literal, Read, Select

Value: TypeAlias = "float | int | bool | isl.Aff"

MAX_PIECES = 8
MAX_PARTS = 24
# Adding a number below this to a score removes it: exp(x - max) is zero in every format we know.
MASKED = -9.0e3


@dataclass(frozen=True, slots=True)
class Piece:
    """On `where`, the value is `value`. `static`: it follows from the program's text; else from the example inputs, which a kernel must read
    to know."""

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
            if isinstance(item, Kernel) and item.scan is None and 0 not in (d.extent for d in (*item.dims, *item.reduced)):
                pieces = self._of_kernel(item)
                if pieces:
                    self.tensors[item.name] = pieces

    def knows(self, expr: Expr) -> bool:
        """Whether any read of the expression is of a tensor with known pieces."""
        match expr:
            case Read():
                return expr.tensor in self.tensors
            case Apply():
                return any(self.knows(a) for a in expr.args)
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
        if not self._possible(kernel.body):
            return ()
        names = [d.name for d in (*kernel.dims, *kernel.reduced)]
        intervals = [(0, d.extent - 1) for d in (*kernel.dims, *kernel.reduced)]
        if kernel.reduction is None:
            pieces = self.of_expr(kernel.body, names, intervals)
            if not kernel.guard:
                return pieces
            inside = domain_set(list(zip(names, intervals, strict=True)), kernel.guard)
            outside = box_set(tuple(intervals)).subtract(inside)
            return _tidy([*(Piece(p.where.intersect(inside), p.value, p.static) for p in pieces), Piece(outside, 0)])
        neutral = neutral_value(kernel.reduction)
        if neutral is None:
            return ()
        domain = domain_set(list(zip(names, intervals, strict=True)), kernel.guard)
        active, static = domain, True
        for piece in self.of_expr(kernel.body, names, intervals):
            if is_neutral(piece.value, kernel.reduction):
                active = active.subtract(piece.where)
                static &= piece.static
        count = len(kernel.reduced)
        touched = active.project_out(isl.dim_type.set, len(kernel.dims), count)
        untouched = box_set(tuple(intervals[: len(kernel.dims)])).subtract(touched)
        return () if untouched.is_empty() else _tidy([Piece(untouched, neutral, static)])

    def of_expr(self, expr: Expr, names: Sequence[str], intervals: Sequence[Interval]) -> Pieces:
        """Known pieces of a body over a loop nest."""
        positions = {name: k for k, name in enumerate(names)}
        return _Evaluator(self.tensors, list(names), positions, box_set(tuple(intervals))).pieces(expr)


def is_neutral(value: Value, reduction: str) -> bool:
    """Whether a point of this value changes nothing in the reduction."""
    if isinstance(value, isl.Aff):
        return False
    match reduction:
        case "sum" | "any":
            return value == 0
        case "prod" | "all":
            return value == 1
        case "max":
            return value <= MASKED
        case "min":
            return value == math.inf
        case _:
            return False


def neutral_value(reduction: str) -> float | None:
    """What a reduction over nothing gives, where a known value is of use."""
    return {"sum": 0.0, "any": 0, "all": 1, "prod": 1.0, "max": -math.inf}.get(reduction)


def _tidy(pieces: list[Piece]) -> Pieces:
    """Pieces of equal value joined, empty ones dropped; nothing when there are too many to be of use."""
    joined: dict[object, Piece] = {}
    for piece in pieces:
        if piece.where.is_empty():
            continue
        key: object = (str(piece.value) if isinstance(piece.value, isl.Aff) else float(piece.value), piece.static)
        if key in joined:
            joined[key] = Piece(joined[key].where.union(piece.where), piece.value, piece.static)
        else:
            joined[key] = piece
    result = [Piece(p.where.coalesce(), p.value, p.static) for p in joined.values()]
    result = [p for p in result if p.where.n_basic_set() <= MAX_PARTS]
    return tuple(result) if len(result) <= MAX_PIECES else ()


_UNARY: Mapping[str, Callable[[float], float]] = {
    "neg": operator.neg, "abs": abs, "not": lambda v: not v, "exp": math.exp, "sigmoid": lambda v: 0.0 if v < -700 else 1 / (1 + math.exp(-v)),
    "tanh": math.tanh, "sqrt": math.sqrt, "floor": math.floor, "ceil": math.ceil, "sign": lambda v: (v > 0) - (v < 0),
    "exp2": lambda v: 2.0**v, "reciprocal": lambda v: 1.0 / v, "isinf": math.isinf, "isnan": math.isnan, "isfinite": math.isfinite,
    "log": lambda v: -math.inf if v == 0 else math.log(v), "real": lambda v: v, "conj": lambda v: v,
}  # fmt: skip
_BINARY: Mapping[str, Callable[[float, float], float]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "maximum": max, "minimum": min, "pow": operator.pow,
    "floordiv": operator.floordiv, "mod": operator.mod, "fmod": math.fmod,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "and": lambda a, b: bool(a) and bool(b), "or": lambda a, b: bool(a) or bool(b), "xor": lambda a, b: bool(a) != bool(b),
    "bitand": lambda a, b: int(a) & int(b), "bitor": lambda a, b: int(a) | int(b), "bitxor": lambda a, b: int(a) ^ int(b),
}  # fmt: skip
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


class _Evaluator:
    def __init__(self, tensors: Mapping[str, Pieces], names: list[str], positions: dict[str, int], domain: isl.Set) -> None:
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
            return _tidy([Piece(p.where, _cast(p.value, expr.dtype), p.static) for p in args[0]])
        if len(args) == 1:
            return _tidy(self._unary(expr.op, args[0]))
        if len(args) == 2:
            return _tidy(self._binary(expr.op, args[0], args[1]))
        return ()

    def _unary(self, op: str, arg: Pieces) -> list[Piece]:
        result: list[Piece] = []
        for piece in arg:
            if isinstance(piece.value, isl.Aff):
                if op == "neg":
                    result.append(Piece(piece.where, piece.value.neg(), piece.static))
            elif op in _UNARY:
                try:
                    result.append(Piece(piece.where, _UNARY[op](piece.value), piece.static))
                except (ValueError, OverflowError, ZeroDivisionError):
                    continue
        return result

    def _binary(self, op: str, left: Pieces, right: Pieces) -> list[Piece]:
        result: list[Piece] = []
        for a in left:
            for b in right:
                where = a.where.intersect(b.where)
                if not where.is_empty():
                    result += _combine(op, a.value, b.value, where, a.static and b.static)
        for own, other in ((left, right), (right, left)):
            rest = self.domain
            for piece in other:
                rest = rest.subtract(piece.where)
            for piece in own:
                absorbed = _absorbs(op, piece.value, first=own is left)
                if absorbed is not None:
                    result.append(Piece(piece.where.intersect(rest), absorbed, piece.static))
        return result

    def _where(self, expr: Apply) -> Pieces:
        condition, then, otherwise = (self.pieces(a) for a in expr.args)
        result: list[Piece] = []
        for choice in condition:
            if isinstance(choice.value, isl.Aff):
                continue
            for piece in then if choice.value else otherwise:
                result.append(Piece(piece.where.intersect(choice.where), piece.value, piece.static and choice.static))
        return _tidy(result)


def _cast(value: Value, dtype: str) -> Value:
    if isinstance(value, isl.Aff):
        return value
    if dtype == "bool":
        return bool(value)
    if dtype[0] in "iu" and math.isfinite(value):
        return int(value)
    return float(value) if dtype[0] in "fb" else value


def _absorbs(op: str, value: Value, *, first: bool) -> float | int | None:
    """The result when one operand has this value, whatever the (finite) other one is."""
    if isinstance(value, isl.Aff):
        return None
    match op:
        case "mul" | "and" | "bitand" if value == 0:
            return value
        case "or" if value:
            return True
        case "div" if first and value == 0:
            return value
        case "add" if value <= MASKED:
            return -math.inf
        case "sub" if first and value <= MASKED:
            return -math.inf
        case "minimum" if value == -math.inf:
            return value
        case _:
            return None


def _combine(op: str, a: Value, b: Value, where: isl.Set, static: bool) -> list[Piece]:
    if not isinstance(a, isl.Aff) and not isinstance(b, isl.Aff):
        if op not in _BINARY:
            return []
        try:
            return [Piece(where, _BINARY[op](a, b), static)]
        except (ValueError, OverflowError, ZeroDivisionError, TypeError):
            return []
    if not _integral(a) or not _integral(b):
        return []
    if op in _COMPARISONS:
        left, right = _as_aff(a, where), _as_aff(b, where)
        difference = left.sub(right)
        zero, positive, negative = (isl.Set.from_basic_set(s) for s in (difference.zero_basic_set(), _nonneg(difference.add_constant_val(isl.Val(-1))), _nonneg(difference.neg().add_constant_val(isl.Val(-1)))))
        true = {
            "eq": zero, "ne": positive.union(negative), "lt": negative, "le": negative.union(zero), "gt": positive, "ge": positive.union(zero),
        }[op]  # fmt: skip
        inside = where.intersect(true)
        return [Piece(inside, True, static), Piece(where.subtract(inside), False, static)]
    match op:
        case "add":
            return [Piece(where, _as_aff(a, where).add(_as_aff(b, where)), static)]
        case "sub":
            return [Piece(where, _as_aff(a, where).sub(_as_aff(b, where)), static)]
        case "mul":
            factor, aff = (a, b) if not isinstance(a, isl.Aff) else (b, a)
            if isinstance(factor, isl.Aff):
                return []
            return [Piece(where, _as_aff(aff, where).scale_val(isl.Val(int(factor))), static)]
        case "floordiv" | "mod" if not isinstance(b, isl.Aff) and b > 0:
            aff = _as_aff(a, where)
            if op == "mod":
                return [Piece(where, aff.mod_val(isl.Val(int(b))), static)]
            return [Piece(where, aff.scale_down_val(isl.Val(int(b))).floor(), static)]
        case _:
            return []


def _nonneg(aff: isl.Aff) -> isl.BasicSet:
    return isl.BasicSet.from_constraint(isl.Constraint.inequality_from_aff(aff))


def _integral(value: Value) -> bool:
    return isinstance(value, isl.Aff) or (math.isfinite(value) and float(value).is_integer())


def _as_aff(value: Value, where: isl.Set) -> isl.Aff:
    if isinstance(value, isl.Aff):
        return value
    return isl.Aff.zero_on_domain(isl.LocalSpace.from_space(where.get_space())).set_constant_val(isl.Val(int(value)))
