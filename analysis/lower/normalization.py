"""Normalizations: statistics per row or channel, then at most a multiply and an add an element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from sollens.analysis.ir.affine import Affine, dim
from sollens.analysis.ir.nodes import Expr, Read
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import apply
from sollens.analysis.lower.pointwise import accumulator, dims_of, filled, names_of, pointwise
from sollens.analysis.lower.registry import rule

Dims = Sequence[tuple[str, int]]


Index: TypeAlias = tuple[Affine | str, ...]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Mean and variance (biased) of the folded elements, and the centred tensor; all in the accumulation dtype."""

    mean: Value
    variance: Value
    centred: Value


def _statistics(b: Builder, x: Value, kept: Dims, over: Dims, index: Index, dims: Dims, row: Index) -> Statistics:
    """Folds `x[index]` over `over` for every point of `kept`.

    `dims` are the dims of `x` itself and `row` the point of `kept` that they belong to.
    """
    count, dtype = prod(e for _, e in over), accumulator(x.dtype)
    total = b.statement("total", kept, x[index], dtype, reduce=("sum", over))
    mean = _divided(b, "mean", total, count)
    centred = b.statement("centred", dims, apply("sub", x[names_of(dims)], mean[row]), dtype)
    squares = b.statement("squares", kept, apply("pow", centred[index], 2), dtype, reduce=("sum", over))
    return Statistics(mean, _divided(b, "variance", squares, count), centred)


def _divided(b: Builder, hint: str, total: Value, count: int) -> Value:
    return pointwise(b, hint, total.dtype, total.shape, "div", total, count)


def _rstd(b: Builder, variance: Value, eps: float) -> Value:
    dims = dims_of(variance.shape)
    body = apply("rsqrt", apply("add", variance[names_of(dims)], eps))
    return b.statement("rstd", dims, body, accumulator(variance.dtype))


def _side_output(b: Builder, call: OpCall, position: int, value: Value) -> Value | None:
    """A saved statistic as the trace recorded it: its dtype, its shape (also empty), or absent."""
    spec = call.outputs[position] if position < len(call.outputs) else None
    if spec is None:
        return None
    dtype, shape = spec
    if prod(shape) != value.size:
        return filled(b, "saved", dtype, shape)
    if (dtype, shape) == (value.dtype, value.shape):
        return value
    kept = iter(dims_of(value.shape))
    dims = dims_of(shape, "o")
    units = [name for (name, extent) in dims if extent != 1]
    index = [Affine() if extent == 1 else dim(units.pop(0)) for _, extent in kept]
    return b.statement("saved", dims, value[tuple(index)], dtype)


def _scaled_and_shifted(element: Expr, weight: Read | None, bias: Read | None) -> Expr:
    scaled = element if weight is None else apply("mul", element, weight)
    return scaled if bias is None else apply("add", scaled, bias)


def _row_dims(x: Value, normalized: Sequence[int]) -> tuple[Dims, Dims]:
    inner = len(normalized)
    return dims_of(x.shape[: x.rank - inner]), dims_of(x.shape[x.rank - inner :], "j")


@rule("aten.native_layer_norm", "aten.layer_norm")
def layer_norm(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """`(input, normalized_shape, weight, bias, eps)` -> output, mean, rstd."""
    x, weight, bias = call.args[0], call.arg(2, "weight"), call.arg(3, "bias")
    rows, inner = _row_dims(x, call.args[1])
    dims = [*rows, *inner]
    stats = _statistics(b, x, rows, inner, names_of(dims), dims, names_of(rows))
    rstd = _rstd(b, stats.variance, call.arg(4, "eps", 1e-5))
    element = apply("mul", stats.centred[names_of(dims)], rstd[names_of(rows)])
    columns = names_of(inner)
    y = b.statement(
        "layer_norm",
        dims,
        _scaled_and_shifted(element, weight and weight[columns], bias and bias[columns]),
        call.out_dtype,
    )
    return y, _side_output(b, call, 1, stats.mean), _side_output(b, call, 2, rstd)


# The smallest eps of F.rms_norm(eps=None) by dtype of the accumulation.
_EPSILON = {"f32": 1.1920928955078125e-07, "f64": 2.220446049250313e-16, "f16": 0.0009765625, "bf16": 0.0078125}


@rule("aten._fused_rms_norm", "aten.rms_norm")
def rms_norm(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """`(input, normalized_shape, weight, eps)` -> output, rstd."""
    x, weight, eps = call.args[0], call.arg(2, "weight"), call.arg(3, "eps")
    rows, inner = _row_dims(x, call.args[1])
    dims, dtype = [*rows, *inner], accumulator(x.dtype)
    squares = b.statement("squares", rows, apply("pow", x[names_of(dims)], 2), dtype, reduce=("sum", inner))
    mean = _divided(b, "mean_square", squares, prod(e for _, e in inner))
    rstd = _rstd(b, mean, _EPSILON[dtype] if eps is None else eps)
    element = apply("mul", x[names_of(dims)], rstd[names_of(rows)])
    y = b.statement(
        "rms_norm", dims, _scaled_and_shifted(element, weight and weight[names_of(inner)], None), call.out_dtype
    )
    return y, _side_output(b, call, 1, rstd)


def _channel_dims(x: Value) -> tuple[tuple[str, int], Dims]:
    """The batch axis and the axes behind the channel."""
    return ("n", x.shape[0]), dims_of(x.shape[2:], "s")


def _affine_by_channel(b: Builder, x: Value, dtype: str, kept: Dims, scale: Value, shift: Value | None) -> Value:
    """`x * scale + shift` with scale and shift over `kept`, some of the dims n and c."""
    batch, spatial = _channel_dims(x)
    dims = [batch, ("c", x.shape[1]), *spatial]
    body = _scaled_and_shifted(x[names_of(dims)], scale[names_of(kept)], shift and shift[names_of(kept)])
    return b.statement("normalized", dims, body, dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class _BatchNorm:
    x: Value
    weight: Value | None
    bias: Value | None
    mean: Value | None
    variance: Value | None
    training: bool
    eps: float
    momentum: float


def _batch_norm(
    b: Builder, call: OpCall, norm: _BatchNorm
) -> tuple[tuple[Value | None, ...], tuple[Value | None, ...]]:
    """Output and saved statistics; the running statistics after the call."""
    x = norm.x
    batch, spatial = _channel_dims(x)
    channel: Dims = [("c", x.shape[1])]
    dims = [batch, *channel, *spatial]
    if norm.training or norm.mean is None or norm.variance is None:
        stats = _statistics(b, x, channel, [batch, *spatial], names_of(dims), dims, ("c",))
        rstd = _rstd(b, stats.variance, norm.eps)
        scale = rstd if norm.weight is None else _product(b, rstd, norm.weight)
        y = _affine_by_channel(b, stats.centred, call.out_dtype, channel, scale, norm.bias)
        saved = _side_output(b, call, 1, stats.mean), _side_output(b, call, 2, rstd)
        return (y, *saved), _running(b, norm, stats) if norm.training else (norm.mean, norm.variance)
    rstd = _rstd(b, norm.variance, norm.eps)
    scale = rstd if norm.weight is None else _product(b, rstd, norm.weight)
    shift = _shift(b, channel, channel, norm.mean["c"], scale, norm.bias)
    y = _affine_by_channel(b, x, call.out_dtype, channel, scale, shift)
    saved = _side_output(b, call, 1, norm.mean), _side_output(b, call, 2, rstd)
    return (y, *saved), (norm.mean, norm.variance)


def _running(b: Builder, norm: _BatchNorm, stats: Statistics) -> tuple[Value | None, ...]:
    """`old + momentum * (new - old)`, with the unbiased variance."""
    count = norm.x.size // max(norm.x.shape[1], 1)
    unbiased = apply("mul", stats.variance["c"], count / max(count - 1, 1))

    def moved(old: Value | None, new: Expr) -> Value | None:
        if old is None:
            return None
        step = apply("mul", apply("sub", new, old["c"]), norm.momentum)
        return b.statement("running", [("c", old.size)], apply("add", old["c"], step), old.dtype)

    return moved(norm.mean, stats.mean["c"]), moved(norm.variance, unbiased)


def _product(b: Builder, x: Value, y: Value) -> Value:
    return pointwise(b, "scale", x.dtype, x.shape, "mul", x, y)


def _shift(b: Builder, dims: Dims, kept: Dims, mean: Read, scale: Value, bias: Value | None) -> Value:
    """`bias - mean * scale`, per channel."""
    moved = apply("mul", mean, scale[names_of(kept)])
    return b.statement(
        "shift", dims, apply("neg", moved) if bias is None else apply("sub", bias["c"], moved), scale.dtype
    )


# The positional arguments behind the input.
_FULL = "weight bias mean variance training momentum eps"
_INFERENCE = "weight bias mean variance momentum eps"
_NO_STATISTICS = "weight bias training momentum eps"
_BATCH_NORMS = {
    **dict.fromkeys(("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional"), _FULL),
    **dict.fromkeys(("batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_batch_norm_impl_index"), _FULL),
    **dict.fromkeys(("_native_batch_norm_legit_no_training", "_batch_norm_no_update"), _INFERENCE),
    **dict.fromkeys(("_batch_norm_with_update", "_batch_norm_with_update_functional"), _INFERENCE),
}


@rule(*(f"aten.{name}" for name in _BATCH_NORMS))
def batch_norm(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """Any variant of batch normalization: output, what it saves for the backward pass, new running statistics.

    `native_batch_norm` updates those without saying so: the trace has no place for them and the update is dropped.
    """
    name, _, overload = call.target.removeprefix("aten.").partition(".")
    signature = _NO_STATISTICS if overload == "no_stats" else _BATCH_NORMS[name]
    named: dict[str, Any] = dict(zip(signature.split(), call.args[1:], strict=False))
    named.update({k.removeprefix("running_").replace("var", "variance"): v for k, v in call.kwargs.items()})
    norm = _BatchNorm(
        x=call.args[0],
        weight=named.get("weight"),
        bias=named.get("bias"),
        mean=named.get("mean"),
        variance=named.get("variance"),
        training=named.get("training", "with_update" in name),
        eps=named.get("eps", named.get("epsilon", 1e-5)),
        momentum=named.get("momentum", 0.1),
    )
    results, running = _batch_norm(b, call, norm)
    rest, updates = list(results), iter(running)
    for spec in call.outputs[3:]:
        reserve = spec is not None and spec[0] == "u8"
        rest.append(filled(b, "reserve", *spec) if spec and reserve else next(updates, None) if spec else None)
    return tuple(rest)


@rule("aten.native_group_norm", "aten.group_norm")
def group_norm(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """`native_group_norm(input, weight, bias, N, C, HxW, group, eps)` -> output, mean, rstd;
    `group_norm(input, groups, weight, bias, eps)` -> output."""
    x = call.args[0]
    if call.target.startswith("aten.native"):
        weight, bias, groups, eps = call.args[1], call.args[2], call.args[6], call.args[7]
    else:
        weight, bias, groups, eps = call.arg(2, "weight"), call.arg(3, "bias"), call.args[1], call.arg(4, "eps", 1e-5)
    channels, size = x.shape[1], x.shape[1] // groups
    batch, spatial = _channel_dims(x)
    dims: Dims = [batch, ("c", channels), *spatial]
    member, group = dim("g") * size + dim("m"), dim("c") // max(size, 1)
    stats = _statistics(
        b, x, [batch, ("g", groups)], [("m", size), *spatial], ("n", member, *names_of(spatial)), dims, ("n", group)
    )  # fmt: skip
    rstd = _rstd(b, stats.variance, eps)
    factor = rstd["n", group]
    if weight is not None:
        scale = b.statement("scale", [batch, ("c", channels)], apply("mul", factor, weight["c"]), rstd.dtype)
        factor = scale["n", "c"]
    y = b.statement(
        "normalized",
        dims,
        _scaled_and_shifted(stats.centred[names_of(dims)], factor, bias and bias["c"]),
        call.out_dtype,
    )
    return y, _side_output(b, call, 1, stats.mean), _side_output(b, call, 2, rstd)


@rule("aten.renorm")
def renorm(b: Builder, call: OpCall) -> Value:
    """`(input, p, dim, maxnorm)`: slices along `dim` scaled down to at most `maxnorm`."""
    x, p, maxnorm = call.args[0], float(call.args[1]), float(call.args[3])
    axis: int = call.args[2] % x.rank
    dims = dims_of(x.shape)
    kept, over = [dims[axis]], [d for k, d in enumerate(dims) if k != axis]
    norm = vector_norm(b, x[names_of(dims)], kept, over, p, accumulator(x.dtype))
    name = dims[axis][0]
    factor = apply("div", maxnorm, apply("add", norm[name], 1e-7))
    scale = b.statement("scale", kept, apply("where", apply("gt", norm[name], maxnorm), factor, 1.0), norm.dtype)
    return b.statement("renorm", dims, apply("mul", x[names_of(dims)], scale[name]), call.out_dtype)


def vector_norm(b: Builder, element: Read, kept: Dims, over: Dims, p: float, dtype: str) -> Value:
    """The p-norm of `element` over `over`."""
    if p == float("inf"):
        return b.statement("norm", kept, apply("abs", element), dtype, reduce=("max", over))
    if p == 1:
        return b.statement("norm", kept, apply("abs", element), dtype, reduce=("sum", over))
    if p == 2:
        total = b.statement("norm", kept, apply("pow", element, 2), dtype, reduce=("sum", over))
        return pointwise(b, "norm", dtype, total.shape, "sqrt", total)
    total = b.statement("norm", kept, apply("pow", apply("abs", element), p), dtype, reduce=("sum", over))
    return pointwise(b, "norm", dtype, total.shape, "pow", total, 1 / p)


@rule("aten._weight_norm_interface", "aten._weight_norm")
def weight_norm(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """`(v, g, dim)` -> `v * g / norm(v)` and the norms; `dim` (first or last) is the axis that keeps its own norm."""
    v, g = call.args[:2]
    axis: int = call.arg(2, "dim", 0) % v.rank
    dims = dims_of(v.shape)
    kept, over = [dims[axis]], [d for k, d in enumerate(dims) if k != axis]
    norm = vector_norm(b, v[names_of(dims)], kept, over, 2.0, accumulator(v.dtype))
    name = dims[axis][0]
    weights = g[tuple(name if k == axis else 0 for k in range(g.rank))] if g.rank > 1 else g[name]
    scale = b.statement("scale", kept, apply("div", weights, norm[name]), norm.dtype)
    y = b.statement("weight_norm", dims, apply("mul", v[names_of(dims)], scale[name]), call.out_dtype)
    return y, _side_output(b, call, 1, norm)
