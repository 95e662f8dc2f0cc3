"""The catalogue of scalar operations: arity and cost in vector operations (bounds.md section 1).

Costs are lower bounds: whatever a chip can do in one instruction counts one. Casts, selections, moves and sign flips
are free.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """A scalar operation: its number of arguments and its cost."""

    name: str
    arity: int
    cost: int = 1


_UNARY = tuple(
    """sign exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh
    tanh asinh acosh atanh erf erfc erfinv lgamma digamma sigmoid floor ceil round trunc isnan isinf isfinite not
    bitnot i0 i1 angle""".split()  # noqa: SIM905
)
_BINARY = tuple(
    """add sub mul div floordiv mod fmod pow atan2 maximum minimum eq ne lt le gt ge and or xor bitand bitor bitxor shl
    shr copysign hypot nextafter xlogy logaddexp""".split()  # noqa: SIM905
)
# Instructions take the sign or the magnitude of an operand on the way in: `-x` and `|x|` cost nothing of their own.
_FREE = {"neg": 1, "abs": 1, "cast": 1, "where": 3, "real": 1, "imag": 1, "conj": 1, "complex": 2}

SCALAR_OPS: dict[str, ScalarOp] = {
    **{name: ScalarOp(name, 1) for name in _UNARY},
    **{name: ScalarOp(name, 2) for name in _BINARY},
    **{name: ScalarOp(name, arity, 0) for name, arity in _FREE.items()},
}
