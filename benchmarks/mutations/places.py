"""Where a program can be changed: its live nodes with what is visible there, and how a changed node is put back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random

from sollens.analysis.ir.affine import Affine
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
    defined,
)
from sollens.analysis.ir.tensors import TensorType, tensor_types
from sollens.analysis.validate.given import live_names

# A mutation: the program with one mistake in it, or None where it has no place for that mistake.
Change = Callable[[Program, Random], Program | None]
# All that a kind of mistake makes of one node.
Variants = Callable[[Node, "Scope"], Iterator[Node]]


@dataclass(frozen=True, slots=True)
class Scope:
    """What a node sees: the types of all tensors, the names visible before it, the trips of the loops around it."""

    types: Mapping[str, TensorType]
    visible: tuple[str, ...]
    trips: Mapping[str, int]

    def extents(self, node: Statement) -> dict[str, int]:
        """Extents of the dims and loop indices that the statement's indices may use."""
        return {**self.trips, **{d.name: d.extent for d in node.domain}}

    def alike(self, name: str) -> list[str]:
        """Other visible tensors of the same shape and dtype."""
        return [v for v in self.visible if v != name and self.types.get(v) == self.types[name]]


def change(variants: Variants) -> Change:
    """A mutation that picks one variant of one node."""

    def changed(program: Program, random: Random) -> Program | None:
        places = list(live_places(program))
        random.shuffle(places)
        for node, scope in places:
            found = [v for v in variants(node, scope) if v != node]
            if found:
                return _put(program, node, random.choice(found))
        return None

    return changed


def live_places(program: Program) -> Iterator[tuple[Node, Scope]]:
    """Nodes that outputs depend on and setup nodes that declarations do, also inside loops and branches.

    Random numbers are taken from the original's run, so their calls are left out.
    """
    types = tensor_types(program)
    known_by = [d.defined_by for d in program.declarations if d.defined_by]
    setup = live_names(replace(program, nodes=program.setup), known_by)
    known = tuple(d.name for d in program.declarations)
    yield from _places(program.setup, setup, Scope(types, (), {}))
    yield from _places(program.nodes, live_names(program, program.outputs), Scope(types, known, {}))


def _places(nodes: Iterable[Node], live: set[str] | None, scope: Scope) -> Iterator[tuple[Node, Scope]]:
    for node in nodes:
        drawn = isinstance(node, Call) and node.op == "random"
        if not drawn and (live is None or not live.isdisjoint(defined(node))):
            yield node, scope
            match node:
                case Loop():
                    trips = {**scope.trips, node.index.name: node.index.extent}
                    visible = scope.visible + tuple(c.name for c in node.carried)
                    yield from _places(node.body, None, Scope(scope.types, visible, trips))
                case Branch():
                    yield from _places(node.then, None, scope)
                    yield from _places(node.otherwise, None, scope)
                case Statement() | Call():
                    pass
        scope = Scope(scope.types, scope.visible + defined(node), scope.trips)


def _put(program: Program, old: Node, new: Node) -> Program:
    return replace(program, setup=_put_in(program.setup, old, new), nodes=_put_in(program.nodes, old, new))


def _put_in(nodes: tuple[Node, ...], old: Node, new: Node) -> tuple[Node, ...]:
    return tuple(new if node is old else _inside(node, old, new) for node in nodes)


def _inside(node: Node, old: Node, new: Node) -> Node:
    match node:
        case Loop():
            return replace(node, body=_put_in(node.body, old, new))
        case Branch():
            return replace(node, then=_put_in(node.then, old, new), otherwise=_put_in(node.otherwise, old, new))
        case Statement() | Call():
            return node


# --- statements and their bodies --------------------------------------------------------------------------------------


def statements(variants: Callable[[Statement, Scope], Iterator[Statement]]) -> Change:
    """A mutation of one statement."""

    def of_node(node: Node, scope: Scope) -> Iterator[Node]:
        if isinstance(node, Statement):
            yield from variants(node, scope)

    return change(of_node)


def bodies(variants: Callable[[Expr, Statement, Scope], Iterator[Expr]]) -> Change:
    """A mutation of one part of a statement's body."""

    def of_statement(node: Statement, scope: Scope) -> Iterator[Statement]:
        for body in parts(node.body, lambda part: variants(part, node, scope)):
            yield replace(node, body=body)

    return statements(of_statement)


def parts(expr: Expr, variants: Callable[[Expr], Iterator[Expr]]) -> Iterator[Expr]:
    """The expression with one of its parts, or itself, replaced by each of that part's variants."""
    yield from variants(expr)
    match expr:
        case Apply():
            for k, argument in enumerate(expr.args):
                for new in parts(argument, variants):
                    yield replace(expr, args=(*expr.args[:k], new, *expr.args[k + 1 :]))
        case Select():
            for new in parts(expr.then, variants):
                yield replace(expr, then=new)
            for new in parts(expr.otherwise, variants):
                yield replace(expr, otherwise=new)
        case Read() | Literal() | IndexValue():
            return


def each(expr: Expr, new: Callable[[Expr], Expr]) -> Expr:
    """The expression with every part replaced, innermost first."""
    match expr:
        case Apply():
            expr = replace(expr, args=tuple(each(a, new) for a in expr.args))
        case Select():
            expr = replace(expr, then=each(expr.then, new), otherwise=each(expr.otherwise, new))
        case Read() | Literal() | IndexValue():
            pass
    return new(expr)


def substituted(node: Statement, values: Mapping[str, Affine]) -> Statement:
    """The statement with dims replaced in indices and conditions."""

    def part(expr: Expr) -> Expr:
        match expr:
            case Read():
                return replace(expr, index=tuple(i.substitute(values) for i in expr.index))
            case IndexValue():
                return IndexValue(expr.expr.substitute(values))
            case Select():
                return replace(expr, condition=tuple(c.substitute(values) for c in expr.condition))
            case Apply() | Literal():
                return expr

    guard = tuple(c.substitute(values) for c in node.guard)
    return replace(node, body=each(node.body, part), guard=guard)


def wrapped(index: Affine, extent: int, extents: Mapping[str, int]) -> Affine:
    """The index, taken round where it may leave the tensor, so that the verifier has no complaint."""
    if extent < 1 or any(extents.get(name, 0) < 1 for name in index.names):
        return index
    low, high = index.bounds(extents)
    return index if low >= 0 and high < extent else index % extent


def contained(node: Statement, scope: Scope) -> Statement:
    """The statement with every read inside its tensor at every point, whatever the guard."""
    extents = scope.extents(node)

    def part(expr: Expr) -> Expr:
        if not isinstance(expr, Read):
            return expr
        shape = scope.types[expr.tensor].shape
        return replace(expr, index=tuple(wrapped(i, n, extents) for i, n in zip(expr.index, shape, strict=True)))

    return replace(node, body=each(node.body, part))
