"""Pairwise distances."""

from __future__ import annotations

from math import inf

from sollens.analysis.ir.nodes import Expr
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.contractions import contraction, scaled
from sollens.analysis.lower.expressions import apply
from sollens.analysis.lower.pointwise import broadcast_read, dims_of
from sollens.analysis.lower.registry import rule

# torch.cdist computes Euclidean distances through a matrix product above this many rows on either side.
_PRODUCT_ROWS = 25


@rule("aten._euclidean_dist")
def euclidean_distance(b: Builder, call: OpCall) -> Value:
    """What cdist becomes for many rows."""
    return _euclidean(b, call, call.args[0], call.args[1])


@rule("aten._cdist_forward", "aten.cdist")
def cdist(b: Builder, call: OpCall) -> Value:
    """`y[..., i, j] = norm_p(x1[..., i, :] - x2[..., j, :])`; compute_mode 2 forbids the product, 1 forces it."""
    x1, x2, p = call.args[0], call.args[1], float(call.arg(2, "p", 2.0))
    mode, many = call.arg(3, "compute_mode"), max(x1.shape[-2], x2.shape[-2]) > _PRODUCT_ROWS
    if p == 2 and (mode == 1 or (many and mode != 2)):
        return _euclidean(b, call, x1, x2)
    batch, rows, columns, inner = (
        dims_of(call.out_shape[:-2], "b"),
        ("i", x1.shape[-2]),
        ("j", x2.shape[-2]),
        ("k", x1.shape[-1]),
    )
    left, right = broadcast_read(x1, [*batch, rows, inner]), broadcast_read(x2, [*batch, columns, inner])
    difference = apply("sub", left, right)
    dims, over = [*batch, rows, columns], [inner]

    def fold(body: Expr, kind: str = "sum") -> Value:
        return b.statement("distance", dims, body, call.out_dtype, reduce=(kind, over))

    if p == 0:
        return fold(apply("ne", left, right))
    if p == 1:
        return fold(apply("abs", difference))
    if p == inf:
        return fold(apply("abs", difference), "max")
    if p == 2:
        total = fold(apply("pow", difference, 2))
        return b.statement("distance", dims, apply("sqrt", total[tuple(n for n, _ in dims)]), call.out_dtype)
    total = fold(apply("pow", apply("abs", difference), p))
    return b.statement("distance", dims, apply("pow", total[tuple(n for n, _ in dims)], 1 / p), call.out_dtype)


def _euclidean(b: Builder, call: OpCall, x1: Value, x2: Value) -> Value:
    """`sqrt(|x1|^2 + |x2|^2 - 2 x1 . x2)`; the factor goes to `x1`, the smaller side."""
    batch = dims_of(call.out_shape[:-2], "b")
    dims = [*batch, ("i", x1.shape[-2]), ("j", x2.shape[-2])]
    inner = ("k", x1.shape[-1])
    rows, columns = (
        broadcast_read(scaled(b, x1, -2), [*batch, dims[-2], inner]),
        broadcast_read(x2, [*batch, dims[-1], inner]),
    )
    product = contraction(b, "mm", dims, [inner], rows, columns, call.out_dtype)
    left = broadcast_read(_squared_norm(b, x1), dims[:-1])
    right = broadcast_read(_squared_norm(b, x2), [*batch, dims[-1]])
    square = apply("add", apply("add", left, right), product[tuple(n for n, _ in dims)])
    return b.statement("distance", dims, apply("sqrt", apply("maximum", square, 0.0)), call.out_dtype)


def _squared_norm(b: Builder, x: Value) -> Value:
    dims = dims_of(x.shape[:-1])
    body = apply("pow", x[(*(n for n, _ in dims), "k")], 2)
    return b.statement("norm", dims, body, x.dtype, reduce=("sum", [("k", x.shape[-1])]))
