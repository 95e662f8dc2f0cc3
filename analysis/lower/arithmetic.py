"""Elementwise operators of two and more operands: arithmetic, comparison, logic, selection, dropout."""

from __future__ import annotations

import math

from sollens.analysis.ir.nodes import Expr, Literal
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.elementwise import Binary, Unary, binary_op, pointwise, same
from sollens.analysis.lower.expressions import apply, cast, scaled
from sollens.analysis.lower.pointwise import broadcast_read, dims_of, filled
from sollens.analysis.lower.registry import rule

_COMPARISONS = {
    "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "not_equal": "ne", "less": "lt",
    "less_equal": "le",
    "greater": "gt", "greater_equal": "ge",
}  # fmt: skip

_BINARY: dict[str, Binary] = {
    **{name: binary_op(op) for name, op in _COMPARISONS.items()},
    **{name: binary_op(name) for name in ("mul", "atan2", "maximum", "minimum", "fmod", "copysign", "hypot",
    "nextafter", "xlogy", "logaddexp")},
    "multiply": binary_op("mul"), "arctan2": binary_op("atan2"), "true_divide": binary_op("div"),
    "special_xlogy": binary_op("xlogy"),
    "floor_divide": binary_op("floordiv"), "remainder": binary_op("mod"), "logical_and": binary_op("and"),
    "logical_or": binary_op("or"),
    "logical_xor": binary_op("xor"), "bitwise_and": binary_op("bitand"), "bitwise_or": binary_op("bitor"),
    "bitwise_xor": binary_op("bitxor"),
    "bitwise_left_shift": binary_op("shl"), "bitwise_right_shift": binary_op("shr"), "__lshift__": binary_op("shl"),
    "__rshift__": binary_op("shr"),
    "__and__": binary_op("bitand"), "__or__": binary_op("bitor"), "__xor__": binary_op("bitxor"),
    "fmax": lambda x, y: apply("where", apply("isnan", x), y, apply("where", apply("isnan", y), x, apply("maximum", x,
    y))),
    "fmin": lambda x, y: apply("where", apply("isnan", x), y, apply("where", apply("isnan", y), x, apply("minimum", x,
    y))),
    "heaviside": lambda x, y: apply("where", apply("eq", x, 0), y, apply("gt", x, 0)),
    "logaddexp2": lambda x, y: apply(
        "mul", apply("logaddexp", apply("mul", x, math.log(2)), apply("mul", y, math.log(2))), 1 / math.log(2)
    ),
}  # fmt: skip


@rule(*(f"aten.{n}" for n in _BINARY))
def binary(b: Builder, call: OpCall) -> Value:
    """f(x, y), either may be a number."""
    return pointwise(b, call, _BINARY[call.target.split(".")[1]], call.args[0], call.arg(1, "other"))


@rule("aten.add", "aten.sub", "aten.subtract", "aten.rsub")
def add(b: Builder, call: OpCall) -> Value:
    """x + alpha * y, x - alpha * y, or y - alpha * x for rsub."""
    alpha = call.arg(2, "alpha", 1)
    x, y = call.args[0], call.arg(1, "other")
    if "rsub" in call.target:
        x, y = y, x
    if alpha == -1:
        op, alpha = ("sub" if call.target.startswith("aten.add.") else "add"), 1
    else:
        op = "add" if call.target.startswith("aten.add.") else "sub"
    return pointwise(b, call, lambda v, w: apply(op, v, scaled(w, alpha)), x, y)


@rule("aten.div", "aten.divide")
def divide(b: Builder, call: OpCall) -> Value:
    """x / y, rounded toward minus infinity or zero when asked."""
    match call.kwargs.get("rounding_mode"):
        case "floor":
            formula = binary_op("floordiv")
        case "trunc":
            formula = _truncated_exactly if call.out_dtype[0] in "iu" else _truncated
        case _:
            formula = binary_op("div")
    return pointwise(b, call, formula, call.args[0], call.arg(1, "other"))


def _truncated(x: Expr, y: Expr) -> Expr:
    return apply("trunc", apply("div", x, y))


def _truncated_exactly(x: Expr, y: Expr) -> Expr:
    return apply("trunc", apply("div", cast(x, "f64"), cast(y, "f64")))


_POWERS: dict[float, Unary] = {
    0.5: lambda x: apply("sqrt", x),
    -0.5: lambda x: apply("rsqrt", x),
    -1: lambda x: apply("reciprocal", x),
    -2: lambda x: apply("reciprocal", apply("mul", x, x)),
    1: lambda x: x,
    2: lambda x: apply("mul", x, x),
    3: lambda x: apply("mul", apply("mul", x, x), x),
}


@rule("aten.pow", "aten.float_power")
def power(b: Builder, call: OpCall) -> Value:
    """x ** y; small constant powers as products and roots."""
    x, y = call.args[0], call.arg(1, "exponent")
    integral = call.out_dtype[0] in "iu"
    if isinstance(y, int | float) and y in _POWERS and not (integral and y < 1):
        return pointwise(b, call, lambda v: _POWERS[y](cast(v, "f64") if call.out_dtype == "f64" else v), x)
    if isinstance(y, int | float) and y == 0:
        return filled(b, "ones", call.out_dtype, call.out_shape, 1)
    return pointwise(b, call, binary_op("pow"), x, y)


@rule("aten.where")
def where(b: Builder, call: OpCall) -> Value:
    """x where the condition holds, else y."""
    if len(call.args) != 3:
        raise NotImplementedError("where with one argument is nonzero")
    return pointwise(b, call, lambda c, x, y: apply("where", c, x, y), *call.args)


@rule("aten.masked_fill")
def masked_fill(b: Builder, call: OpCall) -> Value:
    """A value where the mask holds, else x."""
    x, mask, value = call.args
    return pointwise(b, call, lambda m, v, e: apply("where", m, v, e), mask, value, x)


@rule("aten.lerp")
def lerp(b: Builder, call: OpCall) -> Value:
    """x + weight * (end - x)."""
    x, end, weight = call.args
    return pointwise(b, call, lambda a, e, w: apply("add", a, apply("mul", w, apply("sub", e, a))), x, end, weight)


@rule("aten.addcmul", "aten.addcdiv")
def addcmul(b: Builder, call: OpCall) -> Value:
    """x + value * (y * z), or y / z."""
    value = call.kwargs.get("value", 1)
    op = "div" if "div" in call.target else "mul"
    return pointwise(b, call, lambda x, y, z: apply("add", x, scaled(apply(op, y, z), value)), *call.args[:3])


@rule("aten.complex")
def complex_(b: Builder, call: OpCall) -> Value:
    """real + i * imaginary."""
    return pointwise(b, call, binary_op("complex"), *call.args[:2])


@rule("aten.polar")
def polar(b: Builder, call: OpCall) -> Value:
    """length * (cos(angle) + i * sin(angle))."""

    def formula(length: Expr, angle: Expr) -> Expr:
        return apply("complex", apply("mul", length, apply("cos", angle)), apply("mul", length, apply("sin", angle)))

    return pointwise(b, call, formula, *call.args[:2])


@rule("aten.glu", "fn.glu")
def glu(b: Builder, call: OpCall) -> Value:
    """First half times the sigmoid of the second half, along an axis."""
    x = call.args[0]
    axis = call.arg(1, "dim", -1) % x.rank
    dims = dims_of(call.out_shape)
    gate = list(broadcast_read(Value(x.name, x.dtype, call.out_shape), dims).index)
    left = x[tuple(gate)]
    gate[axis] = gate[axis] + call.out_shape[axis]
    return b.statement("glu", dims, apply("mul", left, apply("sigmoid", x[tuple(gate)])), call.out_dtype)


@rule("aten.dropout", "fn.dropout", "fn.dropout1d", "fn.dropout2d", "fn.dropout3d", "fn.alpha_dropout",
"fn.feature_alpha_dropout",
      "aten.feature_dropout", "aten.native_dropout", "aten._fused_dropout")  # fmt: skip
def dropout(b: Builder, call: OpCall) -> tuple[Value, ...]:
    """x in evaluation; in training a random mask times x / (1 - p)."""
    x = call.args[0]
    p, train = call.arg(1, "p", 0.5), call.arg(2, "training", True)
    with_mask = len(call.outputs) > 1
    if train is False or p == 0:
        if not with_mask:
            return (x,)
        kept = pointwise(b, call, same, x)
        return kept, b.statement("mask", dims_of(x.shape), Literal(True), "bool")
    (mask,) = b.call("random", (), [("bool", call.out_shape)], "mask", distribution="bernoulli")
    factor = 0.0 if p == 1 else 1 / (1 - p)
    result = pointwise(b, call, lambda m, v: apply("where", m, apply("mul", v, factor), 0), mask, x)
    return (result, mask) if with_mask else (result,)


@rule("aten.fill", "aten.zero")
def fill(b: Builder, call: OpCall) -> Value:
    """Every element is one value."""
    value = call.args[1] if len(call.args) > 1 else 0
    return pointwise(b, call, same, value)
