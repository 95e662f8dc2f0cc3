"""How each statement is executed: not at all, as a kernel, or by the reference interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
from sollens.analysis.execute.compiled import in_bounds, kernels
from sollens.analysis.execute.compiled.emit import Kernel, emit, held_dtype
from sollens.analysis.execute.compiled.flatten import flatten
from sollens.analysis.execute.compiled.writer import Unsupported
from sollens.analysis.execute.reductions import identity
from sollens.analysis.execute.storage import Array
from sollens.analysis.ir.affine import Affine, dim
from sollens.analysis.ir.nodes import Apply, Expr, IndexValue, Literal, Read, Select, Statement
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
    """By the reference interpreter."""

    reason: str


@dataclass(frozen=True, slots=True)
class Compiled:
    """A call of a compiled function."""

    kernel: Kernel
    function: kernels.Function
    integers: Array
    varying: tuple[tuple[int, Affine], ...]
    floats: Array


Plan: TypeAlias = Same | Filled | Interpreted | Compiled


def plan(node: Statement, types: Mapping[str, TensorType], trips: Mapping[str, int]) -> Plan:
    """The plan of a statement inside loops of these extents; compiles or loads its kernel where that pays."""
    points = prod(d.extent for d in node.domain)
    if points == 0:
        kind = node.reduction.kind if node.reduction and prod(node.shape) else "sum"
        return Filled(identity(kind, node.dtype) if not kind.startswith("arg") else 0)
    shapes = {name: kind.shape for name, kind in types.items()}
    if not in_bounds.proves(node, shapes, trips):
        return Interpreted("a read that may leave its tensor")
    try:
        flat = flatten(node, shapes, trips)
        if (tensor := _copied(flat, types)) is not None:
            return Same(tensor)
        kernel = emit(flat, {name: kind.dtype for name, kind in types.items()})
    except Unsupported as error:
        return Interpreted(str(error))
    return compiled(kernel, numpy_s=(points * _NUMPY_POINT_S * _weight(node.body) + _NUMPY_STATEMENT_S) * prod(trips.values()))


def compiled(kernel: Kernel, numpy_s: float) -> Plan:
    """The call of a kernel, unless it would have to be compiled and NumPy is done sooner."""
    function = kernels.find(kernel, compiling=numpy_s > COMPILE_S)
    if function is None:
        return Interpreted("small")
    varying = tuple((k, a) for k, a in enumerate(kernel.integers) if not a.is_constant)
    integers = np.array([a.constant for a in kernel.integers], np.int64)
    return Compiled(kernel, function, integers, varying, np.array(kernel.floats, np.float64))


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
