"""Prefix folds along an axis."""

from __future__ import annotations

from sollens.analysis.ir.nodes import Literal, Scan
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import normalize
from sollens.analysis.lower.pointwise import dims_of
from sollens.analysis.lower.registry import rule

_KINDS = {"cumsum": "sum", "cumprod": "prod", "logcumsumexp": "logsumexp", "_logcumsumexp": "logsumexp"}


def scanned(b: Builder, hint: str, x: Value, kind: str, axis: int, dtype: str) -> Value:
    """The fold of all elements up to and including each."""
    dims = dims_of(x.shape)
    return b.statement(hint, dims, x[tuple(n for n, _ in dims)], dtype, scan=Scan(kind=kind, dim=f"i{axis}"))


@rule(*(f"aten.{n}" for n in _KINDS))
def cumulative(b: Builder, call: OpCall) -> Value:
    """cumsum, cumprod, logcumsumexp."""
    x, name = call.args[0], call.target.split(".")[1]
    if not x.rank:
        return b.statement(name, [], x[()], call.out_dtype)
    return scanned(b, name.strip("_"), x, _KINDS[name], normalize(call.arg(1, "dim"), x.rank), call.out_dtype)


@rule("aten.cummax", "aten.cummin", "aten._cummax_helper", "aten._cummin_helper")
def cumulative_extreme(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """(values, positions) so far. With both wanted one pass finds the positions and the values are moved."""
    x, kind = call.args[0], "max" if "cummax" in call.target else "min"
    if not x.rank:
        return b.statement(kind, [], x[()], x.dtype), b.statement("position", [], Literal(0), "i64")
    axis = normalize(call.arg(1, "dim"), x.rank)
    if not call.wants(1):
        return scanned(b, f"cum{kind}", x, kind, axis, x.dtype), None
    positions = scanned(b, f"argcum{kind}", x, f"arg{kind}", axis, "i64")
    return b.call("gather", [x, positions], [(x.dtype, x.shape)], f"cum{kind}", axis=axis)[0], positions
