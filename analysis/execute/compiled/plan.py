"""How each statement is executed: not at all, as a kernel, or by the reference interpreter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from sollens.analysis.execute.compiled import in_bounds, kernels
from sollens.analysis.execute.compiled.contraction import CHUNK, Contraction, Side, find
from sollens.analysis.execute.compiled.emit import Kernel, emit, held_dtype
from sollens.analysis.execute.compiled.flatten import flatten, holds_linearly, over_windows, windows
from sollens.analysis.execute.compiled.writer import Unsupported
from sollens.analysis.execute.reductions import identity
from sollens.analysis.execute.storage import Array
from sollens.analysis.ir.affine import Affine, dim
from sollens.analysis.ir.nodes import Apply, Expr, IndexValue, Literal, Read, Select, Statement, reads
from sollens.analysis.ir.tensors import TensorType

# Compiling takes about this long; NumPy about this long a point and operation, and a statement.
COMPILE_S = 0.2
_NUMPY_POINT_S = 8e-9
_NUMPY_STATEMENT_S = 3e-4


@dataclass(frozen=True, slots=True)
class Same:
    """The result is a tensor that exists, seen in the result's shape."""

    tensor: str


@dataclass(frozen=True, slots=True)
class Filled:
    """A domain without points."""

    value: Any


@dataclass(frozen=True, slots=True)
class Interpreted:
    """By the reference interpreter. `flat`: the statement reads tensors as vectors."""

    node: Statement
    flat: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Compiled:
    """A call of a compiled function."""

    node: Statement
    kernel: Kernel
    function: kernels.Function
    integers: tuple[int, ...]
    varying: tuple[tuple[int, Affine], ...]


@dataclass(frozen=True, slots=True)
class Packing:
    """How a factor gets into an order that BLAS takes: the plan of `node`. `transposed`: summed dims before its own."""

    how: Same | Interpreted | Compiled
    node: Statement
    transposed: bool


@dataclass(frozen=True, slots=True)
class Multiplied:
    """A matrix product. `node` is the flattened statement, for when the product would not be the same."""

    node: Statement
    product: Contraction
    rows: Packing
    columns: Packing


Plan: TypeAlias = Same | Filled | Interpreted | Compiled | Multiplied


def plan(node: Statement, types: Mapping[str, TensorType], trips: Mapping[str, int]) -> Plan:
    """The plan of a statement inside loops of these extents; compiles or loads its kernel where that pays."""
    points = prod(d.extent for d in node.domain)
    if points == 0:
        kind = node.reduction.kind if node.reduction and prod(node.shape) else "sum"
        return Filled(identity(kind, node.dtype) if not kind.startswith("arg") else 0)
    shapes = {name: types[name].shape for name in {r.tensor for r in reads(node.body)}}
    dtypes = {name: types[name].dtype for name in shapes}
    if not in_bounds.proves(node, shapes, trips):
        return Interpreted(node, False, "a read that may leave its tensor")
    try:
        flat = flatten(node, shapes, trips)
        if (tensor := _copied(flat, types)) is not None:
            return Same(tensor)
        windowed = flatten(over_windows(node), shapes, trips) if windows(node) else flat
        if (product := find(windowed, dtypes)) is not None:
            return _multiplied(flat, product, types, trips)
        return compiled(flat, dtypes, trips)
    except Unsupported as error:
        return Interpreted(node, False, str(error))


def compiled(
    flat: Statement, dtypes: Mapping[str, str], trips: Mapping[str, int], *, always: bool = False
) -> Interpreted | Compiled:
    """The call of a flattened statement's kernel, unless it would have to be compiled and NumPy is done sooner."""
    kernel = emit(flat, dtypes)
    points = prod(d.extent for d in flat.domain)
    numpy_s = (points * _NUMPY_POINT_S * _weight(flat.body) + _NUMPY_STATEMENT_S) * prod(trips.values())
    function = kernels.find(kernel, math.inf if always else numpy_s, COMPILE_S)
    if function is None:
        return Interpreted(flat, True, "small")
    varying = tuple((k, a) for k, a in enumerate(kernel.integers) if not a.is_constant)
    return Compiled(flat, kernel, function, tuple(a.constant for a in kernel.integers), varying)


def _multiplied(
    node: Statement, product: Contraction, types: Mapping[str, TensorType], trips: Mapping[str, int]
) -> Multiplied:
    trips = {**trips, CHUNK: product.order[0].extent * product.chunks} if product.chunks > 1 else trips
    return Multiplied(node, product, _packed(product.rows, types, trips), _packed(product.columns, types, trips))


def _packed(side: Side, types: Mapping[str, TensorType], trips: Mapping[str, int]) -> Packing:
    flat: list[Statement] = []
    orders = (side.own_first, side.summed_first)
    for statement in orders:
        vectors = {r.tensor: (types[r.tensor].size,) for r in reads(statement.body)}
        flat.append(flatten(statement, vectors, trips))
        if (tensor := _copied(flat[-1], types)) is not None:
            return Packing(Same(tensor), statement, len(flat) == 2)
    transposed = _stride_one(flat[1]) > _stride_one(flat[0])
    dtypes = {r.tensor: types[r.tensor].dtype for r in reads(side.own_first.body)}
    how = compiled(flat[transposed], dtypes, {k: v for k, v in trips.items() if k != CHUNK})
    return Packing(how, orders[transposed], transposed)


def _stride_one(flat: Statement) -> int:
    """How many elements in a row the reads take from consecutive places."""
    last = flat.dims[-1] if flat.dims else None
    walks = last is not None and all(holds_linearly(r.index[0], last.name) in (0, 1) for r in reads(flat.body))
    return last.extent if last is not None and walks else 1


def _weight(body: Expr) -> int:
    """Passes over the domain that NumPy would make."""
    match body:
        case Read():
            return 3
        case Apply():
            return 1 + sum(_weight(a) for a in body.args)
        case Select():
            return 2 + len(body.condition) + _weight(body.then) + _weight(body.otherwise)
        case Literal() | IndexValue():
            return 1


def _copied(node: Statement, types: Mapping[str, TensorType]) -> str | None:
    """The tensor that a flattened statement copies whole and in order, if that is all it does."""
    if node.reduction or node.scan or node.guard or not isinstance(node.body, Read):
        return None
    source = types[node.body.tensor]
    index, size = node.body.index[0], prod(node.shape)
    in_order = index == (dim(node.dims[0].name) if node.dims else Affine()) and len(node.dims) <= 1
    same = source.dtype == node.dtype and source.size == size
    return node.body.tensor if in_order and same else None


def filled(node: Statement, value: Any) -> Array:
    """The result of a statement whose domain has no points."""
    return np.full(node.shape, value).astype(held_dtype(node.dtype))
