"""Sliding blocks as columns (unfold, im2col) and back (fold, col2im)."""

from __future__ import annotations

from collections.abc import Sequence

from sollens.analysis.ir.affine import Affine, Constraint, dim, equals, within
from sollens.analysis.ir.nodes import Select
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import as_expr
from sollens.analysis.lower.pointwise import dims_of
from sollens.analysis.lower.registry import rule


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[-1])


def _count(extent: int, kernel: int, dilation: int, padding: int, stride: int) -> int:
    """How many blocks fit along an axis."""
    return (extent + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


@rule("aten.im2col", "fn.unfold")
def im2col(b: Builder, call: OpCall) -> Value:
    """[N, C, H, W] -> [N, C * kh * kw, blocks]."""
    x = call.args[0]
    kernel, dilation = _pair(call.arg(1, "kernel_size")), _pair(call.arg(2, "dilation", 1))
    padding, stride = _pair(call.arg(3, "padding", 0)), _pair(call.arg(4, "stride", 1))
    width = _count(x.shape[-1], kernel[1], dilation[1], padding[1], stride[1])
    dims = dims_of(call.out_shape)
    *lead, row, block = (dim(n) for n, _ in dims)
    taps = (row // kernel[1]) % kernel[0], row % kernel[1]
    places = block // max(width, 1), block % max(width, 1)
    at = [places[k] * stride[k] + taps[k] * dilation[k] - padding[k] for k in (0, 1)]
    element = x[(*lead, row // (kernel[0] * kernel[1]), *at)]
    inside = [c for k in (0, 1) if padding[k] for c in within(at[k], x.shape[k - 2])]
    body = Select(tuple(inside), element, as_expr(0)) if inside else element
    return b.statement("im2col", dims, body, x.dtype)


@rule("aten.col2im", "fn.fold")
def col2im(b: Builder, call: OpCall) -> Value:
    """[N, C * kh * kw, blocks] -> [N, C, H, W]: every element sums the taps that cover it."""
    x, size = call.args[0], call.arg(1, "output_size")
    kernel, dilation = _pair(call.arg(2, "kernel_size")), _pair(call.arg(3, "dilation", 1))
    padding, stride = _pair(call.arg(4, "padding", 0)), _pair(call.arg(5, "stride", 1))
    counts = [_count(_pair(size)[k], kernel[k], dilation[k], padding[k], stride[k]) for k in (0, 1)]
    dims = dims_of(call.out_shape)
    *lead, channel, y, z = (dim(n) for n, _ in dims)
    guard: list[Constraint] = []
    places: list[Affine] = []
    for k, position in enumerate((y, z)):
        from_start = position + padding[k] - dim(f"r{k}") * dilation[k]
        if stride[k] > 1:
            guard.append(equals(from_start % stride[k], 0))
        places.append(from_start // stride[k])
        guard += within(places[-1], counts[k])
    row = (channel * kernel[0] + dim("r0")) * kernel[1] + dim("r1")
    element = x[(*lead, row, places[0] * counts[1] + places[1])]
    over = [("r0", kernel[0]), ("r1", kernel[1])]
    return b.statement("col2im", dims, element, x.dtype, reduce=("sum", over), guard=guard)
