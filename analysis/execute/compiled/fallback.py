"""One statement by the reference interpreter, in pieces that bound its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from sollens.analysis.execute import reference
from sollens.analysis.execute.compiled.emit import held_dtype
from sollens.analysis.execute.compiled.flatten import substitute
from sollens.analysis.execute.storage import Array
from sollens.analysis.ir.affine import Affine, dim
from sollens.analysis.ir.nodes import Declaration, Dim, Program, Statement, reads

PIECE_POINTS = 1 << 20


def evaluate(
    node: Statement, values: Mapping[str, Array], dtypes: Mapping[str, str], indices: Mapping[str, int]
) -> Array:
    """The statement's values, held as the executor holds them; raises OutOfBounds."""
    node = _fixed(node, indices)
    declarations = tuple(
        Declaration(name=t, dtype=dtypes[t], shape=values[t].shape, role="input")
        for t in dict.fromkeys(r.tensor for r in reads(node.body))
    )
    scan = node.scan.dim if node.scan else None
    axis = next((k for k, d in enumerate(node.dims) if d.name != scan and d.extent > 1), None)
    points = prod(d.extent for d in node.domain)
    if axis is None or points <= PIECE_POINTS:
        return _run(node, declarations, values)
    rows = max(1, node.dims[axis].extent * PIECE_POINTS // points)
    out = np.empty(node.shape, held_dtype(node.dtype))
    view = np.moveaxis(out, axis, 0)
    for start in range(0, node.dims[axis].extent, rows):
        stop = min(start + rows, node.dims[axis].extent)
        view[start:stop] = np.moveaxis(_run(_piece(node, axis, start, stop), declarations, values), axis, 0)
    return out


def _run(node: Statement, declarations: tuple[Declaration, ...], values: Mapping[str, Array]) -> Array:
    program = Program(name="statement", declarations=declarations, nodes=(node,), outputs=(node.name,))
    found = reference.run(program, {d.name: values[d.name] for d in declarations}, limit_points=1 << 62)
    return np.asarray(found[node.name], held_dtype(node.dtype), order="C")


def _fixed(node: Statement, indices: Mapping[str, int]) -> Statement:
    """The statement with the indices of enclosing loops as numbers."""
    return substitute(node, {name: Affine(value) for name, value in indices.items()}) if indices else node


def _piece(node: Statement, axis: int, start: int, stop: int) -> Statement:
    d = node.dims[axis]
    dims = (*node.dims[:axis], Dim(name=d.name, extent=stop - start), *node.dims[axis + 1 :])
    return replace(substitute(node, {d.name: dim(d.name) + start}), dims=dims)
