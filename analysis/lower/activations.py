"""Activations with parameters, and limits."""

from __future__ import annotations

import math

from sollens.analysis.ir.nodes import Expr
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.elementwise import binary_op, clamp_formula, elu_formula, pointwise
from sollens.analysis.lower.expressions import apply, as_expr, scaled
from sollens.analysis.lower.pointwise import broadcast_read, dims_of
from sollens.analysis.lower.registry import rule


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
    return pointwise(b, call, lambda x: elu_formula(x, alpha, scale, input_scale), call.args[0])


@rule("aten.celu", "fn.celu")
def celu(b: Builder, call: OpCall) -> Value:
    """x where positive, else alpha * expm1(x / alpha)."""
    alpha = call.arg(1, "alpha", 1.0)
    return pointwise(b, call, lambda x: elu_formula(x, alpha, 1.0, 1 / alpha), call.args[0])


@rule("aten.softplus", "fn.softplus")
def softplus(b: Builder, call: OpCall) -> Value:
    """log(1 + exp(beta * x)) / beta; the identity beyond the threshold is below rounding unless the threshold is
    small."""
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
    return pointwise(b, call, lambda x: apply("sub", x, clamp_formula(x, -limit, limit)), call.args[0])


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


@rule("aten.clamp", "aten.clip")
def clamp(b: Builder, call: OpCall) -> Value:
    """min(max(x, low), high); a limit may be missing."""
    x, low, high = call.args[0], call.arg(1, "min"), call.arg(2, "max")
    if low is None:
        return pointwise(b, call, binary_op("minimum"), x, high)
    if high is None:
        return pointwise(b, call, binary_op("maximum"), x, low)
    return pointwise(b, call, clamp_formula, x, low, high)


@rule("aten.hardtanh", "fn.hardtanh")
def hardtanh(b: Builder, call: OpCall) -> Value:
    """x between two limits."""
    return pointwise(b, call, clamp_formula, call.args[0], call.arg(1, "min_val", -1), call.arg(2, "max_val", 1))


@rule("aten.clamp_min", "aten.clamp_max")
def clamp_one_side(b: Builder, call: OpCall) -> Value:
    """max(x, low) or min(x, high)."""
    op = "maximum" if "min" in call.target else "minimum"
    return pointwise(b, call, binary_op(op), call.args[0], call.args[1])
