"""Writes at positions that are data: scatter, index_add, index_put and their kin."""

from __future__ import annotations

from collections.abc import Sequence

from sollens.analysis.ir.nodes import Literal
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import apply, normalize, scaled
from sollens.analysis.lower.indexing import expanded, is_mask, stretched
from sollens.analysis.lower.pointwise import broadcast_read, dims_of, filled
from sollens.analysis.lower.registry import rule
from sollens.analysis.lower.views import reshaped

_REDUCE = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "mean": "mean", "amax": "amax", "amin": "amin"}


def _tensor(b: Builder, value: Value | float, dtype: str, shape: Sequence[int]) -> Value:
    """The value as a tensor of a shape."""
    if isinstance(value, Value):
        return value
    return b.statement("value", dims_of(shape), Literal(value), dtype)


def _one_axis(b: Builder, *tensors: Value) -> list[Value]:
    """Scalars as tensors of one element."""
    return [t if t.rank else reshaped(b, t.name, t, (1,)) for t in tensors]


@rule("aten.scatter", "aten.scatter_add", "aten.scatter_reduce")
def scatter(b: Builder, call: OpCall) -> Value:
    """x with a source written, or folded in, at positions along an axis."""
    x, axis, index = call.args[:3]
    source = _tensor(b, call.arg(3, "src", call.kwargs.get("value")), x.dtype, index.shape)
    named = call.arg(4, "reduce")
    reduce = "add" if "scatter_add" in call.target else _REDUCE[named] if named else "none"
    self_too = call.kwargs.get("include_self", True)
    x, index, source = _one_axis(b, x, index, source)
    (result,) = b.call(
        "scatter", [x, index, source], [(x.dtype, x.shape)], "scatter",
        axis=normalize(axis, x.rank), reduce=reduce, include_self=bool(self_too),
    )  # fmt: skip
    return result if result.shape == call.out_shape else reshaped(b, "scatter", result, call.out_shape)


@rule("aten.index_add", "aten.index_copy", "aten.index_fill", "aten.index_reduce")
def index_add(b: Builder, call: OpCall) -> Value:
    """x with rows of a source written, or folded in, at positions of an axis."""
    x, axis, index = call.args[:3]
    source = call.args[3]
    axis = normalize(axis, x.rank)
    (index,) = _one_axis(b, index)
    reduce, self_too = "none", True
    if "index_add" in call.target:
        reduce, alpha = "add", call.kwargs.get("alpha", 1)
        if alpha != 1:
            dims = dims_of(source.shape)
            source = b.statement("source", dims, scaled(source[tuple(n for n, _ in dims)], alpha), source.dtype)
    elif "index_reduce" in call.target:
        reduce, self_too = _REDUCE[call.args[4]], call.kwargs.get("include_self", True)
    elif "index_fill" in call.target:
        shape = (*x.shape[:axis], index.size, *x.shape[axis + 1 :])
        number = source[()] if isinstance(source, Value) else Literal(source)
        source = b.statement("value", dims_of(shape), number, x.dtype)
    if not x.rank:
        raise NotImplementedError("rows of a scalar")
    return b.call(
        "index_add", [x, index, source], [(x.dtype, x.shape)], call.target.split(".")[1],
        axis=axis, reduce=reduce, include_self=bool(self_too),
    )[0]  # fmt: skip


@rule("aten.index_put", "aten._unsafe_index_put", "aten._index_put_impl")
def index_put(b: Builder, call: OpCall) -> Value:
    """x with values written, or added, at an advanced index; one value under a mask is a selection."""
    x, indices, values = call.args[:3]
    accumulate = bool(call.arg(3, "accumulate", False))
    indices = list(indices)
    if values.dtype != x.dtype:
        dims = dims_of(values.shape)
        values = b.statement("values", dims, values[tuple(n for n, _ in dims)], x.dtype)
    used = [k for k, i in enumerate(indices) if i is not None]
    if len(used) == 1 and is_mask(indices[used[0]]) and _reaches_all(values, x, used[0], indices[used[0]]):
        return _masked(b, x, indices[used[0]], used[0], values, accumulate)
    count = max([1, *(n for n in values.shape)]) if any(is_mask(i) for i in indices) else 0
    axes, tensors = expanded(b, indices, count)
    return b.call(
        "index_put", [x, *tensors, values], [(x.dtype, x.shape)], "index_put", axes=axes, accumulate=accumulate
    )[0]


def _reaches_all(values: Value, x: Value, first: int, mask: Value) -> bool:
    """The same values go to every element that the mask selects."""
    trailing = x.rank - first - mask.rank
    return values.rank <= trailing or all(n == 1 for n in values.shape[: values.rank - trailing])


def _masked(b: Builder, x: Value, mask: Value, first: int, values: Value, accumulate: bool) -> Value:
    dims = dims_of(x.shape)
    chosen = mask[tuple(n for n, _ in dims[first : first + mask.rank])]
    old = x[tuple(n for n, _ in dims)]
    trailing = dims[first + mask.rank :]
    if values.rank > len(trailing):
        values = reshaped(b, "values", values, values.shape[values.rank - len(trailing) :])
    new = broadcast_read(values, trailing)
    return b.statement(
        "masked", dims, apply("where", chosen, apply("add", old, new) if accumulate else new, old), x.dtype
    )


@rule("aten.put")
def put(b: Builder, call: OpCall) -> Value:
    """x with elements written by their position in row-major order."""
    x, index, source = call.args[:3]
    flat = [reshaped(b, v.name, v, (v.size,)) for v in (x, index, source)]
    reduce = "add" if call.arg(3, "accumulate", False) else "none"
    (result,) = b.call("scatter", flat, [(x.dtype, (x.size,))], "put", axis=0, reduce=reduce, include_self=True)
    return reshaped(b, "put", result, x.shape)


@rule("aten.bincount")
def bincount(b: Builder, call: OpCall) -> Value:
    """How often each number occurs, or the sum of its weights."""
    x, weights = call.args[0], call.arg(1, "weights")
    start = filled(b, "zeros", call.out_dtype, call.out_shape, 0)
    source = (
        stretched(b, weights, x.shape) if isinstance(weights, Value) else filled(b, "ones", call.out_dtype, x.shape, 1)
    )
    return b.call(
        "index_add",
        [start, x, source],
        [(call.out_dtype, call.out_shape)],
        "bincount",
        axis=0,
        reduce="add",
        include_self=True,
    )[0]
