"""Sorting and selection by rank."""

from __future__ import annotations

from sollens.analysis.ir.nodes import Literal
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import normalize
from sollens.analysis.lower.registry import rule


def _sorted(b: Builder, x: Value, axis: int, descending: bool) -> tuple[Value, ...]:
    if not x.rank:
        return b.statement("sorted", [], x[()], x.dtype), b.statement("order", [], Literal(0), "i64")
    both = [(x.dtype, x.shape), ("i64", x.shape)]
    return b.call("sort", [x], both, "sorted", axis=normalize(axis, x.rank), descending=descending, stable=True)


@rule("aten.sort", "aten.argsort", "aten.msort")
def sort(b: Builder, call: OpCall) -> Value | tuple[Value, ...]:
    """(values, positions) along an axis."""
    x = call.args[0]
    if ".msort" in call.target:
        return _sorted(b, x, 0, False)[0]
    if ".stable" in call.target:
        axis, descending = call.kwargs.get("dim", -1), call.kwargs.get("descending", False)
    else:
        axis, descending = call.arg(1, "dim", -1), call.arg(2, "descending", False)
    both = _sorted(b, x, axis, bool(descending))
    return both[1] if "argsort" in call.target else both


@rule("aten.topk")
def topk(b: Builder, call: OpCall) -> tuple[Value, ...]:
    """The k largest or smallest and where they are."""
    x, k = call.args[:2]
    if not x.rank:
        return _sorted(b, x, 0, False)
    axis = normalize(call.arg(2, "dim", -1), x.rank)
    both = [(x.dtype, call.out_shape), ("i64", call.out_shape)]
    return b.call("topk", [x], both, "top", k=k, axis=axis, largest=bool(call.arg(3, "largest", True)))
