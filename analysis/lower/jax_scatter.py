"""`scatter` in all its modes: a write into a region where the indices are known, else folded in row by row."""

from __future__ import annotations

from math import prod

from sollens.analysis.ir.affine import Affine, Constraint, dim
from sollens.analysis.ir.nodes import Expr, IndexValue, Read, Select
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import apply
from sollens.analysis.lower.jax_indexing import CLIP, FILL, Numbers, clamped, inside
from sollens.analysis.lower.jax_movement import as_value
from sollens.analysis.lower.jax_positions import is_given, positions
from sollens.analysis.lower.pointwise import dims_of
from sollens.analysis.lower.registry import rule
from sollens.analysis.lower.views import reindex, reshaped
from sollens.analysis.lower.windows import in_bounds

_REDUCE = {"scatter": "none", "scatter_add": "add", "scatter_mul": "mul", "scatter_min": "amin",
           "scatter_max": "amax", "scatter_sub": "add"}  # fmt: skip
_JOIN = {"add": "add", "mul": "mul", "amin": "minimum", "amax": "maximum"}


@rule(*(f"jax.{name}" for name in _REDUCE))
def scatter(b: Builder, call: OpCall) -> Value:
    """Slices of `updates` written to, or combined with, those that the index vectors name."""
    x, indices = call.args[:2]
    updates = as_value(b, call.args[2], x.dtype)
    name = call.target.split(".")[1]
    reduce = _REDUCE[name]
    if name == "scatter_sub":
        updates = b.statement("negated", dims_of(updates.shape), apply("neg", _whole(updates)), updates.dtype)
    given = call.kwargs["dimension_numbers"]
    numbers = Numbers(
        x, indices, given["inserted_window_dims"], given["scatter_dims_to_operand_dims"],
        given.get("operand_batching_dims") or (), given.get("scatter_indices_batching_dims") or (),
    )  # fmt: skip
    windows: list[int] = given["update_window_dims"]
    sizes = [1] * x.rank
    for axis, window in zip(numbers.window, windows, strict=True):
        sizes[axis] = updates.shape[window]
    if not updates.size:
        return x
    known = positions(b, indices)
    if known is not None and indices.size == len(numbers.mapped) and not numbers.batching:
        starts = dict(zip(numbers.mapped, known, strict=True))
        written = _region(b, x, updates, starts, numbers, windows, sizes, reduce)
        if written is not None:
            return written
    mode = call.kwargs["mode"]
    if mode == FILL and is_given(b, indices):
        mode = "PROMISE_IN_BOUNDS"
    single = len(numbers.mapped) == 1 and not numbers.batching
    axis = numbers.mapped[0] if single else -1
    if single and sizes[axis] == 1 and all(sizes[a] == n for a, n in enumerate(x.shape) if a != axis):
        return _rows(b, x, indices, updates, axis, numbers, windows, reduce, mode)
    return _elements(b, x, indices, updates, numbers, windows, sizes, reduce, mode)


def _whole(x: Value) -> Read:
    return x[tuple(n for n, _ in dims_of(x.shape))]


def _region(
    b: Builder, x: Value, updates: Value, starts: dict[int, Affine], numbers: Numbers, windows: list[int],
    sizes: list[int], reduce: str,
) -> Value | None:  # fmt: skip
    """One slice at a known place."""
    index = [Affine()] * updates.rank
    region: list[Constraint] = []
    extents = {**b.extents, **dict(dims_of(x.shape))}
    for axis in range(x.rank):
        start = starts.get(axis, Affine())
        low, high = start.bounds(b.extents)
        if low < 0 or high > x.shape[axis] - sizes[axis]:
            return None
        at = dim(f"i{axis}") - start
        region += in_bounds(at, sizes[axis], extents)
        if axis in numbers.window and sizes[axis] > 1:
            index[windows[numbers.window.index(axis)]] = at
    new: Expr = Read(updates.name, tuple(index))
    old = _whole(x)
    if reduce != "none":
        new = apply(_JOIN[reduce], old, new)
    return b.statement("written", dims_of(x.shape), Select(tuple(region), new, old) if region else new, x.dtype)


def _rows(
    b: Builder, x: Value, indices: Value, updates: Value, axis: int, numbers: Numbers, windows: list[int],
    reduce: str, mode: str,
) -> Value:  # fmt: skip
    """Whole rows along one axis."""
    count = prod(numbers.batch)
    lead = [f"n{k}" for k in range(len(numbers.batch))]
    dims = [(name, n) for name, n in zip(lead, numbers.batch, strict=True)]
    room = x.shape[axis] - 1
    at: Expr = indices[(*lead, 0)]
    if mode == CLIP:
        at = clamped(at, room)
    elif mode == FILL:  # dropped rows go to one behind the last
        valid = inside(b, indices, numbers, [room])
        at = apply("where", valid[tuple(lead)], at, room + 1)
    index = reshaped(b, "index", b.statement("index", dims, at, indices.dtype), (count,))
    source = _rows_of(b, updates, axis, numbers, windows, count, x)
    target = x
    if mode == FILL:
        shape = (*x.shape[:axis], room + 2, *x.shape[axis + 1 :])
        at_x = [dim(f"i{k}") for k in range(x.rank)]
        inner = in_bounds(at_x[axis], room + 1, {f"i{axis}": room + 2})
        target = b.statement("extended", dims_of(shape), Read(x.name, tuple(at_x)), x.dtype, guard=inner)
    (result,) = b.call(
        "index_add", [target, index, source], [(x.dtype, target.shape)], "scattered", axis=axis, reduce=reduce,
        include_self=True,
    )  # fmt: skip
    if mode == FILL:
        return reindex(b, "kept", result, x.shape, [dim(f"i{k}") for k in range(x.rank)])
    return result


def _rows_of(
    b: Builder, updates: Value, axis: int, numbers: Numbers, windows: list[int], count: int, x: Value
) -> Value:
    """Updates with their scatter axes joined in place of `axis`."""
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    extents = {f"i{k}": n for k, n in enumerate(shape)}
    index = [Affine()] * updates.rank
    for operand_axis, window in zip(numbers.window, windows, strict=True):
        if operand_axis != axis and updates.shape[window] > 1:
            index[window] = dim(f"i{operand_axis}")
    step = 1
    batch = [k for k in range(updates.rank) if k not in windows]
    for k in reversed(batch):
        digit = dim(f"i{axis}") // step
        index[k] = (digit if k == batch[0] else digit % updates.shape[k]).simplify(extents)
        step *= updates.shape[k]
    return reindex(b, "rows", updates, shape, index)


def _elements(
    b: Builder, x: Value, indices: Value, updates: Value, numbers: Numbers, windows: list[int], sizes: list[int],
    reduce: str, mode: str,
) -> Value:  # fmt: skip
    """Every element by its position in row-major order."""
    dims = dims_of(updates.shape)
    batch = [f"i{k}" for k in range(updates.rank) if k not in windows]
    flat: Expr | None = None
    for axis in range(x.rank):
        stride = prod(x.shape[axis + 1 :])
        component = numbers.component(axis)
        if axis in numbers.batching:
            at: Expr = IndexValue(dim(batch[numbers.batching[axis]]))
        elif component is not None:
            at = indices[(*batch, component)]
            at = clamped(at, x.shape[axis] - sizes[axis]) if mode == CLIP else at
            if sizes[axis] > 1:
                at = apply("add", at, IndexValue(dim(f"i{windows[numbers.window.index(axis)]}")))
        elif axis in numbers.window:
            at = IndexValue(dim(f"i{windows[numbers.window.index(axis)]}"))
        else:
            continue
        term = apply("mul", at, stride) if stride != 1 else at
        flat = term if flat is None else apply("add", flat, term)
    assert flat is not None
    size = x.size
    if mode == FILL:
        valid = inside(b, indices, numbers, [x.shape[a] - sizes[a] for a in numbers.mapped])
        flat = apply("where", valid[tuple(batch)], flat, size)
    place = reshaped(b, "place", b.statement("place", dims, flat, "i64"), (updates.size,))
    source = reshaped(b, "updates", updates, (updates.size,))
    target = reshaped(b, "flat", x, (size,))
    if mode == FILL:
        inner = in_bounds(dim("i0"), size, {"i0": size + 1})
        target = b.statement("extended", [("i0", size + 1)], target["i0"], x.dtype, guard=inner)
    (result,) = b.call(
        "scatter", [target, place, source], [(x.dtype, target.shape)], "scattered", axis=0, reduce=reduce,
        include_self=True,
    )  # fmt: skip
    if mode == FILL:
        result = reindex(b, "kept", result, (size,), [dim("i0")])
    return reshaped(b, "scattered", result, x.shape)
