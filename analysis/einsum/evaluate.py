"""The values of integer tensors that follow from the program's text alone: `arange`, positions, shifted labels.

Only what indices are made of: affine values, integer arithmetic, comparisons and choices. Anything else is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sollens.analysis.einsum.kernels import FlatProgram, Kernel
from sollens.analysis.ir.affine import Constraint
from sollens.analysis.ir.nodes import Apply, Expr, IndexValue, Literal, Read, Select

MAX_ELEMENTS = 1 << 20

_STORED = {"i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8, "u8": np.uint8, "bool": np.bool_}
_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "abs": np.abs, "maximum": np.maximum,
    "minimum": np.minimum, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "where": np.where,
}  # fmt: skip


class Constants:
    """Values of constant integer tensors of a flat program, computed when asked for."""

    def __init__(self, flat: FlatProgram, constants: set[str]) -> None:
        self.names = constants
        self.kernels = {i.name: i for i in flat.items if isinstance(i, Kernel) and i.name in constants}
        self.known: dict[str, NDArray[Any] | None] = {}

    def of(self, name: str) -> NDArray[Any] | None:
        """The tensor's values, or None when they are not known or too many."""
        if name not in self.known:
            self.known[name] = None
            kernel = self.kernels.get(name)
            if kernel is not None and kernel.dtype in _STORED:
                self.known[name] = self._kernel(kernel)
        return self.known[name]

    def _kernel(self, kernel: Kernel) -> NDArray[Any] | None:
        shape = tuple(d.extent for d in kernel.dims)
        if kernel.reduction is not None or kernel.scan is not None or prod(shape) > MAX_ELEMENTS:
            return None
        grid = dict(zip((d.name for d in kernel.dims), np.indices(shape, sparse=True), strict=True))
        value = self._value(kernel.body, grid)
        if value is None:
            return None
        if kernel.guard:
            value = np.where(_holds(kernel.guard, grid), value, 0)
        return np.broadcast_to(np.asarray(value).astype(_STORED[kernel.dtype]), shape)

    def _value(self, expr: Expr, grid: Mapping[str, NDArray[Any]]) -> Any:
        match expr:
            case Literal():
                return expr.value if isinstance(expr.value, int) else None
            case IndexValue():
                return expr.expr.evaluate(grid)
            case Read():
                tensor = self.of(expr.tensor)
                if tensor is None:
                    return None
                index = (np.asarray(i.evaluate(grid)) for i in expr.index)
                # A Select evaluates both sides: where the other one is taken, an index may lie outside.
                inside = tuple(np.clip(i, 0, e - 1) for i, e in zip(index, tensor.shape, strict=True))
                return np.asarray(tensor[inside] if inside else tensor[()])
            case Select():
                then, otherwise = self._value(expr.then, grid), self._value(expr.otherwise, grid)
                if then is None or otherwise is None:
                    return None
                return _OPERATIONS["where"](_holds(expr.condition, grid), then, otherwise)
            case Apply():
                args = [self._value(a, grid) for a in expr.args]
                if any(a is None for a in args):
                    return None
                if expr.op == "cast" and expr.dtype in ("i64", "i32"):
                    return args[0]
                operation = _OPERATIONS.get(expr.op)
                return None if operation is None else np.asarray(operation(*args))


def _holds(constraints: tuple[Constraint, ...], grid: Mapping[str, NDArray[Any]]) -> Any:
    result: Any = True
    for c in constraints:
        value = c.expr.evaluate(grid)
        result = np.logical_and(result, value == 0 if c.equal else value >= 0)
    return result
