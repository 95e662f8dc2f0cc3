"""Reductions and scans over an evaluated domain."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from sollens.analysis.execute.storage import Array, store, stored_dtype


def identity(kind: str, dtype: str) -> Any:
    """What a point outside the guard contributes to a fold of this kind into this dtype."""
    stored = stored_dtype(dtype)
    match kind:
        case "sum" | "any":
            return 0
        case "prod" | "all":
            return 1
        case "max" | "argmax" | "logsumexp":
            return -np.inf if stored.kind in "fc" else (0 if stored.kind == "b" else np.iinfo(stored).min)
        case "min" | "argmin":
            return np.inf if stored.kind in "fc" else (1 if stored.kind == "b" else np.iinfo(stored).max)
        case _:
            raise ValueError(f"unknown fold {kind}")


def reduce(kind: str, value: Array, mask: Array | None, shape: tuple[int, ...], kept: int, dtype: str) -> Array:
    """Fold the axes from `kept` on. Floating sums and products accumulate in 64-bit."""
    outer, inner = shape[:kept], prod(shape[kept:])
    if kind in ("argmax", "argmin"):
        live = np.broadcast_to(True if mask is None else mask, shape).reshape(*outer, inner)
        return store(_first_position(kind, np.broadcast_to(value, shape).reshape(*outer, inner), live), dtype)
    if kind in ("any", "all"):
        value = value != 0
    value = _masked(kind, value, mask, dtype)
    flat = np.broadcast_to(value, shape).reshape(*outer, inner)
    if inner == 0:
        return np.full(outer, identity(kind, dtype)).astype(stored_dtype(dtype))
    wide = {"f": np.float64, "c": np.complex128}.get(value.dtype.kind, value.dtype)
    match kind:
        case "sum":
            folded = flat.sum(axis=-1, dtype=wide)
        case "prod":
            folded = flat.prod(axis=-1, dtype=wide)
        case "max":
            folded = flat.max(axis=-1)
        case "min":
            folded = flat.min(axis=-1)
        case "any":
            folded = flat.any(axis=-1)
        case _:
            folded = flat.all(axis=-1)
    return store(np.asarray(folded), dtype)


def _masked(kind: str, value: Array, mask: Array | None, dtype: str) -> Array:
    """The values with the fold's identity where the mask is off; bools fold as integers, except under any and all."""
    folded = value.astype(np.int64) if value.dtype.kind == "b" and kind not in ("any", "all") else value
    if mask is None:
        return folded
    neutral = np.asarray(identity(kind, _fold_dtype(value, dtype)))
    return np.where(mask, folded, neutral.astype(folded.dtype))


def _fold_dtype(value: Array, dtype: str) -> str:
    """The dtype whose extremes are the identity of max and min: the statement's, unless the body is of another kind."""
    match value.dtype.kind:
        case "f" | "c":
            return "f32"
        case "b":
            return "bool"
        case "i" if stored_dtype(dtype).kind in "iu":
            return dtype
        case _:
            return "i64"


def _first_position(kind: str, value: Array, live: Array) -> Array:
    if value.shape[-1] == 0:
        return np.zeros(value.shape[:-1], np.int64)
    pick: Callable[..., Array] = np.argmax if kind == "argmax" else np.argmin
    worst = identity(kind, "f32" if value.dtype.kind == "f" else "bool" if value.dtype.kind == "b" else "i64")
    masked = np.where(live, value, np.asarray(worst).astype(value.dtype))
    found: Array = pick(masked, axis=-1)
    # Where the best live value equals the identity, a dead point must not win.
    chosen: Array = np.take_along_axis(live, found[..., None], axis=-1)[..., 0]
    return np.asarray(np.where(chosen, found, np.argmax(live, axis=-1)))


def scan(
    kind: str, value: Array, mask: Array | None, shape: tuple[int, ...], axis: int, reverse: bool, dtype: str
) -> Array:
    """Inclusive prefix fold along `axis`; points outside the guard contribute the identity.

    Positions of argmax and argmin are the latest of equals, as torch.cummax has them.
    """
    value = _masked(kind, value, mask, dtype)
    full = np.moveaxis(np.broadcast_to(value, shape), axis, 0)
    if reverse:
        full = full[::-1]
    wide = full.astype({"f": np.float64, "c": np.complex128}.get(full.dtype.kind, full.dtype))
    match kind:
        case "sum":
            folded = np.cumsum(wide, axis=0)
        case "prod":
            folded = np.cumprod(wide, axis=0)
        case "max":
            folded = np.maximum.accumulate(full, axis=0)
        case "min":
            folded = np.minimum.accumulate(full, axis=0)
        case "logsumexp":
            folded = np.logaddexp.accumulate(wide, axis=0)
        case _:
            folded = _running_position(kind, full)
            if reverse:
                folded = full.shape[0] - 1 - folded
    if reverse:
        folded = folded[::-1]
    return np.ascontiguousarray(np.moveaxis(store(np.asarray(folded), dtype), 0, axis))


def _running_position(kind: str, value: Array) -> Array:
    result = np.zeros(value.shape, np.int64)
    if value.shape[0] == 0:
        return result
    best: Array = value[0]
    at = np.zeros(best.shape, np.int64)
    for k in range(1, value.shape[0]):
        current: Array = value[k]
        better: Array = current >= best if kind == "argmax" else current <= best
        replace: Array = np.isnan(current) | (~np.isnan(best) & better)
        best = np.where(replace, current, best)
        at = np.where(replace, k, at)
        result[k] = at
    return result
