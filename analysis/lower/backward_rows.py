"""Gradients of softmax and of the normalizations.

With x' = (x - mean) * rstd and h = gradient * weight, the gradient of x is rstd * (h - mean(h) - x' * mean(h x'));
where the weight does not vary along a row, it leaves the sums.
"""

from __future__ import annotations

from math import prod

from sollens.analysis.ir.affine import Affine, dim
from sollens.analysis.ir.nodes import Apply, Expr
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import apply
from sollens.analysis.lower.pointwise import Dims, accumulator, converted, dims_of, names_of, pointwise
from sollens.analysis.lower.registry import rule


def _sum(b: Builder, hint: str, kept: Dims, over: Dims, body: Expr, dtype: str) -> Value:
    return b.statement(hint, kept, body, dtype, reduce=("sum", over))


def _split(x: Value, axis: int) -> tuple[Dims, Dims, tuple[str, int]]:
    """All dims of `x`, those without `axis`, and the one along it."""
    dims = dims_of(x.shape)
    axis %= x.rank
    return dims, [d for k, d in enumerate(dims) if k != axis], dims[axis]


@rule("aten._softmax_backward_data")
def softmax_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, y, dim, dtype)`: `(g - sum(g y)) y`."""
    grad, y = call.args[:2]
    if not y.rank:
        return pointwise(b, "softmax_backward", call.out_dtype, (), "mul", grad, 0.0)
    dims, kept, folded = _split(y, call.args[2])
    product = Apply("mul", (grad[names_of(dims)], y[names_of(dims)]))
    total = _sum(b, "row_sum", kept, [folded], product, accumulator(y.dtype))
    body = apply("mul", apply("sub", grad[names_of(dims)], total[names_of(kept)]), y[names_of(dims)])
    return b.statement("softmax_backward", dims, body, call.out_dtype)


@rule("aten._log_softmax_backward_data")
def log_softmax_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, y, dim, dtype)`: `g - exp(y) sum(g)`."""
    grad, y = call.args[:2]
    if not y.rank:
        return pointwise(b, "log_softmax_backward", call.out_dtype, (), "mul", grad, 0.0)
    dims, kept, folded = _split(y, call.args[2])
    total = _sum(b, "row_sum", kept, [folded], grad[names_of(dims)], accumulator(y.dtype))
    share = apply("mul", apply("exp", y[names_of(dims)]), total[names_of(kept)])
    return b.statement("log_softmax_backward", dims, apply("sub", grad[names_of(dims)], share), call.out_dtype)


@rule("aten.native_layer_norm_backward")
def layer_norm_backward(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """`(grad, x, normalized shape, mean, rstd, weight, bias, mask)` -> gradients of x, weight and bias."""
    grad, x, shape, mean, rstd, weight = call.args[:6]
    wants = [bool(m) and call.wants(k) for k, m in enumerate(call.args[7])]
    rows, inner = dims_of(x.shape[: x.rank - len(shape)]), dims_of(shape, "j")
    dims, point = [*rows, *inner], names_of([*rows, *inner])
    row = (*names_of(rows), *(0 for _ in inner))
    wide = accumulator(x.dtype)
    centred = b.statement("centred", dims, apply("sub", x[point], mean[row]), wide)
    unit = b.statement("unit", dims, apply("mul", centred[point], rstd[row]), wide)
    of_x = _of_row(b, call, grad, weight, unit, (rows, inner), rstd[row]) if wants[0] else None
    of_weight = of_bias = None
    if wants[1]:
        of_weight = _sum(b, "grad_weight", inner, rows, Apply("mul", (grad[point], unit[point])), wide)
        of_weight = converted(b, "grad_weight", weight.dtype, of_weight)
    if wants[2]:
        of_bias = converted(b, "grad_bias", grad.dtype, _sum(b, "grad_bias", inner, rows, grad[point], wide))
    return of_x, of_weight, of_bias


def _of_row(
    b: Builder, call: OpCall, grad: Value, weight: Value | None, unit: Value, split: tuple[Dims, Dims], rstd: Expr,
    centred: bool = True,
) -> Value:  # fmt: skip
    """`rstd * (h - mean(h) - unit * mean(h unit))`; a norm that does not centre has no mean(h)."""
    rows, inner = split
    dims, point, wide = [*rows, *inner], names_of([*rows, *inner]), unit.dtype
    count = prod(e for _, e in inner)
    h = grad
    if weight is not None:
        h = b.statement("weighted", dims, apply("mul", grad[point], weight[names_of(inner)]), wide)
    products = _sum(b, "products", rows, inner, Apply("mul", (h[point], unit[point])), wide)
    projection = pointwise(b, "projection", wide, products.shape, "mul", products, 1 / max(count, 1))
    body = apply("mul", unit[point], projection[names_of(rows)])
    if centred:
        total = _sum(b, "row_sum", rows, inner, h[point], wide)
        mean = pointwise(b, "row_mean", wide, total.shape, "mul", total, 1 / max(count, 1))
        body = apply("add", body, mean[names_of(rows)])
    difference = apply("sub", h[point], body)
    return b.statement("grad_x", dims, apply("mul", difference, rstd), call.args[1].dtype)


@rule("aten._fused_rms_norm_backward")
def rms_norm_backward(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """`(grad, x, normalized shape, rstd, weight, mask)` -> gradients of x and weight."""
    grad, x, shape, rstd, weight = call.args[:5]
    wants = [bool(m) and call.wants(k) for k, m in enumerate(call.args[5])]
    rows, inner = dims_of(x.shape[: x.rank - len(shape)]), dims_of(shape, "j")
    dims, point = [*rows, *inner], names_of([*rows, *inner])
    row = (*names_of(rows), *(0 for _ in inner))
    unit = b.statement("unit", dims, apply("mul", x[point], rstd[row]), accumulator(x.dtype))
    of_x = _of_row(b, call, grad, weight, unit, (rows, inner), rstd[row], centred=False) if wants[0] else None
    of_weight = None
    if wants[1]:
        of_weight = _sum(b, "grad_weight", inner, rows, Apply("mul", (grad[point], unit[point])), unit.dtype)
        of_weight = converted(b, "grad_weight", weight.dtype, of_weight)
    return of_x, of_weight


@rule("aten.native_batch_norm_backward", "aten.cudnn_batch_norm_backward")
def batch_norm_backward(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """`(grad, x, weight, mean, variance, saved mean, saved rstd, train, eps, mask)` -> of x, weight and bias."""
    if "cudnn" in call.target:
        raise NotImplementedError("the gradient of cuDNN's own batch norm")
    grad, x, weight, mean, variance, saved_mean, saved_rstd, train, eps = call.args[:9]
    wants = [bool(m) and call.wants(k) for k, m in enumerate(call.args[9])]
    channel, wide = [("c", x.shape[1])], accumulator(x.dtype)
    over = [("n", x.shape[0]), *dims_of(x.shape[2:], "s")]
    dims = [over[0], *channel, *over[1:]]
    point = names_of(dims)
    if not train:
        body = apply("rsqrt", apply("add", variance["c"], eps))
        saved_mean, saved_rstd = mean, b.statement("rstd", channel, body, wide)
    of_x = of_weight = of_bias = total = None
    if wants[2] or (wants[0] and train):
        total = _sum(b, "grad_bias", channel, over, grad[point], wide)
        of_bias = converted(b, "grad_bias", grad.dtype, total)
    rate = saved_rstd
    if weight is not None:
        rate = pointwise(b, "scale", wide, saved_rstd.shape, "mul", saved_rstd, weight)
    if not wants[1] and not (wants[0] and train):
        if wants[0]:
            of_x = b.statement("grad_x", dims, apply("mul", grad[point], rate["c"]), x.dtype)
        return of_x, None, of_bias if wants[2] else None
    centred = b.statement("centred", dims, apply("sub", x[point], saved_mean["c"]), wide)
    products = _sum(b, "products", channel, over, Apply("mul", (grad[point], centred[point])), wide)
    if wants[1]:
        of_weight = pointwise(b, "grad_weight", call.args[0].dtype, products.shape, "mul", products, saved_rstd)
    if wants[0] and not train:
        of_x = b.statement("grad_x", dims, apply("mul", grad[point], rate["c"]), x.dtype)
    elif wants[0]:
        assert total is not None
        each = 1 / max(prod(e for _, e in over), 1)
        share = apply("mul", apply("mul", products["c"], each), apply("mul", saved_rstd["c"], saved_rstd["c"]))
        slope = b.statement("slope", channel, share, wide)
        level = pointwise(b, "level", wide, total.shape, "mul", total, each)
        inner = apply("sub", apply("sub", grad[point], level["c"]), apply("mul", centred[point], slope["c"]))
        of_x = b.statement("grad_x", dims, apply("mul", inner, rate["c"]), x.dtype)
    return of_x, of_weight, of_bias if wants[2] else None


@rule("aten.native_group_norm_backward")
def group_norm_backward(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """`(grad, x, mean, rstd, weight, N, C, HxW, groups, mask)` -> gradients of x, weight and bias."""
    grad, x, mean, rstd, weight = call.args[:5]
    groups = call.args[8]
    wants = [bool(m) and call.wants(k) for k, m in enumerate(call.args[9])]
    channels, wide = x.shape[1], accumulator(x.dtype)
    size = channels // groups
    batch, channel, spatial = ("n", x.shape[0]), ("c", channels), dims_of(x.shape[2:], "s")
    dims = [batch, channel, *spatial]
    point, group = names_of(dims), dim("c") // max(size, 1)
    centred = b.statement("centred", dims, apply("sub", x[point], mean["n", group]), wide)
    unit = b.statement("unit", dims, apply("mul", centred[point], rstd["n", group]), wide)
    # Each channel's own sums; the weight and the sum over a group come after.
    plane = [batch, channel]
    products = _sum(b, "products", plane, spatial, Apply("mul", (grad[point], unit[point])), wide)
    totals = _sum(b, "totals", plane, spatial, grad[point], wide)
    of_x = of_weight = of_bias = None
    if wants[1]:
        of_weight = _sum(b, "grad_weight", [channel], [batch], products["n", "c"], wide)
        of_weight = converted(b, "grad_weight", weight.dtype, of_weight)
    if wants[2]:
        of_bias = converted(
            b, "grad_bias", grad.dtype, _sum(b, "grad_bias", [channel], [batch], totals["n", "c"], wide)
        )
    if wants[0]:
        each = 1 / max(size * prod(e for _, e in spatial), 1)
        slope = _group_mean(b, "slope", products, weight, groups, each, wide)
        level = _group_mean(b, "level", totals, weight, groups, each, wide)
        h: Expr = grad[point]
        if weight is not None:
            h = apply("mul", h, weight["c"])
        body = apply("add", apply("mul", unit[point], slope["n", group]), level["n", group])
        of_x = b.statement("grad_x", dims, apply("mul", apply("sub", h, body), rstd["n", group]), x.dtype)
    return of_x, of_weight, of_bias


def _group_mean(
    b: Builder, hint: str, sums: Value, weight: Value | None, groups: int, each: float, dtype: str
) -> Value:
    """`each * sum over the channels of a group of sums[n, c] * weight[c]`, [n, group]."""
    size = sums.shape[1] // groups
    member: Affine = dim("g") * size + dim("m")
    body: Expr = sums["n", member]
    if weight is not None:
        body = Apply("mul", (body, weight[member]))
    kept, over = [("n", sums.shape[0]), ("g", groups)], [("m", size)]
    total = _sum(b, hint, kept, over, body, dtype)
    return pointwise(b, hint, dtype, total.shape, "mul", total, each)
