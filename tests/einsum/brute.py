"""The counts of bounds.md sections 1 and 2 by enumeration of every scalar: slow, plain, independent of the engine.

Every element of every tensor becomes a hash-consed *value*: an external element, a constant, or an operation on
values. What the outputs reach is the demanded part. Points that apply the same operation to the same values are one
operation.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sollens.analysis.ir.nodes import (
    Apply,
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
    reads,
    walk,
)
from sollens.analysis.ir.scalars import SCALAR_OPS
from sollens.analysis.trace.schema import DTYPE_BITS
from tests.einsum.constants import FOLDS, NEUTRAL, absorbed, fold_constants, is_identity

Place = tuple[Any, ...]
Index = tuple[int, ...]


@dataclass(slots=True, eq=False)
class Value:
    """A scalar. `constant`: it follows from the program's text (`number` is then its value, nan when nobody cares)."""

    key: tuple[Any, ...]
    args: tuple[Value, ...] = ()
    constant: bool = False
    number: Any = None
    vector_ops: int = 0
    macs: int = 0
    maker: str | None = None
    # Equal to other elements only because part of a tensor is a constant (padding), not along a whole axis.
    partial: bool = False


@dataclass(slots=True)
class Tensor:
    """Values and memory places of the elements, by index."""

    dtype: str
    shape: tuple[int, ...]
    values: dict[Index, Value] = field(default_factory=dict)
    places: dict[Index, Place] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Counts:
    """Exact numbers of the demanded part.

    `partial_repeats`: at most so many operations repeat on part of an axis only, or in another statement. `powers`: at
    most so many operations multiply a value by how often a sum holds it.
    """

    macs: int
    vector_ops: int
    read_bytes: int
    written_bytes: int
    partial_repeats: int = 0
    powers: int = 0

    @property
    def bytes(self) -> int:
        return self.read_bytes + self.written_bytes


class Machine:
    """Evaluates a program to values."""

    def __init__(self, program: Program, known: dict[str, np.ndarray] | None = None) -> None:
        self.program = program
        self.known = known or {}
        self.partial_repeats = self.powers = 0
        self.table: dict[tuple[Any, ...], Value] = {}
        self.tensors: dict[str, Tensor] = {}
        self.trips: dict[str, int] = {}
        ops = [n.source.op for n in walk(program.nodes)]
        self.composite = {o for o in ops if o >= 0 and ops.count(o) > 1}

    # --- programs

    def run(self) -> Machine:
        for d in self.program.declarations:
            tensor = Tensor(d.dtype, d.shape)
            for i in indices(d.shape):
                tensor.values[i] = self.value(("external", d.name, i))
                tensor.places[i] = ("external", d.name, *i)
            self.tensors[d.name] = tensor
        if self.program.setup:
            self.nodes(self.program.setup)
            for d in self.program.declarations:
                if d.defined_by is None or d.role in ("parameter", "input"):
                    continue
                setup = self.tensors[d.defined_by].values
                numbers = {v.number for v in setup.values() if v.constant}
                if len(numbers) == 1 and d.dtype[0] in "fbc" and d.dtype != "bool":
                    continue  # a float buffer of one constant is state, not a fact
                for i, v in setup.items():
                    if v.constant:
                        self.tensors[d.name].values[i] = v
        self.nodes(self.program.nodes)
        return self

    def value(self, key: tuple[Any, ...], args: tuple[Value, ...] = (), **rest: Any) -> Value:
        full = (*key, *(id(a) for a in args))
        known = self.table.get(full)
        if known is None:
            partial = rest.pop("partial", False) or any(a.partial for a in args)
            known = self.table[full] = Value(key, args, partial=partial, **rest)
        elif known.partial or known.maker != rest.get("maker") or any(a.partial for a in args):
            known.partial = True
            self.partial_repeats += known.vector_ops + known.macs
        return known

    def constant(self, number: Any) -> Value:
        return self.value(("constant", type(number).__name__, repr(number)), constant=True, number=number)

    def nodes(self, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            match node:
                case Statement():
                    self.statement(node)
                case Loop():
                    self.loop(node)
                case Call():
                    from tests.einsum.brute_calls import call

                    call(self, node)
                case _:
                    raise NotImplementedError(node)

    def loop(self, node: Loop) -> None:
        current = [self.tensors[c.initial] for c in node.carried]
        stacks: list[list[Tensor]] = [[] for _ in node.collected]
        for t in range(node.index.extent):
            self.trips[node.index.name] = t
            for c, tensor in zip(node.carried, current, strict=True):
                for value in tensor.values.values() if t else ():
                    value.partial = True  # an iteration may hand on what it got
                places = {i: (c.name, *self.trips.values(), *i) for i in tensor.values}
                self.tensors[c.name] = Tensor(tensor.dtype, tensor.shape, tensor.values, places)
            self.nodes(node.body)
            current = [self.tensors[c.next] for c in node.carried]
            for stack, c in zip(stacks, node.collected, strict=True):
                stack.append(self.tensors[c.inner])
        del self.trips[node.index.name]
        for c, tensor in zip(node.carried, current, strict=True):
            self.tensors[c.final] = tensor
        for stack, c in zip(stacks, node.collected, strict=True):
            whole = Tensor(stack[0].dtype, (len(stack), *stack[0].shape))
            for t, tensor in enumerate(stack):
                whole.values.update({(t, *i): v for i, v in tensor.values.items()})
                whole.places.update({(t, *i): p for i, p in tensor.places.items()})
            self.tensors[c.name] = whole

    # --- statements

    def statement(self, node: Statement) -> None:
        result = Tensor(node.dtype, node.shape)
        names = [d.name for d in node.dims]
        plain = node.reduction is None and node.scan is None and not node.guard
        view = (
            plain
            and isinstance(node.body, Read)
            and self.tensors[node.body.tensor].dtype == node.dtype
            and (node.source.view or node.source.op in self.composite)
        )
        for i in indices(node.shape):
            at = {**self.trips, **dict(zip(names, i, strict=True))}
            if view:
                assert isinstance(node.body, Read)
                j = tuple(e.evaluate(at) for e in node.body.index)
                result.values[i] = self.tensors[node.body.tensor].values[j]
                result.places[i] = self.tensors[node.body.tensor].places[j]
                continue
            result.places[i] = (node.name, *self.trips.values(), *i)
            if node.scan is None:
                result.values[i] = self.element(node, at)
        if node.scan is not None:
            self.scan(node, result)
        self.tensors[node.name] = result

    def element(self, node: Statement, at: dict[str, int]) -> Value:
        if node.reduction is None:
            inside = all(c.holds(at) for c in node.guard)
            return self.evaluate(node.body, at, node.name) if inside else self.constant(0)
        points = []
        for k in indices(tuple(d.extent for d in node.reduction.dims)):
            here = {**at, **dict(zip((d.name for d in node.reduction.dims), k, strict=True))}
            if all(c.holds(here) for c in node.guard):
                points.append((k, here))
        terms = contraction_terms(node)
        if terms is not None:
            return self.contract(node, terms, points)
        folded = [(k, self.evaluate(node.body, here, node.name)) for k, here in points]
        size = math.prod(d.extent for d in node.reduction.dims)
        return self.fold(node.name, node.reduction.kind, folded, size)

    def fold(self, name: str, kind: str, folded: list[tuple[Index, Value]], size: int) -> Value:
        positional = kind in ("argmax", "argmin")
        live = [(k, v) for k, v in folded if positional or not (v.constant and NEUTRAL[kind](v.number))]
        if all(v.constant for _, v in live):
            return self.constant(fold_constants(kind, [v.number for _, v in live]))
        unknown = [v for _, v in live if not v.constant]
        known = [v for _, v in live if v.constant]
        distinct = list(dict.fromkeys(unknown))
        if any(v.partial for v in unknown):
            self.partial_repeats += len(unknown) - len(distinct)
        if (
            len(distinct) == 1
            and not known
            and not positional
            and (len(unknown) == 1 or kind in ("max", "min", "any", "all"))
        ):
            distinct[0].partial |= len(unknown) < size  # a window cut to one element
            return distinct[0]
        ops = len(distinct) - 1 + bool(known)
        if kind in ("sum", "prod"):
            powers = sum(1 for v in distinct if unknown.count(v) > 1)
            ops += powers
            self.powers += powers
        # Windows that border and mask cut to the same few elements are folded each: only whole axes repeat.
        where = tuple(k for k, _ in live)
        key = ("fold", kind, where)
        return self.value(key, tuple(v for _, v in live), vector_ops=ops, partial=bool(known), maker=name)

    def contract(self, node: Statement, terms: list[Expr], points: list[tuple[Index, dict[str, int]]]) -> Value:
        live: list[tuple[Value, ...]] = []
        where: list[Index] = []
        known: list[Any] = []
        for k, at in points:
            values = tuple(self.evaluate(t, at, node.name) for t in terms)
            if any(v.constant and v.number == 0 for v in values):
                continue
            if all(v.constant for v in values):
                known.append(math.prod(v.number for v in values))
            else:
                live.append(values)
                where.append(k)
        if not live:
            return self.constant(fold_constants("sum", known))
        args = tuple(v for values in live for v in values)
        if any(v.partial for v in args):
            self.partial_repeats += len(live) - len(set(live))
        return self.value(
            ("contract", len(known), tuple(where)),
            args,
            maker=node.name,
            macs=len(set(live)),
            partial=bool(known) or any(a.constant for a in args),
        )

    def scan(self, node: Statement, result: Tensor) -> None:
        assert node.scan is not None
        names = [d.name for d in node.dims]
        axis = names.index(node.scan.dim)
        extent = node.dims[axis].extent
        kind = node.scan.kind
        for rest in indices(tuple(d.extent for k, d in enumerate(node.dims) if k != axis)):
            before: Value | None = None
            for t in reversed(range(extent)) if node.scan.reverse else range(extent):
                i = (*rest[:axis], t, *rest[axis:])
                at = {**self.trips, **dict(zip(names, i, strict=True))}
                inside = all(c.holds(at) for c in node.guard)
                neutral = FOLDS[kind][0]
                here = self.evaluate(node.body, at, node.name) if inside else self.constant(neutral)
                if here.constant and (before is None or before.constant) and kind in NEUTRAL:
                    before = self.constant(fold_constants(kind, [here.number, *([before.number] if before else [])]))
                elif here.constant and kind in NEUTRAL and NEUTRAL[kind](here.number) and before is not None:
                    before.partial = True  # the scan goes over padding: its value stays
                else:
                    args = (here,) if before is None else (before, here)
                    before = self.value(
                        ("scan", kind, t if kind.startswith("arg") else 0), args, vector_ops=1, maker=node.name
                    )
                result.values[i] = before

    # --- bodies

    def evaluate(self, expr: Expr, at: dict[str, int], name: str) -> Value:
        match expr:
            case Read():
                return self.tensors[expr.tensor].values[tuple(i.evaluate(at) for i in expr.index)]
            case Literal():
                return self.constant(expr.value)
            case IndexValue():
                return self.constant(expr.expr.evaluate(at))
            case Select():
                taken = all(c.holds(at) for c in expr.condition)
                chosen = self.evaluate(expr.then if taken else expr.otherwise, at, name)
                chosen.partial = True  # one side may repeat where the other does not
                return chosen
            case Apply():
                return self.apply(expr, [self.evaluate(a, at, name) for a in expr.args], name)

    def apply(self, expr: Apply, args: list[Value], name: str) -> Value:
        if expr.op == "where":
            if args[0].constant and args[0].number == args[0].number:
                chosen = args[1] if args[0].number else args[2]
                chosen.partial = True
                return chosen
            if args[1] is args[2]:
                return args[1]
        if all(a.constant for a in args):
            return self.constant(fold_constants(expr.op, [a.number for a in args], expr.dtype))
        for k, a in enumerate(args):
            if a.constant:
                known = absorbed(expr.op, k, a.number)
                if known is not None:
                    return self.constant(known)
                if is_identity(expr.op, k, a.number):
                    args[1 - k].partial |= not isinstance(expr.args[k], Literal)
                    return args[1 - k]
        filled = any(a.constant and not isinstance(e, Literal) for a, e in zip(args, expr.args, strict=True))
        cost = SCALAR_OPS[expr.op].cost
        return self.value((expr.op, expr.dtype), tuple(args), vector_ops=cost, partial=filled, maker=name)

    # --- demand

    def counts(self) -> Counts:
        """What the program's outputs reach."""
        written: dict[str, set[Place]] = {}
        seen: set[int] = set()
        stack: list[Value] = []
        for name in self.program.outputs:
            tensor = self.tensors[name]
            for i, place in tensor.places.items():
                if place[0] != "external":
                    written.setdefault(tensor.dtype, set()).add(place)
                    stack.append(tensor.values[i])
        macs = vector_ops = 0
        touched: dict[str, int] = {}
        while stack:
            value = stack.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            stack += value.args
            if value.key[0] == "external":
                touched[value.key[1]] = touched.get(value.key[1], 0) + 1
            macs += value.macs
            vector_ops += value.vector_ops
        read_bytes = sum(packed(self.tensors[n].dtype, c) for n, c in touched.items())
        return Counts(
            macs,
            vector_ops,
            read_bytes,
            sum(packed(d, len(p)) for d, p in written.items()),
            self.partial_repeats,
            self.powers,
        )


def brute(program: Program, known: dict[str, np.ndarray] | None = None) -> Counts:
    """Exact counts. `known` are values of integer declarations that calls look up."""
    return Machine(program, known).run().counts()


def packed(dtype: str, elements: int) -> int:
    """Bytes."""
    return -(-elements * DTYPE_BITS[dtype] // 8)


def indices(shape: tuple[int, ...]) -> itertools.product[Index]:
    """Every index of a tensor."""
    return itertools.product(*(range(e) for e in shape))


def contraction_terms(node: Statement) -> list[Expr] | None:
    """The operands when the statement is a sum over a product of at least two different tensor terms."""
    if node.reduction is None or node.reduction.kind != "sum":
        return None
    terms = product(node.body)
    tensors = [t for t in terms if next(reads(t), None) is not None]
    return terms if len({repr(t) for t in tensors}) > 1 else None


def product(body: Expr) -> list[Expr]:
    match body:
        case Apply(op="mul"):
            return product(body.args[0]) + product(body.args[1])
        case Apply(op="div"):
            return [*product(body.args[0]), Apply("reciprocal", (body.args[1],))]
        case Apply(op="cast"):
            inner = product(body.args[0])
            return inner if len(inner) > 1 else [body]
        case _:
            return [body]
