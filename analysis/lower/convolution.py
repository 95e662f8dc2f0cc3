"""Convolutions in one to three dimensions, transposed ones among them.

A tap on padding or on a cropped border is not in the guard: it is no work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sollens.analysis.ir.affine import Affine, dim, equals
from sollens.analysis.ir.nodes import Apply
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import apply
from sollens.analysis.lower.registry import rule
from sollens.analysis.lower.windows import Tap, axis_names, dimensions, folded, in_bounds, per_axis, sliding_tap


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Everything but the tensors; each tuple has one entry a spatial axis."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    transposed: bool = False


def convolve(
    b: Builder, x: Value, weight: Value, bias: Value | None, geometry: Geometry, shape: tuple[int, ...], dtype: str
) -> Value:
    """The convolution of `x` [n, c, ...] (or [c, ...]) with the output `shape`; its bias is a statement of its own."""
    rank = weight.rank - 2
    batch = [("n", x.shape[0])] if x.rank == rank + 2 else []
    spatial = zip(axis_names(rank), shape[-rank:], x.shape[-rank:], weight.shape[2:], geometry.stride, geometry.padding,
                  geometry.dilation, strict=True)  # fmt: skip
    taps = [(_transposed_tap if geometry.transposed else sliding_tap)(*axis) for axis in spatial]
    outs, over, guard = dimensions(taps)
    out_channels = shape[len(batch)]
    if geometry.transposed:
        per_group_in, per_group_out = weight.shape[0] // geometry.groups, weight.shape[1]
    else:
        per_group_in, per_group_out = weight.shape[1], weight.shape[0] // geometry.groups
    c, c_over = folded("c", per_group_in)
    if not c_over and not over:
        c, c_over = dim("c"), (("c", 1),)  # a sum over one product: still a contraction
    o = dim("o")
    group = o // max(per_group_out, 1) if geometry.groups > 1 else Affine()
    channel = group * per_group_in + c
    kernel = [t.kernel for t in taps]
    lead = tuple(name for name, _ in batch)
    pixel = x[(*lead, channel, *(t.index for t in taps))]
    if geometry.transposed:
        factor = weight[(channel, o - group * per_group_out, *kernel)]
    else:
        factor = weight[(o, c, *kernel)]
    dims = [*batch, ("o", out_channels), *outs]
    y = b.statement("conv", dims, Apply("mul", (pixel, factor)), dtype, reduce=("sum", [*c_over, *over]), guard=guard)
    if bias is None:
        return y
    point = y[tuple(name for name, _ in dims)]
    return b.statement("biased", dims, apply("add", point, bias["o"]), dtype)


def _transposed_tap(name: str, out: int, size: int, kernel: int, stride: int, padding: int, dilation: int) -> Tap:
    """Input `i` and tap `k` meet output `i * stride + k * dilation - padding`: solved for the one whose factor is 1."""
    output = (name, out)
    if stride == 1:
        k, over = folded(f"k{name}", kernel)
        index = dim(name) + padding - k * dilation
        return Tap(output, index, k, over, in_bounds(index, size, {name: out, **dict(over)}))
    i, positions = folded(f"i{name}", size)
    if dilation == 1:
        tap = dim(name) + padding - i * stride
        if kernel == 1:
            return Tap(output, i, Affine(), positions, (equals(tap, 0),))
        return Tap(output, i, tap, positions, in_bounds(tap, kernel, {name: out, **dict(positions)}))
    k, over = folded(f"k{name}", kernel)
    meets = equals(dim(name), i * stride + k * dilation - padding)
    return Tap(output, i, k, (*positions, *over), (meets,))


def _apply(b: Builder, call: OpCall, named: dict[str, Any]) -> Value:
    x, weight = named["input"], named["weight"]
    rank = weight.rank - 2
    kernel, dilation = weight.shape[2:], per_axis(named.get("dilation", 1), rank)
    padding = named.get("padding", 0)
    if padding == "same":  # the odd element goes to the far side
        padding = [d * (k - 1) // 2 for d, k in zip(dilation, kernel, strict=True)]
    geometry = Geometry(
        stride=per_axis(named.get("stride", 1), rank),
        padding=per_axis(0 if padding == "valid" else padding, rank),
        dilation=dilation,
        groups=named.get("groups", 1),
        transposed=named.get("transposed", False),
    )
    return convolve(b, x, weight, named.get("bias"), geometry, call.out_shape, call.out_dtype)


# The positional arguments of each operator.
_FULL = "input weight bias stride padding dilation transposed output_padding groups"
_FORWARD = "input weight bias stride padding dilation groups"
_TRANSPOSED = "input weight bias stride padding output_padding groups dilation"
_SLOW = "input weight kernel_size bias stride padding dilation"
_SIGNATURES: dict[str, tuple[str, bool]] = {
    **dict.fromkeys(("convolution", "_convolution", "convolution_overrideable"), (_FULL, False)),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), (_FORWARD, False)),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), (_TRANSPOSED, True)),
    **dict.fromkeys(
        ("mkldnn_convolution", "miopen_convolution"), ("input weight bias padding stride dilation groups", False)
    ),
    "miopen_depthwise_convolution": ("input weight bias padding stride dilation groups", False),
    "cudnn_convolution": ("input weight padding stride dilation groups", False),
    "cudnn_convolution_transpose": ("input weight padding output_padding stride dilation groups", True),
    "miopen_convolution_transpose": ("input weight bias padding output_padding stride dilation groups", True),
    **dict.fromkeys(("_slow_conv2d_forward", "slow_conv3d", "slow_conv3d_forward", "thnn_conv2d"), (_SLOW, False)),
    **dict.fromkeys(
        ("_conv_depthwise2d", "conv_depthwise3d", "slow_conv_dilated2d", "slow_conv_dilated3d"), (_SLOW, False)
    ),
    **dict.fromkeys(
        ("slow_conv_transpose2d", "slow_conv_transpose3d"),
        ("input weight kernel_size bias stride padding output_padding dilation", True),
    ),
}


@rule(*(f"aten.{name}" for name in _SIGNATURES))
def convolution(b: Builder, call: OpCall) -> Value:
    """Any of the operators that are one convolution, by its argument order."""
    signature, transposed = _SIGNATURES[call.target.split(".")[1]]
    named = {"transposed": transposed, **dict(zip(signature.split(), call.args, strict=False)), **call.kwargs}
    if "self" in named:
        named["input"] = named.pop("self")
    return _apply(b, call, named)


@rule("aten.conv_tbc")
def conv_tbc(b: Builder, call: OpCall) -> Value:
    """Time-major: x [t, b, c], weight [k, c, o], bias [o]."""
    x, weight, bias = call.args[:3]
    tap = sliding_tap("w", call.out_shape[0], x.shape[0], weight.shape[0], 1, call.arg(3, "pad", 0), 1)
    dims = [tap.output, ("n", x.shape[1]), ("o", weight.shape[2])]
    body = Apply("mul", (x[tap.index, "n", "c"], weight[tap.kernel, "c", "o"]))
    over = [("c", x.shape[2]), *tap.over]
    y = b.statement("conv", dims, body, call.out_dtype, reduce=("sum", over), guard=tap.guard)
    return b.statement("biased", dims, apply("add", y["w", "n", "o"], bias["o"]), call.out_dtype)
