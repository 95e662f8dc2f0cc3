"""Bit masks over some axes of a box: exact sets of points whatever their form, as long as few axes are coupled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import islpy as isl
import numpy as np
from numpy.typing import NDArray

from sollens.analysis.einsum.points import Interval, expr_range
from sollens.analysis.einsum.polyhedra import basic_constraints
from sollens.analysis.ir.affine import Affine, Constraint

Bits: TypeAlias = NDArray[np.bool_]

MAX_BITS = 1 << 23
MAX_GRID = 1 << 25


class TooComplex(ValueError):
    """A set is neither simple enough for isl nor small enough for a mask."""


@dataclass(frozen=True, slots=True)
class Mask:
    """`bits` over `axes` (ascending); every other axis of the box is free."""

    axes: tuple[int, ...]
    bits: Bits


def slim(mask: Mask) -> Mask:
    """The mask without the axes along which it does not change."""
    axes, bits = list(mask.axes), mask.bits
    for position in range(len(axes) - 1, -1, -1):
        first = bits.take([0], axis=position)
        if bits.shape[position] == 1 or bool((bits == first).all()):
            bits = first.squeeze(axis=position)
            del axes[position]
    return Mask(tuple(axes), bits)


def spread(mask: Mask, axes: tuple[int, ...], box: Sequence[Interval]) -> Bits:
    """The bits over more axes."""
    shape = _shape(axes, box)
    sparse = tuple(extent if a in mask.axes else 1 for a, extent in zip(axes, shape, strict=True))
    return np.broadcast_to(mask.bits.reshape(sparse), shape)


def _shape(axes: Sequence[int], box: Sequence[Interval]) -> tuple[int, ...]:
    shape = tuple(box[a][1] - box[a][0] + 1 for a in axes)
    if prod(shape) > MAX_BITS:
        raise TooComplex(f"expected at most {MAX_BITS} bits, found {shape}")
    return shape


def _grid(names: Sequence[str], box: Sequence[Interval]) -> Mapping[str, NDArray[np.int64]]:
    axes = [np.arange(low, high + 1, dtype=np.int64) for low, high in box]
    return dict(zip(names, np.meshgrid(*axes, indexing="ij", sparse=True), strict=True)) if axes else {}


def holding(constraints: Sequence[Constraint], names: Sequence[str], box: Sequence[Interval]) -> Bits:
    """Where all the constraints hold; an axis that no constraint names has one element."""
    grid = _grid(names, box)
    parts: dict[tuple[int, ...], Bits] = {(1,) * len(names): np.ones((1,) * len(names), dtype=bool)}
    whole = dict(zip(names, box, strict=True))
    for constraint in constraints:
        low, high = expr_range(constraint.expr, whole)
        if (low == high == 0) if constraint.equal else low >= 0:
            continue
        value = np.asarray(constraint.expr.evaluate(grid))
        holds: Bits = value == 0 if constraint.equal else value >= 0
        if holds.ndim != len(names):
            holds = holds.reshape((1,) * len(names))
        if prod(holds.shape) > MAX_GRID:
            raise TooComplex(f"expected at most {MAX_GRID} points, found {holds.shape}")
        known = parts.get(holds.shape)
        parts[holds.shape] = holds if known is None else known & holds
    shape = np.broadcast_shapes(*parts)
    if prod(shape) > MAX_BITS:
        raise TooComplex(f"expected at most {MAX_BITS} bits, found {shape}")
    result = np.ones((1,) * len(names), dtype=bool)
    for part in sorted(parts.values(), key=lambda p: p.size):
        result = result & part
    return result


def mask_of(points: isl.Set, box: tuple[Interval, ...]) -> Mask:
    """An isl set as bits over the axes that its constraints couple."""
    names = [f"x{k}" for k in range(len(box))]
    found: list[Bits] = []
    for part in points.compute_divs().get_basic_sets():
        if not part.is_empty():
            found.append(holding(basic_constraints(part, names), names, box))
    shapes = [np.array(bits.shape) > 1 for bits in found]
    coupled = tuple(int(a) for a in np.flatnonzero(np.any(shapes, axis=0))) if found else ()
    bits = np.zeros(_shape(coupled, box), dtype=bool)
    for part in found:
        kept = tuple(a for a in range(len(box)) if a not in coupled)
        bits |= part.squeeze(axis=kept)
    return slim(Mask(coupled, bits))


def mask_image(
    mask: Mask, source: Sequence[Interval], index: Sequence[Affine], names: Sequence[str], box: tuple[Interval, ...]
) -> Mask:
    """The image of a masked box under `index`, inside `box`, computed component by component."""
    if not mask.bits.any() or any(high < low for low, high in source):
        return Mask((), np.zeros((), dtype=bool))
    free = dict(zip(names, source, strict=True))
    masked = frozenset(names[a] for a in mask.axes)
    axes: list[int] = []
    pieces: list[Mask] = []
    for group, seen in _components(index, masked):
        inside = [names[a] for a in mask.axes if names[a] in seen] if seen & masked else []
        unused = tuple(p for p, a in enumerate(mask.axes) if names[a] not in seen)
        bits = _component_image(
            np.asarray(mask.bits.any(axis=unused)) if inside else None,
            inside,
            seen - masked,
            free,
            [index[k] for k in group],
            [box[k] for k in group],
        )
        if not bits.all():
            pieces.append(Mask(group, bits))
            axes += group
    axes.sort()
    result = np.ones(_shape(axes, box), dtype=bool)
    for piece in pieces:
        result &= spread(piece, tuple(axes), box)
    return slim(Mask(tuple(axes), result))


def _components(index: Sequence[Affine], masked: frozenset[str]) -> list[tuple[tuple[int, ...], set[str]]]:
    """Axes of the image that share dimensions (all masked ones count as shared), with those that they use."""
    groups: list[tuple[list[int], set[str]]] = []
    for axis, expr in enumerate(index):
        members, seen = [axis], set(expr.names)
        apart: list[tuple[list[int], set[str]]] = []
        for group in groups:
            if group[1] & seen or (group[1] & masked and seen & masked):
                members, seen = group[0] + members, group[1] | seen
            else:
                apart.append(group)
        groups = [*apart, (members, seen)]
    return [(tuple(sorted(members)), seen) for members, seen in groups]


def _component_image(
    bits: Bits | None,
    masked: Sequence[str],
    others: set[str],
    free: Mapping[str, Interval],
    index: Sequence[Affine],
    box: Sequence[Interval],
) -> Bits:
    result = np.zeros(_shape(range(len(box)), box), dtype=bool)
    points: dict[str, Any] = {}
    count = 1
    if bits is not None:
        hits = np.nonzero(bits)
        count = len(hits[0]) if hits else 1
        for name, hit in zip(masked, hits, strict=True):
            points[name] = hit.astype(np.int64) + free[name][0]
    order = sorted(others)
    size = count * prod(free[n][1] - free[n][0] + 1 for n in order)
    if size > MAX_GRID:
        raise TooComplex(f"expected at most {MAX_GRID} points, found {size}")
    for name, axis in _grid(order, [free[n] for n in order]).items():
        points[name] = axis[..., None]
    values = [np.asarray(e.evaluate(points)) for e in index]
    inside = np.ones(np.broadcast_shapes(*(v.shape for v in values)), dtype=bool)
    for value, (low, high) in zip(values, box, strict=True):
        inside &= (value >= low) & (value <= high)
    everywhere = bool(inside.all())
    where = tuple(
        (v if everywhere else np.broadcast_to(v, inside.shape)[inside]) - low
        for v, (low, _) in zip(values, box, strict=True)
    )
    result[where] = True
    return result
