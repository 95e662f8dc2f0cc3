"""Interpolation: one axis at a time, with affine positions and generated weights.

A resampled axis reads positions `base(o) + tap`, clamped to the ends, where `base` is a floor of an affine function of
the output
position whenever the scale is a ratio of small integers; else a table, as a tree of Selects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np

from sollens.analysis.ir.affine import Affine, at_least, const, dim, less
from sollens.analysis.ir.nodes import Expr, IndexValue
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import apply, iota, select
from sollens.analysis.lower.expressions import cast as as_dtype
from sollens.analysis.lower.movement import choose
from sollens.analysis.lower.pointwise import accumulator, dims_of
from sollens.analysis.lower.registry import rule


@dataclass(frozen=True, slots=True)
class Positions:
    """Source positions of an axis: `pieces` of (first output position, base position) over the output's dim `o`."""

    pieces: tuple[tuple[int, Affine], ...]
    extent: int

    def read(self, x: Value, axis: int, tap: int) -> Expr:
        """x at base + tap, clamped to the axis."""
        found = [(start, self._clamped(x, axis, base + tap, start, end)) for (start, base), end in self._ends()]
        return choose(found, dim(f"i{axis}"))

    def base(self, name: str) -> Expr:
        """The base position as a number."""
        return choose(
            [(start, IndexValue(base.substitute({"o": dim(name)}))) for start, base in self.pieces], dim(name)
        )

    def _ends(self) -> list[tuple[tuple[int, Affine], int]]:
        starts = [s for s, _ in self.pieces[1:]] + [self.extent]
        return list(zip(self.pieces, starts, strict=True))

    def _clamped(self, x: Value, axis: int, at: Affine, start: int, end: int) -> Expr:
        last = x.shape[axis] - 1
        low, high = (at.evaluate({"o": o}) for o in (start, end - 1))  # monotonic
        at = at.substitute({"o": dim(f"i{axis}")})

        def element(position: Affine) -> Expr:
            index = [dim(f"i{k}") for k in range(x.rank)]
            index[axis] = position
            return x[tuple(index)]

        body = element(at) if low <= last and high >= 0 else element(const(0 if high < 0 else last))
        if low <= last < high:
            body = select(less(at, last + 1), body, element(const(last)))
        if low < 0 <= high:
            body = select(at_least(at, 0), body, element(const(0)))
        return body


def positions(table: np.ndarray[Any, Any], numerator: Affine, divisor: int) -> Positions:
    """The positions of `table`, as `numerator floordiv divisor` where that gives them, constants elsewhere."""
    candidate = numerator // divisor
    found = np.asarray(candidate.evaluate({"o": np.arange(len(table))})) if len(table) else table
    agrees = np.broadcast_to(found == table, table.shape)
    pieces: list[tuple[int, Affine]] = []
    for o, value in enumerate(table):
        expr = candidate if agrees[o] else Affine(int(value))
        if not pieces or pieces[-1][1] != expr:
            pieces.append((o, expr))
    return Positions(tuple(pieces), len(table))


@dataclass(frozen=True, slots=True)
class Axis:
    """How an axis is resampled: extents and the source distance of one output step."""

    source: int
    target: int
    scale: float
    aligned: bool

    @property
    def ratio(self) -> Fraction:
        """The scale as a ratio of small integers."""
        return Fraction(self.scale).limit_denominator(1 << 14)


def axes_of(call: OpCall, x: Value, scales: Sequence[float | None], aligned: bool) -> list[Axis]:
    """The spatial axes (from 2 on)."""
    found: list[Axis] = []
    for k, (source, target) in enumerate(zip(x.shape[2:], call.out_shape[2:], strict=True)):
        given = scales[k] if k < len(scales) else None
        if aligned:
            scale = (source - 1) / (target - 1) if target > 1 else 0.0
        else:
            scale = 1 / given if given else source / target
        found.append(Axis(source, target, scale, aligned))
    return found


# --- nearest ----------------------------------------------------------------------------------------------------------


def _nearest(b: Builder, x: Value, axis: int, how: Axis, exact: bool) -> Value:
    outputs = np.arange(how.target, dtype=np.float32)
    shift = np.float32(0.5 if exact else 0)
    table = np.minimum(np.floor((outputs + shift) * np.float32(how.scale)), how.source - 1).astype(np.int64)
    p, q = how.ratio.numerator, how.ratio.denominator
    numerator = (dim("o") * 2 + 1) * p if exact else dim("o") * p
    found = positions(table, numerator, 2 * q if exact else q)
    return _emit(b, x, axis, how.target, found.read(x, axis, 0), x.dtype)


def _emit(b: Builder, x: Value, axis: int, extent: int, body: Expr, dtype: str) -> Value:
    dims = dims_of((*x.shape[:axis], extent, *x.shape[axis + 1 :]))
    return b.statement("upsample", dims, body, dtype)


# --- linear and cubic -------------------------------------------------------------------------------------------------


def _source(how: Axis, clamp: bool) -> tuple[np.ndarray[Any, Any], Affine, int]:
    """Source coordinates, and (numerator, divisor) of their floor."""
    p, q = how.ratio.numerator, how.ratio.denominator
    if how.aligned:
        return np.arange(how.target) * how.scale, dim("o") * p, q
    at = (np.arange(how.target) + 0.5) * how.scale - 0.5
    return np.maximum(at, 0) if clamp else at, (dim("o") * 2 + 1) * p - q, 2 * q


def _fraction(b: Builder, how: Axis, found: Positions, clamp: bool, dtype: str) -> Value:
    """Generated weights: source coordinate less base position."""
    at: Expr = apply("mul", as_dtype(iota("o"), "f64"), how.scale)
    if not how.aligned:
        at = apply("add", at, 0.5 * how.scale - 0.5)
        at = apply("maximum", at, 0.0) if clamp else at
    weight = apply("sub", at, as_dtype(found.base("o"), "f64"))
    return b.statement("weight", [("o", how.target)], as_dtype(weight, dtype), dtype)


def _floor(table: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.floor(table + 1e-9).astype(np.int64)


def _linear(b: Builder, x: Value, axis: int, how: Axis, dtype: str) -> Value:
    coordinates, numerator, divisor = _source(how, True)
    found = positions(np.minimum(_floor(coordinates), how.source - 1), numerator, divisor)
    wide = accumulator(dtype)
    weight = _fraction(b, how, found, True, wide)[f"i{axis}"]
    left, right = found.read(x, axis, 0), found.read(x, axis, 1)
    body = apply("add", left, apply("mul", weight, apply("sub", right, left)))
    return _emit(b, x, axis, how.target, body, wide)


def _cubic_weight(distance: Expr, near: bool) -> Expr:
    """Keys' kernel, a = -3/4: inside one (near) and between one and two of the centre."""
    a = -0.75
    if near:  # ((a + 2) d - (a + 3)) d d + 1
        inner = apply("sub", apply("mul", distance, a + 2), a + 3)
        return apply("add", apply("mul", apply("mul", inner, distance), distance), 1.0)
    inner = apply("add", apply("mul", apply("sub", apply("mul", distance, a), 5 * a), distance), 8 * a)
    return apply("sub", apply("mul", inner, distance), 4 * a)


def _cubic(b: Builder, x: Value, axis: int, how: Axis, dtype: str) -> Value:
    coordinates, numerator, divisor = _source(how, False)
    found = positions(_floor(coordinates), numerator, divisor)
    wide = accumulator(dtype)
    t = _fraction(b, how, found, False, "f64" if wide == "f64" else "f32")["o"]
    distances = (apply("add", t, 1.0), t, apply("sub", 1.0, t), apply("sub", 2.0, t))
    body: Expr | None = None
    for tap, distance in enumerate(distances):
        weight = b.statement("weight", [("o", how.target)], _cubic_weight(distance, tap in (1, 2)), wide)
        term = apply("mul", weight[f"i{axis}"], found.read(x, axis, tap - 1))
        body = term if body is None else apply("add", body, term)
    assert body is not None
    return _emit(b, x, axis, how.target, body, wide)


# --- operators --------------------------------------------------------------------------------------------------------


def resample(b: Builder, x: Value, axes: Sequence[Axis], mode: str, dtype: str) -> Value:
    """All spatial axes, cheapest first: those that shrink most."""
    order = sorted(range(len(axes)), key=lambda k: axes[k].target / max(axes[k].source, 1))
    start = x
    for k in order:
        how = axes[k]
        if how.source == how.target and (how.aligned or how.scale == 1):
            continue
        if mode in ("nearest", "nearest-exact"):
            x = _nearest(b, x, k + 2, how, mode == "nearest-exact")
        else:
            x = (_cubic if mode == "bicubic" else _linear)(b, x, k + 2, how, dtype)
    if x is start or x.dtype != dtype:
        dims = dims_of(x.shape)
        x = b.statement("upsample", dims, x[tuple(n for n, _ in dims)], dtype)
    return x


_MODES = {"linear1d": "linear", "bilinear2d": "linear", "trilinear3d": "linear", "bicubic2d": "bicubic"}


@rule(*(f"aten.upsample_{m}" for m in _MODES))
def upsample(b: Builder, call: OpCall) -> Value:
    """(input, output_size, align_corners, scale or scale_factors)."""
    x = call.args[0]
    aligned = bool(call.arg(2, "align_corners", False))
    axes = axes_of(call, x, _scales(call, 3), aligned)
    return resample(b, x, axes, _MODES[call.target.split(".")[1].removeprefix("upsample_")], call.out_dtype)


@rule(*(f"aten.{p}{k}d" for p in ("upsample_nearest", "_upsample_nearest_exact") for k in (1, 2, 3)))
def upsample_nearest(b: Builder, call: OpCall) -> Value:
    """(input, output_size, scale or scale_factors)."""
    x = call.args[0]
    mode = "nearest-exact" if "exact" in call.target else "nearest"
    return resample(b, x, axes_of(call, x, _scales(call, 2), False), mode, call.out_dtype)


def _scales(call: OpCall, first: int) -> list[float | None]:
    """Scale factors, as a list (vec) or one argument an axis."""
    given = call.arg(first, "scale_factors")
    if isinstance(given, list):
        return cast(list[float | None], given)
    if any(k.startswith("scales") for k in call.kwargs):
        return [call.kwargs.get(k) for k in ("scales_d", "scales_h", "scales_w", "scales") if k in call.kwargs]
    return [*call.args[first:]]


@rule("fn.interpolate", "fn.upsample")
def interpolate(b: Builder, call: OpCall) -> Value:
    """torch.nn.functional.interpolate."""
    x, mode = call.args[0], call.arg(3, "mode", "nearest")
    if call.kwargs.get("antialias") or mode == "area":
        raise NotImplementedError(f"interpolation {mode} with antialias")
    given = call.arg(2, "scale_factor")
    scales = cast(list[float | None], given if isinstance(given, list) else [given] * (x.rank - 2))
    if call.arg(5, "recompute_scale_factor"):
        scales = []
    mode = "linear" if mode in ("bilinear", "trilinear") else str(mode)
    return resample(b, x, axes_of(call, x, scales, bool(call.arg(4, "align_corners", False))), mode, call.out_dtype)
