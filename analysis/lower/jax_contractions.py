"""`dot_general` and `conv_general_dilated`: one statement each, a sum over a product of two reads."""

from __future__ import annotations

from sollens.analysis.ir.affine import Affine, Constraint, dim, equals
from sollens.analysis.ir.nodes import Apply
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.contractions import contraction
from sollens.analysis.lower.expressions import apply
from sollens.analysis.lower.registry import rule
from sollens.analysis.lower.windows import folded, in_bounds


@rule("jax.dot_general")
def dot_general(b: Builder, call: OpCall) -> Value:
    """The result has the batch axes, then the left's free ones, then the right's."""
    left, right = call.args
    (left_over, right_over), (left_batch, right_batch) = call.kwargs["dimension_numbers"]
    names: tuple[dict[int, str], dict[int, str]] = {}, {}
    dims: list[tuple[str, int]] = []
    for k, (one, other) in enumerate(zip(left_batch, right_batch, strict=True)):
        names[0][one] = names[1][other] = f"b{k}"
        dims.append((f"b{k}", left.shape[one]))
    over: list[tuple[str, int]] = []
    for k, (one, other) in enumerate(zip(left_over, right_over, strict=True)):
        names[0][one] = names[1][other] = f"k{k}"
        over.append((f"k{k}", left.shape[one]))
    for side, (operand, prefix) in enumerate(((left, "i"), (right, "j"))):
        for axis in range(operand.rank):
            if axis not in names[side]:
                names[side][axis] = f"{prefix}{axis}"
                dims.append((f"{prefix}{axis}", operand.shape[axis]))
    reads = [x[tuple(names[side][a] for a in range(x.rank))] for side, x in enumerate((left, right))]
    if not over:  # nothing is summed
        return b.statement("outer", dims, apply("mul", *reads), call.out_dtype)
    return contraction(b, "dot", dims, over, reads[0], reads[1], call.out_dtype)


def tap(
    name: str, out: int, size: int, kernel: int, stride: int, low: int, base: int, dilation: int, kernel_name: str = ""
) -> tuple[Affine, Affine, tuple[tuple[str, int], ...], list[Constraint]]:
    """One axis of a window of output `name`: (where it reads, which tap, dimensions it is folded over, guard).

    The input has `base - 1` gaps between elements, and `low` of padding (or cropping) before.
    """
    k, over = folded(kernel_name or f"k{name}", kernel)
    at = dim(name) * stride + k * dilation - low
    guard: list[Constraint] = []
    if base > 1 and size == 1:
        return Affine(), k, over, [equals(at, 0)]
    if base > 1:
        guard.append(equals(at % base, 0))
        at = at // base
    return at, k, over, [*guard, *in_bounds(at, size, {name: out, **dict(over)})]


@rule("jax.conv_general_dilated")
def conv_general_dilated(b: Builder, call: OpCall) -> Value:
    """Any strides, padding, dilations and groups; a tap on padding or between dilated inputs is no work."""
    x: Value = call.args[0]
    weight: Value = call.args[1]
    given = call.kwargs
    numbers = given["dimension_numbers"]
    x_axes: list[int] = numbers["lhs_spec"]
    w_axes: list[int] = numbers["rhs_spec"]
    out_axes: list[int] = numbers["out_spec"]
    rank = len(x_axes) - 2
    groups, batch_groups = given["feature_group_count"], given["batch_group_count"]
    outs = call.out_shape
    dims = [("", 0)] * (rank + 2)
    dims[out_axes[0]] = ("n", outs[out_axes[0]])
    dims[out_axes[1]] = ("o", outs[out_axes[1]])
    over: list[tuple[str, int]] = []
    guard: list[Constraint] = []
    x_index, w_index = [Affine()] * (rank + 2), [Affine()] * (rank + 2)
    for k in range(rank):
        name = f"s{k}"
        dims[out_axes[2 + k]] = (name, outs[out_axes[2 + k]])
        at, kernel, folds, inside = tap(
            name, outs[out_axes[2 + k]], x.shape[x_axes[2 + k]], weight.shape[w_axes[2 + k]],
            given["window_strides"][k], given["padding"][k][0], given["lhs_dilation"][k], given["rhs_dilation"][k],
        )  # fmt: skip
        x_index[x_axes[2 + k]], w_index[w_axes[2 + k]] = at, kernel
        over += folds
        guard += inside
    per_group = weight.shape[w_axes[1]]
    c, c_over = folded("c", per_group)
    if not c_over and not over:
        c, c_over = dim("c"), (("c", 1),)  # a sum over one product: still a contraction
    channels = max(weight.shape[w_axes[0]], 1)
    group = dim("o") // max(channels // groups, 1) if groups > 1 else Affine()
    part = dim("o") // max(channels // batch_groups, 1) * outs[out_axes[0]] if batch_groups > 1 else Affine()
    x_index[x_axes[0]] = dim("n") + part
    x_index[x_axes[1]] = group * per_group + c
    w_index[w_axes[0]], w_index[w_axes[1]] = dim("o"), c
    body = Apply("mul", (x[tuple(x_index)], weight[tuple(w_index)]))
    return b.statement("conv", dims, body, call.out_dtype, reduce=("sum", [*c_over, *over]), guard=guard)
