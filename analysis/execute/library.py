"""The calls of `ir/calls.py` in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from sollens.analysis.execute.errors import NotExecutable, OutOfBounds
from sollens.analysis.execute.storage import Array, compute_type_of
from sollens.analysis.ir.nodes import Call

Routine = Callable[[Call, list[Array], np.random.Generator], Sequence[Any]]


def call(node: Call, operands: Sequence[Array], generator: np.random.Generator) -> list[Array]:
    """The results of a call, before they are rounded to their dtypes.

    Raises NotExecutable for opaque calls and routines that are not in the tables, OutOfBounds for a wrong index.
    """
    routine = _TABLE.get(node.op)
    if routine is None:
        raise NotExecutable(f"{node.op} {node.attribute('operator', node.source.operator)}: no executable semantics")
    try:
        return [np.asarray(r) for r in routine(node, list(operands), generator)]
    except IndexError as error:
        raise OutOfBounds(f"{node.op}: {error}") from error
    except (ValueError, TypeError, np.linalg.LinAlgError) as error:
        raise NotExecutable(f"{node.op}: {error}") from error


def _integer(node: Call, name: str, default: int = 0) -> int:
    value = node.attribute(name, default)
    return value if isinstance(value, int) else default


def _integers(node: Call, name: str) -> tuple[int, ...]:
    value = node.attribute(name, ())
    return cast(tuple[int, ...], value) if isinstance(value, tuple) else ()


def _checked(index: Array, extent: int) -> Array:
    if index.size and (index.min() < -extent or index.max() >= extent):
        raise IndexError(f"index {int(index.max())} or {int(index.min())} outside an extent of {extent}")
    return np.where(index < 0, index + extent, index)


def _take(node: Call, operands: list[Array], _: np.random.Generator) -> list[Array]:
    x, index = operands
    axis = _integer(node, "axis")
    return [np.take(x, _checked(index, x.shape[axis]), axis=axis)]


def _coordinates(index: Array, axis: int, extent: int) -> tuple[Array, ...]:
    """Where each element of a gather or scatter index points, one coordinate array an axis."""
    grid: list[Array] = list(np.indices(index.shape, sparse=True))
    grid[axis] = _checked(index, extent)
    return tuple(grid)


def _gather(node: Call, operands: list[Array], _: np.random.Generator) -> list[Array]:
    x, index = operands
    axis = _integer(node, "axis")
    return [x[_coordinates(index, axis, x.shape[axis])]]


def _index(node: Call, operands: list[Array], _: np.random.Generator) -> list[Array]:
    x, *indices = operands
    axes = _integers(node, "axes")
    picked = _front(x, axes)[tuple(_checked(i, x.shape[a]) for i, a in zip(indices, axes, strict=True))]
    count = np.broadcast(*indices).ndim if len(indices) > 1 else indices[0].ndim
    position = _integer(node, "position")
    return [np.moveaxis(picked, range(count), range(position, position + count))]


def _front(x: Array, axes: tuple[int, ...]) -> Array:
    return np.moveaxis(x, axes, range(len(axes)))


_COMBINE: dict[str, tuple[Any, Any]] = {
    "add": (np.add, 0), "mul": (np.multiply, 1), "amax": (np.maximum, None), "amin": (np.minimum, None),
    "mean": (np.add, 0),
}  # fmt: skip


def _combine(x: Array, at: tuple[Array, ...], source: Array, reduce: str, include_self: bool) -> Array:
    """x with source written or folded in at the coordinates, later ones last."""
    target = compute_type_of(x.dtype)
    out, source = x.astype(target), source.astype(target)
    if reduce == "none":
        out[at] = source
        return out
    combine, neutral = _COMBINE[reduce]
    touched = np.zeros(x.shape, np.int64)
    np.add.at(touched, at, 1)
    if not include_self:
        if neutral is None:
            extremes = (-np.inf, np.inf) if target.kind == "f" else (np.iinfo(np.int64).min, np.iinfo(np.int64).max)
            neutral = extremes[0] if reduce == "amax" else extremes[1]
        out[touched > 0] = neutral
    combine.at(out, at, source)
    if reduce == "mean":
        count = np.maximum(touched + (1 if include_self else 0), 1)
        out = np.where(touched > 0, out / count if target.kind in "fc" else out // count, out)
    return out


def _scatter(node: Call, operands: list[Array], _: np.random.Generator) -> list[Array]:
    x, index, source = operands
    axis = _integer(node, "axis")
    source = np.broadcast_to(source, index.shape) if source.ndim == 0 else source[tuple(slice(n) for n in index.shape)]
    at = _coordinates(index, axis, x.shape[axis])
    return [_combine(x, at, source, str(node.attribute("reduce", "none")), bool(node.attribute("include_self", True)))]


def _index_add(node: Call, operands: list[Array], _: np.random.Generator) -> list[Array]:
    x, index, source = operands
    axis = _integer(node, "axis")
    shape = [1] * source.ndim
    shape[axis] = -1
    spread = np.broadcast_to(index.reshape(shape), source.shape)
    include_self = bool(node.attribute("include_self", True))
    reduce = str(node.attribute("reduce", "add"))
    return [_combine(x, _coordinates(spread, axis, x.shape[axis]), source, reduce, include_self)]


def _index_put(node: Call, operands: list[Array], _: np.random.Generator) -> list[Array]:
    x, *indices, values = operands
    axes = _integers(node, "axes")
    out = x.astype(compute_type_of(x.dtype))
    view = _front(out, axes)
    at = tuple(_checked(i, x.shape[a]) for i, a in zip(indices, axes, strict=True))
    broadcast = np.broadcast_shapes(*(i.shape for i in at))
    rest = view.shape[len(axes) :]
    adjacent = axes == tuple(range(axes[0], axes[0] + len(axes)))
    position = axes[0] if adjacent else 0
    spread = np.broadcast_to(values, (*rest[:position], *broadcast, *rest[position:]))
    spread = np.moveaxis(spread, range(position, position + len(broadcast)), range(len(broadcast))).astype(out.dtype)
    if node.attribute("accumulate", False):
        np.add.at(view, at, spread)
    else:
        view[at] = spread
    return [out]


def _order(x: Array, axis: int, descending: bool) -> Array:
    """Positions of a stable sort; nan is the largest."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    flipped = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(flipped, axis)


def _sort(node: Call, operands: list[Array], _: np.random.Generator) -> list[Array]:
    (x,) = operands
    axis = _integer(node, "axis")
    order = _order(x, axis, bool(node.attribute("descending", False)))
    return [np.take_along_axis(x, order, axis), order]


def _topk(node: Call, operands: list[Array], _: np.random.Generator) -> list[Array]:
    (x,) = operands
    axis = _integer(node, "axis")
    order = _order(x, axis, bool(node.attribute("largest", True)))
    order = order.take(range(_integer(node, "k")), axis=axis)
    return [np.take_along_axis(x, order, axis), order]


def _searchsorted(node: Call, operands: list[Array], _: np.random.Generator) -> list[Array]:
    table, values = operands
    side = "right" if node.attribute("right", False) else "left"
    if table.ndim == 1:
        return [np.searchsorted(table, values, side)]
    rows, queries = table.reshape(-1, table.shape[-1]), values.reshape(-1, values.shape[-1])
    found = [np.searchsorted(row, query, side) for row, query in zip(rows, queries, strict=True)]
    return [np.asarray(found, np.int64).reshape(values.shape)]


def _random(node: Call, operands: list[Array], generator: np.random.Generator) -> list[Array]:
    shape = node.results[0].shape
    match node.attribute("distribution"):
        case "uniform":
            value = generator.random(shape)
        case "normal":
            value = generator.standard_normal(shape)
        case "exponential":
            value = generator.standard_exponential(shape)
        case "bernoulli":
            value = generator.random(shape) < (operands[0] if operands else 0.5)
        case "permutation":
            value = generator.permutation(shape[0])
        case other:
            raise NotExecutable(f"random: distribution {other}")
    return [np.asarray(value)]


def _nonzero(node: Call, operands: list[Array], _: np.random.Generator) -> list[Array]:
    return [np.argwhere(operands[0])]


def _masked_select(node: Call, operands: list[Array], _: np.random.Generator) -> list[Array]:
    x, mask = np.broadcast_arrays(*operands)
    return [x[mask != 0]]


def _fft(node: Call, operands: list[Array], _: np.random.Generator) -> list[Array]:
    (x,) = operands
    axes = _integers(node, "axes")
    norm: Any = node.attribute("norm", None)
    match node.attribute("kind"):
        case "fft":
            return [np.fft.fftn(x, axes=axes, norm=norm)]
        case "ifft":
            return [np.fft.ifftn(x, axes=axes, norm=norm)]
        case "rfft":
            return [np.fft.rfftn(x, axes=axes, norm=norm)]
        case "irfft":
            return [np.fft.irfftn(x, s=[node.results[0].shape[a] for a in axes], axes=axes, norm=norm)]
        case other:
            raise NotExecutable(f"fft: kind {other}")


def _solve(a: Array, b: Array) -> Array:
    return np.linalg.solve(a, b[..., None])[..., 0] if b.ndim == a.ndim - 1 else np.linalg.solve(a, b)


def _svd(a: Array) -> Any:
    return np.linalg.svd(a, full_matrices=False)


def _svdvals(a: Array) -> Any:
    return np.linalg.svd(a, compute_uv=False)


_LINALG: dict[str, Callable[..., Any]] = {
    "cholesky": np.linalg.cholesky, "inv": np.linalg.inv, "det": np.linalg.det, "slogdet": np.linalg.slogdet,
    "qr": np.linalg.qr, "eigh": np.linalg.eigh, "eigvalsh": np.linalg.eigvalsh, "eig": np.linalg.eig,
    "eigvals": np.linalg.eigvals, "svdvals": _svdvals, "pinv": np.linalg.pinv, "solve": _solve, "svd": _svd,
    "matrix_rank": np.linalg.matrix_rank,
}  # fmt: skip


def _linalg(node: Call, operands: list[Array], _: np.random.Generator) -> Sequence[Any]:
    routine = _LINALG.get(str(node.attribute("routine")))
    if routine is None:
        raise NotExecutable(f"linalg: routine {node.attribute('routine')}")
    wide = [o.astype(np.complex128 if o.dtype.kind == "c" else np.float64) for o in operands]
    found = routine(*wide)
    return cast(Sequence[Any], found) if isinstance(found, tuple) else [found]


_TABLE: dict[str, Routine] = {
    "take": _take, "gather": _gather, "index": _index, "scatter": _scatter, "index_add": _index_add,
    "index_put": _index_put, "sort": _sort, "topk": _topk, "searchsorted": _searchsorted, "random": _random,
    "nonzero": _nonzero, "masked_select": _masked_select, "fft": _fft, "linalg": _linalg,
}  # fmt: skip
