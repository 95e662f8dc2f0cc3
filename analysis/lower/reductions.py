"""Reductions: sums, means, extremes with and without positions, variances, norms, logsumexp, counts, order
statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sollens.analysis.ir.affine import Affine, dim
from sollens.analysis.ir.nodes import Expr, Literal
from sollens.analysis.lower.arithmetic import binary
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.elementwise import Unary, same
from sollens.analysis.lower.expressions import apply, cast, normalize, scaled
from sollens.analysis.lower.pointwise import accumulator, broadcast_read, dims_of
from sollens.analysis.lower.registry import Results, rule
from sollens.analysis.lower.views import reindex, reshaped


def axes_of(dims: Any, rank: int) -> list[int]:
    """Reduced axes from an argument: None and [] are all."""
    if dims is None or dims == [] or dims == ():
        return list(range(rank))
    return sorted({normalize(a, rank) for a in ([dims] if isinstance(dims, int) else dims) if rank})


def folded(
    b: Builder,
    hint: str,
    x: Value,
    kind: str,
    axes: Sequence[int],
    keepdim: bool,
    dtype: str,
    body: Unary = same,
    minus: Value | None = None,
) -> Value:
    """Fold `body` of x's elements (less `minus`, which keeps the reduced axes as extents of 1) over axes."""
    over = [(f"r{k}", n) for k, n in enumerate(x.shape) if k in axes]
    kept = [(f"i{k}", 1 if k in axes else n) for k, n in enumerate(x.shape) if keepdim or k not in axes]
    element: Expr = x[tuple(f"r{k}" if k in axes else f"i{k}" for k in range(x.rank))]
    if minus is not None:
        element = apply("sub", element, minus[tuple(0 if k in axes else f"i{k}" for k in range(x.rank))])
    return b.statement(hint, kept, body(element), dtype, reduce=(kind, over) if over else None)


def after(b: Builder, hint: str, x: Value, formula: Unary, dtype: str) -> Value:
    """`formula` of every element."""
    dims = dims_of(x.shape)
    return b.statement(hint, dims, formula(broadcast_read(x, dims)), dtype)


def _flag(call: OpCall, position: int) -> bool:
    return bool(call.arg(position, "keepdim", False))


def _dims(call: OpCall, position: int = 1) -> Any:
    """The reduced axes as given; the second argument of the overload without axes is a dtype."""
    value = call.arg(position, "dim")
    return None if isinstance(value, str) else value


# --- sums and products ------------------------------------------------------------------------------------------------


@rule("aten.sum", "aten.nansum", "fn.sum")
def sum_(b: Builder, call: OpCall) -> Value:
    """Sum over axes."""
    x = call.args[0]
    body = _number_or_zero if "nansum" in call.target else same
    return folded(b, "sum", x, "sum", axes_of(_dims(call), x.rank), _flag(call, 2), call.out_dtype, body)


def _number_or_zero(e: Expr) -> Expr:
    return apply("where", apply("isnan", e), 0, e)


@rule("aten.mean", "fn.mean")
def mean(b: Builder, call: OpCall) -> Value:
    """Sum over axes, times 1 / count."""
    x = call.args[0]
    return _mean(b, x, axes_of(_dims(call), x.rank), _flag(call, 2), call.out_dtype)


def _mean(b: Builder, x: Value, axes: Sequence[int], keepdim: bool, dtype: str) -> Value:
    total = folded(b, "sum", x, "sum", axes, keepdim, accumulator(dtype))
    count = math.prod(x.shape[a] for a in axes)
    return after(b, "mean", total, lambda e: apply("mul", e, 1 / count if count else math.nan), dtype)


@rule("aten.prod")
def prod(b: Builder, call: OpCall) -> Value:
    """Product over one axis or all."""
    x = call.args[0]
    return folded(b, "prod", x, "prod", axes_of(_dims(call), x.rank), _flag(call, 2), call.out_dtype)


@rule("aten.any", "aten.all")
def any_all(b: Builder, call: OpCall) -> Value:
    """Whether any (all) elements are not 0."""
    x = call.args[0]
    return folded(
        b, call.target[5:8], x, call.target[5:8], axes_of(_dims(call), x.rank), _flag(call, 2), call.out_dtype
    )


@rule("aten.count_nonzero")
def count_nonzero(b: Builder, call: OpCall) -> Value:
    """How many elements are not 0."""
    x = call.args[0]
    return folded(
        b,
        "count",
        x,
        "sum",
        axes_of(_dims(call), x.rank),
        False,
        call.out_dtype,
        lambda e: cast(apply("ne", e, 0), "i64"),
    )


@rule("aten.isin.Tensor_Tensor")
def isin(b: Builder, call: OpCall) -> Value:
    """Whether each element is among the test elements."""
    x, test = call.args[:2]
    flat = reshaped(b, "flat", test, (test.size,))
    dims = dims_of(x.shape)
    op = "ne" if call.kwargs.get("invert") else "eq"
    body = apply(op, x[tuple(n for n, _ in dims)], flat["r"])
    return b.statement("isin", dims, body, "bool", reduce=("all" if op == "ne" else "any", [("r", test.size)]))


@rule("aten.trace")
def trace(b: Builder, call: OpCall) -> Value:
    """Sum of the diagonal."""
    x = call.args[0]
    return b.statement("trace", [], x["r", "r"], call.out_dtype, reduce=("sum", [("r", min(x.shape))]))


# --- extremes ---------------------------------------------------------------------------------------------------------


@rule("aten.amax", "aten.amin")
def amax(b: Builder, call: OpCall) -> Value:
    """The largest (smallest) element over axes."""
    x, kind = call.args[0], call.target[6:9]
    return folded(b, call.target[5:9], x, kind, axes_of(_dims(call), x.rank), _flag(call, 2), call.out_dtype)


@rule("aten.max", "aten.min")
def max_(b: Builder, call: OpCall) -> Results:
    """The extreme of all elements; along an axis with its position; or of two tensors."""
    kind, x = call.target[5:8], call.args[0]
    second = call.arg(1, "dim", call.kwargs.get("other"))
    if isinstance(second, Value):
        return binary(b, OpCall(f"aten.{kind}imum.default", call.args, call.kwargs, call.outputs))
    if second is None:
        return folded(b, kind, x, kind, range(x.rank), False, call.out_dtype)
    return extreme(b, call, x, kind, normalize(second, x.rank), _flag(call, 2))


def extreme(b: Builder, call: OpCall, x: Value, kind: str, axis: int, keepdim: bool) -> tuple[Value | None, ...]:
    """(values, positions) along an axis. With both wanted one pass finds the positions and the values are moved:
    comparing twice
    is not needed."""
    if not x.rank:
        return after(b, kind, x, same, x.dtype), b.statement(f"arg{kind}", [], Literal(0), "i64") if call.wants(
            1
        ) else None
    if not call.wants(1):
        return folded(b, kind, x, kind, [axis], keepdim, x.dtype), None
    positions = folded(b, f"arg{kind}", x, f"arg{kind}", [axis], True, "i64")
    values = (
        b.call("gather", [x, positions], [(x.dtype, positions.shape)], kind, axis=axis)[0] if call.wants(0) else None
    )
    if keepdim:
        return values, positions
    return tuple(None if v is None else _without(b, v, axis) for v in (values, positions))


def _without(b: Builder, x: Value, axis: int) -> Value:
    index: list[Affine] = [dim(f"i{k}") for k in range(x.rank - 1)]
    index.insert(axis, Affine())
    return reindex(b, x.name, x, x.shape[:axis] + x.shape[axis + 1 :], index)


@rule("aten.argmax", "aten.argmin")
def argmax(b: Builder, call: OpCall) -> Value:
    """The first position of the extreme, along an axis or of all in row-major order."""
    x, kind, axis = call.args[0], call.target[5:11], call.arg(1, "dim")
    if axis is not None and x.rank:
        return folded(b, kind, x, kind, [normalize(axis, x.rank)], _flag(call, 2), call.out_dtype)
    flat = reshaped(b, "flat", x, (x.size,))
    found = folded(b, kind, flat, kind, [0], False, call.out_dtype)
    return found if found.shape == call.out_shape else reshaped(b, kind, found, call.out_shape)


@rule("aten.aminmax", "aten._aminmax")
def aminmax(b: Builder, call: OpCall) -> tuple[Value, ...]:
    """Smallest and largest."""
    x = call.args[0]
    axes = axes_of(call.kwargs.get("dim"), x.rank)
    keepdim = bool(call.kwargs.get("keepdim", False))
    return tuple(folded(b, kind, x, kind, axes, keepdim, x.dtype) for kind in ("min", "max"))


# --- moments and norms ------------------------------------------------------------------------------------------------


def _spread(b: Builder, call: OpCall) -> tuple[Value, Value]:
    """(variance or deviation, mean), as the overload's arguments say."""
    x = call.args[0]
    correction, axes, keepdim = 1.0, _dims(call), call.kwargs.get("keepdim", False)
    if isinstance(axes, bool):  # var(x, unbiased)
        correction, axes = float(axes), None
    elif len(call.args) > 2 or "unbiased" in call.kwargs:  # var(x, dim, unbiased, keepdim)
        correction, keepdim = float(call.arg(2, "unbiased", True)), _flag(call, 3)
    if call.kwargs.get("correction") is not None:
        correction = float(call.kwargs["correction"])
    axes = axes_of(axes, x.rank)
    wide = accumulator(call.out_dtype)
    centre = _mean(b, x, axes, True, wide)
    squares = folded(b, "squares", x, "sum", axes, keepdim, wide, lambda e: apply("mul", e, e), centre)
    freedom = max(0.0, math.prod(x.shape[a] for a in axes) - correction)
    scale = 1 / freedom if freedom else math.inf

    def formula(e: Expr) -> Expr:
        variance = scaled(e, scale)
        return apply("sqrt", variance) if "std" in call.target else variance

    spread = after(b, call.target.split(".")[1], squares, formula, call.out_dtype)
    shape = call.outputs[1][1] if len(call.outputs) > 1 and call.outputs[1] else centre.shape
    if centre.shape != shape or centre.dtype != call.out_dtype:
        centre = reshaped(b, "mean", centre, shape)
        centre = centre if centre.dtype == call.out_dtype else after(b, "mean", centre, same, call.out_dtype)
    return spread, centre


@rule("aten.var", "aten.std")
def variance(b: Builder, call: OpCall) -> Value:
    """Two passes: the mean, then the squared distances to it."""
    return _spread(b, call)[0]


@rule("aten.var_mean", "aten.std_mean")
def variance_mean(b: Builder, call: OpCall) -> tuple[Value, ...]:
    """(variance, mean)."""
    return _spread(b, call)


@rule("aten.linalg_vector_norm", "aten.norm", "aten.frobenius_norm")
def norm(b: Builder, call: OpCall) -> Value:
    """(sum |x|^p)^(1/p); the extremes for infinite p, the count of non-zeros for 0."""
    x = call.args[0]
    if "frobenius" in call.target:
        p, axes, keepdim = 2, _dims(call), _flag(call, 2)
    else:
        p, axes, keepdim = call.arg(1, "p" if ".norm" in call.target else "ord", 2), _dims(call, 2), _flag(call, 3)
    p = 2 if p is None or p == "fro" else p
    return vector_norm(b, x, float(p), axes_of(axes, x.rank), keepdim, call.out_dtype)


def vector_norm(b: Builder, x: Value, p: float, axes: Sequence[int], keepdim: bool, dtype: str) -> Value:
    """The p-norm over axes."""

    def size(e: Expr) -> Expr:
        return apply("abs", e)

    wide = accumulator(dtype)
    if math.isinf(p):
        return folded(b, "norm", x, "max" if p > 0 else "min", axes, keepdim, dtype, size)
    if p == 0:
        return folded(b, "norm", x, "sum", axes, keepdim, dtype, lambda e: cast(apply("ne", e, 0), dtype))
    if p == 1:
        return folded(b, "norm", x, "sum", axes, keepdim, dtype, size)
    if p == 2:
        complex_ = x.dtype[0] == "c"
        total = folded(b, "squares", x, "sum", axes, keepdim, wide, lambda e: _square(size(e) if complex_ else e))
        return after(b, "norm", total, lambda e: apply("sqrt", e), dtype)
    total = folded(b, "powers", x, "sum", axes, keepdim, wide, lambda e: apply("pow", size(e), p))
    return after(b, "norm", total, lambda e: apply("pow", e, 1 / p), dtype)


def _square(e: Expr) -> Expr:
    return apply("mul", e, e)


@rule("aten.logsumexp", "aten.special_logsumexp", "fn.logsumexp")
def logsumexp(b: Builder, call: OpCall) -> Value:
    """max + log(sum(exp(x - max))), where an infinite max counts as 0."""
    x = call.args[0]
    axes, keepdim = axes_of(_dims(call), x.rank), _flag(call, 2)
    wide = accumulator(call.out_dtype)
    top = folded(b, "max", x, "max", axes, True, x.dtype if x.dtype[0] in "fb" and x.dtype != "bool" else wide)
    top = after(b, "max", top, lambda e: apply("where", apply("isinf", e), 0.0, e), top.dtype)
    total = folded(b, "total", x, "sum", axes, keepdim, wide, lambda e: apply("exp", e), top)
    dims = [(f"i{k}", n) for k, n in enumerate(x.shape) if k not in axes]
    if keepdim:
        dims = dims_of(total.shape)
    at = top[tuple(0 if k in axes else f"i{k}" for k in range(x.rank))]
    body = apply("add", apply("log", total[tuple(n for n, _ in dims)]), at)
    return b.statement("logsumexp", dims, body, call.out_dtype)


# --- order statistics -------------------------------------------------------------------------------------------------


@rule("aten.median", "aten.kthvalue", "aten.nanmedian")
def median(b: Builder, call: OpCall) -> Value | tuple[Value, ...]:
    """The k-th smallest (the lower middle for the median): a position of the sorted axis."""
    x = call.args[0]
    if "nanmedian" in call.target:
        raise NotImplementedError("a median that skips nan")
    if "kthvalue" in call.target:
        k, axis, keepdim = call.args[1] - 1, call.arg(2, "dim", -1), _flag(call, 3)
    elif len(call.outputs) == 1:
        x = reshaped(b, "flat", x, (x.size,))
        k, axis, keepdim = (x.size - 1) // 2, 0, False
    else:
        axis, keepdim = call.arg(1, "dim", -1), _flag(call, 2)
        k = (x.shape[normalize(axis, x.rank)] - 1) // 2 if x.rank else 0
    if not x.rank:
        x = reshaped(b, "flat", x, (1,))
        axis = 0
    axis = normalize(axis, x.rank)
    both = b.call(
        "sort", [x], [(x.dtype, x.shape), ("i64", x.shape)], "sorted", axis=axis, descending=False, stable=True
    )
    results = [_at(b, v, axis, k, keepdim, call.out_shape) for v in both]
    return results[0] if len(call.outputs) == 1 else tuple(results)


def _at(b: Builder, x: Value, axis: int, position: int, keepdim: bool, shape: tuple[int, ...]) -> Value:
    if len(shape) == x.rank:
        index: list[Affine] = [dim(f"i{k}") for k in range(x.rank)]
        index[axis] = Affine(position)
    else:
        index = [dim(f"i{k}") for k in range(x.rank - 1)]
        index.insert(axis, Affine(position))
    return reindex(b, "kth", x, shape, index)
