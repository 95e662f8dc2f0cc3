"""Gradients of convolutions and pooling.

The gradient of a convolution's input is a convolution the other way round; that of its weight sums, for every tap, the
products of each output's gradient and the input that the tap met.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from sollens.analysis.ir.affine import Affine, Constraint, at_least, dim, equals, less, within
from sollens.analysis.ir.nodes import Apply
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.convolution import Geometry, convolve
from sollens.analysis.lower.pointwise import accumulator, converted, dims_of, filled, names_of, pointwise
from sollens.analysis.lower.pooling import (
    adaptive_axes,
    adaptive_divisor,
    average_divisor,
    fixed_axes,
    rank_of,
    strides_of,
)
from sollens.analysis.lower.registry import rule
from sollens.analysis.lower.views import reshaped
from sollens.analysis.lower.windows import axis_names, folded, in_bounds, per_axis


@rule("aten.convolution_backward")
def convolution_backward(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """`(grad, x, weight, bias sizes, stride, padding, dilation, transposed, output padding, groups, mask)`."""
    grad, x, weight = call.args[:3]
    rank = weight.rank - 2
    stride, padding, dilation = (per_axis(v, rank) for v in call.args[4:7])
    transposed, groups = call.args[7], call.args[9]
    wants = [bool(m) and call.wants(k) for k, m in enumerate(call.args[10])]
    of_x = of_weight = of_bias = None
    if wants[0]:
        back = Geometry(stride=stride, padding=padding, dilation=dilation, groups=groups, transposed=not transposed)
        of_x = convolve(b, grad, weight, None, back, x.shape, x.dtype)
    if wants[1]:
        placed, slid = (x, grad) if transposed else (grad, x)
        of_weight = _of_weight(b, placed, slid, weight, (stride, padding, dilation), groups)
    if wants[2]:
        over = [("n", grad.shape[0]), *dims_of(grad.shape[2:], "s")]
        element = grad[("n", "o", *(n for n, _ in over[1:]))]
        total = b.statement("grad_bias", [("o", grad.shape[1])], element, accumulator(grad.dtype), reduce=("sum", over))
        of_bias = converted(b, "grad_bias", grad.dtype, total)
    return of_x, of_weight, of_bias


def _of_weight(
    b: Builder, placed: Value, slid: Value, weight: Value, steps: Sequence[tuple[int, ...]], groups: int
) -> Value:
    """`sum over n, p of placed[n, a, p] * slid[n, group of a and c, p * stride + k * dilation - padding]`."""
    rank = weight.rank - 2
    per_group, rows = weight.shape[1], weight.shape[0] // groups
    a, c = ("a", weight.shape[0]), ("c", per_group)
    dims, over = [a, c], [("n", placed.shape[0])]
    index: list[Affine] = []
    at: list[Affine] = []
    guard: list[Constraint] = []
    for name, size, count, kernel, stride, padding, dilation in zip(
        axis_names(rank), slid.shape[2:], placed.shape[2:], weight.shape[2:], *steps, strict=True
    ):
        position, positions = folded(name, count)
        tap = dim(f"k{name}")
        dims.append((f"k{name}", kernel))
        over += positions
        place = position * stride + tap * dilation - padding
        guard += in_bounds(place, size, {f"k{name}": kernel, **dict(positions)})
        at.append(position)
        index.append(place)
    group = dim("a") // max(rows, 1) if groups > 1 else Affine()
    body = Apply("mul", (placed[("n", "a", *at)], slid[("n", group * per_group + dim("c"), *index)]))
    return b.statement("grad_weight", dims, body, weight.dtype, reduce=("sum", over), guard=guard)


@rule("aten.max_pool2d_with_indices_backward", "aten.max_pool3d_with_indices_backward")
def max_pool_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, x, kernel, stride, padding, dilation, ceil_mode, positions)`: each goes to where the largest was."""
    grad, x, kernel, stride = call.args[:4]
    rank = rank_of(call)
    kernels, dilations = per_axis(kernel, rank), per_axis(call.args[5], rank)
    strides = strides_of(stride, kernels)
    # Windows that cannot meet write each place once: nothing is added.
    apart = all(d * (k - 1) < s for k, d, s in zip(kernels, dilations, strides, strict=True))
    return _placed(b, call, grad, x, call.args[7], rank, "none" if apart else "add")


@rule("aten.adaptive_max_pool2d_backward", "aten.adaptive_max_pool3d_backward")
def adaptive_max_pool_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, x, positions)`."""
    grad, x, positions = call.args[:3]
    rank = rank_of(call)
    apart = all(n and s % n == 0 for s, n in zip(x.shape[-rank:], grad.shape[-rank:], strict=True))
    return _placed(b, call, grad, x, positions, rank, "none" if apart else "add")


def _placed(b: Builder, call: OpCall, grad: Value, x: Value, positions: Value, rank: int, reduce: str) -> Value:
    lead, plane = x.shape[: x.rank - rank], prod(x.shape[x.rank - rank :])
    outs = prod(grad.shape[grad.rank - rank :])
    start = filled(b, "zeros", call.out_dtype, (*lead, plane))
    index, source = (reshaped(b, v.name, v, (*lead, outs)) for v in (positions, grad))
    (flat,) = b.call(
        "scatter", [start, index, source], [(call.out_dtype, (*lead, plane))], "max_pool_backward",
        axis=len(lead), reduce=reduce, include_self=True,
    )  # fmt: skip
    return reshaped(b, "max_pool_backward", flat, x.shape)


@rule("aten.avg_pool2d_backward", "aten.avg_pool3d_backward")
def avg_pool_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor)`: every element sums the shares of the
    windows over it."""
    grad, x, kernel, stride, padding, _, include_pad, override = call.args[:8]
    rank = rank_of(call)
    kernels, pads = per_axis(kernel, rank), per_axis(padding, rank)
    strides = strides_of(stride, kernels)
    axes = fixed_axes(grad.shape[-rank:], x.shape[-rank:], kernel, stride, padding, 1)
    share = _share(b, grad, override or average_divisor(b, axes, pads if include_pad else (0,) * rank))
    lead = dims_of(x.shape[:-rank])
    dims, over = list(lead), list(lead[:0])
    index: list[Affine] = []
    guard: list[Constraint] = []
    for a, k, s, p in zip(axes, kernels, strides, pads, strict=True):
        n = a.name
        dims.append((n, a.size))
        if k <= s:  # at most one window is over an element
            place = (dim(n) + p) // s
            if k < s:
                guard.append(less((dim(n) + p) % s, k))
        else:
            tap = dim(f"k{n}")
            over.append((f"k{n}", k))
            if s > 1:
                guard.append(equals((dim(n) + p - tap) % s, 0))
            place = (dim(n) + p - tap) // s
        index.append(place)
        guard += within(place, a.out)
    element = share[(*names_of(lead), *index)]
    if not over:
        return b.statement("avg_pool_backward", dims, element, call.out_dtype, guard=guard)
    return b.statement("avg_pool_backward", dims, element, call.out_dtype, reduce=("sum", over), guard=guard)


@rule("aten._adaptive_avg_pool2d_backward", "aten._adaptive_avg_pool3d_backward")
def adaptive_avg_pool_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, x)`."""
    grad, x = call.args[:2]
    rank = rank_of(call)
    axes = adaptive_axes(grad.shape[-rank:], x.shape[-rank:])
    share = _share(b, grad, adaptive_divisor(b, axes))
    lead = dims_of(x.shape[:-rank])
    dims = [*lead, *((a.name, a.size) for a in axes)]
    if all(a.out and a.size % a.out == 0 for a in axes):  # one window is over each element
        index = [dim(a.name) // (a.size // a.out) for a in axes]
        return b.statement("adaptive_avg_pool_backward", dims, share[(*names_of(lead), *index)], call.out_dtype)
    over, guard = list(lead[:0]), list[Constraint]()
    for a in axes:
        window = f"o{a.name}"
        over.append((window, a.out))
        first, end = (e.substitute({a.name: dim(window)}) for e in (a.first, a.end or a.first + a.taps))
        guard += [at_least(dim(a.name), first), less(dim(a.name), end)]
    element = share[(*names_of(lead), *names_of(over))]
    return b.statement("adaptive_avg_pool_backward", dims, element, call.out_dtype, reduce=("sum", over), guard=guard)


def _share(b: Builder, grad: Value, divisor: Value | int) -> Value:
    """What each element of a window gets."""
    return grad if divisor == 1 else pointwise(b, "share", accumulator(grad.dtype), grad.shape, "div", grad, divisor)
