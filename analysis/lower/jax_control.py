"""Loops and branches of JAX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sollens.analysis.ir.affine import Affine, dim
from sollens.analysis.ir.nodes import Branch, Carried, Collected, Dim, Loop, Merged, defined
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import apply
from sollens.analysis.lower.jax_movement import as_value
from sollens.analysis.lower.pointwise import dims_of
from sollens.analysis.lower.registry import rule
from sollens.analysis.lower.views import reindex


def copied(b: Builder, hint: str, value: Any, dtype: str, shape: Sequence[int]) -> Value:
    """A copy of a value, or a number, as a tensor of its own."""
    x = as_value(b, value, dtype, tuple(shape))
    return b.statement(hint, dims_of(shape), x[tuple(n for n, _ in dims_of(shape))], dtype)


@rule("jax.scan", "jax.while")
def loop(b: Builder, call: OpCall) -> tuple[Value, ...]:
    """`length` iterations over the first axis of the arrays after the carried ones; outputs are carries, then stacks.

    Without a known length the body counts once.
    """
    count, length, reverse = call.kwargs["num_carry"], call.kwargs["length"], call.kwargs["reverse"]
    specs = [s for s in call.outputs if s is not None]
    initial = [as_value(b, v, *s) for v, s in zip(call.args[:count], specs, strict=False)]
    index = b.fresh("step")
    trips = 1 if length is None else length
    at = (trips - 1) - dim(index) if reverse else dim(index)
    source = b.source
    with b.block(index, trips) as body:
        carried = [Value(b.fresh("carry"), v.dtype, v.shape) for v in initial]
        counters: list[tuple[int, int, int]] = call.kwargs["counters"]
        for position, start, step in counters:
            b.positions[carried[position].name] = (dim(index) * step + start,)
        given = [_step_of(b, x, at) for x in call.args[count:]]
        results = call.blocks[0]([*carried, *given])
        b.source = source
        made = {name for node in body for name in defined(node)}
        nexts = [_made_here(b, r, v.dtype, v.shape, made) for r, v in zip(results[:count], initial, strict=True)]
        inner = [_made_here(b, r, d, s[1:], made) for r, (d, s) in zip(results[count:], specs[count:], strict=True)]
    finals = [Value(b.fresh("final"), v.dtype, v.shape) for v in initial]
    stacks = [Value(b.fresh("stacked"), v.dtype, (trips, *v.shape)) for v in inner]
    b.nodes.append(
        Loop(
            index=Dim(name=index, extent=trips),
            carried=tuple(
                Carried(name=c.name, initial=i.name, next=n.name, final=f.name)
                for c, i, n, f in zip(carried, initial, nexts, finals, strict=True)
            ),
            body=tuple(body),
            collected=tuple(Collected(name=s.name, inner=v.name) for s, v in zip(stacks, inner, strict=True)),
            unknown_trips=length is None,
            source=source,
        )
    )
    if reverse:
        stacks = [_reversed(b, s) for s in stacks]
    return (*finals, *stacks)


def _step_of(b: Builder, x: Value, at: Affine) -> Value:
    """The row of an iteration."""
    return b.statement("row", dims_of(x.shape[1:]), x[(at, *(n for n, _ in dims_of(x.shape[1:])))], x.dtype)


def _reversed(b: Builder, x: Value) -> Value:
    own = [dim(f"i{k}") for k in range(x.rank)]
    return reindex(b, "stacked", x, x.shape, [x.shape[0] - 1 - own[0], *own[1:]])


def _made_here(b: Builder, value: Any, dtype: str, shape: Sequence[int], made: set[str]) -> Value:
    """The value where this block computes it, else a copy: a carry handed on, a constant."""
    return value if isinstance(value, Value) and value.name in made else copied(b, "next", value, dtype, shape)


@rule("jax.cond")
def cond(b: Builder, call: OpCall) -> tuple[Value, ...]:
    """The branch whose number the index holds; the last for larger ones, the first for smaller ones."""
    specs = [s for s in call.outputs if s is not None]
    index: Value = call.args[0]
    return tuple(_branches(b, call, index, 0, specs))


def _branches(b: Builder, call: OpCall, index: Value, first: int, specs: list[Any]) -> list[Value]:
    source = b.source
    if len(call.blocks) - first == 1:
        return _side(b, call, first, specs)
    if first == 0 and index.dtype == "bool":
        condition = index
    else:
        condition = b.statement("beyond", dims_of(index.shape), apply("gt", index[(0,) * index.rank], first), "bool")
    with b.block() as then:
        taken = _branches(b, call, index, first + 1, specs)
    with b.block() as otherwise:
        rest = _side(b, call, first, specs)
    b.source = source
    merged = [Value(b.fresh("merged"), d, s) for d, s in specs]
    b.nodes.append(
        Branch(
            condition=condition.name, then=tuple(then), otherwise=tuple(otherwise),
            results=tuple(
                Merged(name=m.name, then=t.name, otherwise=o.name)
                for m, t, o in zip(merged, taken, rest, strict=True)
            ),
            source=source,
        )
    )  # fmt: skip
    return merged


def _side(b: Builder, call: OpCall, number: int, specs: list[Any]) -> list[Value]:
    source, mark = b.source, len(b.nodes)
    results = call.blocks[number]([])
    b.source = source
    made = {name for node in b.nodes[mark:] for name in defined(node)}
    return [_made_here(b, r, d, s, made) for r, (d, s) in zip(results, specs, strict=True)]
