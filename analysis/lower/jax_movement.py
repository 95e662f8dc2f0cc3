"""Primitives of JAX that move or make elements: reshapes, broadcasts, slices, padding, joins, ranges."""

from __future__ import annotations

from typing import Any

from sollens.analysis.ir.affine import Affine, Constraint, dim, equals
from sollens.analysis.ir.nodes import Expr, Read, Select
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import as_expr, cast, iota
from sollens.analysis.lower.jax_positions import MOST, positions
from sollens.analysis.lower.movement import choose
from sollens.analysis.lower.pointwise import dims_of, filled
from sollens.analysis.lower.registry import rule
from sollens.analysis.lower.views import permuted, reindex, reshaped
from sollens.analysis.lower.windows import in_bounds


def as_value(b: Builder, operand: Any, dtype: str, shape: tuple[int, ...] = ()) -> Value:
    """The operand as a tensor: a number becomes a generated one."""
    return operand if isinstance(operand, Value) else filled(b, "number", dtype, shape, operand)


@rule("jax.broadcast_in_dim", "jax.broadcast_to")
def broadcast_in_dim(b: Builder, call: OpCall) -> Value:
    """Axis k of the operand is axis `broadcast_dimensions[k]` of the result."""
    x = call.args[0]
    if not isinstance(x, Value):
        result = filled(b, "full", call.out_dtype, call.out_shape, x)
    else:
        first = len(call.out_shape) - x.rank
        axes = call.kwargs.get("broadcast_dimensions") or range(first, first + x.rank)
        index = [Affine() if n == 1 else dim(f"i{axis}") for n, axis in zip(x.shape, axes, strict=True)]
        result = reindex(b, "broadcast", x, call.out_shape, index)
    return _kept(b, x, result)


def _kept(b: Builder, x: Any, result: Value) -> Value:
    """Positions stay known when a small tensor is only reshaped or filled."""
    known = positions(b, x)
    if known is not None and result.dtype[0] in "iu" and 0 < result.size <= MOST:
        if len(known) == 1:
            known = known * result.size
        if len(known) == result.size:
            b.positions[result.name] = known
    return result


@rule("jax.reshape", "jax.squeeze", "jax.expand_dims")
def reshape(b: Builder, call: OpCall) -> Value:
    """Row-major order kept; `dimensions` permutes first."""
    x = as_value(b, call.args[0], call.out_dtype)
    order = call.kwargs.get("dimensions") if "reshape" in call.target else None
    if order:
        x = permuted(b, "permuted", x, order)
    return _kept(b, call.args[0], reshaped(b, "reshape", x, call.out_shape))


@rule("jax.transpose")
def transpose(b: Builder, call: OpCall) -> Value:
    """Axis k of the result is axis `permutation[k]`."""
    return permuted(b, "transpose", call.args[0], call.kwargs["permutation"])


@rule("jax.rev")
def rev(b: Builder, call: OpCall) -> Value:
    """Axes read from their far end."""
    x = call.args[0]
    index = [n - 1 - dim(f"i{k}") if k in call.kwargs["dimensions"] else dim(f"i{k}") for k, n in enumerate(x.shape)]
    return reindex(b, "rev", x, x.shape, index)


@rule("jax.slice")
def slice_(b: Builder, call: OpCall) -> Value:
    """Every `strides`-th element from `start_indices` on."""
    x, starts = call.args[0], call.kwargs["start_indices"]
    steps = call.kwargs.get("strides") or [1] * x.rank
    index = [dim(f"i{k}") * step + start for k, (start, step) in enumerate(zip(starts, steps, strict=True))]
    result = reindex(b, "slice", x, call.out_shape, index)
    known = positions(b, x)
    if known is not None and x.rank == 1 and result.size:
        b.positions[result.name] = known[starts[0] : call.kwargs["limit_indices"][0] : steps[0]]
    return result


@rule("jax.split")
def split(b: Builder, call: OpCall) -> tuple[Value, ...]:
    """Consecutive parts of an axis."""
    x, axis, parts, start = call.args[0], call.kwargs["axis"], list[Value](), 0
    for size in call.kwargs["sizes"]:
        index = [dim(f"i{k}") + (start if k == axis else 0) for k in range(x.rank)]
        parts.append(reindex(b, "split", x, (*x.shape[:axis], size, *x.shape[axis + 1 :]), index))
        start += size
    return tuple(parts)


@rule("jax.concatenate")
def concatenate(b: Builder, call: OpCall) -> Value:
    """Tensors one after the other along `dimension`."""
    axis: int = call.kwargs["dimension"]
    dims = dims_of(call.out_shape)
    at = tuple(dim(n) for n, _ in dims)
    parts: list[tuple[int, Expr]] = []
    start = 0
    for t in call.args:
        if t.shape[axis] or len(call.args) == 1:
            parts.append((start, Read(t.name, (*at[:axis], at[axis] - start, *at[axis + 1 :]))))
        start += t.shape[axis]
    body = choose(parts, at[axis]) if parts else call.args[0][at]
    result = b.statement("concatenate", dims, body, call.out_dtype)
    known = [positions(b, t) for t in call.args]
    if len(dims) == 1 and all(k is not None for k in known):
        b.positions[result.name] = tuple(p for k in known if k is not None for p in k)
    return result


@rule("jax.stack")
def stack(b: Builder, call: OpCall) -> Value:
    """Tensors along a new axis."""
    axis, dims = call.kwargs.get("axis", 0), dims_of(call.out_shape)
    at = tuple(n for k, (n, _) in enumerate(dims) if k != axis)
    body = choose([(k, t[at]) for k, t in enumerate(call.args)], dim(f"i{axis}"))
    return b.statement("stack", dims, body, call.out_dtype)


@rule("jax.unstack")
def unstack(b: Builder, call: OpCall) -> tuple[Value, ...]:
    """The parts along an axis, without it."""
    x, axis = call.args[0], call.kwargs.get("axis", 0)
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    own = [dim(f"i{k}") for k in range(len(shape))]
    return tuple(reindex(b, "unstack", x, shape, [*own[:axis], Affine(p), *own[axis:]]) for p in range(x.shape[axis]))


@rule("jax.tile")
def tile(b: Builder, call: OpCall) -> Value:
    """Copies side by side."""
    x, shape = call.args[0], call.out_shape
    extents = {f"i{k}": n for k, n in enumerate(shape)}
    index = [(dim(f"i{k}") % max(n, 1)).simplify(extents) for k, n in enumerate(x.shape)]
    return reindex(b, "tile", x, shape, index)


@rule("jax.pad")
def pad(b: Builder, call: OpCall) -> Value:
    """`padding_config` has (low, high, interior) an axis; low and high may crop."""
    x, value = call.args
    dims = dims_of(call.out_shape)
    extents = dict(dims)
    index: list[Affine] = []
    inside: list[Constraint] = []
    for (name, _), n, (low, _, interior) in zip(dims, x.shape, call.kwargs["padding_config"], strict=True):
        at = dim(name) - low
        if interior:
            inside.append(equals(at % (interior + 1), 0))
            at = at // (interior + 1)
        index.append(at)
        inside += in_bounds(at, n, extents)
    rest = value[()] if isinstance(value, Value) else as_expr(value)
    body = Read(x.name, tuple(index)) if x.size else rest
    return b.statement("pad", dims, Select(tuple(inside), body, rest) if inside else body, call.out_dtype)


@rule("jax.iota", "jax.empty", "jax.empty2")
def made(b: Builder, call: OpCall) -> Value:
    """Positions along `dimension`; memory that is not initialised counts as zeros."""
    if "iota" not in call.target:
        return filled(b, "empty", call.out_dtype, call.out_shape)
    body = cast(iota(f"i{call.kwargs['dimension']}"), call.out_dtype)
    result = b.statement("iota", dims_of(call.out_shape), body, call.out_dtype)
    if len(call.out_shape) == 1 and 0 < result.size <= MOST and call.out_dtype[0] in "iu":
        b.positions[result.name] = tuple(Affine(k) for k in range(result.size))
    return result


@rule("jax.random_wrap", "jax.random_unwrap", "jax.from_edtype", "jax.to_edtype")
def key_words(b: Builder, call: OpCall) -> Value:
    """A key is its words."""
    return reshaped(b, "key", call.args[0], call.out_shape)
