"""Softmax and its logarithm: a maximum, exponentials, their sum, and one operation an element."""

from __future__ import annotations

from math import inf

from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import apply
from sollens.analysis.lower.pointwise import accumulator, broadcast_read, dims_of, filled, pointwise
from sollens.analysis.lower.registry import rule


def _broadcast_along(b: Builder, x: Value, axis: int, kind: str, hint: str, dtype: str) -> Value:
    """The fold of `x` over `axis`, which stays with extent 1."""
    dims = dims_of(x.shape)
    kept = [(n, 1) if k == axis else (n, e) for k, (n, e) in enumerate(dims)]
    folded = ("k", x.shape[axis])
    index = tuple("k" if k == axis else n for k, (n, _) in enumerate(dims))
    return b.statement(hint, kept, x[index], dtype, reduce=(kind, [folded]))


def softmax_over(b: Builder, x: Value, axis: int, dtype: str, *, safe: bool = False) -> Value:
    """`exp(x - max) / sum`; with `safe`, a row that is -inf throughout gives zeros."""
    wide = accumulator(dtype)
    largest = _broadcast_along(b, x, axis, "max", "row_max", wide)
    empty = pointwise(b, "empty_row", "bool", largest.shape, "eq", largest, -inf) if safe else None
    if empty is not None:
        largest = pointwise(b, "row_max", wide, largest.shape, "where", empty, 0.0, largest)
    dims = dims_of(x.shape)
    shifted = apply("sub", broadcast_read(x, dims), broadcast_read(largest, dims))
    powers = b.statement("powers", dims, apply("exp", shifted), wide)
    total = _broadcast_along(b, powers, axis, "sum", "row_sum", wide)
    if empty is not None:
        total = pointwise(b, "row_sum", wide, total.shape, "where", empty, 1.0, total)
    return pointwise(b, "softmax", dtype, x.shape, "div", powers, total)


def log_softmax_over(b: Builder, x: Value, axis: int, dtype: str) -> Value:
    """`(x - max) - log(sum(exp(x - max)))`."""
    wide = accumulator(dtype)
    largest = _broadcast_along(b, x, axis, "max", "row_max", wide)
    shifted = pointwise(b, "shifted", wide, x.shape, "sub", x, largest)
    powers = pointwise(b, "powers", wide, x.shape, "exp", shifted)
    total = _broadcast_along(b, powers, axis, "sum", "row_sum", wide)
    logarithm = pointwise(b, "log_sum", wide, total.shape, "log", total)
    return pointwise(b, "log_softmax", dtype, x.shape, "sub", shifted, logarithm)


def _along(call: OpCall, x: Value) -> int:
    return call.args[1] % x.rank


@rule("aten._softmax", "aten.softmax", "aten._safe_softmax", "aten.special_softmax")
def softmax(b: Builder, call: OpCall) -> Value:
    """`(input, dim, ...)`; the result's dtype is the trace's."""
    x: Value = call.args[0]
    if x.rank == 0:
        return filled(b, "softmax", call.out_dtype, (), 1)
    return softmax_over(b, x, _along(call, x), call.out_dtype, safe="safe" in call.target)


@rule("aten._log_softmax", "aten.log_softmax", "aten.special_log_softmax")
def log_softmax(b: Builder, call: OpCall) -> Value:
    """`(input, dim, ...)`."""
    x: Value = call.args[0]
    if x.rank == 0:
        return filled(b, "log_softmax", call.out_dtype, ())
    return log_softmax_over(b, x, _along(call, x), call.out_dtype)
