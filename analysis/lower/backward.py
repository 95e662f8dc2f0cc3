"""Gradients of elementwise operators and losses, as `mode=train` records them."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod

from sollens.analysis.ir.affine import dim, less
from sollens.analysis.ir.nodes import Expr, Literal
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.elementwise import clamp_formula, pointwise
from sollens.analysis.lower.expressions import apply, iota, normalize, scaled, select
from sollens.analysis.lower.pointwise import broadcast_read, dims_of, filled
from sollens.analysis.lower.pointwise import pointwise as operation
from sollens.analysis.lower.registry import rule
from sollens.analysis.lower.views import reshaped, sliced

# ATen's codes of the `reduction` argument.
_NONE, _MEAN = 0, 1


def _where(condition: Expr, then: Expr | float, otherwise: Expr | float) -> Expr:
    return apply("where", condition, then, otherwise)


def _outside(x: Expr, low: float, high: float) -> Expr:
    """Whether x is not strictly between the limits."""
    return apply("or", apply("le", x, low), apply("ge", x, high))


@rule("aten.threshold_backward")
def threshold_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, x, threshold)`: also of relu."""
    limit = call.arg(2, "threshold", 0)
    return pointwise(b, call, lambda g, x: _where(apply("gt", x, limit), g, 0.0), *call.args[:2])


@rule("aten.sigmoid_backward")
def sigmoid_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, y)`: `g (1 - y) y`."""
    return pointwise(b, call, lambda g, y: apply("mul", g, apply("mul", apply("sub", 1.0, y), y)), *call.args[:2])


@rule("aten.tanh_backward")
def tanh_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, y)`: `g (1 - y^2)`."""
    return pointwise(b, call, lambda g, y: apply("mul", g, apply("sub", 1.0, apply("mul", y, y))), *call.args[:2])


@rule("aten.gelu_backward")
def gelu_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, x, *, approximate)`: `g (Phi(x) + x phi(x))`, or the derivative of `x sigmoid(u(x))`."""

    def exact(g: Expr, x: Expr) -> Expr:
        phi = apply("mul", 0.5, apply("erfc", apply("mul", x, -math.sqrt(0.5))))
        density = apply("mul", apply("exp", apply("mul", apply("mul", x, x), -0.5)), 1 / math.sqrt(2 * math.pi))
        return apply("mul", g, apply("add", phi, apply("mul", x, density)))

    def approximate(g: Expr, x: Expr) -> Expr:
        c = 2 * math.sqrt(2 / math.pi)
        square = apply("mul", x, x)
        cubic = apply("mul", x, apply("add", apply("mul", square, 0.044715 * c), c))
        soft = apply("sigmoid", cubic)
        slope = apply("mul", x, apply("add", apply("mul", square, 3 * 0.044715 * c), c))
        # s + x u' s (1 - s) = s (1 + x u' (1 - s))
        inner = apply("add", 1.0, apply("mul", slope, apply("sub", 1.0, soft)))
        return apply("mul", g, apply("mul", soft, inner))

    kind = call.arg(2, "approximate", "none")
    return pointwise(b, call, approximate if kind == "tanh" else exact, *call.args[:2])


@rule("aten.silu_backward")
def silu_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, x)`: `g s (1 + x (1 - s))` with `s = sigmoid(x)`."""

    def formula(g: Expr, x: Expr) -> Expr:
        s = apply("sigmoid", x)
        return apply("mul", g, apply("mul", s, apply("add", 1.0, apply("mul", x, apply("sub", 1.0, s)))))

    return pointwise(b, call, formula, *call.args[:2])


@rule("aten.mish_backward")
def mish_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, x)`: `g (t + x s (1 - t^2))` with `t = tanh(softplus(x))` and `s = sigmoid(x)`."""

    def formula(g: Expr, x: Expr) -> Expr:
        t = apply("tanh", apply("logaddexp", x, 0.0))
        inner = apply("mul", apply("mul", x, apply("sigmoid", x)), apply("sub", 1.0, apply("mul", t, t)))
        return apply("mul", g, apply("add", t, inner))

    return pointwise(b, call, formula, *call.args[:2])


@rule("aten.leaky_relu_backward")
def leaky_relu_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, x or result, slope, self_is_result)`: both have the same sign."""
    slope = call.arg(2, "negative_slope")
    return pointwise(b, call, lambda g, x: _where(apply("gt", x, 0), g, apply("mul", g, slope)), *call.args[:2])


@rule("aten.elu_backward")
def elu_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, alpha, scale, input_scale, is_result, x or result)`."""
    grad, alpha, scale, input_scale, is_result, x = call.args[:6]

    def formula(g: Expr, v: Expr) -> Expr:
        if is_result:
            below = apply("mul", g, scaled(apply("add", v, alpha * scale), input_scale))
        else:
            below = apply("mul", g, scaled(apply("exp", scaled(v, input_scale)), alpha * scale * input_scale))
        return _where(apply("gt", v, 0), scaled(g, scale), below)

    return pointwise(b, call, formula, grad, x)


@rule("aten.softplus_backward")
def softplus_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, x, beta, threshold)`: `g sigmoid(beta x)`, and g beyond the threshold."""
    beta, threshold = call.args[2:4]

    def formula(g: Expr, x: Expr) -> Expr:
        slope = apply("mul", g, apply("sigmoid", scaled(x, beta)))
        return slope if threshold >= 16 else _where(apply("gt", scaled(x, beta), threshold), g, slope)

    return pointwise(b, call, formula, *call.args[:2])


@rule("aten.log_sigmoid_backward")
def log_sigmoid_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, x, buffer)`: `g sigmoid(-x)`."""
    return pointwise(b, call, lambda g, x: apply("mul", g, apply("sigmoid", apply("neg", x))), *call.args[:2])


@rule("aten.hardsigmoid_backward", "aten.hardtanh_backward")
def between_limits(b: Builder, call: OpCall) -> Value:
    """`(grad, x[, low, high])`: a constant slope strictly between the limits."""
    low, high, slope = (-3.0, 3.0, 1 / 6) if "sigmoid" in call.target else (*call.args[2:4], 1)
    return pointwise(b, call, lambda g, x: _where(_outside(x, low, high), 0.0, scaled(g, slope)), *call.args[:2])


@rule("aten.hardswish_backward")
def hardswish_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, x)`: 0 up to -3, `g (x / 3 + 1/2)` to 3, then g."""

    def formula(g: Expr, x: Expr) -> Expr:
        middle = apply("mul", g, apply("add", apply("mul", x, 1 / 3), 0.5))
        return _where(apply("le", x, -3.0), 0.0, _where(apply("ge", x, 3.0), g, middle))

    return pointwise(b, call, formula, *call.args[:2])


@rule("aten.hardshrink_backward", "aten.softshrink_backward")
def shrink_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, x, lambda)`: 0 where |x| <= lambda."""
    limit = call.args[2]
    return pointwise(b, call, lambda g, x: _where(apply("le", apply("abs", x), limit), 0.0, g), *call.args[:2])


@rule("aten._prelu_kernel_backward")
def prelu_backward(b: Builder, call: OpCall) -> tuple[Value, Value]:
    """`(grad, x, weight)` -> the gradients of x and, an element, of the weight."""
    grad, x, weight = call.args[:3]
    dims = dims_of(x.shape)
    g, element = broadcast_read(grad, dims), broadcast_read(x, dims)
    positive = apply("gt", element, 0)
    of_x = _where(positive, g, apply("mul", g, broadcast_read(weight, dims)))
    of_weight = _where(positive, 0.0, apply("mul", element, g))
    return b.statement("grad_x", dims, of_x, x.dtype), b.statement("grad_weight", dims, of_weight, weight.dtype)


@rule("aten.native_dropout_backward")
def dropout_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, kept, scale)`."""
    scale = call.args[2]
    return pointwise(b, call, lambda g, kept: _where(kept, scaled(g, scale), 0.0), *call.args[:2])


@rule("aten.glu_backward")
def glu_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, x, dim)`: `g s` for the first half, `g a s (1 - s)` for the second, with `s = sigmoid(second)`."""
    grad, x = call.args[:2]
    axis = normalize(call.args[2], x.rank)
    half = x.shape[axis] // 2
    first, second = (sliced(b, "half", x, axis, start, half) for start in (0, half))
    gate = operation(b, "gate", x.dtype, grad.shape, "sigmoid", second)
    of_first = operation(b, "grad_first", x.dtype, grad.shape, "mul", grad, gate)
    dims = dims_of(grad.shape)
    inner = apply("mul", broadcast_read(first, dims), apply("sub", 1.0, broadcast_read(gate, dims)))
    of_second = b.statement("grad_second", dims, apply("mul", broadcast_read(of_first, dims), inner), x.dtype)
    point = [dim(n) for n, _ in dims_of(x.shape)]
    moved = [*point[:axis], point[axis] - half, *point[axis + 1 :]]
    body = select(less(point[axis], half), of_first[tuple(point)], of_second[tuple(moved)])
    return b.statement("glu_backward", dims_of(x.shape), body, x.dtype)


# --- losses -----------------------------------------------------------------------------------------------------------


def _of_loss(b: Builder, call: OpCall, slope: Callable[[Expr, Expr], Expr], reduction: int, factor: float = 1) -> Value:
    """`grad * slope(x, y)` at every element; the factors of a mean meet the scalar gradient first."""
    grad, x, y = call.args[:3]
    dims = dims_of(call.out_shape)
    factor = factor / prod(call.out_shape) if reduction == _MEAN else factor
    if factor != 1 and reduction != _NONE:
        grad, factor = operation(b, "grad_each", grad.dtype, grad.shape, "mul", grad, factor), 1
    body = apply("mul", slope(broadcast_read(x, dims), broadcast_read(y, dims)), broadcast_read(grad, dims))
    return b.statement("loss_backward", dims, scaled(body, factor), call.out_dtype)


@rule("aten.mse_loss_backward")
def mse_backward(b: Builder, call: OpCall) -> Value:
    """`2 (x - y) g`."""
    return _of_loss(b, call, lambda x, y: apply("sub", x, y), call.args[3], 2.0)


@rule("aten.smooth_l1_loss_backward", "aten.huber_loss_backward")
def smooth_l1_backward(b: Builder, call: OpCall) -> Value:
    """`clamp(x - y, -d, d) g`, over beta for smooth L1."""
    limit = float(call.args[4])
    factor = 1 / limit if "smooth" in call.target and limit else 1

    def slope(x: Expr, y: Expr) -> Expr:
        difference = apply("sub", x, y)
        return clamp_formula(difference, -limit, limit) if limit else apply("sign", difference)

    return _of_loss(b, call, slope, call.args[3], factor)


@rule("aten.binary_cross_entropy_backward")
def binary_cross_entropy_backward(b: Builder, call: OpCall) -> Value:
    """`(x - y) / max(x (1 - x), 1e-12) g`, times the weight."""
    if call.arg(3, "weight") is not None:
        raise NotImplementedError("a weighted binary cross-entropy's gradient")

    def slope(x: Expr, y: Expr) -> Expr:
        return apply("div", apply("sub", x, y), apply("maximum", apply("mul", apply("sub", 1.0, x), x), 1e-12))

    return _of_loss(b, call, slope, call.arg(4, "reduction", _MEAN))


@rule("aten.nll_loss_backward", "aten.nll_loss2d_backward")
def nll_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, x, target, weight, reduction, ignored, total weight)`: `-g w[t]` at each target, 0 elsewhere."""
    grad, x, target, weight, reduction, ignored, total = call.args[:7]
    dims = dims_of(x.shape)
    rows = [d for k, d in enumerate(dims) if k != (1 if x.rank > 1 else 0)]
    channel = "i1" if x.rank > 1 else "i0"
    row = tuple(n for n, _ in rows)
    each: Expr = grad[row] if grad.rank else grad[()]
    if reduction == _MEAN:
        grad = operation(b, "grad_each", x.dtype, (), "div", grad, total)
        each = grad[()]
    label = target[row]
    share = apply("neg", each)
    if weight is not None:
        share = apply("mul", share, weight[channel])
    hit = apply("eq", label, iota(channel))
    if 0 <= ignored < x.shape[1 if x.rank > 1 else 0]:
        hit = apply("and", hit, apply("ne", label, ignored))
    return b.statement("nll_loss_backward", dims, _where(hit, share, Literal(0.0)), x.dtype)


@rule("aten.embedding_dense_backward")
def embedding_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, indices, rows, padding index, by frequency)`: zeros, with the gradients of a row's uses added to it."""
    grad, indices, rows, padding, by_frequency = call.args[:5]
    if by_frequency:
        raise NotImplementedError("gradients scaled by frequency")
    width = grad.shape[-1]
    if 0 <= padding < rows:
        dims = dims_of(grad.shape)
        at = tuple(n for n, _ in dims[:-1])
        kept = _where(apply("eq", indices[at], padding), 0.0, broadcast_read(grad, dims))
        grad = b.statement("without_padding", dims, kept, grad.dtype)
    flat = reshaped(b, "grad", grad, (indices.size, width))
    index = reshaped(b, "index", indices, (indices.size,))
    start = filled(b, "zeros", grad.dtype, (rows, width))
    return b.call(
        "index_add", [start, index, flat], [(call.out_dtype, (rows, width))], "embedding_backward",
        axis=0, reduce="add", include_self=True,
    )[0]  # fmt: skip
