"""`gather` in all its modes: affine where the indices are known, else a lookup."""

from __future__ import annotations

from typing import Any

from sollens.analysis.ir.affine import Affine, dim
from sollens.analysis.ir.nodes import Expr, IndexValue
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import apply, as_expr
from sollens.analysis.lower.jax_positions import is_given, positions
from sollens.analysis.lower.pointwise import dims_of
from sollens.analysis.lower.registry import rule
from sollens.analysis.lower.views import permuted, reindex

FILL, CLIP = "FILL_OR_DROP", "CLIP"


class Numbers:
    """How a gather's or scatter's operand axes, index components and slice axes belong together."""

    def __init__(
        self, x: Value, indices: Value, inserted: Any, mapped: Any, batching: Any, index_batching: Any
    ) -> None:
        self.mapped: list[int] = list(mapped)
        self.batching: dict[int, int] = dict(zip(batching, index_batching, strict=True))
        self.window = [a for a in range(x.rank) if a not in inserted and a not in self.batching]
        self.batch = indices.shape[:-1]

    def component(self, axis: int) -> int | None:
        """Which component of an index vector an axis is positioned by."""
        return self.mapped.index(axis) if axis in self.mapped else None


@rule("jax.gather")
def gather(b: Builder, call: OpCall) -> Value:
    """A slice of `slice_sizes` for every index vector."""
    x, indices = call.args
    given = call.kwargs["dimension_numbers"]
    sizes: list[int] = call.kwargs["slice_sizes"]
    numbers = Numbers(
        x, indices, given["collapsed_slice_dims"], given["start_index_map"], given.get("operand_batching_dims") or (),
        given.get("start_indices_batching_dims") or (),
    )  # fmt: skip
    offsets: list[int] = given["offset_dims"]
    known = _known_starts(b, x, indices, numbers, sizes)
    if known is not None:
        return _affine(b, call, x, known, numbers, offsets)
    x = _sliced(b, x, numbers, sizes)
    mode = call.kwargs["mode"]
    fill = call.kwargs.get("fill_value")
    if mode == FILL and (fill is None or fill != fill) and is_given(b, indices):
        mode = "PROMISE_IN_BOUNDS"
    looked, order = _lookup(b, call, x, indices, numbers, sizes, mode, offsets)
    result = permuted(b, "gathered", looked, order)
    if mode != FILL:
        return result
    return _filled_outside(b, call, result, x, indices, numbers, sizes, offsets)


def _known_starts(b: Builder, x: Value, indices: Value, numbers: Numbers, sizes: list[int]) -> dict[int, Affine] | None:
    """Where the only slice starts along each positioned axis, when that is known and inside."""
    known = positions(b, indices)
    if known is None or indices.size != len(numbers.mapped) or numbers.batching:
        return None
    starts: dict[int, Affine] = {}
    for axis, start in zip(numbers.mapped, known, strict=True):
        low, high = start.bounds(b.extents)
        inside = start if low >= 0 and high <= x.shape[axis] - sizes[axis] else None
        if inside is None:
            return None
        starts[axis] = inside
    return starts


def _affine(
    b: Builder, call: OpCall, x: Value, starts: dict[int, Affine], numbers: Numbers, offsets: list[int]
) -> Value:
    index = [starts.get(a, Affine()) for a in range(x.rank)]
    for axis, out in zip(numbers.window, offsets, strict=True):
        if call.out_shape[out] > 1:
            index[axis] = index[axis] + dim(f"i{out}")
    return reindex(b, "gathered", x, call.out_shape, index)


def _sliced(b: Builder, x: Value, numbers: Numbers, sizes: list[int]) -> Value:
    """Axes that no index positions are read from 0 on."""
    shape = [n if a in numbers.mapped or a in numbers.batching else sizes[a] for a, n in enumerate(x.shape)]
    return x if tuple(shape) == x.shape else reindex(b, "front", x, shape, [dim(f"i{k}") for k in range(x.rank)])


def _lookup(
    b: Builder, call: OpCall, x: Value, indices: Value, numbers: Numbers, sizes: list[int], mode: str,
    offsets: list[int],
) -> tuple[Value, list[int]]:  # fmt: skip
    """(the looked-up values, which of its axes each axis of the result is)."""
    axes = sorted({*numbers.mapped, *numbers.batching})
    batch_dims = [(f"n{k}", n) for k, n in enumerate(numbers.batch)]
    spread = [a for a in numbers.window if a in numbers.mapped and sizes[a] > 1]
    window_dims = [(f"w{a}", sizes[a]) for a in spread]
    dims = [*batch_dims, *window_dims]
    lead = tuple(n for n, _ in batch_dims)
    tables: list[Value] = []
    for axis in axes:
        if axis in numbers.batching:
            body: Expr = IndexValue(dim(f"n{numbers.batching[axis]}"))
        else:
            component = numbers.component(axis)
            assert component is not None
            body = indices[(*lead, component)]
            if mode in (CLIP, FILL):
                body = clamped(body, x.shape[axis] - sizes[axis])
            if axis in spread:
                body = apply("add", body, IndexValue(dim(f"w{axis}")))
        tables.append(b.statement("index", dims, body, "i64" if mode in (CLIP, FILL) else indices.dtype))
    rest = [a for a in range(x.rank) if a not in axes]
    shape = (*(n for _, n in dims), *(x.shape[a] for a in rest))
    if len(axes) == 1:
        (axis,) = axes
        shape = (*x.shape[:axis], *(n for _, n in dims), *x.shape[axis + 1 :])
        (looked,) = b.call("take", [x, tables[0]], [(x.dtype, shape)], "looked_up", axis=axis)
        position = axis
    else:
        (looked,) = b.call("index", [x, *tables], [(x.dtype, shape)], "looked_up", axes=tuple(axes), position=0)
        position = 0
    return _with_units(b, looked, call, numbers, offsets, spread, rest, position, len(dims))


def _with_units(
    b: Builder, looked: Value, call: OpCall, numbers: Numbers, offsets: list[int], spread: list[int], rest: list[int],
    position: int, count: int,
) -> tuple[Value, list[int]]:  # fmt: skip
    """Axes of extent 1 that were positioned but not collapsed come back at the end."""
    place: dict[int, int] = {}
    before = [a for k, a in enumerate(rest) if k < position]
    for k, axis in enumerate(before):
        place[axis] = k
    for k, axis in enumerate(spread):
        place[axis] = position + len(numbers.batch) + k
    for k, axis in enumerate(rest[len(before) :]):
        place[axis] = position + count + k
    units = [a for a in numbers.window if a not in place]
    if units:
        shape = (*looked.shape, *(1 for _ in units))
        looked = reindex(b, "kept", looked, shape, [dim(f"i{k}") for k in range(looked.rank)])
        for k, axis in enumerate(units):
            place[axis] = looked.rank - len(units) + k
    order = [0] * len(call.out_shape)
    for axis, out in zip(numbers.window, offsets, strict=True):
        order[out] = place[axis]
    batch = [out for out in range(len(call.out_shape)) if out not in offsets]
    for k, out in enumerate(batch):
        order[out] = position + k
    return looked, order


def clamped(index: Expr, room: int) -> Expr:
    """The index within [0, room]."""
    return apply("minimum", apply("maximum", index, 0), room)


def _filled_outside(
    b: Builder, call: OpCall, result: Value, x: Value, indices: Value, numbers: Numbers, sizes: list[int],
    offsets: list[int],
) -> Value:  # fmt: skip
    """The fill value where a slice leaves the operand."""
    valid = inside(b, indices, numbers, [x.shape[a] - sizes[a] for a in numbers.mapped])
    dims = dims_of(call.out_shape)
    lead = [n for k, (n, _) in enumerate(dims) if k not in offsets]
    body = apply("where", valid[tuple(lead)], result[tuple(n for n, _ in dims)], as_expr(_fill_value(call)))
    return b.statement("filled", dims, body, call.out_dtype)


def inside(b: Builder, indices: Value, numbers: Numbers, rooms: list[int]) -> Value:
    """Whether each index vector's slice lies in the operand."""
    dims = [(f"n{k}", n) for k, n in enumerate(numbers.batch)]
    lead = tuple(n for n, _ in dims)
    valid: Expr = as_expr(True)
    for component, room in enumerate(rooms):
        at = indices[(*lead, component)]
        within = apply("and", apply("ge", at, 0), apply("le", at, room))
        valid = within if component == 0 else apply("and", valid, within)
    return b.statement("inside", dims, valid, "bool")


def _fill_value(call: OpCall) -> Any:
    given, dtype = call.kwargs.get("fill_value"), call.out_dtype
    if given is not None:
        return given
    if dtype == "bool":
        return True
    if dtype[0] == "u":
        return 2 ** int(dtype[1:]) - 1
    return -(2 ** (int(dtype[1:]) - 1)) if dtype[0] == "i" else float("nan")
