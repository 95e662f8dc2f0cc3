"""Views: one statement with a single affine read, or the operand itself when nothing is re-indexed.

Reshapes factor into groups of axes with equal products, so that `[B, T, H*D] -> [B, T, H, D]` reads `x[b, t, h*D + d]`
and a merge
reads `m floordiv D, m mod D`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import prod

from sollens.analysis.ir.affine import Affine, dim, equals
from sollens.analysis.lower.builder import Builder, OpCall, Value, as_affine
from sollens.analysis.lower.expressions import apply, normalize, select
from sollens.analysis.lower.pointwise import dims_of
from sollens.analysis.lower.registry import rule

Index = Sequence[Affine | str | int]


def reindex(b: Builder, hint: str, x: Value, shape: Sequence[int], index: Index) -> Value:
    """`x[index]` over dims i0, i1, ... of `shape`; `x` itself when that is the identity and the operator moves no
    data."""
    affine = tuple(as_affine(i) for i in index)
    if b.source.view and tuple(shape) == x.shape and all(i == dim(f"i{k}") for k, i in enumerate(affine)):
        return x
    return b.statement(hint, dims_of(shape), x[affine], x.dtype)


# --- reshape ----------------------------------------------------------------------------------------------------------


def _groups(old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Runs of old and new axes (extents of 1 left out) whose products are equal, smallest first."""
    left = [k for k, n in enumerate(old) if n != 1]
    right = [k for k, n in enumerate(new) if n != 1]
    while left or right:
        a, c = [left.pop(0)], [right.pop(0)]
        p, q = old[a[0]], new[c[0]]
        while p != q:
            if p < q:
                a.append(left.pop(0))
                p *= old[a[-1]]
            else:
                c.append(right.pop(0))
                q *= new[c[-1]]
        yield a, c


@lru_cache(maxsize=4096)
def reshape_index(old: tuple[int, ...], new: tuple[int, ...]) -> tuple[Affine, ...]:
    """Indices into a tensor of shape `old`, over dims i0, i1, ... of `new`, that keep the row-major order."""
    if prod(old) != prod(new):
        raise ValueError(f"reshape: expected {prod(old)} elements for {list(old)}, found {list(new)}")
    index = [Affine()] * len(old)
    if not prod(old):
        return tuple(index)
    extents = {f"i{k}": n for k, n in enumerate(new)}
    for own, outer in _groups(old, new):
        flat, step = Affine(), 1
        for k in reversed(outer):
            flat, step = flat + dim(f"i{k}") * step, step * new[k]
        step = 1
        for k in reversed(own):
            digit = flat // step if k == own[0] else (flat // step) % old[k]
            index[k] = digit.simplify(extents)
            step *= old[k]
    return tuple(index)


def reshaped(b: Builder, hint: str, x: Value, shape: Sequence[int]) -> Value:
    """`x` in another shape."""
    return reindex(b, hint, x, shape, reshape_index(x.shape, tuple(shape)))


@rule(
    *(f"aten.{n}" for n in ["view", "_unsafe_view", "reshape", "_reshape_alias", "flatten", "unflatten", "view_as",
    "reshape_as", "squeeze", "unsqueeze", "ravel", "view_copy", "squeeze_copy", "unsqueeze_copy", "_reshape_copy",
    "atleast_1d"]), "fn.flatten",
)  # fmt: skip
def reshape(b: Builder, call: OpCall) -> Value:
    """The recorded shape."""
    x = call.args[0]
    if x.dtype != call.out_dtype:
        raise NotImplementedError(f"a view of {x.dtype} as {call.out_dtype} reinterprets bits")
    return reshaped(b, call.target.split(".")[1].strip("_"), x, call.out_shape)


# --- permutations -----------------------------------------------------------------------------------------------------


def permuted(b: Builder, hint: str, x: Value, order: Sequence[int]) -> Value:
    """Axis k of the result is axis order[k] of `x`."""
    index = [Affine()] * x.rank
    for k, axis in enumerate(order):
        index[axis] = dim(f"i{k}")
    return reindex(b, hint, x, [x.shape[axis] for axis in order], index)


@rule("aten.permute", "aten.permute_copy")
def permute(b: Builder, call: OpCall) -> Value:
    """Axes in the given order."""
    x = call.args[0]
    return permuted(b, "permute", x, [normalize(a, x.rank) for a in call.arg(1, "dims")])


@rule("aten.transpose", "aten.t", "aten.numpy_T", "aten.mT", "aten.swapaxes", "aten.swapdims", "aten.transpose_copy",
"aten.t_copy",
      "aten.mH", "aten.adjoint", "aten.matrix_H")  # fmt: skip
def transpose(b: Builder, call: OpCall) -> Value:
    """Two axes swapped; all reversed for T."""
    x = call.args[0]
    order = list(range(x.rank))
    if "numpy_T" in call.target:
        order.reverse()
    elif x.rank >= 2 or len(call.args) > 1:
        first, second = (normalize(a, x.rank) for a in (call.args[1:3] if len(call.args) > 2 else (-2, -1)))
        if x.rank:
            order[first], order[second] = order[second], order[first]
    return permuted(b, "transpose", x, order)


@rule("aten.movedim", "aten.moveaxis")
def movedim(b: Builder, call: OpCall) -> Value:
    """Axes moved to new positions; the others keep their order."""
    x = call.args[0]
    source, target = ([a] if isinstance(a, int) else list(a) for a in call.args[1:3])
    source, target = [normalize(a, x.rank) for a in source], [normalize(a, x.rank) for a in target]
    rest = iter(a for a in range(x.rank) if a not in source)
    order = [source[target.index(k)] if k in target else next(rest) for k in range(x.rank)]
    return permuted(b, "movedim", x, order)


# --- parts ------------------------------------------------------------------------------------------------------------


@rule("aten.expand", "aten.expand_as", "aten.broadcast_to", "aten.expand_copy")
def expand(b: Builder, call: OpCall) -> Value:
    """Broadcast: repeated axes read index 0, new leading axes are not read."""
    x, shape = call.args[0], call.out_shape
    lead = len(shape) - x.rank
    index = [dim(f"i{k + lead}") if n == shape[k + lead] else Affine() for k, n in enumerate(x.shape)]
    return reindex(b, "expand", x, shape, index)


@rule("aten.select", "aten.select_copy")
def select_(b: Builder, call: OpCall) -> Value:
    """One position of an axis, which goes."""
    x = call.args[0]
    axis, position = normalize(call.arg(1, "dim"), x.rank), call.arg(2, "index")
    return _selected(b, x, axis, position % x.shape[axis])


def _selected(b: Builder, x: Value, axis: int, position: int) -> Value:
    index: list[str | int] = [f"i{k}" for k in range(x.rank - 1)]
    index.insert(axis, position)
    return reindex(b, "select", x, x.shape[:axis] + x.shape[axis + 1 :], index)


def sliced(b: Builder, hint: str, x: Value, axis: int, start: int, count: int, step: int = 1) -> Value:
    """`count` positions of an axis from `start`."""
    index = [dim(f"i{k}") for k in range(x.rank)]
    index[axis] = index[axis] * step + start
    return reindex(b, hint, x, (*x.shape[:axis], count, *x.shape[axis + 1 :]), index)


def slice_start(start: int | None, extent: int) -> int:
    """Where a slice begins, as Python counts."""
    if start is None:
        return 0
    return max(0, start + extent) if start < 0 else min(start, extent)


@rule("aten.slice", "aten.slice_copy")
def slice_(b: Builder, call: OpCall) -> Value:
    """A range of an axis with a step."""
    x = call.args[0]
    axis = normalize(call.arg(1, "dim", 0), x.rank)
    start, step = slice_start(call.arg(2, "start"), x.shape[axis]), call.arg(4, "step", 1)
    return sliced(b, "slice", x, axis, start, call.out_shape[axis], step)


@rule("aten.narrow", "aten.narrow_copy")
def narrow(b: Builder, call: OpCall) -> Value:
    """`length` positions from `start`."""
    x, axis, start = call.args[:3]
    axis = normalize(axis, x.rank)
    if not isinstance(start, int):
        raise NotImplementedError("a start that depends on data")
    return sliced(b, "narrow", x, axis, start % max(x.shape[axis], 1) if start < 0 else start, call.out_shape[axis])


@rule("aten.split", "aten.split_with_sizes", "aten.chunk", "aten.unsafe_split", "aten.unsafe_chunk",
"aten.unsafe_split_with_sizes",
      "aten.tensor_split", "aten.split_copy", "aten.split_with_sizes_copy")  # fmt: skip
def split(b: Builder, call: OpCall) -> list[Value]:
    """Consecutive pieces of an axis, as long as recorded."""
    x = call.args[0]
    axis = normalize(call.arg(2, "dim", 0), x.rank)
    pieces: list[Value] = []
    start = 0
    for output in call.outputs:
        if output is not None:
            count = output[1][axis]
            pieces.append(sliced(b, "split", x, axis, start, count))
            start += count
    return pieces


@rule("aten.unbind", "aten.unbind_copy")
def unbind(b: Builder, call: OpCall) -> list[Value]:
    """Each position of an axis."""
    x = call.args[0]
    axis = normalize(call.arg(1, "dim", 0), x.rank)
    return [_selected(b, x, axis, k) for k in range(x.shape[axis])]


def diagonal_index(rank: int, offset: int, first: int, second: int) -> tuple[Affine, ...]:
    """Indices of a diagonal view over dims i0, ..; the diagonal is the last."""
    along = dim(f"i{rank - 2}")
    rest = iter(range(rank - 2))
    index: list[Affine] = []
    for k in range(rank):
        if k == first:
            index.append(along + max(-offset, 0))
        elif k == second:
            index.append(along + max(offset, 0))
        else:
            index.append(dim(f"i{next(rest)}"))
    return tuple(index)


@rule("aten.diagonal", "aten.diagonal_copy", "aten.linalg_diagonal")
def diagonal(b: Builder, call: OpCall) -> Value:
    """The diagonal of two axes, as the last axis."""
    x = call.args[0]
    axes = (0, 1) if "linalg" not in call.target else (-2, -1)
    first, second = (normalize(call.arg(2 + k, f"dim{k + 1}", axes[k]), x.rank) for k in (0, 1))
    return reindex(b, "diagonal", x, call.out_shape, diagonal_index(x.rank, call.arg(1, "offset", 0), first, second))


@rule("aten.unfold", "aten.unfold_copy")
def unfold(b: Builder, call: OpCall) -> Value:
    """Windows of an axis: element w of window i is `i * step + w`."""
    x = call.args[0]
    axis, step = normalize(call.arg(1, "dimension"), x.rank), call.arg(3, "step")
    index = [dim(f"i{k}") for k in range(x.rank)]
    window = dim(f"i{x.rank}")
    if x.rank:
        index[axis] = index[axis] * step + window
    return reindex(b, "unfold", x, call.out_shape, index)


def strided_index(shape: Sequence[int], strides: Sequence[int], offset: int, base: Sequence[int]) -> tuple[Affine, ...]:
    """Indices into a contiguous tensor of shape `base` of the element at `offset + sum(stride * i)`."""
    extents = {f"i{k}": n for k, n in enumerate(shape)}
    flat = Affine.make(offset, {f"i{k}": s for k, s in enumerate(strides) if shape[k] != 1})
    if not prod(shape):
        return (Affine(),) * len(base)
    index: list[Affine] = []
    step = prod(base)
    for k, extent in enumerate(base):
        step //= extent
        digit = flat // step
        index.append((digit if k == 0 else digit % extent).simplify(extents))
    return tuple(index)


@rule("aten.as_strided", "aten.as_strided_copy")
def as_strided(b: Builder, call: OpCall) -> Value:
    """Elements of the memory at any strides; the driver hands over the whole contiguous memory."""
    x = call.args[0]
    index = strided_index(call.out_shape, call.arg(2, "stride"), call.arg(3, "storage_offset") or 0, x.shape)
    return reindex(b, "as_strided", x, call.out_shape, index)


# --- complex numbers --------------------------------------------------------------------------------------------------


@rule("aten.view_as_real", "aten.view_as_real_copy")
def view_as_real(b: Builder, call: OpCall) -> Value:
    """A last axis of real and imaginary part."""
    x, dims = call.args[0], dims_of(call.out_shape)
    element = x[tuple(n for n, _ in dims[:-1])]
    body = select(equals(dim(dims[-1][0]), 0), apply("real", element), apply("imag", element))
    return b.statement("view_as_real", dims, body, call.out_dtype)


@rule("aten.view_as_complex", "aten.view_as_complex_copy")
def view_as_complex(b: Builder, call: OpCall) -> Value:
    """Pairs of the last axis as complex numbers."""
    x, dims = call.args[0], dims_of(call.out_shape)
    at = tuple(n for n, _ in dims)
    return b.statement("view_as_complex", dims, apply("complex", x[(*at, 0)], x[(*at, 1)]), call.out_dtype)
