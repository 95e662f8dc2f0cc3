"""Data movement that is affine: concatenation, repetition, reversal, triangles, shuffles, writes into parts."""

from __future__ import annotations

from collections.abc import Sequence

from sollens.analysis.ir.affine import Affine, at_least, dim, equals, less
from sollens.analysis.ir.nodes import Expr, Literal, Read, Select
from sollens.analysis.lower.aliasing import overwrite
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import apply, normalize, select
from sollens.analysis.lower.pointwise import broadcast_read, dims_of
from sollens.analysis.lower.registry import rule
from sollens.analysis.lower.views import diagonal_index, reindex, reshaped, slice_start, strided_index

# --- joining ----------------------------------------------------------------------------------------------------------


def choose(parts: Sequence[tuple[int, Expr]], at: Affine) -> Expr:
    """The part whose interval holds `at`; parts are (start, body) by start. A balanced tree of Selects."""
    if len(parts) == 1:
        return parts[0][1]
    middle = len(parts) // 2
    return Select((less(at, parts[middle][0]),), choose(parts[:middle], at), choose(parts[middle:], at))


@rule("aten.cat", "aten.concat", "aten.concatenate", "aten.hstack", "aten.vstack", "aten.row_stack", "aten.dstack")
def cat(b: Builder, call: OpCall) -> Value:
    """Tensors one after the other along an axis; one-dimensional empty tensors do not count."""
    tensors: list[Value] = [t for t in call.args[0] if t.shape != (0,)] or list(call.args[0][:1])
    rank = len(call.out_shape)
    if "stack" in call.target and any(t.rank != rank for t in tensors):
        raise NotImplementedError("stacking tensors of a lower rank")
    stacked_axis = {"hstack": 1 if rank > 1 else 0, "dstack": 2}.get(call.target.split(".")[1], 0)
    axis = normalize(call.arg(1, "dim", stacked_axis), rank)
    dims = dims_of(call.out_shape)
    parts: list[tuple[int, Expr]] = []
    start = 0
    at = tuple(dim(n) for n, _ in dims)
    for t in tensors:
        if t.shape[axis] or len(tensors) == 1:
            parts.append((start, Read(t.name, (*at[:axis], at[axis] - start, *at[axis + 1 :]))))
        start += t.shape[axis]
    body = choose(parts, at[axis]) if parts else tensors[0][at]
    return b.statement("cat", dims, body, call.out_dtype)


@rule("aten.stack")
def stack(b: Builder, call: OpCall) -> Value:
    """Tensors along a new axis."""
    tensors: list[Value] = list(call.args[0])
    axis = normalize(call.arg(1, "dim", 0), len(call.out_shape))
    dims = dims_of(call.out_shape)
    at = tuple(n for k, (n, _) in enumerate(dims) if k != axis)
    body = choose([(k, t[at]) for k, t in enumerate(tensors)], dim(f"i{axis}"))
    return b.statement("stack", dims, body, call.out_dtype)


@rule("aten.block_diag")
def block_diag(b: Builder, call: OpCall) -> Value:
    """Matrices along the diagonal, 0 elsewhere."""
    dims = dims_of(call.out_shape)
    body: Expr = Literal(0)
    row, column = call.out_shape
    for t in reversed(call.args[0]):
        height, width = (1, 1) if t.rank == 0 else (1, t.shape[0]) if t.rank == 1 else t.shape
        row, column = row - height, column - width
        i, j = dim("i0") - row, dim("i1") - column
        element = t[()] if t.rank == 0 else t[j] if t.rank == 1 else t[i, j]
        inside = (at_least(i, 0), less(i, height), at_least(j, 0), less(j, width))
        body = Select(inside, element, body)
    return b.statement("block_diag", dims, body, call.out_dtype)


# --- repeating and reversing ------------------------------------------------------------------------------------------


@rule("aten.repeat", "aten.tile")
def repeat(b: Builder, call: OpCall) -> Value:
    """Copies side by side: position i reads `i mod extent`."""
    x, shape = call.args[0], call.out_shape
    lead = len(shape) - x.rank
    extents = {f"i{k}": n for k, n in enumerate(shape)}
    index = [
        (dim(f"i{k + lead}") % max(n, 1)).simplify(extents) if shape[k + lead] else Affine()
        for k, n in enumerate(x.shape)
    ]
    return reindex(b, "repeat", x, shape, index)


@rule("aten.repeat_interleave.self_int")
def repeat_interleave(b: Builder, call: OpCall) -> Value:
    """Each position of an axis several times: `i floordiv repeats`."""
    x, repeats, axis = call.args[0], call.args[1], call.arg(2, "dim")
    if axis is None:
        x, axis = reshaped(b, "flat", x, (x.size,)), 0
    axis = normalize(axis, x.rank)
    index = [dim(f"i{k}") for k in range(x.rank)]
    index[axis] = index[axis] // repeats if repeats else Affine()
    return reindex(b, "repeat_interleave", x, call.out_shape, index)


@rule("aten.flip", "aten.fliplr", "aten.flipud")
def flip(b: Builder, call: OpCall) -> Value:
    """Axes read from their far end."""
    x = call.args[0]
    axes = {"fliplr": [1], "flipud": [0]}.get(call.target.split(".")[1]) or call.arg(1, "dims")
    index = [dim(f"i{k}") for k in range(x.rank)]
    for axis in {normalize(a, x.rank) for a in axes} if x.rank else ():
        index[axis] = x.shape[axis] - 1 - index[axis]
    return reindex(b, "flip", x, x.shape, index)


@rule("aten.roll")
def roll(b: Builder, call: OpCall) -> Value:
    """Axes rotated: position i reads `i - shift`, around the end."""
    x = call.args[0]
    shifts, axes = call.arg(1, "shifts"), call.arg(2, "dims", [])
    shifts, axes = [shifts] if isinstance(shifts, int) else shifts, [axes] if isinstance(axes, int) else axes
    dims = dims_of(x.shape)
    if not axes:
        flat = reshaped(b, "flat", x, (x.size,))
        body = _rolled(flat, [dim("i0")], {0: shifts[0]})
        return reshaped(b, "roll", b.statement("rolled", dims_of(flat.shape), body, x.dtype), x.shape)
    moves: dict[int, int] = {}
    for shift, axis in zip(shifts, axes, strict=True):
        axis = normalize(axis, x.rank)
        moves[axis] = moves.get(axis, 0) + shift
    return b.statement("roll", dims, _rolled(x, [dim(n) for n, _ in dims], moves), x.dtype)


def _rolled(x: Value, index: list[Affine], moves: dict[int, int]) -> Expr:
    moves = {a: s % x.shape[a] for a, s in moves.items() if x.shape[a] and s % x.shape[a]}
    if not moves:
        return x[tuple(index)]
    axis, shift = moves.popitem()
    wrapped, straight = list(index), list(index)
    wrapped[axis], straight[axis] = index[axis] - shift + x.shape[axis], index[axis] - shift
    return select(less(index[axis], shift), _rolled(x, wrapped, moves), _rolled(x, straight, moves))


@rule("aten.rot90")
def rot90(b: Builder, call: OpCall) -> Value:
    """Quarter turns in the plane of two axes."""
    x = call.args[0]
    turns = call.arg(1, "k", 1) % 4
    first, second = (normalize(a, x.rank) for a in call.arg(2, "dims", [0, 1]))
    index = [dim(f"i{k}") for k in range(x.rank)]
    i, j = index[first], index[second]
    last_i, last_j = x.shape[first] - 1, x.shape[second] - 1
    index[first], index[second] = [(i, j), (j, last_j - i), (last_i - i, last_j - j), (last_i - j, i)][turns]
    return reindex(b, "rot90", x, call.out_shape, index)


@rule("aten.linalg_cross", "aten.cross")
def cross(b: Builder, call: OpCall) -> Value:
    """Vector product along an axis of three."""
    x, y = call.args[:2]
    axis = normalize(call.arg(2, "dim", -1), len(call.out_shape))
    dims = dims_of(call.out_shape)

    def turned(v: Value, by: int) -> Expr:
        index = list(broadcast_read(v, dims).index)
        index[axis] = (index[axis] + by) % 3
        return v[tuple(index)]

    first, second = apply("mul", turned(x, 1), turned(y, 2)), apply("mul", turned(x, 2), turned(y, 1))
    return b.statement("cross", dims, apply("sub", first, second), call.out_dtype)


# --- triangles and diagonals ------------------------------------------------------------------------------------------


@rule("aten.tril", "aten.triu")
def triangle(b: Builder, call: OpCall) -> Value:
    """The lower (upper) triangle of the last two axes, 0 elsewhere; a bool or number like the operand."""
    x, offset = call.args[0], call.arg(1, "diagonal", 0)
    dims = dims_of(x.shape)
    i, j = dim(dims[-2][0]), dim(dims[-1][0])
    inside = at_least(i + offset, j) if ".tril" in call.target else at_least(j, i + offset)
    return b.statement(call.target.split(".")[1], dims, select(inside, x[tuple(n for n, _ in dims)], 0), x.dtype)


@rule("aten.diag")
def diag(b: Builder, call: OpCall) -> Value:
    """A vector on a diagonal of a matrix, or a matrix's diagonal."""
    x, offset = call.args[0], call.arg(1, "diagonal", 0)
    if x.rank == 2:
        return reindex(b, "diag", x, call.out_shape, diagonal_index(2, offset, 0, 1))
    return _on_diagonal(b, call, x, offset, 0, 1)


@rule("aten.diag_embed")
def diag_embed(b: Builder, call: OpCall) -> Value:
    """The last axis on the diagonal of two new axes."""
    x, rank = call.args[0], call.args[0].rank + 1
    first, second = normalize(call.arg(2, "dim1", -2), rank), normalize(call.arg(3, "dim2", -1), rank)
    return _on_diagonal(b, call, x, call.arg(1, "offset", 0), first, second)


def _on_diagonal(b: Builder, call: OpCall, x: Value, offset: int, first: int, second: int) -> Value:
    dims = dims_of(call.out_shape)
    i, j = dim(f"i{first}"), dim(f"i{second}")
    rest = [n for k, (n, _) in enumerate(dims) if k not in (first, second)]
    element = x[(*rest, i - max(-offset, 0))]
    return b.statement("diag", dims, select(equals(j, i + offset), element, 0), x.dtype)


# --- shuffles ---------------------------------------------------------------------------------------------------------


@rule("aten.pixel_shuffle", "fn.pixel_shuffle")
def pixel_shuffle(b: Builder, call: OpCall) -> Value:
    """[*, C*r*r, H, W] -> [*, C, H*r, W*r]."""
    x, r = call.args[:2]
    *lead, c, h, w = (dim(f"i{k}") for k in range(x.rank))
    return reindex(b, "pixel_shuffle", x, call.out_shape, [*lead, c * (r * r) + (h % r) * r + w % r, h // r, w // r])


@rule("aten.pixel_unshuffle", "fn.pixel_unshuffle")
def pixel_unshuffle(b: Builder, call: OpCall) -> Value:
    """[*, C, H*r, W*r] -> [*, C*r*r, H, W]."""
    x, r = call.args[:2]
    *lead, c, h, w = (dim(f"i{k}") for k in range(x.rank))
    return reindex(b, "pixel_unshuffle", x, call.out_shape, [*lead, c // (r * r), h * r + (c // r) % r, w * r + c % r])


@rule("aten.channel_shuffle", "aten.native_channel_shuffle", "fn.channel_shuffle")
def channel_shuffle(b: Builder, call: OpCall) -> Value:
    """Channels (axis 1) dealt out over groups."""
    x, groups = call.args[:2]
    index = [dim(f"i{k}") for k in range(x.rank)]
    index[1] = (index[1] % groups) * (x.shape[1] // groups) + index[1] // groups
    return reindex(b, "channel_shuffle", x, call.out_shape, index)


@rule("aten.meshgrid")
def meshgrid(b: Builder, call: OpCall) -> list[Value]:
    """Each vector along its own axis of a common grid."""
    tensors: list[Value] = call.args[0]
    order = list(range(len(tensors)))
    if call.arg(1, "indexing", "ij") == "xy" and len(order) > 1:
        order[0], order[1] = 1, 0
    return [
        reindex(b, "meshgrid", t, call.out_shape, [f"i{order[k]}"] if t.rank else []) for k, t in enumerate(tensors)
    ]


# --- writes into parts ------------------------------------------------------------------------------------------------


def _written(b: Builder, call: OpCall, x: Value, src: Value, index: Sequence[Affine]) -> Value:
    canonical = {f"i{k}": dim(f"d{k}") for k in range(src.rank)}
    return overwrite(b, call.target.split(".")[1], x, src, tuple(i.substitute(canonical) for i in index))


@rule("aten.select_scatter")
def select_scatter(b: Builder, call: OpCall) -> Value:
    """x with one position of an axis replaced."""
    x, src = call.args[:2]
    axis = normalize(call.arg(2, "dim"), x.rank)
    index = [dim(f"i{k}") for k in range(x.rank - 1)]
    index.insert(axis, Affine(call.arg(3, "index") % x.shape[axis]))
    return _written(b, call, x, src, index)


@rule("aten.slice_scatter")
def slice_scatter(b: Builder, call: OpCall) -> Value:
    """x with a range of an axis replaced."""
    x, src = call.args[:2]
    axis = normalize(call.arg(2, "dim", 0), x.rank)
    index = [dim(f"i{k}") for k in range(x.rank)]
    index[axis] = index[axis] * call.arg(5, "step", 1) + slice_start(call.arg(3, "start"), x.shape[axis])
    return _written(b, call, x, src, index)


@rule("aten.diagonal_scatter")
def diagonal_scatter(b: Builder, call: OpCall) -> Value:
    """x with a diagonal replaced."""
    x, src = call.args[:2]
    first, second = (normalize(call.arg(3 + k, f"dim{k + 1}", k), x.rank) for k in (0, 1))
    return _written(b, call, x, src, diagonal_index(x.rank, call.arg(2, "offset", 0), first, second))


@rule("aten.as_strided_scatter")
def as_strided_scatter(b: Builder, call: OpCall) -> Value:
    """x with a strided part replaced."""
    x, src = call.args[:2]
    index = strided_index(src.shape, call.arg(3, "stride"), call.arg(4, "storage_offset") or 0, x.shape)
    return _written(b, call, x, src, index)
