"""Elementwise primitives of JAX: operands have the result's shape, or are numbers.

Integers that are affine in the indices of enclosing loops are followed (`Builder.positions`), so that a slice at a
loop's counter is an affine read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from sollens.analysis.ir.nodes import Expr
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.elementwise import pointwise
from sollens.analysis.lower.expressions import apply, cast
from sollens.analysis.lower.jax_positions import follow
from sollens.analysis.lower.registry import rule

Formula: TypeAlias = "Callable[..., Expr]"


def _op(name: str) -> Formula:
    return lambda *args: apply(name, *args)


def _truncated_division(x: Expr, y: Expr) -> Expr:
    return apply("floordiv", apply("sub", x, apply("fmod", x, y)), y)


def _cube_root(x: Expr) -> Expr:
    return apply("mul", apply("sign", x), apply("pow", apply("abs", x), 1 / 3))


def _square(x: Expr) -> Expr:
    return apply("mul", x, x)


def _scaled_bessel(name: str) -> Formula:
    def formula(x: Expr) -> Expr:
        return apply("mul", apply(name, x), apply("exp", apply("neg", apply("abs", x))))

    return formula


def _half_away_from_zero(x: Expr) -> Expr:
    return apply("mul", apply("sign", x), apply("floor", apply("add", apply("abs", x), 0.5)))


def _clamped(low: Expr, x: Expr, high: Expr) -> Expr:
    return apply("minimum", apply("maximum", x, low), high)


def _either(c: Expr, no: Expr, yes: Expr) -> Expr:
    return apply("where", c, yes, no)


def _same(x: Expr) -> Expr:
    return x


FORMULAS: dict[str, Formula] = {
    **{name: _op(name) for name in (
        "neg", "sign", "floor", "ceil", "exp", "exp2", "log", "expm1", "log1p", "tanh", "sin", "cos", "tan", "asin",
        "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "lgamma", "digamma", "erf", "erfc", "sqrt", "rsqrt",
        "abs", "real", "imag", "conj", "reciprocal", "atan2", "nextafter", "pow", "add", "sub",
        "mul", "eq", "ne", "lt", "le", "gt",
        "ge", "complex",
    )},
    "erf_inv": _op("erfinv"), "logistic": _op("sigmoid"), "is_finite": _op("isfinite"), "add_any": _op("add"),
    "eq_to": _op("eq"), "lt_to": _op("lt"), "le_to": _op("le"),
    "square": _square, "cbrt": _cube_root, "bessel_i0e": _scaled_bessel("i0"), "bessel_i1e": _scaled_bessel("i1"),
}  # fmt: skip


@rule(*(f"jax.{name}" for name in FORMULAS))
def elementwise(b: Builder, call: OpCall) -> Value:
    """One scalar formula at every point."""
    name = call.target.split(".")[1]
    return followed(b, call, name, pointwise_of(b, call, FORMULAS[name], *call.args))


def pointwise_of(b: Builder, call: OpCall, formula: Formula, *operands: Any) -> Value:
    """`formula(*operands)` at every point of the result, whatever their number."""
    return pointwise(b, call, formula, *operands)  # pyright: ignore[reportCallIssue]


def followed(b: Builder, call: OpCall, name: str, result: Value) -> Value:
    """The result, its positions known where its operands' are."""
    follow(b, name, call.args, result)
    return result


@rule("jax.literal")
def literal(b: Builder, call: OpCall) -> Value:
    """A number as a tensor."""
    return pointwise(b, call, _same, call.args[0])


@rule("jax.div")
def div(b: Builder, call: OpCall) -> Value:
    """Integers divide toward zero."""
    if call.out_dtype[0] == "u":
        formula: Formula = _op("floordiv")
    else:
        formula = _truncated_division if call.out_dtype[0] == "i" else _op("div")
    return followed(b, call, "div", pointwise_of(b, call, formula, *call.args))


@rule("jax.rem")
def rem(b: Builder, call: OpCall) -> Value:
    """The remainder has the dividend's sign."""
    return followed(b, call, "rem", pointwise_of(b, call, _op("fmod"), *call.args))


@rule("jax.max", "jax.min")
def extreme(b: Builder, call: OpCall) -> Value:
    """The larger or smaller; with an infinity that never wins it is the other operand."""
    name = call.target.split(".")[1]
    never = -math.inf if name == "max" else math.inf
    for own, other in (call.args, call.args[::-1]):
        if isinstance(own, Value) and isinstance(other, float) and other == never:
            return pointwise(b, call, _same, own)
    formula = _op("maximum" if name == "max" else "minimum")
    return followed(b, call, name, pointwise_of(b, call, formula, *call.args))


@rule("jax.integer_pow")
def integer_pow(b: Builder, call: OpCall) -> Value:
    """x to a fixed integer power."""
    y = call.kwargs["y"]
    if y == 2:
        return pointwise(b, call, lambda x: apply("mul", x, x), call.args[0])
    if y == -1:
        return pointwise(b, call, lambda x: apply("reciprocal", x), call.args[0])
    return pointwise(b, call, lambda x: apply("pow", x, y), call.args[0])


_LOGICAL = {"and": "bitand", "or": "bitor", "xor": "bitxor", "not": "bitnot"}


@rule("jax.and", "jax.or", "jax.xor", "jax.not")
def logical(b: Builder, call: OpCall) -> Value:
    """Of bools, or bit by bit of integers."""
    name = call.target.split(".")[1]
    formula = _op(name if call.out_dtype == "bool" else _LOGICAL[name])
    return followed(b, call, name, pointwise_of(b, call, formula, *call.args))


@rule("jax.shift_left", "jax.shift_right_arithmetic", "jax.shift_right_logical")
def shift(b: Builder, call: OpCall) -> Value:
    """By fewer bits than the dtype has; a logical shift sees the bits as an unsigned number."""
    dtype = call.out_dtype
    if "left" in call.target:
        return pointwise_of(b, call, _op("shl"), *call.args)
    if "logical" not in call.target or dtype[0] == "u":
        if dtype == "u64":
            raise NotImplementedError("a logical shift of 64 bits")
        return pointwise_of(b, call, _op("shr"), *call.args)
    if dtype == "i64":
        raise NotImplementedError("a logical shift of 64 bits")
    x, y = call.args
    return pointwise(b, call, lambda x, y: apply("shr", cast(x, f"u{dtype[1:]}"), y), x, y)


@rule("jax.round")
def rounded(b: Builder, call: OpCall) -> Value:
    """To the nearest integer; halves to even, or away from zero."""
    if call.kwargs.get("rounding_method") == "TO_NEAREST_EVEN":
        return pointwise(b, call, lambda x: apply("round", x), call.args[0])
    return pointwise_of(b, call, _half_away_from_zero, call.args[0])


@rule("jax.convert_element_type")
def convert_element_type(b: Builder, call: OpCall) -> Value:
    """The same numbers in another dtype."""
    return followed(b, call, "convert", pointwise(b, call, lambda x: cast(x, call.out_dtype), call.args[0]))


_REDUCED = {(8, 7): "bf16", (5, 10): "f16"}


@rule("jax.reduce_precision")
def reduce_precision(b: Builder, call: OpCall) -> Value:
    """Rounded to a float of fewer bits."""
    bits = call.kwargs["exponent_bits"], call.kwargs["mantissa_bits"]
    if call.out_dtype == "f32" and bits[0] >= 8 and bits[1] >= 23:
        return pointwise(b, call, _same, call.args[0])
    if bits not in _REDUCED:
        raise NotImplementedError(f"rounding to {bits[0]} exponent and {bits[1]} mantissa bits")
    return pointwise(b, call, lambda x: cast(x, _REDUCED[bits]), call.args[0])


@rule("jax.select_n")
def select_n(b: Builder, call: OpCall) -> Value:
    """The case that `which` names."""
    which, *cases = call.args
    known = follow(b, "select", call.args, None)
    if known is not None:
        result = pointwise_of(b, call, _same, cases[known])
        follow(b, "same", [cases[known]], result)
        return result
    if len(cases) == 2:
        return pointwise_of(b, call, _either, which, *cases)

    def formula(c: Expr, *options: Expr) -> Expr:
        chosen = options[-1]
        for position in range(len(options) - 2, -1, -1):
            chosen = apply("where", apply("eq", c, position), options[position], chosen)
        return chosen

    return pointwise_of(b, call, formula, which, *cases)


@rule("jax.clamp")
def clamp(b: Builder, call: OpCall) -> Value:
    """(low, x, high): x within the limits."""
    return followed(b, call, "clamp", pointwise_of(b, call, _clamped, *call.args))
