"""Reductions and prefix folds of JAX."""

from __future__ import annotations

from sollens.analysis.ir.nodes import Scan
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.pointwise import converted, dims_of
from sollens.analysis.lower.registry import rule

_KINDS = {"reduce_sum": "sum", "reduce_prod": "prod", "reduce_max": "max", "reduce_min": "min"}


@rule(*(f"jax.{name}" for name in _KINDS), "jax.reduce_and", "jax.reduce_or")
def reduce(b: Builder, call: OpCall) -> Value:
    """Fold over `axes`; over none it is the same tensor."""
    x, name = call.args[0], call.target.split(".")[1]
    kind = _KINDS.get(name) or ("all" if name == "reduce_and" else "any")
    if kind in ("all", "any") and x.dtype != "bool":
        raise NotImplementedError("a reduction bit by bit")
    return folded_over(b, name, x, kind, call.kwargs["axes"], call.out_dtype)


def folded_over(b: Builder, hint: str, x: Value, kind: str, axes: list[int], dtype: str) -> Value:
    """The reduction of some axes of `x`."""
    dims = dims_of(x.shape)
    body = x[tuple(n for n, _ in dims)]
    kept = [d for k, d in enumerate(dims) if k not in axes]
    over = [d for k, d in enumerate(dims) if k in axes]
    return b.statement(hint, kept, body, dtype, reduce=(kind, over) if over else None)


@rule("jax.argmax", "jax.argmin")
def argument(b: Builder, call: OpCall) -> Value:
    """The first position of the extreme along one axis."""
    x, name = call.args[0], call.target.split(".")[1]
    (axis,) = call.kwargs["axes"]
    return converted(b, name, call.out_dtype, folded_over(b, name, x, name, [axis], "i64"))


_SCANS = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min", "cumlogsumexp": "logsumexp"}


@rule(*(f"jax.{name}" for name in _SCANS))
def cumulative(b: Builder, call: OpCall) -> Value:
    """An inclusive prefix fold along `axis`, from the far end when `reverse`."""
    x, name = call.args[0], call.target.split(".")[1]
    dims = dims_of(x.shape)
    scan = Scan(kind=_SCANS[name], dim=f"i{call.kwargs['axis']}", reverse=bool(call.kwargs.get("reverse")))
    return b.statement(name, dims, x[tuple(n for n, _ in dims)], call.out_dtype, scan=scan)
