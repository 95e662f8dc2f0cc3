"""Elementwise statements over broadcast tensors, shared by the operator families."""

from __future__ import annotations

from collections.abc import Sequence

from sollens.analysis.ir.affine import Affine
from sollens.analysis.ir.nodes import Literal, Read
from sollens.analysis.lower.builder import Builder, Value
from sollens.analysis.lower.expressions import apply

Dims = list[tuple[str, int]]


def dims_of(shape: Sequence[int], prefix: str = "i") -> Dims:
    """Named dimensions of a shape: `[("i0", 2), ("i1", 3)]`."""
    return [(f"{prefix}{k}", extent) for k, extent in enumerate(shape)]


def names_of(dims: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """The point of some dims: their names."""
    return tuple(n for n, _ in dims)


def broadcast_read(value: Value, dims: Sequence[tuple[str, int]]) -> Read:
    """`value` at the point of `dims`, aligned at the last axis; its axes of extent 1 are read at 0."""
    if value.rank > len(dims):
        raise ValueError(f"read of {value.name}: expected at most {len(dims)} axes, found {value.rank}")
    own = dims[len(dims) - value.rank :]
    return value[tuple(Affine() if extent == 1 else name for (name, _), extent in zip(own, value.shape, strict=True))]


def pointwise(b: Builder, hint: str, dtype: str, shape: Sequence[int], op: str, *operands: Value | float) -> Value:
    """One scalar operation of the operands' elements at every point of `shape`."""
    dims = dims_of(shape)
    return b.statement(
        hint, dims, apply(op, *(broadcast_read(v, dims) if isinstance(v, Value) else v for v in operands)), dtype
    )


def converted(b: Builder, hint: str, dtype: str, x: Value) -> Value:
    """`x` in another dtype."""
    return x if x.dtype == dtype else b.statement(hint, dims_of(x.shape), broadcast_read(x, dims_of(x.shape)), dtype)


def filled(b: Builder, hint: str, dtype: str, shape: Sequence[int], number: float = 0) -> Value:
    """A generated constant."""
    return b.statement(hint, dims_of(shape), Literal(number), dtype)


def accumulator(dtype: str) -> str:
    """The dtype in which frameworks keep intermediate results of a fused operator: float32 for narrower floats."""
    return "f32" if dtype in ("f16", "bf16") or dtype.startswith("f8") else dtype
