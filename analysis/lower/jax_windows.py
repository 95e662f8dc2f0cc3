"""Windows of JAX: reductions over them, and the gradient of a maximum over them."""

from __future__ import annotations

from math import prod

from sollens.analysis.ir.affine import Affine, Constraint, dim
from sollens.analysis.ir.nodes import Expr, IndexValue
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import apply
from sollens.analysis.lower.jax_contractions import tap
from sollens.analysis.lower.jax_movement import as_value
from sollens.analysis.lower.pointwise import converted, dims_of, filled
from sollens.analysis.lower.registry import rule
from sollens.analysis.lower.views import reshaped
from sollens.analysis.lower.windows import in_bounds

_KINDS = {"reduce_window_sum": "sum", "reduce_window_max": "max", "reduce_window_min": "min"}
# Computations that fold, their identities and the scalar operation that joins the initial value.
FOLDS = {"add": ("sum", 0, "add"), "mul": ("prod", 1, "mul"), "max": ("max", None, "maximum"),
         "min": ("min", None, "minimum"), "or": ("any", 0, "or"), "and": ("all", 1, "and")}  # fmt: skip


@rule(*(f"jax.{name}" for name in _KINDS))
def reduce_window(b: Builder, call: OpCall) -> Value:
    """Padding is no element of a window: it never wins and adds nothing."""
    return _windowed(b, call, _KINDS[call.target.split(".")[1]])


@rule("jax.reduce_window")
def reduce_window_by(b: Builder, call: OpCall) -> Value:
    """The window folded by a computation of one primitive, from an initial value."""
    if len(call.args) != 2 or call.kwargs.get("computation") not in FOLDS:
        raise NotImplementedError("a window folded by a computation of more than one primitive")
    kind, neutral, join = FOLDS[call.kwargs["computation"]]
    return joined(b, _windowed(b, call, kind), call.args[1], neutral, join)


@rule("jax.reduce")
def reduce_by(b: Builder, call: OpCall) -> Value:
    """Axes folded by a computation of one primitive, from an initial value."""
    if len(call.args) != 2 or call.kwargs.get("computation") not in FOLDS:
        raise NotImplementedError("a reduction by a computation of more than one primitive")
    kind, neutral, join = FOLDS[call.kwargs["computation"]]
    x, axes = call.args[0], call.kwargs["dimensions"]
    dims = dims_of(x.shape)
    over = [d for k, d in enumerate(dims) if k in axes]
    kept = [d for k, d in enumerate(dims) if k not in axes]
    y = b.statement("reduce", kept, x[tuple(n for n, _ in dims)], call.out_dtype, reduce=(kind, over))
    return joined(b, y, call.args[1], neutral, join)


def joined(b: Builder, y: Value, initial: object, neutral: float | None, join: str) -> Value:
    """`y` with the initial value folded in; nothing for the identity."""
    if not isinstance(initial, Value) and isinstance(initial, int | float):
        extreme = {"maximum": float("-inf"), "minimum": float("inf")}.get(join, neutral)
        if initial in (extreme, neutral):
            return y
    start = as_value(b, initial, y.dtype)
    dims = dims_of(y.shape)
    return b.statement("joined", dims, apply(join, y[tuple(n for n, _ in dims)], start[()]), y.dtype)


def _windowed(b: Builder, call: OpCall, kind: str) -> Value:
    x, given = call.args[0], call.kwargs
    dims, over, guard, index = list[tuple[str, int]](), list[tuple[str, int]](), list[Constraint](), list[Affine]()
    for k, (size, out) in enumerate(zip(x.shape, call.out_shape, strict=True)):
        at, _, folds, inside = tap(
            f"s{k}", out, size, given["window_dimensions"][k], given["window_strides"][k], given["padding"][k][0],
            given["base_dilation"][k], given["window_dilation"][k],
        )  # fmt: skip
        dims.append((f"s{k}", out))
        over += folds
        guard += inside
        index.append(at)
    if not over:
        over = [("window", 1)]
    return b.statement("window", dims, x[tuple(index)], call.out_dtype, reduce=(kind, over), guard=guard)


@rule("jax.select_and_scatter_add")
def select_and_scatter_add(b: Builder, call: OpCall) -> Value:
    """Each element of the source is added to where the extreme of its window stands, the first of equals."""
    source, x = call.args
    given = call.kwargs
    sizes, strides, padding = given["window_dimensions"], given["window_strides"], given["padding"]
    dims = [(f"s{k}", n) for k, n in enumerate(source.shape)]
    window = prod(sizes)
    index, guard, step = [Affine()] * x.rank, list[Constraint](), window
    tap_of: list[tuple[int, int]] = []
    extents = {**dict(dims), "k": window}
    for k, size in enumerate(sizes):
        step //= size
        tap_of.append((step, size))
        offset = ((dim("k") // step) % size).simplify(extents) if size > 1 else Affine()
        index[k] = dim(f"s{k}") * strides[k] + offset - padding[k][0]
        guard += in_bounds(index[k], x.shape[k], extents)
    kind = "argmax" if given.get("select") in ("ge", "gt", None) else "argmin"
    best = b.statement("best", dims, x[tuple(index)], "i64", reduce=(kind, [("k", window)]), guard=guard)
    here = best[tuple(n for n, _ in dims)]
    flat: Expr | None = None
    for k, (step, size) in enumerate(tap_of):
        stride = prod(x.shape[k + 1 :])
        base = IndexValue((dim(f"s{k}") * strides[k] - padding[k][0]) * stride)
        offset_value = apply("mul", apply("mod", apply("floordiv", here, step), size), stride)
        place = apply("add", base, offset_value) if size > 1 else base
        flat = place if flat is None else apply("add", flat, place)
    assert flat is not None
    at = reshaped(b, "place", b.statement("place", dims, flat, "i64"), (source.size,))
    zeros = filled(b, "zeros", call.out_dtype, (x.size,))
    moved = reshaped(b, "source", converted(b, "source", call.out_dtype, source), (source.size,))
    (result,) = b.call(
        "scatter", [zeros, at, moved], [(call.out_dtype, (x.size,))], "scattered", axis=0, reduce="add",
        include_self=True,
    )  # fmt: skip
    return reshaped(b, "scattered", result, x.shape)
