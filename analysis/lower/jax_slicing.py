"""Slices whose start is computed: affine at a loop's counter, else positions that are data."""

from __future__ import annotations

from typing import Any

from sollens.analysis.ir.affine import Affine, Constraint, dim
from sollens.analysis.ir.nodes import Expr, IndexValue, Read, Select
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import apply, as_expr
from sollens.analysis.lower.jax_indexing import clamped
from sollens.analysis.lower.jax_positions import positions, start_within
from sollens.analysis.lower.pointwise import dims_of
from sollens.analysis.lower.registry import rule
from sollens.analysis.lower.views import reindex, reshaped
from sollens.analysis.lower.windows import in_bounds


@rule("jax.dynamic_slice")
def dynamic_slice(b: Builder, call: OpCall) -> Value:
    """`slice_sizes` from starts that are clamped so that the slice stays inside."""
    x, starts = call.args[0], call.args[1:]
    known = _starts(b, x, starts, call.out_shape)
    index = [dim(f"i{k}") + (start or Affine()) for k, start in enumerate(known)]
    shape = [n if known[k] is not None else x.shape[k] for k, n in enumerate(call.out_shape)]
    result = reindex(b, "slice", x, shape, index)
    for axis, start in enumerate(known):
        if start is None:
            at = _places(b, starts[axis], call.out_shape[axis], x.shape[axis])
            shape[axis] = call.out_shape[axis]
            (result,) = b.call("take", [result, at], [(x.dtype, tuple(shape))], "slice", axis=axis)
    found = positions(b, x)
    if found is not None and x.rank == 1 and known[0] is not None and known[0].is_constant:
        first = known[0].constant
        b.positions[result.name] = found[first : first + result.size]
    return result


def _starts(b: Builder, x: Value, starts: tuple[Any, ...], sizes: tuple[int, ...]) -> list[Affine | None]:
    """The clamped start along each axis where it is known."""
    found: list[Affine | None] = []
    for start, extent, size in zip(starts, x.shape, sizes, strict=True):
        known = positions(b, start)
        if extent == size:
            found.append(Affine())
        else:
            found.append(start_within(b, known[0], extent - size) if known else None)
    return found


def _places(b: Builder, start: Value, size: int, extent: int) -> Value:
    """`size` positions from a clamped start on."""
    first = clamped(start[()], extent - size)
    return b.statement("at", [("i0", size)], apply("add", first, IndexValue(dim("i0"))), "i64")


@rule("jax.dynamic_update_slice")
def dynamic_update_slice(b: Builder, call: OpCall) -> Value:
    """`x` with `update` written at starts that are clamped so that it stays inside."""
    x, update, starts = call.args[0], call.args[1], call.args[2:]
    if not update.size:
        return x
    known = _starts(b, x, starts, update.shape)
    unknown = [axis for axis, start in enumerate(known) if start is None]
    if not unknown:
        return _written(b, x, update, [k or Affine() for k in known])
    if len(unknown) == 1 and all(n == m for k, (n, m) in enumerate(zip(x.shape, update.shape, strict=True))
                                 if k != unknown[0]):  # fmt: skip
        (axis,) = unknown
        at = _places(b, starts[axis], update.shape[axis], x.shape[axis])
        return b.call("index_add", [x, at, update], [(x.dtype, x.shape)], "updated", axis=axis, reduce="none",
                      include_self=True)[0]  # fmt: skip
    return _scattered(b, x, update, starts)


def _written(b: Builder, x: Value, update: Value, starts: list[Affine]) -> Value:
    dims = dims_of(x.shape)
    extents = {**b.extents, **dict(dims)}
    index: list[Affine] = []
    region: list[Constraint] = []
    for (name, _), start, size in zip(dims, starts, update.shape, strict=True):
        at = dim(name) - start
        region += in_bounds(at, size, extents)
        index.append(at if size > 1 else Affine())
    new = Read(update.name, tuple(index))
    old = x[tuple(n for n, _ in dims)]
    return b.statement("updated", dims, Select(tuple(region), new, old) if region else new, x.dtype)


def _scattered(b: Builder, x: Value, update: Value, starts: tuple[Any, ...]) -> Value:
    """By positions in row-major order."""
    dims = dims_of(update.shape)
    flat: Expr | None = None
    for axis, (start, (name, size)) in enumerate(zip(starts, dims, strict=True)):
        first = start[()] if isinstance(start, Value) else as_expr(start)
        place = apply("add", clamped(first, x.shape[axis] - size), IndexValue(dim(name)))
        flat = place if flat is None else apply("add", apply("mul", flat, x.shape[axis]), place)
    assert flat is not None
    at = reshaped(b, "place", b.statement("place", dims, flat, "i64"), (update.size,))
    operands = [reshaped(b, "flat", x, (x.size,)), at, reshaped(b, "update", update, (update.size,))]
    (result,) = b.call("scatter", operands, [(x.dtype, (x.size,))], "updated", axis=0, reduce="none",
                       include_self=True)  # fmt: skip
    return reshaped(b, "updated", result, x.shape)
