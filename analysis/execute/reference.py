"""A NumPy interpreter of the Affine Loop IR: slow, plain, and the meaning that other executors are tested against.

`run(program, {"x": array})` gives the outputs by name. Each statement is evaluated over its whole domain at once; reads
at points that a guard or Select turns off are clipped, reads out of range at live points raise `OutOfBounds`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np

from sollens.analysis.execute.errors import MissingInput, NotExecutable, OutOfBounds, TooLarge
from sollens.analysis.execute.library import call
from sollens.analysis.execute.reductions import reduce, scan
from sollens.analysis.execute.scalar_table import Scalar, apply, promote
from sollens.analysis.execute.storage import Array, compute_type_of, store, stored_dtype
from sollens.analysis.ir.affine import Affine, Constraint
from sollens.analysis.ir.nodes import (
    Apply,
    Branch,
    Call,
    Expr,
    IndexValue,
    Literal,
    Loop,
    Node,
    Program,
    Read,
    Select,
    Statement,
)
from sollens.analysis.ir.tensors import TensorType, points, tensor_types

__all__ = ["MissingInput", "NotExecutable", "OutOfBounds", "TooLarge", "run", "run_all"]


def run(
    program: Program,
    inputs: Mapping[str, Array],
    *,
    limit_points: int = 5_000_000,
    generator: np.random.Generator | None = None,
) -> dict[str, Array]:
    """The program's outputs by name. `inputs` are by declaration name and override values that setup defines.

    bf16 and 8-bit floats are float32 arrays of rounded values. Raises TooLarge, MissingInput, OutOfBounds and
    NotExecutable.
    """
    everything = run_all(program, inputs, limit_points=limit_points, generator=generator)
    return {name: everything[name] for name in program.outputs}


def run_all(
    program: Program,
    inputs: Mapping[str, Array],
    *,
    limit_points: int = 5_000_000,
    generator: np.random.Generator | None = None,
) -> dict[str, Array]:
    """Every tensor of the program by name; of a loop's body, the last iteration's."""
    wanted = points((*program.setup, *program.nodes)) + sum(prod(d.shape) for d in program.declarations)
    if wanted > limit_points:
        raise TooLarge(f"{program.name}: {wanted} points to evaluate, the limit is {limit_points}")
    machine = _Machine(tensor_types(program), generator or np.random.default_rng(0))
    with np.errstate(all="ignore"):
        for d in program.declarations:
            if d.name in inputs:
                value = np.asarray(inputs[d.name])
                if value.shape != d.shape:
                    raise MissingInput(f"{d.name}: expected shape {list(d.shape)}, found {list(value.shape)}")
                machine.values[d.name] = store(value, d.dtype)
        if any(d.name not in inputs for d in program.declarations):
            machine.run(program.setup)
        for d in program.declarations:
            if d.name not in machine.values:
                if d.defined_by is None:
                    raise MissingInput(f"{d.name}: {d.role} without a value")
                machine.values[d.name] = store(machine.values[d.defined_by], d.dtype)
        machine.run(program.nodes)
    return machine.values


@dataclass(slots=True)
class _Machine:
    types: Mapping[str, TensorType]
    generator: np.random.Generator
    values: dict[str, Array] = field(default_factory=dict[str, Array])
    indices: dict[str, int] = field(default_factory=dict[str, int])

    def run(self, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            match node:
                case Statement():
                    self.values[node.name] = self.statement(node)
                case Call():
                    results = call(node, [self.values[o] for o in node.operands], self.generator)
                    for result, value in zip(node.results, results, strict=True):
                        if value.shape != result.shape:
                            raise NotExecutable(
                                f"{node.op}: {result.name} is {list(result.shape)}, found {list(value.shape)}"
                            )
                        self.values[result.name] = store(value, result.dtype)
                case Loop():
                    self.loop(node)
                case Branch():
                    taken = bool(self.values[node.condition].reshape(-1)[0])
                    self.run(node.then if taken else node.otherwise)
                    for m in node.results:
                        self.values[m.name] = self.values[m.then if taken else m.otherwise]

    def loop(self, node: Loop) -> None:
        if node.unknown_trips:
            raise NotExecutable(f"loop over {node.index.name}: its trip count depends on data")
        current = [self.values[c.initial] for c in node.carried]
        stacks: list[list[Array]] = [[] for _ in node.collected]
        for iteration in range(node.index.extent):
            self.indices[node.index.name] = iteration
            for c, value in zip(node.carried, current, strict=True):
                self.values[c.name] = value
            self.run(node.body)
            current = [self.values[c.next] for c in node.carried]
            for c, stack in zip(node.collected, stacks, strict=True):
                stack.append(self.values[c.inner])
        self.indices.pop(node.index.name, None)
        for c, value in zip(node.carried, current, strict=True):
            self.values[c.final] = value
        for c, stack in zip(node.collected, stacks, strict=True):
            kind = self.types[c.name]
            self.values[c.name] = np.stack(stack) if stack else np.zeros(kind.shape, stored_dtype(kind.dtype))

    def statement(self, node: Statement) -> Array:
        evaluator = _Evaluator(node, self.values, self.indices)
        shape = tuple(d.extent for d in node.domain)
        mask = evaluator.holds(node.guard) if node.guard else None
        value = evaluator.evaluate(node.body, mask).array
        if node.reduction is not None:
            return reduce(node.reduction.kind, value, mask, shape, len(node.dims), node.dtype)
        if node.scan is not None:
            axis = [d.name for d in node.dims].index(node.scan.dim)
            return scan(node.scan.kind, value, mask, shape, axis, node.scan.reverse, node.dtype)
        if mask is not None:
            value = np.where(mask, value, np.zeros((), value.dtype))
        return np.array(np.broadcast_to(store(value, node.dtype), shape), order="C")


class _Evaluator:
    """Evaluates bodies over a statement's whole domain, one array axis per dimension, broadcast lazily."""

    def __init__(self, node: Statement, values: Mapping[str, Array], indices: Mapping[str, int]) -> None:
        self.node = node
        self.values = values
        rank = len(node.domain)
        self.grid: dict[str, Array] = {name: np.full((1,) * rank, value) for name, value in indices.items()}
        for axis, d in enumerate(node.domain):
            self.grid[d.name] = np.arange(d.extent).reshape((-1,) + (1,) * (rank - axis - 1))

    def affine(self, expr: Affine) -> Array:
        return np.asarray(expr.evaluate(self.grid))

    def holds(self, constraints: tuple[Constraint, ...]) -> Array:
        result = np.asarray(True)
        for c in constraints:
            value = self.affine(c.expr)
            result = result & (value == 0 if c.equal else value >= 0)
        return result

    def evaluate(self, expr: Expr, mask: Array | None) -> Scalar:
        match expr:
            case Read():
                return self.read(expr, mask)
            case Literal():
                literal = np.asarray(expr.value)
                return Scalar(literal.astype(compute_type_of(literal.dtype)), weak=True)
            case IndexValue():
                return Scalar(self.affine(expr.expr).astype(np.int64))
            case Apply():
                return apply(expr.op, [self.evaluate(a, mask) for a in expr.args], expr.dtype)
            case Select():
                condition = self.holds(expr.condition)
                then = self.evaluate(expr.then, condition if mask is None else mask & condition)
                otherwise = self.evaluate(expr.otherwise, ~condition if mask is None else mask & ~condition)
                left, right = promote((then, otherwise))
                return Scalar(np.where(condition, left, right), then.weak and otherwise.weak)

    def read(self, expr: Read, mask: Array | None) -> Scalar:
        tensor = self.values[expr.tensor]
        if len(expr.index) != tensor.ndim:
            raise OutOfBounds(
                f"{self.node.name}: {expr.tensor} has {tensor.ndim} axes, the read {len(expr.index)} indices"
            )
        compute = compute_type_of(tensor.dtype)
        position: list[Array] = []
        for axis, (index, extent) in enumerate(zip(expr.index, tensor.shape, strict=True)):
            at = self.affine(index)
            outside = (at < 0) | (at >= extent)
            if outside.any():
                live = outside if mask is None else outside & mask
                if live.any() and all(d.extent > 0 for d in self.node.domain):
                    worst = int(np.broadcast_to(at, live.shape)[live][0])
                    raise OutOfBounds(
                        f"{self.node.name}: {expr.tensor} axis {axis} read at {worst}, its extent is {extent}"
                    )
                if extent == 0:
                    return Scalar(np.zeros((), compute))
                at = np.clip(at, 0, extent - 1)
            position.append(at)
        return Scalar(np.asarray(tensor[tuple(position)]).astype(compute, copy=False))
