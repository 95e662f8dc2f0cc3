"""Elementwise arithmetic: one statement an operator, operands broadcast to the result.

Scalar bodies promote by themselves (docs/ir.md),
so a body is just the formula; the result rounds to the recorded dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias, overload

from sollens.analysis.ir.nodes import Expr, Literal
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import apply, as_expr, cast, scaled
from sollens.analysis.lower.pointwise import broadcast_read, dims_of
from sollens.analysis.lower.registry import rule

Operand: TypeAlias = "Value | float | int | bool | complex"
Unary: TypeAlias = Callable[[Expr], Expr]
Binary: TypeAlias = Callable[[Expr, Expr], Expr]
Ternary: TypeAlias = Callable[[Expr, Expr, Expr], Expr]


def hint(call: OpCall) -> str:
    """A name for the result: the operator's."""
    return call.target.split(".")[1].strip("_")


@overload
def pointwise(b: Builder, call: OpCall, formula: Unary, x: Operand, /) -> Value: ...
@overload
def pointwise(b: Builder, call: OpCall, formula: Binary, x: Operand, y: Operand, /) -> Value: ...
@overload
def pointwise(b: Builder, call: OpCall, formula: Ternary, x: Operand, y: Operand, z: Operand, /) -> Value: ...
def pointwise(b: Builder, call: OpCall, formula: Callable[..., Expr], /, *operands: Operand) -> Value:
    """`formula(*operands)` at every point of the recorded output."""
    dims = dims_of(call.out_shape)
    args = (broadcast_read(o, dims) if isinstance(o, Value) else as_expr(o) for o in operands)
    return b.statement(hint(call), dims, formula(*args), call.out_dtype)


def unary_op(name: str) -> Unary:
    """The formula of a scalar operation of the catalogue."""
    return lambda x: apply(name, x)


def binary_op(name: str) -> Binary:
    """The formula of a scalar operation of the catalogue."""
    return lambda x, y: apply(name, x, y)


# --- one operand ------------------------------------------------------------------------------------------------------

_SAME_NAME = [
    "neg",
    "abs",
    "sign",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "erfinv",
    "lgamma",
    "digamma",
    "sigmoid",
    "floor",
    "ceil",
    "trunc",
    "isnan",
    "isinf",
    "isfinite",
    "i0",
    "angle",
]

_UNARY: dict[str, Unary] = {
    **{name: unary_op(name) for name in _SAME_NAME},
    "negative": unary_op("neg"), "absolute": unary_op("abs"), "sgn": unary_op("sign"), "fix": unary_op("trunc"),
    "special_i1": unary_op("i1"),
    "special_i0": unary_op("i0"), "special_expit": unary_op("sigmoid"), "special_erf": unary_op("erf"),
    "special_erfc": unary_op("erfc"),
    "special_erfinv": unary_op("erfinv"), "special_exp2": unary_op("exp2"), "special_expm1": unary_op("expm1"),
    "special_log1p": unary_op("log1p"),
    "special_gammaln": unary_op("lgamma"), "special_psi": unary_op("digamma"), "special_digamma": unary_op("digamma"),
    "special_round": unary_op("round"),
    "logical_not": unary_op("not"), "bitwise_not": unary_op("bitnot"), "conj_physical": unary_op("conj"),
    "_conj": unary_op("conj"), "_neg_view": unary_op("neg"),
    "real": unary_op("real"), "imag": unary_op("imag"),
    "square": lambda x: apply("mul", x, x),
    "frac": lambda x: apply("sub", x, apply("trunc", x)),
    "signbit": lambda x: apply("lt", x, 0),
    "isposinf": lambda x: apply("eq", x, math.inf),
    "isneginf": lambda x: apply("eq", x, -math.inf),
    "deg2rad": lambda x: apply("mul", x, math.pi / 180),
    "rad2deg": lambda x: apply("mul", x, 180 / math.pi),
    "sinc": lambda x: apply("where", apply("eq", x, 0), 1.0, _sinc(apply("mul", x, math.pi))),
    "relu": lambda x: apply("maximum", x, 0),
    "relu6": lambda x: clamp_formula(x, 0, 6),
    "silu": lambda x: apply("mul", x, apply("sigmoid", x)),
    "mish": lambda x: apply("mul", x, apply("tanh", apply("logaddexp", x, 0.0))),
    "hardsigmoid": lambda x: _hard_gate(x),
    "hardswish": lambda x: apply("mul", x, _hard_gate(x)),
    "tanhshrink": lambda x: apply("sub", x, apply("tanh", x)),
    "softsign": lambda x: apply("div", x, apply("add", apply("abs", x), 1.0)),
    "log_sigmoid": lambda x: log_sigmoid_formula(x),
    "logsigmoid": lambda x: log_sigmoid_formula(x),
    "selu": lambda x: elu_formula(x, 1.6732632423543772, 1.0507009873554805, 1.0),
}  # fmt: skip


def _sinc(x: Expr) -> Expr:
    return apply("div", apply("sin", x), x)


def clamp_formula(x: Expr, low: Any, high: Any) -> Expr:
    """min(max(x, low), high); None is no limit."""
    if low is not None:
        x = apply("maximum", x, low)
    return x if high is None else apply("minimum", x, high)


def _hard_gate(x: Expr) -> Expr:
    """clamp(x / 6 + 1/2, 0, 1)."""
    return clamp_formula(apply("add", apply("mul", x, 1 / 6), 0.5), 0.0, 1.0)


def log_sigmoid_formula(x: Expr) -> Expr:
    """log(sigmoid(x))."""
    return apply("neg", apply("logaddexp", apply("neg", x), 0.0))


def elu_formula(x: Expr, alpha: float, scale: float, input_scale: float) -> Expr:
    """scale * (x where positive, else alpha * expm1(input_scale * x))."""
    negative = scaled(apply("expm1", scaled(x, input_scale)), alpha * scale)
    return apply("where", apply("gt", x, 0), scaled(x, scale), negative)


@rule(*(f"aten.{n}" for n in _UNARY), *(f"fn.{n}" for n in _UNARY))
def unary(b: Builder, call: OpCall) -> Value:
    """f(x)."""
    return pointwise(b, call, _UNARY[call.target.split(".")[1]], call.args[0])


@rule("aten.log_sigmoid_forward")
def log_sigmoid_forward(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """log(sigmoid(x)), and on a CPU the buffer exp(-|x|)."""
    x = call.args[0]
    result = pointwise(b, call, log_sigmoid_formula, x)
    shape = call.outputs[1][1] if len(call.outputs) > 1 and call.outputs[1] else ()
    if shape != x.shape:
        return result, b.statement("buffer", dims_of(shape), Literal(0.0), x.dtype)
    return result, pointwise(b, call, lambda v: apply("exp", apply("neg", apply("abs", v))), x)


@rule("aten.round")
def round_(b: Builder, call: OpCall) -> Value:
    """Round half to even, to a number of decimals."""
    factor = 10.0 ** call.kwargs.get("decimals", 0)
    if factor == 1:
        return pointwise(b, call, unary_op("round"), call.args[0])
    return pointwise(b, call, lambda x: apply("div", apply("round", apply("mul", x, factor)), factor), call.args[0])


@rule("aten.logit", "aten.special_logit")
def logit(b: Builder, call: OpCall) -> Value:
    """log(x / (1 - x)), x clamped to [eps, 1 - eps]."""
    eps = call.arg(1, "eps")

    def formula(x: Expr) -> Expr:
        x = x if eps is None else clamp_formula(x, eps, 1 - eps)
        return apply("log", apply("div", x, apply("sub", 1.0, x)))

    return pointwise(b, call, formula, call.args[0])


@rule("aten.nan_to_num")
def nan_to_num(b: Builder, call: OpCall) -> Value:
    """NaN and infinities replaced by numbers."""
    largest = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f64": 1.7976931348623157e308}.get(
        call.out_dtype, 3.4028234663852886e38
    )
    nan, high, low = call.arg(1, "nan"), call.arg(2, "posinf"), call.arg(3, "neginf")
    high, low = largest if high is None else high, -largest if low is None else low

    def formula(x: Expr) -> Expr:
        x = apply("where", apply("isnan", x), nan or 0.0, x)
        x = apply("where", apply("eq", x, math.inf), high, x)
        return apply("where", apply("eq", x, -math.inf), low, x)

    if call.out_dtype[0] in "iub":
        return pointwise(b, call, same, call.args[0])
    return pointwise(b, call, formula, call.args[0])


# --- casts and copies -------------------------------------------------------------------------------------------------


@rule(
    "aten.detach", "aten.alias", "aten.lift_fresh", "aten.lift", "aten.clone", "aten.contiguous", "aten._to_copy",
    "aten.to", "aten.positive",
    "aten.resolve_conj", "aten.resolve_neg", "aten.lift_fresh_copy", "aten.detach_copy", "aten.alias_copy",
    "aten.type_as",
    "aten.requires_grad", "prims.convert_element_type", "aten.fill_view", "aten.data", "aten.float", "aten.half",
    "aten.bfloat16",
)  # fmt: skip
def copy_or_same(b: Builder, call: OpCall) -> Value:
    """The same elements: the operand itself when the operator is a view, else a copy (converted to the recorded
    dtype)."""
    x = call.args[0]
    if b.source.view and x.dtype == call.out_dtype:
        return x
    return convert(b, call, x)


def same(x: Expr) -> Expr:
    """The element itself."""
    return x


def convert(b: Builder, call: OpCall, x: Value) -> Value:
    """A copy of `x`, broadcast to the recorded shape and converted to the recorded dtype."""
    if x.dtype == call.out_dtype:
        return pointwise(b, call, same, x)
    return pointwise(b, call, lambda v: cast(v, call.out_dtype), x)


@rule("aten.copy")
def copy(b: Builder, call: OpCall) -> Value:
    """The source, broadcast and converted to the destination's shape and dtype."""
    return convert(b, call, call.args[1])
