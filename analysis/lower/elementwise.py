"""Elementwise arithmetic: one statement an operator, operands broadcast to the result.

Scalar bodies promote by themselves (docs/ir.md), so a body is just the formula; the result rounds to the recorded dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from sollens.analysis.ir.nodes import Expr, Literal
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import apply, as_expr, cast, scaled
from sollens.analysis.lower.pointwise import broadcast_read, dims_of
from sollens.analysis.lower.registry import rule

Operand: TypeAlias = "Value | float | int | bool | complex"
Formula: TypeAlias = Callable[..., Expr]


def hint(call: OpCall) -> str:
    """A name for the result: the operator's."""
    return call.target.split(".")[1].strip("_")


def pointwise(b: Builder, call: OpCall, formula: Formula, *operands: Operand, dtype: str = "") -> Value:
    """`formula(*operands)` at every point of the recorded output."""
    dims = dims_of(call.out_shape)
    args = (broadcast_read(o, dims) if isinstance(o, Value) else as_expr(o) for o in operands)
    return b.statement(hint(call), dims, as_expr(formula(*args)), dtype or call.out_dtype)


def _op(name: str) -> Formula:
    return lambda *args: apply(name, *args)


# --- one operand -------------------------------------------------------------------------------------------------------------

_SAME_NAME = """neg abs sign exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh
asinh acosh atanh erf erfc erfinv lgamma digamma sigmoid floor ceil trunc isnan isinf isfinite i0 angle""".split()

_UNARY: dict[str, Formula] = {
    **{name: _op(name) for name in _SAME_NAME},
    "negative": _op("neg"), "absolute": _op("abs"), "sgn": _op("sign"), "fix": _op("trunc"), "special_i1": _op("i1"),
    "special_i0": _op("i0"), "special_expit": _op("sigmoid"), "special_erf": _op("erf"), "special_erfc": _op("erfc"),
    "special_erfinv": _op("erfinv"), "special_exp2": _op("exp2"), "special_expm1": _op("expm1"), "special_log1p": _op("log1p"),
    "special_gammaln": _op("lgamma"), "special_psi": _op("digamma"), "special_digamma": _op("digamma"), "special_round": _op("round"),
    "logical_not": _op("not"), "bitwise_not": _op("bitnot"), "conj_physical": _op("conj"), "_conj": _op("conj"), "_neg_view": _op("neg"),
    "real": _op("real"), "imag": _op("imag"),
    "square": lambda x: apply("mul", x, x),
    "frac": lambda x: apply("sub", x, apply("trunc", x)),
    "signbit": lambda x: apply("lt", x, 0),
    "isposinf": lambda x: apply("eq", x, math.inf),
    "isneginf": lambda x: apply("eq", x, -math.inf),
    "deg2rad": lambda x: apply("mul", x, math.pi / 180),
    "rad2deg": lambda x: apply("mul", x, 180 / math.pi),
    "sinc": lambda x: apply("where", apply("eq", x, 0), 1.0, _sinc(apply("mul", x, math.pi))),
    "relu": lambda x: apply("maximum", x, 0),
    "relu6": lambda x: _clamp(x, 0, 6),
    "silu": lambda x: apply("mul", x, apply("sigmoid", x)),
    "mish": lambda x: apply("mul", x, apply("tanh", apply("logaddexp", x, 0.0))),
    "hardsigmoid": lambda x: _hard_gate(x),
    "hardswish": lambda x: apply("mul", x, _hard_gate(x)),
    "tanhshrink": lambda x: apply("sub", x, apply("tanh", x)),
    "softsign": lambda x: apply("div", x, apply("add", apply("abs", x), 1.0)),
    "log_sigmoid": lambda x: _log_sigmoid(x),
    "logsigmoid": lambda x: _log_sigmoid(x),
    "selu": lambda x: _elu(x, 1.6732632423543772, 1.0507009873554805, 1.0),
}  # fmt: skip


def _sinc(x: Expr) -> Expr:
    return apply("div", apply("sin", x), x)


def _clamp(x: Expr, low: Any, high: Any) -> Expr:
    if low is not None:
        x = apply("maximum", x, low)
    return x if high is None else apply("minimum", x, high)


def _hard_gate(x: Expr) -> Expr:
    """clamp(x / 6 + 1/2, 0, 1)."""
    return _clamp(apply("add", apply("mul", x, 1 / 6), 0.5), 0.0, 1.0)


def _log_sigmoid(x: Expr) -> Expr:
    return apply("neg", apply("logaddexp", apply("neg", x), 0.0))


def _elu(x: Expr, alpha: float, scale: float, input_scale: float) -> Expr:
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
    result = pointwise(b, call, _log_sigmoid, x)
    shape = call.outputs[1][1] if len(call.outputs) > 1 and call.outputs[1] else ()
    if shape != x.shape:
        return result, b.statement("buffer", dims_of(shape), Literal(0.0), x.dtype)
    return result, pointwise(b, call, lambda v: apply("exp", apply("neg", apply("abs", v))), x)


@rule("aten.round")
def round_(b: Builder, call: OpCall) -> Value:
    """Round half to even, to a number of decimals."""
    decimals = call.kwargs.get("decimals", 0)
    factor = 10.0**decimals
    return pointwise(
        b, call, lambda x: apply("round", x) if not decimals else apply("div", apply("round", apply("mul", x, factor)), factor), call.args[0]
    )  # fmt: skip


@rule("aten.logit", "aten.special_logit")
def logit(b: Builder, call: OpCall) -> Value:
    """log(x / (1 - x)), x clamped to [eps, 1 - eps]."""
    eps = call.arg(1, "eps")

    def formula(x: Expr) -> Expr:
        x = x if eps is None else _clamp(x, eps, 1 - eps)
        return apply("log", apply("div", x, apply("sub", 1.0, x)))

    return pointwise(b, call, formula, call.args[0])


@rule("aten.nan_to_num")
def nan_to_num(b: Builder, call: OpCall) -> Value:
    """NaN and infinities replaced by numbers."""
    largest = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f64": 1.7976931348623157e308}.get(call.out_dtype, 3.4028234663852886e38)
    nan, high, low = call.arg(1, "nan"), call.arg(2, "posinf"), call.arg(3, "neginf")
    high, low = largest if high is None else high, -largest if low is None else low

    def formula(x: Expr) -> Expr:
        x = apply("where", apply("isnan", x), nan or 0.0, x)
        x = apply("where", apply("eq", x, math.inf), high, x)
        return apply("where", apply("eq", x, -math.inf), low, x)

    if call.out_dtype[0] in "iub":
        return pointwise(b, call, lambda x: x, call.args[0])
    return pointwise(b, call, formula, call.args[0])


# --- activations with parameters ---------------------------------------------------------------------------------------------


@rule("aten.gelu", "fn.gelu")
def gelu(b: Builder, call: OpCall) -> Value:
    """x * Phi(x), exactly (erfc) or by the tanh approximation (as a sigmoid)."""

    def exact(x: Expr) -> Expr:
        return apply("mul", apply("mul", x, 0.5), apply("erfc", apply("mul", x, -math.sqrt(0.5))))

    def approximate(x: Expr) -> Expr:
        c = 2 * math.sqrt(2 / math.pi)
        cubic = apply("mul", x, apply("add", apply("mul", apply("mul", x, x), 0.044715 * c), c))
        return apply("mul", x, apply("sigmoid", cubic))

    return pointwise(b, call, approximate if call.arg(1, "approximate", "none") == "tanh" else exact, call.args[0])


@rule("aten.leaky_relu", "fn.leaky_relu")
def leaky_relu(b: Builder, call: OpCall) -> Value:
    """x where positive, else slope * x."""
    return pointwise(b, call, lambda x: _leaky(x, as_expr(call.arg(1, "negative_slope", 0.01))), call.args[0])


def _leaky(x: Expr, slope: Expr) -> Expr:
    return apply("where", apply("gt", x, 0), x, apply("mul", x, slope))


@rule("aten.rrelu", "fn.rrelu", "aten.rrelu_with_noise")
def rrelu(b: Builder, call: OpCall) -> Value | tuple[Value, ...]:
    """In evaluation a leaky relu with the mean slope; in training the slope is random an element."""
    first = 2 if "noise" in call.target else 1
    low, high = call.arg(first, "lower", 1 / 8), call.arg(first + 1, "upper", 1 / 3)
    training = call.arg(first + 2, "training", False)
    if not training:
        result = pointwise(b, call, lambda x: _leaky(x, as_expr((low + high) / 2)), call.args[0])
        return (result, call.args[1]) if len(call.outputs) > 1 else result
    (noise,) = b.call("random", (), [(call.out_dtype, call.out_shape)], "slope", distribution="uniform")
    result = pointwise(b, call, _leaky, call.args[0], noise)
    return (result, noise) if len(call.outputs) > 1 else result


@rule("aten.elu", "fn.elu")
def elu(b: Builder, call: OpCall) -> Value:
    """scale * (x where positive, else alpha * expm1(input_scale * x))."""
    alpha, scale, input_scale = call.arg(1, "alpha", 1), call.arg(2, "scale", 1), call.arg(3, "input_scale", 1)
    if call.target.startswith("fn."):
        scale = input_scale = 1
    return pointwise(b, call, lambda x: _elu(x, alpha, scale, input_scale), call.args[0])


@rule("aten.celu", "fn.celu")
def celu(b: Builder, call: OpCall) -> Value:
    """x where positive, else alpha * expm1(x / alpha)."""
    alpha = call.arg(1, "alpha", 1.0)
    return pointwise(b, call, lambda x: _elu(x, alpha, 1.0, 1 / alpha), call.args[0])


@rule("aten.softplus", "fn.softplus")
def softplus(b: Builder, call: OpCall) -> Value:
    """log(1 + exp(beta * x)) / beta; the identity beyond the threshold is below rounding unless the threshold is small."""
    beta, threshold = call.arg(1, "beta", 1), call.arg(2, "threshold", 20)

    def formula(x: Expr) -> Expr:
        soft = scaled(apply("logaddexp", scaled(x, beta), 0.0), 1 / beta)
        return soft if threshold >= 16 else apply("where", apply("gt", scaled(x, beta), threshold), x, soft)

    return pointwise(b, call, formula, call.args[0])


@rule("aten.threshold", "fn.threshold")
def threshold(b: Builder, call: OpCall) -> Value:
    """x where above the threshold, else a value."""
    limit, value = call.arg(1, "threshold"), call.arg(2, "value")
    return pointwise(b, call, lambda x: apply("where", apply("gt", x, limit), x, value), call.args[0])


@rule("aten.hardshrink", "fn.hardshrink")
def hardshrink(b: Builder, call: OpCall) -> Value:
    """x where |x| > lambda, else 0."""
    limit = call.arg(1, "lambd", 0.5)
    return pointwise(b, call, lambda x: apply("where", apply("gt", apply("abs", x), limit), x, 0), call.args[0])


@rule("aten.softshrink", "fn.softshrink")
def softshrink(b: Builder, call: OpCall) -> Value:
    """x moved toward 0 by lambda."""
    limit = call.arg(1, "lambd", 0.5)
    return pointwise(b, call, lambda x: apply("sub", x, _clamp(x, -limit, limit)), call.args[0])


@rule("aten._prelu_kernel", "aten.prelu", "fn.prelu")
def prelu(b: Builder, call: OpCall) -> Value:
    """Leaky relu with a slope per channel (axis 1)."""
    x, weight = call.args[0], call.arg(1, "weight")
    dims = dims_of(x.shape)
    if weight.rank == x.rank and "_prelu_kernel" in call.target:
        slope = broadcast_read(weight, dims)
    else:
        slope = weight["i1" if x.rank > 1 and weight.size > 1 else 0] if weight.rank else weight[()]
    return b.statement("prelu", dims, _leaky(broadcast_read(x, dims), slope), call.out_dtype)


@rule("aten.clamp", "aten.clip", "aten.hardtanh", "fn.hardtanh")
def clamp(b: Builder, call: OpCall) -> Value:
    """min(max(x, low), high)."""
    default = None if "cl" in call.target else 1
    low, high = call.arg(1, "min", None), call.arg(2, "max", None)
    if default is not None:
        low = call.arg(1, "min_val", -1) if low is None else low
        high = call.arg(2, "max_val", 1) if high is None else high
    bounds = [v for v in (low, high) if v is not None]

    def formula(x: Expr, *limits: Expr) -> Expr:
        rest = iter(limits)
        return _clamp(x, next(rest) if low is not None else None, next(rest) if high is not None else None)

    return pointwise(b, call, formula, call.args[0], *bounds)


@rule("aten.clamp_min", "aten.clamp_max")
def clamp_one_side(b: Builder, call: OpCall) -> Value:
    """max(x, low) or min(x, high)."""
    op = "maximum" if "min" in call.target else "minimum"
    return pointwise(b, call, _op(op), call.args[0], call.args[1])


# --- casts and copies --------------------------------------------------------------------------------------------------------


@rule(
    "aten.detach", "aten.alias", "aten.lift_fresh", "aten.lift", "aten.clone", "aten.contiguous", "aten._to_copy", "aten.to", "aten.positive",
    "aten.resolve_conj", "aten.resolve_neg", "aten.lift_fresh_copy", "aten.detach_copy", "aten.alias_copy", "aten.type_as",
    "aten.requires_grad", "prims.convert_element_type", "aten.fill_view", "aten.data", "aten.float", "aten.half", "aten.bfloat16",
)  # fmt: skip
def copy_or_same(b: Builder, call: OpCall) -> Value:
    """The same elements: the operand itself when the operator is a view, else a copy (converted to the recorded dtype)."""
    x = call.args[0]
    if b.source.view and x.dtype == call.out_dtype:
        return x
    return convert(b, call, x)


def convert(b: Builder, call: OpCall, x: Value) -> Value:
    """A copy of `x`, broadcast to the recorded shape and converted to the recorded dtype."""
    return pointwise(b, call, lambda v: v if x.dtype == call.out_dtype else cast(v, call.out_dtype), x)


@rule("aten.copy")
def copy(b: Builder, call: OpCall) -> Value:
    """The source, broadcast and converted to the destination's shape and dtype."""
    return convert(b, call, call.args[1])
