"""Runs a program with compiled kernels; the meaning is that of `execute/reference.py`.

`run(program, {"x": array})` gives the outputs by name. f16 and narrower floats are held as float32 arrays of
rounded values inside; outputs are as the reference has them. Several threads may run programs at once.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

import numpy as np

from sollens.analysis.execute.compiled import fallback
from sollens.analysis.execute.compiled.contraction import CHUNK, Contraction, Side
from sollens.analysis.execute.compiled.emit import held_dtype
from sollens.analysis.execute.compiled.estimate import Limits, Stopped, check, loop_kept, releases, used
from sollens.analysis.execute.compiled.plan import (
    Compiled,
    Filled,
    Interpreted,
    Multiplied,
    Packing,
    Plan,
    Same,
    compiled,
    filled,
    plan,
)
from sollens.analysis.execute.errors import MissingInput, NotExecutable
from sollens.analysis.execute.library import call
from sollens.analysis.execute.storage import Array, store, stored_dtype
from sollens.analysis.ir.nodes import Branch, Call, Loop, Node, Program, Statement, defined, reads
from sollens.analysis.ir.tensors import TensorType, tensor_types

__all__ = ["Limits", "Stopped", "run"]

_LIMITS = Limits()
_PARALLEL_POINTS = 1 << 20
_MOST_POINTS_A_CALL = 1 << 28
_EXACT = frozenset(("f32", "f64", "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "c64", "c128", "bool"))


def run(
    program: Program,
    inputs: Mapping[str, Array],
    *,
    limits: Limits = _LIMITS,
    want: Iterable[str] | None = None,
    generator: np.random.Generator | None = None,
) -> dict[str, Array]:
    """The outputs by name, or the tensors in `want` (of a loop's body, the last iteration's).

    `inputs` are by declaration name and override values that setup defines. Raises TooLarge before anything is
    allocated, MissingInput, OutOfBounds, NotExecutable, and Stopped.
    """
    wanted = tuple(dict.fromkeys(program.outputs if want is None else want))
    kept = frozenset(wanted)
    types = tensor_types(program)
    nodes = _reached(program.nodes, kept)
    read = kept.union(*(used(node) for node in nodes))
    needed = [d for d in program.declarations if d.name in read]
    defined_by = {d.name: d.defined_by for d in needed if d.name not in inputs and d.defined_by is not None}
    setup = _reached(program.setup, frozenset(defined_by.values()))
    external = [d.name for d in needed]
    check(program.name, setup, types, (), frozenset(defined_by.values()), limits)
    check(program.name, nodes, types, external, kept, limits)
    machine = _Machine(types, limits, generator or np.random.default_rng(0))
    with np.errstate(all="ignore"):
        for d in program.declarations:
            if d.name in inputs:
                value = np.asarray(inputs[d.name])
                if value.shape != d.shape:
                    raise MissingInput(f"{d.name}: expected shape {list(d.shape)}, found {list(value.shape)}")
                machine.values[d.name] = hold(value, d.dtype)
            elif d.name in external and d.defined_by is None:
                raise MissingInput(f"{d.name}: {d.role} without a value")
        machine.run(setup, frozenset(defined_by.values()))
        for name, source in defined_by.items():
            machine.values[name] = hold(machine.values[source], types[name].dtype)
        machine.run(nodes, kept, external)
    given = [np.asarray(a) for a in inputs.values()]
    return {name: _shown(machine.values[name], types[name].dtype, given) for name in wanted}


def hold(value: Array, dtype: str) -> Array:
    """The array rounded to a dtype, contiguous, in the form that kernels read."""
    held = held_dtype(dtype)
    if value.dtype != held or dtype not in _EXACT:
        value = store(value, dtype)
    return np.asarray(value, held, order="C")


def _shown(value: Array, dtype: str, given: Sequence[Array]) -> Array:
    shown = value.astype(stored_dtype(dtype), copy=False)
    return shown.copy() if any(np.may_share_memory(shown, a) for a in given) else shown


def _reached(nodes: tuple[Node, ...], wanted: frozenset[str]) -> tuple[Node, ...]:
    """The nodes that the wanted names depend on, and those that draw random numbers, so that later ones get theirs."""
    found: list[Node] = []
    for node in reversed(nodes):
        if not wanted.isdisjoint(defined(node)) or (isinstance(node, Call) and node.op == "random"):
            found.append(node)
            wanted = wanted.union(used(node))
    return tuple(reversed(found))


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="sollens-kernel")


@dataclass(slots=True)
class _Machine:
    types: Mapping[str, TensorType]
    limits: Limits
    generator: np.random.Generator
    values: dict[str, Array] = field(default_factory=dict[str, Array])
    indices: dict[str, int] = field(default_factory=dict[str, int])
    trips: dict[str, int] = field(default_factory=dict[str, int])
    plans: dict[int, Plan] = field(default_factory=dict[int, Plan])
    gone: dict[int, list[tuple[str, ...]]] = field(default_factory=dict[int, list[tuple[str, ...]]])

    def run(self, nodes: tuple[Node, ...], kept: frozenset[str], also: Iterable[str] = ()) -> None:
        """Run nodes, dropping each value after its last use."""
        if id(nodes) not in self.gone:
            self.gone[id(nodes)] = releases(nodes, kept, also)
        for node, gone in zip(nodes, self.gone[id(nodes)], strict=True):
            self.check_stop()
            match node:
                case Statement():
                    self.values[node.name] = self.statement(node)
                case Call():
                    self.call(node)
                case Loop():
                    self.loop(node, kept)
                case Branch():
                    self.branch(node, kept)
            for name in gone:
                self.values.pop(name, None)

    def check_stop(self) -> None:
        if self.limits.stop is not None and self.limits.stop():
            raise Stopped("the run was stopped")

    def call(self, node: Call) -> None:
        results = call(node, [self.values[o] for o in node.operands], self.generator)
        for result, value in zip(node.results, results, strict=True):
            if value.shape != result.shape:
                raise NotExecutable(f"{node.op}: {result.name} is {list(result.shape)}, found {list(value.shape)}")
            self.values[result.name] = hold(value, result.dtype)

    def loop(self, node: Loop, kept: frozenset[str]) -> None:
        if node.unknown_trips:
            raise NotExecutable(f"loop over {node.index.name}: its trip count depends on data")
        index, extent = node.index.name, node.index.extent
        current = [self.values[c.initial] for c in node.carried]
        stacks = [np.empty(self.types[c.name].shape, held_dtype(self.types[c.name].dtype)) for c in node.collected]
        self.trips[index] = extent
        for iteration in range(extent):
            self.indices[index] = iteration
            for c, value in zip(node.carried, current, strict=True):
                self.values[c.name] = value
            self.run(node.body, loop_kept(node, kept))
            current = [self.values[c.next] for c in node.carried]
            for c, stack in zip(node.collected, stacks, strict=True):
                stack[iteration] = self.values[c.inner]
        del self.trips[index]
        self.indices.pop(index, None)
        for c, value in zip(node.carried, current, strict=True):
            self.values[c.final] = value
        for c, stack in zip(node.collected, stacks, strict=True):
            self.values[c.name] = stack

    def branch(self, node: Branch, kept: frozenset[str]) -> None:
        taken = bool(self.values[node.condition].reshape(-1)[0])
        sides = [m.then if taken else m.otherwise for m in node.results]
        self.run(node.then if taken else node.otherwise, kept.union(sides))
        for m, side in zip(node.results, sides, strict=True):
            self.values[m.name] = self.values[side]

    def statement(self, node: Statement) -> Array:
        how = self.plans.get(id(node))
        if how is None:
            how = self.plans[id(node)] = plan(node, self.types, self.trips)
        return self.evaluate(how, node)

    def evaluate(self, how: Plan, node: Statement) -> Array:
        match how:
            case Same():
                return self.values[how.tensor].reshape(node.shape)
            case Filled():
                return filled(node, how.value)
            case Interpreted():
                operands = {r.tensor for r in reads(how.node.body)}
                dtypes = {name: self.types[name].dtype for name in operands}
                values = {name: self.values[name].reshape(-1) if how.flat else self.values[name] for name in operands}
                return fallback.evaluate(how.node, values, dtypes, self.indices).reshape(node.shape)
            case Compiled():
                new = np.zeros if how.kernel.zeroed else np.empty
                out: Array = new(node.shape, held_dtype(node.dtype))
                self.execute(how, out)
                return out
            case Multiplied():
                return self.multiply(how, node)

    def multiply(self, how: Multiplied, node: Statement) -> Array:
        """The matrix product, or the plain loops where a guard meets a number that is not finite."""
        p = how.product
        out = np.empty((p.chunks, p.batch, p.columns.outer, p.rows.own, p.columns.own), held_dtype(p.dtype))
        rows = columns = None
        for chunk in range(p.chunks):
            self.check_stop()
            if p.chunks > 1:
                self.indices[CHUNK] = chunk * p.order[0].extent
            if rows is None or p.rows.chunked:
                rows = self.factor(how.rows, p.rows, p)
            if columns is None or p.columns.chunked:
                columns = self.factor(how.columns, p.columns, p)
            if (p.rows.guarded and not np.isfinite(columns).all()) or (
                p.columns.guarded and not np.isfinite(rows).all()
            ):
                self.indices.pop(CHUNK, None)
                dtypes = {r.tensor: self.types[r.tensor].dtype for r in reads(how.node.body)}
                return self.evaluate(compiled(how.node, dtypes, self.trips, always=True), node)
            np.matmul(rows, columns.swapaxes(2, 3), out=out[chunk])
        self.indices.pop(CHUNK, None)
        shape = (p.order[0].extent * p.chunks, *(d.extent for d in p.order[1:]))
        names = [d.name for d in p.order]
        ordered = out.reshape(shape).transpose([names.index(d.name) for d in how.node.dims])
        return hold(ordered, node.dtype).reshape(node.shape)

    def factor(self, how: Packing, side: Side, p: Contraction) -> Array:
        """A factor as (batch, outer, own, summed)."""
        packed = self.evaluate(how.how, how.node)
        if how.transposed:
            return packed.reshape(p.batch, side.outer, p.summed, side.own).swapaxes(2, 3)
        return packed.reshape(p.batch, side.outer, side.own, p.summed)

    def execute(self, how: Compiled, out: Array) -> None:
        """Fill the result, in several calls when there is much to do."""
        arrays = [out, *(self.values[t] for t in how.kernel.tensors)]
        integers = list(how.integers)
        for k, expr in how.varying:
            integers[k] = expr.evaluate(self.indices)
        addresses = [_address(a) for a in arrays]
        ranges = _ranges(how.kernel.split, how.kernel.points, self.limits.threads)
        if len(ranges) == 1:
            _call(how, addresses, integers, None)
            return
        pending: list[Future[None]] = []
        try:
            for piece in ranges:
                if len(pending) >= self.limits.threads:
                    pending.pop(0).result()
                    self.check_stop()
                pending.append(_pool(self.limits.threads).submit(_call, how, addresses, integers, piece))
        finally:
            for future in pending:  # the arrays must outlive every call
                future.exception()
        for future in pending:
            future.result()


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _ranges(split: int, points: int, threads: int) -> list[tuple[int, int]]:
    count = 1
    if points >= _PARALLEL_POINTS:
        count = min(split, max(threads, prod((threads, -(-points // (_MOST_POINTS_A_CALL * threads))))))
    marks = [split * k // count for k in range(count + 1)]
    return list(pairwise(marks))


def _call(how: Compiled, addresses: Sequence[int], integers: Sequence[int], piece: tuple[int, int] | None) -> None:
    head = piece or (integers[0], integers[1])
    status = how.function(*addresses, *head, *integers[2:], *how.kernel.floats)
    if status != 0:
        raise RuntimeError(f"a kernel ended with status {status}")
