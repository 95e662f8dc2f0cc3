"""What every scalar operation computes, in NumPy, and how its arguments are promoted (docs/ir.md, "Scalar types")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sollens.analysis.execute import special
from sollens.analysis.execute.storage import Array, compute_type_of, store, stored_dtype


@dataclass(frozen=True, slots=True)
class Scalar:
    """An evaluated body. `weak`: it came from literals only, so it takes the width of what it meets."""

    array: Array
    weak: bool = False


_RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


def promote(values: Sequence[Scalar], at_least: int = 0) -> list[Array]:
    """The arrays converted to one compute type: the highest of bool, int, float, complex (and rank `at_least`).

    Its parts are 64-bit when a floating argument that is no literal has them, or when all are literals.
    """
    rank = max(at_least, *(_RANK[v.array.dtype.kind] for v in values))
    if rank == 0:
        return [v.array for v in values]
    if rank == 1:
        return [v.array.astype(np.int64) for v in values]
    floating = [v for v in values if not v.weak and _RANK[v.array.dtype.kind] >= 2]
    wide = all(v.weak for v in values) or any(
        v.array.dtype.itemsize > (4 if v.array.dtype.kind == "f" else 8) for v in floating
    )
    target = (np.float64 if wide else np.float32) if rank == 2 else (np.complex128 if wide else np.complex64)
    return [v.array.astype(target, copy=False) for v in values]


def _double(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def widened(x: Array) -> Array:
        return np.asarray(function(x.astype(np.float64))).astype(x.dtype)

    return widened


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _power(x: Array, y: Array) -> Array:
    if x.dtype.kind != "i":
        return np.power(x, y)
    whole = np.power(x, np.maximum(y, 0))
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(y % 2 == 0, 1, -1), 0))
    return np.where(y >= 0, whole, inverse)


def _xlogy(x: Array, y: Array) -> Array:
    return np.where((x == 0) & ~np.isnan(y), 0, x * np.log(y)).astype(x.dtype)


def _logaddexp(x: Array, y: Array) -> Array:
    return np.logaddexp(x, y)


def _keep(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A rounding function leaves integers as they are."""

    def rounded(x: Array) -> Array:
        return x if x.dtype.kind in "bi" else function(x)

    return rounded


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _reciprocal(x: Array) -> Array:
    return 1 / x


def _angle(x: Array) -> Array:
    return np.asarray(np.angle(x))


def _and(x: Array, y: Array) -> Array:
    return (x != 0) & (y != 0)


def _or(x: Array, y: Array) -> Array:
    return (x != 0) | (y != 0)


def _xor(x: Array, y: Array) -> Array:
    return (x != 0) ^ (y != 0)


def _not(x: Array) -> Array:
    return x == 0


# Each group promotes its arguments to at least this rank: 0 as they are, 1 integers, 2 floating point.
_ARITHMETIC: dict[str, Callable[..., Array]] = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "floor": _keep(np.floor), "ceil": _keep(np.ceil),
    "round": _keep(np.rint), "trunc": _keep(np.trunc), "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "floordiv": np.floor_divide, "mod": np.mod, "fmod": np.fmod, "pow": _power, "maximum": np.maximum,
    "minimum": np.minimum, "shl": np.left_shift, "shr": np.right_shift, "conj": np.conj,
}  # fmt: skip
_FLOATING: dict[str, Callable[..., Array]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": _rsqrt, "reciprocal": _reciprocal, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "erf": _double(special.erf),
    "erfc": _double(special.erfc), "erfinv": _double(special.erfinv), "lgamma": _double(special.lgamma),
    "digamma": _double(special.digamma), "i0": _double(special.i0), "i1": _double(special.i1), "sigmoid": _sigmoid,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "angle": _angle, "div": np.divide,
    "atan2": np.arctan2, "copysign": np.copysign, "hypot": np.hypot, "nextafter": np.nextafter, "xlogy": _xlogy,
    "logaddexp": _logaddexp, "real": np.real, "imag": np.imag,
}  # fmt: skip
_AS_THEY_ARE: dict[str, Callable[..., Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": _and, "or": _or, "xor": _xor, "not": _not, "bitnot": np.invert, "bitand": np.bitwise_and,
    "bitor": np.bitwise_or, "bitxor": np.bitwise_xor,
}  # fmt: skip
_GROUPS = ((_ARITHMETIC, 1), (_FLOATING, 2), (_AS_THEY_ARE, 0))
_TABLE = {op: (function, rank) for group, rank in _GROUPS for op, function in group.items()}


def apply(op: str, args: Sequence[Scalar], dtype: str = "") -> Scalar:
    """The operation on evaluated arguments; `dtype` is the target of `cast`."""
    weak = all(a.weak for a in args)
    if op == "cast":
        stored = store(args[0].array, dtype)
        return Scalar(stored.astype(compute_type_of(stored_dtype(dtype)), copy=False))
    if op == "where":
        then, otherwise = promote(args[1:])
        return Scalar(np.where(args[0].array != 0, then, otherwise), args[1].weak and args[2].weak)
    if op == "complex":
        real, imaginary = promote(args, 2)
        target = np.complex128 if real.dtype.itemsize > 4 else np.complex64
        return Scalar((real + 1j * imaginary).astype(target), weak)
    function, rank = _TABLE[op]
    return Scalar(np.asarray(function(*promote(args, rank))), weak)
