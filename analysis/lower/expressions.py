"""Short constructors of scalar bodies for lowering rules."""

from __future__ import annotations

from collections.abc import Sequence

from sollens.analysis.ir.affine import Affine, Constraint, dim
from sollens.analysis.ir.nodes import Apply, Expr, IndexValue, Literal, Select
from sollens.analysis.ir.scalars import SCALAR_OPS


def apply(op: str, *args: Expr | float | int | bool | complex) -> Apply:
    """`op(args)`; Python numbers become literals."""
    spec = SCALAR_OPS[op]
    if len(args) != spec.arity:
        raise ValueError(f"{op}: expected {spec.arity} arguments, found {len(args)}")
    return Apply(op, tuple(as_expr(a) for a in args))


def as_expr(value: Expr | float | int | bool | complex) -> Expr:
    """An expression, or a number as a literal."""
    return Literal(value) if isinstance(value, bool | int | float | complex) else value


def cast(value: Expr, dtype: str) -> Apply:
    """The value converted to `dtype`."""
    return Apply("cast", (value,), dtype)


def iota(index: Affine | str) -> IndexValue:
    """The index's own value, i64."""
    return IndexValue(dim(index) if isinstance(index, str) else index)


def select(condition: Constraint | Sequence[Constraint], then: Expr | float, otherwise: Expr | float) -> Select:
    """`then` where every constraint holds."""
    constraints = (condition,) if isinstance(condition, Constraint) else tuple(condition)
    return Select(constraints, as_expr(then), as_expr(otherwise))


def names(prefix: str, count: int) -> list[str]:
    """`["i0", "i1", ...]`: distinct dimension names."""
    return [f"{prefix}{k}" for k in range(count)]


def normalize(axis: int, rank: int) -> int:
    """A non-negative axis; a scalar has axis 0 and -1."""
    return axis % max(rank, 1)


def scaled(value: Expr, factor: float | int | complex) -> Expr:
    """`value * factor`, without the multiplication by 1."""
    return value if factor == 1 else apply("mul", value, factor)
