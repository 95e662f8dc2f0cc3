"""Constant folding: what a scalar operation or a fold gives for numbers and for affine functions of the indices."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from math import prod
from typing import TypeAlias

import islpy as isl

from sollens.analysis.einsum.kernels import Kernel

Value: TypeAlias = "float | int | bool | isl.Aff"

# A constant whose number nobody needs: `erf` of one, the cosine of an index. Nothing is concluded from it but that it
# is a constant.
ANY = math.nan

# Adding a number below this to a score removes it: exp(x - max) is zero in every format we know.
MASKED = -9.0e3


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


def is_identity(op: str, position: int, value: object) -> bool:
    """Whether an argument of this value leaves the operation's other one as it is."""
    if isinstance(value, isl.Aff | complex):
        return False
    match op:
        case "add":
            return value == 0
        case "sub":
            return position == 1 and value == 0
        case "mul":
            return value == 1
        case "div":
            return position == 1 and value == 1
        case "maximum":
            return value == -math.inf
        case _:
            return False


def folded_constant(value: Value, kernel: Kernel) -> Value | None:
    """What a reduction gives over a fibre of one constant, where that does not depend on how much of it the guard
    leaves.
    """
    if isinstance(value, isl.Aff):
        return None
    match kernel.reduction:
        case "max" | "any" | "all":
            return value
        case "sum" if not kernel.guard:
            return value * prod(d.extent for d in kernel.reduced)
        case _:
            return None


def scanned_constant(value: Value, kind: str) -> bool:
    """Whether a scan over nothing but this value stays at it (a masked score stays masked)."""
    if isinstance(value, isl.Aff):
        return False
    match kind:
        case "sum":
            return value == 0 or value <= MASKED
        case "prod":
            return value in (0, 1)
        case _:
            return kind in ("max", "min", "any", "all")


def neutral_value(reduction: str) -> float | None:
    """What a reduction over nothing gives, where a known value is of use."""
    return {"sum": 0.0, "any": 0, "all": 1, "prod": 1.0, "max": -math.inf}.get(reduction)


UNARY: Mapping[str, Callable[[float], float]] = {
    "neg": operator.neg,
    "abs": abs,
    "not": lambda v: not v,
    "exp": math.exp,
    "sigmoid": lambda v: 0.0 if v < -700 else 1 / (1 + math.exp(-v)),
    "tanh": math.tanh,
    "sqrt": math.sqrt,
    "floor": math.floor,
    "ceil": math.ceil,
    "sign": lambda v: (v > 0) - (v < 0),
    "exp2": lambda v: 2.0**v,
    "reciprocal": lambda v: 1.0 / v,
    "isinf": math.isinf,
    "isnan": math.isnan,
    "isfinite": math.isfinite,
    "log": lambda v: -math.inf if v == 0 else math.log(v),
    "real": lambda v: v,
    "conj": lambda v: v,
}
_BINARY: Mapping[str, Callable[[float, float], float]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": lambda a, b: a / b,
    "maximum": max,
    "minimum": min,
    "pow": lambda a, b: float(a**b),
    "floordiv": lambda a, b: a // b,
    "mod": operator.mod,
    "fmod": math.fmod,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "and": lambda a, b: bool(a) and bool(b),
    "or": lambda a, b: bool(a) or bool(b),
    "xor": lambda a, b: bool(a) != bool(b),
    "bitand": lambda a, b: int(a) & int(b),
    "bitor": lambda a, b: int(a) | int(b),
    "bitxor": lambda a, b: int(a) ^ int(b),
}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def is_any(value: Value) -> bool:
    """Whether it is a constant of unknown number."""
    return isinstance(value, float) and math.isnan(value)


def unary(op: str, value: Value) -> Value:
    """An operation on a constant."""
    if isinstance(value, isl.Aff):
        return value.neg() if op == "neg" else ANY
    if is_any(value) or op not in UNARY:
        return ANY
    try:
        return UNARY[op](value)
    except (ValueError, OverflowError, ZeroDivisionError):
        return ANY


def cast(value: Value, dtype: str) -> Value:
    """A constant in another dtype."""
    if isinstance(value, isl.Aff) or is_any(value):
        return value
    if dtype == "bool":
        return bool(value)
    if dtype[0] in "iu" and math.isfinite(value):
        return int(value)
    return float(value) if dtype[0] in "fb" else value


def absorbs(op: str, value: Value, *, first: bool) -> float | int | None:
    """The result when one operand has this value, whatever the (finite) other one is."""
    if isinstance(value, isl.Aff) or is_any(value):
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


def combine(op: str, a: Value, b: Value, where: isl.Set) -> list[tuple[isl.Set, Value]]:
    """The values on `where` of a binary operation on two constants."""
    if not isinstance(a, isl.Aff) and not isinstance(b, isl.Aff):
        if op not in _BINARY or is_any(a) or is_any(b):
            return [(where, ANY)]
        try:
            return [(where, _BINARY[op](a, b))]
        except (ValueError, OverflowError, ZeroDivisionError, TypeError):
            return [(where, ANY)]
    if not _integral(a) or not _integral(b):
        return [(where, ANY)]
    if op in _COMPARISONS:
        left, right = _as_aff(a, where), _as_aff(b, where)
        difference = left.sub(right)
        zero, positive, negative = (
            isl.Set.from_basic_set(s)
            for s in (
                difference.zero_basic_set(),
                _nonneg(difference.add_constant_val(isl.Val(-1))),
                _nonneg(difference.neg().add_constant_val(isl.Val(-1))),
            )
        )
        true = {
            "eq": zero,
            "ne": positive.union(negative),
            "lt": negative,
            "le": negative.union(zero),
            "gt": positive,
            "ge": positive.union(zero),
        }[op]
        inside = where.intersect(true)
        return [(inside, True), (where.subtract(inside), False)]
    match op:
        case "add":
            return [(where, _as_aff(a, where).add(_as_aff(b, where)))]
        case "sub":
            return [(where, _as_aff(a, where).sub(_as_aff(b, where)))]
        case "mul":
            factor, aff = (a, b) if not isinstance(a, isl.Aff) else (b, a)
            if isinstance(factor, isl.Aff):
                return [(where, ANY)]
            return [(where, _as_aff(aff, where).scale_val(isl.Val(int(factor))))]
        case "floordiv" | "mod" if not isinstance(b, isl.Aff) and b > 0:
            aff = _as_aff(a, where)
            if op == "mod":
                return [(where, aff.mod_val(isl.Val(int(b))))]
            return [(where, aff.scale_down_val(isl.Val(int(b))).floor())]
        case _:
            return [(where, ANY)]


def _nonneg(aff: isl.Aff) -> isl.BasicSet:
    return isl.BasicSet.from_constraint(isl.Constraint.inequality_from_aff(aff))


def _integral(value: Value) -> bool:
    return isinstance(value, isl.Aff) or (math.isfinite(value) and float(value).is_integer())


def _as_aff(value: Value, where: isl.Set) -> isl.Aff:
    if isinstance(value, isl.Aff):
        return value
    return isl.Aff.zero_on_domain(isl.LocalSpace.from_space(where.get_space())).set_constant_val(isl.Val(int(value)))
