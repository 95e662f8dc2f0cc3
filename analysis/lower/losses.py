"""Losses that the dispatcher keeps whole: an elementwise body, then the reduction the call asks for."""

from __future__ import annotations

from math import prod

from sollens.analysis.ir.nodes import Expr, Literal
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import apply, iota
from sollens.analysis.lower.pointwise import accumulator, broadcast_read, converted, dims_of, filled, pointwise
from sollens.analysis.lower.registry import rule

# ATen's codes of the `reduction` argument.
_NONE, _MEAN, _SUM = 0, 1, 2


def _reduced(b: Builder, call: OpCall, shape: tuple[int, ...], body: Expr, reduction: int) -> Value:
    """The body at every point of `dims_of(shape)`, or its sum, or its mean."""
    dims = dims_of(shape)
    if reduction == _NONE:
        return b.statement("loss", dims, body, call.out_dtype)
    total = b.statement("loss_sum", (), body, accumulator(call.out_dtype), reduce=("sum", dims))
    if reduction == _SUM:
        return converted(b, "loss", call.out_dtype, total)
    return pointwise(b, "loss", call.out_dtype, (), "div", total, float(prod(shape)))


def _pair(call: OpCall) -> tuple[tuple[int, ...], Expr, Expr]:
    x, y = call.args[0], call.args[1]
    rank = max(x.rank, y.rank)
    padded = [(1,) * (rank - v.rank) + v.shape for v in (x, y)]
    shape = tuple(q if p == 1 else p for p, q in zip(*padded, strict=True))
    return shape, broadcast_read(x, dims_of(shape)), broadcast_read(y, dims_of(shape))


@rule("aten.mse_loss")
def mse_loss(b: Builder, call: OpCall) -> Value:
    """`(x - y)^2`."""
    shape, x, y = _pair(call)
    return _reduced(b, call, shape, apply("pow", apply("sub", x, y), 2), call.arg(2, "reduction", _MEAN))


@rule("aten.l1_loss")
def l1_loss(b: Builder, call: OpCall) -> Value:
    """`|x - y|`."""
    shape, x, y = _pair(call)
    return _reduced(b, call, shape, apply("abs", apply("sub", x, y)), call.arg(2, "reduction", _MEAN))


@rule("aten.smooth_l1_loss")
def smooth_l1_loss(b: Builder, call: OpCall) -> Value:
    """`d^2 / (2 beta)` below beta, `d - beta / 2` above, with `d = |x - y|`."""
    shape, x, y = _pair(call)
    beta = float(call.arg(3, "beta", 1.0))
    distance = _distance(b, shape, x, y, call)
    if beta == 0:
        return _reduced(b, call, shape, distance, call.arg(2, "reduction", _MEAN))
    near = apply("mul", apply("pow", distance, 2), 0.5 / beta)
    body = apply("where", apply("lt", distance, beta), near, apply("sub", distance, 0.5 * beta))
    return _reduced(b, call, shape, body, call.arg(2, "reduction", _MEAN))


@rule("aten.huber_loss")
def huber_loss(b: Builder, call: OpCall) -> Value:
    """`d^2 / 2` up to delta, `delta * (d - delta / 2)` above, with `d = |x - y|`."""
    shape, x, y = _pair(call)
    delta = float(call.arg(3, "delta", 1.0))
    distance = _distance(b, shape, x, y, call)
    far = apply("mul", apply("sub", distance, 0.5 * delta), delta)
    body = apply("where", apply("le", distance, delta), apply("mul", apply("pow", distance, 2), 0.5), far)
    return _reduced(b, call, shape, body, call.arg(2, "reduction", _MEAN))


def _distance(b: Builder, shape: tuple[int, ...], x: Expr, y: Expr, call: OpCall) -> Expr:
    dims = dims_of(shape)
    value = b.statement("distance", dims, apply("abs", apply("sub", x, y)), accumulator(call.out_dtype))
    return broadcast_read(value, dims)


@rule("aten.soft_margin_loss")
def soft_margin_loss(b: Builder, call: OpCall) -> Value:
    """`log(1 + exp(-x y))`."""
    shape, x, y = _pair(call)
    body = apply("log1p", apply("exp", apply("neg", apply("mul", x, y))))
    return _reduced(b, call, shape, body, call.arg(2, "reduction", _MEAN))


@rule("aten.binary_cross_entropy")
def binary_cross_entropy(b: Builder, call: OpCall) -> Value:
    """`-w (y log x + (1 - y) log(1 - x))`, logarithms at least -100."""
    shape, x, y = _pair(call)
    positive = apply("maximum", apply("log", x), -100.0)
    negative = apply("maximum", apply("log1p", apply("neg", x)), -100.0)
    # y p + (1 - y) n = y (p - n) + n, negated: (y - 1) n - y p.
    body = apply("sub", apply("mul", apply("sub", y, 1.0), negative), apply("mul", y, positive))
    return _reduced(b, call, shape, _weighted(call, body, shape, 2), call.arg(3, "reduction", _MEAN))


@rule("aten.binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(b: Builder, call: OpCall) -> Value:
    """`(1 - y) x + (1 + (p - 1) y) (log(1 + exp(-|x|)) + max(-x, 0))`, times the weight."""
    shape, x, y = _pair(call)
    soft = apply("log1p", apply("exp", apply("neg", apply("abs", x))))
    weight: Value | None = call.arg(3, "pos_weight")
    if weight is None:
        # max(x, 0) - x y + log(1 + exp(-|x|))
        body = apply("add", apply("sub", apply("maximum", x, 0.0), apply("mul", x, y)), soft)
    else:
        factor = apply("add", apply("mul", apply("sub", broadcast_read(weight, dims_of(shape)), 1.0), y), 1.0)
        tail = apply("sub", soft, apply("minimum", x, 0.0))
        body = apply("add", apply("mul", apply("sub", 1.0, y), x), apply("mul", factor, tail))
    return _reduced(b, call, shape, _weighted(call, body, shape, 2), call.arg(4, "reduction", _MEAN))


def _weighted(call: OpCall, body: Expr, shape: tuple[int, ...], position: int) -> Expr:
    weight: Value | None = call.arg(position, "weight")
    return body if weight is None else apply("mul", body, broadcast_read(weight, dims_of(shape)))


@rule("aten.kl_div")
def kl_div(b: Builder, call: OpCall) -> Value:
    """`y (log y - x)`, or `exp(y) (y - x)` with a target in logarithms."""
    shape, x, y = _pair(call)
    if call.arg(3, "log_target", call.kwargs.get("log_target", False)):
        body = apply("mul", apply("exp", y), apply("sub", y, x))
    else:
        body = apply("sub", apply("xlogy", y, y), apply("mul", x, y))
    return _reduced(b, call, shape, body, call.arg(2, "reduction", _MEAN))


@rule("aten.nll_loss_forward", "aten.nll_loss2d_forward", "aten.nll_loss", "aten.nll_loss2d", "aten.nll_loss_nd")
def nll_loss(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """`(x, target, weight, reduction, ignore_index)` -> loss, sum of the weights; x is [c] or [n, c, ...]."""
    x, target, weight = call.args[0], call.args[1], call.arg(2, "weight")
    reduction, ignored = call.arg(3, "reduction", _MEAN), call.arg(4, "ignore_index", -100)
    axis = 0 if x.rank == 1 else 1
    dims = dims_of(target.shape)
    names = [n for n, _ in dims]
    kept = pointwise(b, "kept", "bool", target.shape, "ne", target, ignored)
    class_dims = [*dims[:axis], ("c", 1), *dims[axis:]]
    chosen = apply("where", kept[tuple(names)], target[tuple(names)], 0)
    classes = b.statement("classes", class_dims, chosen, "i64")
    (picked,) = b.call("gather", [x, classes], [(x.dtype, classes.shape)], "picked", axis=axis)
    value: Expr = picked[(*names[:axis], 0, *names[axis:])]
    wide = accumulator(call.out_dtype)
    share: Expr = Literal(1.0)
    if weight is not None:
        flat = b.statement("class", dims, classes[(*names[:axis], 0, *names[axis:])], "i64")
        (weights,) = b.call("take", [weight, flat], [(weight.dtype, flat.shape)], "weights", axis=0)
        share = weights[tuple(names)]
        value = apply("mul", value, share)
    loss = apply("where", kept[tuple(names)], value, 0.0)
    if reduction == _NONE:
        y = b.statement("nll_loss", dims, apply("neg", loss), call.out_dtype)
        spec = call.outputs[1] if len(call.outputs) > 1 else None
        return y, filled(b, "total_weight", *spec) if spec else None
    total = b.statement("loss_sum", (), loss, wide, reduce=("sum", dims))
    weights_sum = b.statement(
        "total_weight", (), apply("where", kept[tuple(names)], share, 0.0), wide, reduce=("sum", dims)
    )
    divided = total[()] if reduction == _SUM else apply("div", total[()], weights_sum[()])
    y = b.statement("nll_loss", (), apply("neg", divided), call.out_dtype)
    return y, converted(b, "total_weight", call.out_dtype, weights_sum)


@rule("aten.multi_margin_loss")
def multi_margin_loss(b: Builder, call: OpCall) -> Value:
    """`sum over c != target of max(0, margin - x[target] + x[c])^p / classes`, times the target's weight."""
    x, target = call.args[0], call.args[1]
    p, margin = call.arg(2, "p", 1), float(call.arg(3, "margin", 1.0))
    weight, reduction = call.arg(4, "weight"), call.arg(5, "reduction", _MEAN)
    rows = dims_of(x.shape[:-1])
    names, classes = tuple(n for n, _ in rows), x.shape[-1]
    label = target[tuple(0 for _ in target.shape)] if not rows else target[names[-target.rank :]]
    labels = b.statement("labels", [*rows, ("c", 1)], label, "i64")
    (picked,) = b.call("gather", [x, labels], [(x.dtype, labels.shape)], "picked", axis=x.rank - 1)
    wide = accumulator(call.out_dtype)
    limit = b.statement("limit", rows, apply("sub", margin, picked[(*names, 0)]), wide)
    violation: Expr = apply("maximum", apply("add", limit[names], x[(*names, "c")]), 0.0)
    if p == 2:
        violation = apply("pow", violation, 2)
    if weight is not None:
        (weights,) = b.call("take", [weight, labels], [(weight.dtype, labels.shape)], "weights", axis=0)
        violation = apply("mul", violation, weights[(*names, 0)])
    other = apply("where", apply("eq", iota("c"), labels[(*names, 0)]), 0.0, violation)
    total = b.statement("margin_sum", rows, other, wide, reduce=("sum", [("c", classes)]))
    if reduction == _NONE:
        return pointwise(b, "loss", call.out_dtype, total.shape, "div", total, float(classes))
    whole = b.statement("loss_sum", (), total[names], wide, reduce=("sum", rows)) if rows else total
    count = classes * (prod(e for _, e in rows) if reduction == _MEAN else 1)
    return pointwise(b, "loss", call.out_dtype, (), "div", whole, float(count))
