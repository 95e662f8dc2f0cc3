"""Padding: constant (guarded), reflected, replicated, circular."""

from __future__ import annotations

from collections.abc import Sequence

from sollens.analysis.ir.affine import Affine, Constraint, at_least, const, dim, less
from sollens.analysis.ir.nodes import Expr, Select
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import as_expr, select
from sollens.analysis.lower.pointwise import dims_of
from sollens.analysis.lower.registry import rule


def _by_axis(pad: Sequence[int], rank: int) -> dict[int, tuple[int, int]]:
    """(before, after) of each padded axis; torch lists pairs from the last axis back."""
    return {rank - 1 - k: (pad[2 * k], pad[2 * k + 1]) for k in range(len(pad) // 2)}


def _constant(b: Builder, call: OpCall, x: Value, pad: Sequence[int], value: float) -> Value:
    dims = dims_of(call.out_shape)
    index = [dim(n) for n, _ in dims]
    inside: list[Constraint] = []
    for axis, (before, _) in _by_axis(pad, x.rank).items():
        index[axis] = index[axis] - before
        if before > 0:
            inside.append(at_least(index[axis], 0))
        if call.out_shape[axis] - before > x.shape[axis]:
            inside.append(less(index[axis], x.shape[axis]))
    element = x[tuple(index)]
    body = Select(tuple(inside), element, as_expr(value)) if inside else element
    return b.statement("pad", dims, body, x.dtype)


def _mirrored(at: Affine, extent: int, before: int, after: int) -> list[tuple[int, Affine]]:
    """(start, index) of the pieces of a reflected axis; `at` is the output position."""
    pieces = [(before, at - before)]
    if before > 0:
        pieces.insert(0, (0, before - at))
    if after > 0:
        pieces.append((before + extent, 2 * (extent - 1) + before - at))
    return pieces


def _replicated(at: Affine, extent: int, before: int, after: int) -> list[tuple[int, Affine]]:
    pieces = [(before, at - before)]
    if before > 0:
        pieces.insert(0, (0, const(0)))
    if after > 0:
        pieces.append((before + extent, const(extent - 1)))
    return pieces


def _circular(at: Affine, extent: int, before: int, after: int) -> list[tuple[int, Affine]]:
    pieces = [(before, at - before)]
    if before > 0:
        pieces.insert(0, (0, at - before + extent))
    if after > 0:
        pieces.append((before + extent, at - before - extent))
    return pieces


_MODES = {"reflect": _mirrored, "replicate": _replicated, "circular": _circular}


def _piecewise(b: Builder, call: OpCall, x: Value, pad: Sequence[int], mode: str) -> Value:
    dims = dims_of(call.out_shape)

    def body(axis: int, index: list[Affine]) -> Expr:
        if axis == x.rank:
            return x[tuple(index)]
        at = dim(dims[axis][0])
        before, after = _by_axis(pad, x.rank).get(axis, (0, 0))
        if (before, after) == (0, 0):
            return body(axis + 1, [*index, at])
        pieces = _MODES[mode](at, x.shape[axis], before, after)
        result = body(axis + 1, [*index, pieces[-1][1]])
        for (_, piece), (end, _) in zip(pieces[-2::-1], pieces[:0:-1], strict=True):
            result = select(less(at, end), body(axis + 1, [*index, piece]), result)
        return result

    return b.statement("pad", dims, body(0, []), x.dtype)


@rule("aten.constant_pad_nd")
def constant_pad(b: Builder, call: OpCall) -> Value:
    """A value around the operand."""
    return _constant(b, call, call.args[0], call.arg(1, "pad"), call.arg(2, "value", 0))


@rule("aten.pad", "fn.pad")
def pad(b: Builder, call: OpCall) -> Value:
    """Padding in any mode."""
    x, widths, mode = call.args[0], call.arg(1, "pad"), call.arg(2, "mode", "constant")
    if mode == "constant":
        return _constant(b, call, x, widths, call.arg(3, "value") or 0)
    return _piecewise(b, call, x, widths, mode)


_NAMED = {"reflection_pad": "reflect", "replication_pad": "replicate", "_pad_circular": "circular"}


@rule(*(f"aten.{n}{k}" for n in _NAMED for k in ("1d", "2d", "3d", "")))
def padded(b: Builder, call: OpCall) -> Value:
    """Reflection, replication and circular padding by name."""
    mode = next(m for n, m in _NAMED.items() if n in call.target)
    return _piecewise(b, call, call.args[0], call.arg(1, "padding"), mode)
