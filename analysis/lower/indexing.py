"""Reads at positions that are data: embedding, gather, advanced indexing, masks, nonzero."""

from __future__ import annotations

from collections.abc import Sequence

from sollens.analysis.ir.nodes import Literal, Scan
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import apply, cast, iota, normalize
from sollens.analysis.lower.pointwise import broadcast_read, dims_of
from sollens.analysis.lower.registry import rule
from sollens.analysis.lower.views import reindex, reshaped


def taken(b: Builder, hint: str, x: Value, index: Value, axis: int) -> Value:
    """x's positions `index` along an axis."""
    shape = x.shape[:axis] + index.shape + x.shape[axis + 1 :]
    return b.call("take", [x, index], [(x.dtype, shape)], hint, axis=axis)[0]


@rule("aten.embedding", "fn.embedding")
def embedding(b: Builder, call: OpCall) -> Value:
    """Rows of a table."""
    weight, index = call.args[:2] if call.target.startswith("aten.") else (call.arg(1, "weight"), call.arg(0, "input"))
    return taken(b, "embedding", weight, index, 0)


@rule("aten.index_select")
def index_select(b: Builder, call: OpCall) -> Value:
    """Positions of an axis."""
    x, axis, index = call.args[:3]
    if not x.rank:
        return b.statement("select", [], x[()], x.dtype)
    index = reshaped(b, "index", index, (1,)) if not index.rank else index
    return taken(b, "index_select", x, index, normalize(axis, x.rank))


@rule("aten.gather", "aten.take_along_dim")
def gather(b: Builder, call: OpCall) -> Value:
    """One position per element along an axis."""
    x, axis, index = call.args[:3] if ".gather" in call.target else (call.args[0], call.arg(2, "dim"), call.args[1])
    if axis is None:
        x, index, axis = reshaped(b, "flat", x, (x.size,)), reshaped(b, "index", index, (index.size,)), 0
    if not x.rank:
        return b.statement("gather", [], x[()], x.dtype)
    axis = normalize(axis, x.rank)
    if "take_along" in call.target:
        shape = call.out_shape
        index = stretched(b, index, shape)
        x = stretched(b, x, (*shape[:axis], x.shape[axis], *shape[axis + 1 :]))
    return b.call("gather", [x, index], [(x.dtype, index.shape)], "gather", axis=axis)[0]


def stretched(b: Builder, x: Value, shape: Sequence[int]) -> Value:
    """x broadcast to a shape."""
    if x.shape == tuple(shape):
        return x
    dims = dims_of(shape)
    return b.statement(x.name, dims, broadcast_read(x, dims), x.dtype)


@rule("aten.take")
def take(b: Builder, call: OpCall) -> Value:
    """Elements by their position in row-major order."""
    x, index = call.args
    return taken(b, "take", reshaped(b, "flat", x, (x.size,)), index, 0)


# --- advanced indexing ------------------------------------------------------------------------------------------------


def positions_of(b: Builder, mask: Value, count: int) -> list[Value]:
    """Index tensors of a mask's true elements, one per axis; `count` of them, as traced."""
    (found,) = b.call("nonzero", [mask], [("i64", (count, mask.rank))], "nonzero")
    return [reindex(b, "positions", found, (count,), ["i0", k]) for k in range(mask.rank)]


def is_mask(x: Value | None) -> bool:
    """A mask selects, an index tensor points."""
    return x is not None and x.dtype in ("bool", "u8")


def _mask_count(indices: Sequence[Value | None], shape: Sequence[int]) -> int:
    """How many elements the masks select: the extent that the recorded result has in their place."""
    axis = 0
    used = [k for k, i in enumerate(indices) if i is not None]
    if used == list(range(used[0], used[0] + len(used))):
        axis = sum(1 for i in indices[: used[0]] if i is None)
    rank = max((1 if is_mask(i) else i.rank) for i in indices if i is not None)
    return shape[axis + rank - 1]


def expanded(b: Builder, indices: Sequence[Value | None], count: int) -> tuple[tuple[int, ...], list[Value]]:
    """(axes, index tensors), with masks turned into positions."""
    axes: list[int] = []
    tensors: list[Value] = []
    axis = 0
    for index in indices:
        if index is None:
            axis += 1
        elif is_mask(index):
            tensors += positions_of(b, index, count)
            axes += range(axis, axis + index.rank)
            axis += index.rank
        else:
            tensors.append(index)
            axes.append(axis)
            axis += 1
    return tuple(axes), tensors


@rule("aten.index", "aten._unsafe_index")
def index_(b: Builder, call: OpCall) -> Value:
    """Advanced indexing by tensors and masks."""
    x: Value = call.args[0]
    indices: list[Value | None] = list(call.args[1])
    if is_mask(indices[0]) and len(indices) == 1 and indices[0] is not None and indices[0].shape == x.shape:
        return b.call("masked_select", [x, indices[0]], [(x.dtype, call.out_shape)], "selected")[0]
    masked = any(is_mask(i) for i in indices)
    axes, tensors = expanded(b, indices, _mask_count(indices, call.out_shape) if masked else 0)
    if len(tensors) == 1 and tensors[0].rank:
        return taken(b, "index", x, tensors[0], axes[0])
    adjacent = axes == tuple(range(axes[0], axes[0] + len(axes)))
    position = axes[0] if adjacent else 0
    return b.call("index", [x, *tensors], [(x.dtype, call.out_shape)], "index", axes=axes, position=position)[0]


@rule("aten.masked_select")
def masked_select(b: Builder, call: OpCall) -> Value:
    """Elements where the mask holds, in order."""
    return b.call("masked_select", call.args[:2], [(call.out_dtype, call.out_shape)], "selected")[0]


@rule("aten.nonzero", "aten.argwhere", "aten.nonzero_static")
def nonzero(b: Builder, call: OpCall) -> Value:
    """Coordinates of the elements that are not 0."""
    if "static" in call.target:
        raise NotImplementedError("nonzero padded to a fixed length")
    return b.call("nonzero", call.args[:1], [("i64", call.out_shape)], "nonzero")[0]


@rule("aten.nonzero_numpy")
def nonzero_numpy(b: Builder, call: OpCall) -> list[Value]:
    """Coordinates, one tensor an axis."""
    return positions_of(b, call.args[0], call.out_shape[0])


@rule("aten.masked_scatter")
def masked_scatter(b: Builder, call: OpCall) -> Value:
    """Where the mask holds, the next unused element of a source."""
    x, mask, source = call.args
    mask = stretched(b, mask, x.shape)
    flat = reshaped(b, "mask", mask, (x.size,))
    ones = b.statement("chosen", [("i", x.size)], cast(flat["i"], "i64"), "i64")
    rank = b.statement("rank", [("i", x.size)], ones["i"], "i64", scan=Scan(kind="sum", dim="i"))
    place = b.statement("place", [("i", x.size)], apply("maximum", apply("sub", rank["i"], 1), 0), "i64")
    chosen = taken(b, "chosen", reshaped(b, "source", source, (source.size,)), place, 0)
    chosen = reshaped(b, "chosen", chosen, x.shape)
    dims = dims_of(x.shape)
    at = tuple(n for n, _ in dims)
    return b.statement("masked_scatter", dims, apply("where", mask[at], chosen[at], x[at]), x.dtype)


@rule("aten.bucketize", "aten.searchsorted")
def searchsorted(b: Builder, call: OpCall) -> Value:
    """Where each value belongs in a sorted axis."""
    table, values = call.args[:2] if "searchsorted" in call.target else (call.args[1], call.args[0])
    if not isinstance(values, Value):
        values = b.statement("value", dims_of(call.out_shape), Literal(values), table.dtype)
    right = bool(call.kwargs.get("right", False)) or call.kwargs.get("side") == "right"
    if call.kwargs.get("sorter") is not None:
        raise NotImplementedError("searchsorted with a sorter")
    return b.call("searchsorted", [table, values], [(call.out_dtype, call.out_shape)], "positions", right=right)[0]


@rule("aten.repeat_interleave.Tensor")
def repeat_positions(b: Builder, call: OpCall) -> Value:
    """Each position as often as its number says; the total as traced."""
    repeats = call.args[0]
    ends = b.statement("ends", [("i", repeats.size)], repeats["i"], "i64", scan=Scan(kind="sum", dim="i"))
    count = b.statement("count", [("i", call.out_shape[0])], iota("i"), "i64")
    return b.call("searchsorted", [ends, count], [(call.out_dtype, call.out_shape)], "positions", right=True)[0]
