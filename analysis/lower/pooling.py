"""Pooling: a reduction over the taps of each window that are inside the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from sollens.analysis.ir.affine import Affine, Constraint, at_least, dim, less
from sollens.analysis.ir.nodes import Expr, IndexValue
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import apply, iota, select
from sollens.analysis.lower.pointwise import accumulator, converted, dims_of, pointwise
from sollens.analysis.lower.registry import rule
from sollens.analysis.lower.windows import axis_names, in_bounds, per_axis


@dataclass(frozen=True, slots=True)
class Axis:
    """One pooled axis: taps of output `name` read `first + tap * step`."""

    name: str
    out: int
    size: int
    taps: int
    first: Affine
    step: int
    # Where the window ends short of `taps`; None when it never does.
    end: Affine | None = None

    @property
    def tap(self) -> str:
        """Name of the tap's dimension."""
        return f"k{self.name}"

    def index(self, tap: Affine) -> Affine:
        """Input position of a tap."""
        return self.first + tap * self.step

    def guard(self, tap: Affine, extents: dict[str, int]) -> tuple[Constraint, ...]:
        """Which taps are in the window and in the input."""
        index = self.index(tap)
        ends = () if self.end is None else (less(index, self.end),)
        # An adaptive window lies inside the input: its end is the only limit.
        return ends if self.end is not None else in_bounds(index, self.size, extents)


def _pool(b: Builder, hint: str, kind: str, x: Value, axes: Sequence[Axis], dtype: str) -> Value:
    lead = dims_of(x.shape[: x.rank - len(axes)])
    outs = [(a.name, a.out) for a in axes]
    taps = [(a.tap, a.taps) for a in axes if a.taps != 1]
    extents = dict([*outs, *taps])
    tap_of = {a.name: dim(a.tap) if a.taps != 1 else Affine() for a in axes}
    body = x[(*(n for n, _ in lead), *(a.index(tap_of[a.name]) for a in axes))]
    guard = [c for a in axes for c in a.guard(tap_of[a.name], extents)]
    reduce = (kind, taps or [(axes[-1].tap, 1)])
    return b.statement(hint, [*lead, *outs], body, dtype, reduce=reduce, guard=guard)


def _positions(b: Builder, x: Value, axes: Sequence[Axis]) -> Value:
    """Flat position in the input plane of the first largest element of each window."""
    lead = dims_of(x.shape[: x.rank - len(axes)])
    outs = [(a.name, a.out) for a in axes]
    dims = [*lead, *outs]
    total = prod(a.taps for a in axes)
    extents = dict([*outs, ("k", total)])
    taps: list[Affine] = []
    inner = total
    for a in axes:
        inner //= a.taps
        taps.append((dim("k") // inner) % a.taps if a.taps > 1 else Affine())
    taps = [t.simplify(extents) for t in taps]
    body = x[(*(n for n, _ in lead), *(a.index(t) for a, t in zip(axes, taps, strict=True)))]
    guard = [c for a, t in zip(axes, taps, strict=True) for c in a.guard(t, extents)]
    best = b.statement("argmax", dims, body, "i64", reduce=("argmax", [("k", total)]), guard=guard)
    chosen = best[tuple(n for n, _ in dims)]
    offset, flat, pitch, inner = Affine(), None, prod(a.size for a in axes), total
    for a in axes:
        inner //= a.taps
        pitch //= max(a.size, 1)
        offset = offset + a.first * pitch
        if a.taps == 1:
            continue
        tap = chosen if inner == 1 else apply("floordiv", chosen, inner)
        tap = tap if inner * a.taps == total else apply("mod", tap, a.taps)
        moved = tap if a.step * pitch == 1 else apply("mul", tap, a.step * pitch)
        flat = moved if flat is None else apply("add", flat, moved)
    value: Expr = iota(offset) if flat is None else apply("add", iota(offset), flat)
    return b.statement("positions", dims, value, "i64")


def strides_of(stride: Any, kernels: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of windows: unless given, they stand side by side."""
    return per_axis(stride, len(kernels)) if stride not in ([], (), None) else kernels


def fixed_axes(
    outs: Sequence[int], sizes: Sequence[int], kernel: Any, stride: Any, padding: Any, dilation: Any
) -> list[Axis]:
    """Windows of one size."""
    rank = len(outs)
    kernels = per_axis(kernel, rank)
    strides, pads, dilations = strides_of(stride, kernels), per_axis(padding, rank), per_axis(dilation, rank)
    columns = zip(axis_names(rank), outs, sizes, kernels, strides, pads, dilations, strict=True)
    return [Axis(n, out, size, k, dim(n) * s - p, d) for n, out, size, k, s, p, d in columns]


def adaptive_axes(outs: Sequence[int], sizes: Sequence[int]) -> list[Axis]:
    """Windows from `floor(o * size / out)` to `ceil((o + 1) * size / out)`."""
    axes: list[Axis] = []
    for n, out, size in zip(axis_names(len(outs)), outs, sizes, strict=True):
        if out and size % out == 0:
            axes.append(Axis(n, out, size, size // out, dim(n) * (size // out), 1))
            continue
        first, end = dim(n) * size // max(out, 1), (dim(n) * size + size + out - 1) // max(out, 1)
        lengths = {end.evaluate({n: o}) - first.evaluate({n: o}) for o in range(out)}
        taps = max(lengths, default=1)
        axes.append(Axis(n, out, size, taps, first, 1, None if lengths == {taps} else end))
    return axes


def rank_of(call: OpCall) -> int:
    """Pooled axes, from the operator's name."""
    return int(next(c for c in call.target if c in "123"))


@rule(
    "aten.max_pool1d", "aten.max_pool2d", "aten.max_pool3d", "aten.max_pool1d_with_indices",
    "aten.max_pool2d_with_indices", "aten.max_pool3d_with_indices", "aten.mkldnn_max_pool2d", "aten.mkldnn_max_pool3d",
)  # fmt: skip
def max_pool(b: Builder, call: OpCall) -> tuple[Value, ...] | Value:
    """`(input, kernel_size, stride=kernel_size, padding=0, dilation=1, ceil_mode=False)`."""
    x = call.arg(0, "self")
    rank = rank_of(call)
    windows = (
        call.arg(1, "kernel_size"),
        call.arg(2, "stride", []),
        call.arg(3, "padding", 0),
        call.arg(4, "dilation", 1),
    )
    return _largest(b, call, x, fixed_axes(call.out_shape[-rank:], x.shape[-rank:], *windows))


@rule("aten.adaptive_max_pool1d", "aten.adaptive_max_pool2d", "aten.adaptive_max_pool3d")
def adaptive_max_pool(b: Builder, call: OpCall) -> tuple[Value, ...] | Value:
    """`(input, output_size)`: values and flat positions."""
    x, rank = call.arg(0, "self"), rank_of(call)
    return _largest(b, call, x, adaptive_axes(call.out_shape[-rank:], x.shape[-rank:]))


def _largest(b: Builder, call: OpCall, x: Value, axes: Sequence[Axis]) -> tuple[Value, ...] | Value:
    y = _pool(b, "max_pool", "max", x, axes, call.out_dtype)
    return y if len(call.outputs) < 2 else (y, _positions(b, x, axes))


@rule("aten.avg_pool1d", "aten.avg_pool2d", "aten.avg_pool3d")
def avg_pool(b: Builder, call: OpCall) -> Value:
    """`(input, kernel, stride=kernel, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None)`."""
    x, rank = call.arg(0, "self"), rank_of(call)
    padding = call.arg(3, "padding", 0)
    windows = call.arg(1, "kernel_size"), call.arg(2, "stride", []), padding, 1
    axes = fixed_axes(call.out_shape[-rank:], x.shape[-rank:], *windows)
    override = call.arg(6, "divisor_override")
    if override is not None:
        return _mean(b, call, x, axes, override)
    pads = per_axis(padding, rank) if call.arg(5, "count_include_pad", True) else (0,) * rank
    return _mean(b, call, x, axes, average_divisor(b, axes, pads))


def average_divisor(b: Builder, axes: Sequence[Axis], pads: Sequence[int]) -> Value | int:
    """Elements of each window of one size, so many of the padding among them."""
    return _divisor(b, axes, [_clipped_length(a, p) for a, p in zip(axes, pads, strict=True)])


@rule(
    "aten.adaptive_avg_pool1d", "aten.adaptive_avg_pool2d", "aten.adaptive_avg_pool3d", "aten._adaptive_avg_pool2d",
    "aten._adaptive_avg_pool3d",
)  # fmt: skip
def adaptive_avg_pool(b: Builder, call: OpCall) -> Value:
    """`(input, output_size)`: the mean of windows whose lengths may differ."""
    x, rank = call.arg(0, "self"), rank_of(call)
    axes = adaptive_axes(call.out_shape[-rank:], x.shape[-rank:])
    return _mean(b, call, x, axes, adaptive_divisor(b, axes))


def adaptive_divisor(b: Builder, axes: Sequence[Axis]) -> Value | int:
    """Elements of each window, whose lengths may differ."""
    return _divisor(b, axes, [a.taps if a.end is None else IndexValue(a.end - a.first) for a in axes])


def _mean(b: Builder, call: OpCall, x: Value, axes: Sequence[Axis], divisor: Value | int) -> Value:
    total = _pool(b, "window_sum", "sum", x, axes, accumulator(call.out_dtype))
    if divisor == 1:
        return converted(b, "avg_pool", call.out_dtype, total)
    return pointwise(b, "avg_pool", call.out_dtype, total.shape, "div", total, divisor)


def _clipped_length(a: Axis, padding: int) -> Expr | int:
    """Taps of the window in `[-padding, size + padding)`: a number when all windows have as many."""
    low, high, last = -padding, a.size + padding, a.first + a.taps
    lengths = {min(last.evaluate({a.name: o}), high) - max(a.first.evaluate({a.name: o}), low) for o in range(a.out)}
    if len(lengths) <= 1:
        return lengths.pop() if lengths else 1
    starts_inside, ends_inside = at_least(a.first, low), at_least(high, last)
    return select(
        starts_inside,
        select(ends_inside, IndexValue(Affine(a.taps)), IndexValue(high - a.first)),
        select(ends_inside, IndexValue(last - low), IndexValue(Affine(high - low))),
    )


def _divisor(b: Builder, axes: Sequence[Axis], lengths: Sequence[Expr | int]) -> Value | int:
    """The product of the lengths: a number, or one small generated tensor over the varying output positions."""
    number = prod(n for n in lengths if isinstance(n, int))
    varying = [(a, n) for a, n in zip(axes, lengths, strict=True) if not isinstance(n, int)]
    if not varying:
        return number
    body: Expr = varying[0][1]
    for _, n in varying[1:]:
        body = apply("mul", body, n)
    body = body if number == 1 else apply("mul", body, number)
    kept = {a.name for a, _ in varying}
    return b.statement("window_size", [(a.name, a.out if a.name in kept else 1) for a in axes], body, "f32")
