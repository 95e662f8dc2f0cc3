"""Generated tensors: constants, ranges, identities, random numbers. They read nothing."""

from __future__ import annotations

import math
from typing import Any

from sollens.analysis.ir.affine import Affine, dim, equals, less
from sollens.analysis.ir.nodes import Expr, Literal
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import apply, cast, iota, select
from sollens.analysis.lower.movement import choose
from sollens.analysis.lower.pointwise import dims_of, filled
from sollens.analysis.lower.registry import rule

_FILLED = {"zeros": 0, "ones": 1, "empty": 0}


@rule(*(f"aten.{n}{s}" for n in _FILLED for s in ("", "_like")), *(f"aten.new_{n}" for n in _FILLED),
"aten.empty_strided",
      "aten.new_empty_strided", "aten.empty_permuted", "aten._efficientzerotensor")  # fmt: skip
def constant(b: Builder, call: OpCall) -> Value:
    """All zeros or ones; uninitialised memory counts as zeros."""
    number = 1 if "ones" in call.target else 0
    return filled(b, "ones" if number else "zeros", call.out_dtype, call.out_shape, number)


@rule("aten.full", "aten.full_like", "aten.new_full")
def full(b: Builder, call: OpCall) -> Value:
    """One value everywhere."""
    position = 2 if "new_full" in call.target else 1
    return _full(b, call, call.arg(position, "fill_value"))


@rule("aten.scalar_tensor")
def scalar_tensor(b: Builder, call: OpCall) -> Value:
    """A number as a tensor."""
    return _full(b, call, call.args[0])


def _full(b: Builder, call: OpCall, value: Value | float) -> Value:
    body = value[(0,) * value.rank] if isinstance(value, Value) else Literal(value)
    return b.statement("full", dims_of(call.out_shape), body, call.out_dtype)


@rule("aten.arange", "aten.range")
def arange(b: Builder, call: OpCall) -> Value:
    """start + step * i."""
    args = [a for a in call.args if isinstance(a, int | float)]
    start = args[0] if len(args) > 1 else call.kwargs.get("start", 0)
    step = args[2] if len(args) > 2 else call.kwargs.get("step", 1)
    if isinstance(start, int) and isinstance(step, int):
        body: Expr = iota(dim("i0") * step + start)
    else:
        body = apply("add", apply("mul", cast(iota("i0"), "f64"), float(step)), float(start))
    return b.statement("arange", dims_of(call.out_shape), cast(body, call.out_dtype), call.out_dtype)


@rule("aten.linspace", "aten.logspace")
def linspace(b: Builder, call: OpCall) -> Value:
    """Evenly spaced values from both ends, as torch computes them; powers of the base for logspace."""
    start, end, count = call.args[:3]
    if not isinstance(start, int | float) or not isinstance(end, int | float):
        raise NotImplementedError("ends that are tensors")
    step = (end - start) / (count - 1) if count > 1 else 0.0

    def value(origin: float, at: Affine) -> Expr:
        return apply("add", apply("mul", cast(iota(at), "f64"), step), float(origin))

    body: Expr = select(less(dim("i0"), (count + 1) // 2), value(start, dim("i0")), value(end, dim("i0") - (count - 1)))
    if "logspace" in call.target:
        body = apply("exp", apply("mul", body, math.log(call.arg(3, "base", 10.0))))
    return b.statement("linspace", dims_of(call.out_shape), cast(body, call.out_dtype), call.out_dtype)


@rule("aten.eye")
def eye(b: Builder, call: OpCall) -> Value:
    """Ones on the diagonal."""
    return b.statement("eye", dims_of(call.out_shape), select(equals(dim("i0"), dim("i1")), 1, 0), call.out_dtype)


@rule("aten.one_hot", "fn.one_hot")
def one_hot(b: Builder, call: OpCall) -> Value:
    """1 where the class is the element."""
    x, dims = call.args[0], dims_of(call.out_shape)
    body = apply("eq", x[tuple(n for n, _ in dims[:-1])], iota(dims[-1][0]))
    return b.statement("one_hot", dims, cast(body, call.out_dtype), call.out_dtype)


_RANDOM = {
    "rand": "uniform", "randn": "normal", "randint": "integers", "uniform": "uniform", "normal": "normal", "random":
    "integers",
    "bernoulli": "bernoulli", "exponential": "exponential", "rand_like": "uniform", "randn_like": "normal",
    "randint_like": "integers",
    "randperm": "permutation", "multinomial": "integers", "geometric": "geometric", "cauchy": "cauchy", "log_normal":
    "lognormal",
    "poisson": "poisson", "binomial": "binomial", "normal_functional": "normal", "_standard_gamma": "gamma",
    "_sample_dirichlet": "dirichlet",
}  # fmt: skip


@rule(*(f"aten.{n}" for n in _RANDOM))
def random(b: Builder, call: OpCall) -> Value:
    """Random values of the recorded shape; parameters that are tensors are read."""
    name = call.target.split(".")[1]
    parametric = name in ("bernoulli", "multinomial", "poisson", "binomial", "_standard_gamma", "_sample_dirichlet")
    operands: list[Any] = [a for a in call.args if isinstance(a, Value)] if parametric else []
    if name == "normal":
        operands = [a for a in call.args if isinstance(a, Value) and ".Tensor" in call.target]
    return b.call("random", operands, [(call.out_dtype, call.out_shape)], name.strip("_"), distribution=_RANDOM[name])[
        0
    ]


@rule("aten.tril_indices", "aten.triu_indices")
def triangle_indices(b: Builder, call: OpCall) -> Value:
    """Row and column of each element of a triangle: constants, but not affine ones."""
    rows, columns, offset = call.args[0], call.args[1], call.arg(2, "offset", 0)
    lower = "tril" in call.target
    dims = dims_of(call.out_shape)
    if call.out_shape[1] > 4096:
        raise NotImplementedError("the indices of a large triangle")
    pairs = [(r, c) for r in range(rows) for c in range(columns) if (c <= r + offset if lower else c >= r + offset)]
    sides = [
        choose([(k, Literal(p[side])) for k, p in enumerate(pairs)], dim("i1")) if pairs else Literal(0)
        for side in (0, 1)
    ]
    return b.statement("triangle", dims, select(equals(dim("i0"), 0), sides[0], sides[1]), call.out_dtype)
