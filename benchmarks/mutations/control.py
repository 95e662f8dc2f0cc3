"""Mistakes in loops, branches and calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from mutations.places import Change, Scope, change, each, substituted
from sollens.analysis.ir.affine import dim
from sollens.analysis.ir.nodes import Attribute, Branch, Call, Expr, Loop, Node, Read, Statement
from sollens.analysis.ir.tensors import TensorType

_REDUCES = ("add", "mul", "amax", "amin", "mean")
_KINDS = {"fft": ("ifft",), "ifft": ("fft",)}


def loop_shortened(node: Node, scope: Scope) -> Iterator[Node]:
    if isinstance(node, Loop) and node.index.extent > 1 and not node.collected:
        yield replace(node, index=replace(node.index, extent=node.index.extent - 1))


def loop_reversed(node: Node, scope: Scope) -> Iterator[Node]:
    """The last iteration comes first."""
    if isinstance(node, Loop) and node.index.extent > 1:
        backwards = {node.index.name: node.index.extent - 1 - dim(node.index.name)}
        yield replace(node, body=tuple(_each_statement(n, lambda s: substituted(s, backwards)) for n in node.body))


def loop_late(node: Node, scope: Scope) -> Iterator[Node]:
    """Iteration t reads what iteration t + 1 should."""
    if isinstance(node, Loop) and node.index.extent > 1:
        late = {node.index.name: (dim(node.index.name) + 1) % node.index.extent}
        yield replace(node, body=tuple(_each_statement(n, lambda s: substituted(s, late)) for n in node.body))


def carried_stale(node: Node, scope: Scope) -> Iterator[Node]:
    """The body reads a carried value's initial in its place."""
    if isinstance(node, Loop):
        for c in node.carried:
            yield replace(node, body=tuple(_renamed(n, c.name, c.initial) for n in node.body))


def carried_not_updated(node: Node, scope: Scope) -> Iterator[Node]:
    if isinstance(node, Loop):
        for k, c in enumerate(node.carried):
            yield replace(node, carried=(*node.carried[:k], replace(c, next=c.name), *node.carried[k + 1 :]))


def carried_exchanged(node: Node, scope: Scope) -> Iterator[Node]:
    """Two carried values get each other's next."""
    if isinstance(node, Loop):
        for a in range(len(node.carried)):
            for b in range(a):
                one, other = node.carried[a], node.carried[b]
                if scope.types[one.name] == scope.types[other.name]:
                    carried = list(node.carried)
                    carried[a], carried[b] = replace(one, next=other.next), replace(other, next=one.next)
                    yield replace(node, carried=tuple(carried))


def initial_replaced(node: Node, scope: Scope) -> Iterator[Node]:
    if isinstance(node, Loop):
        for k, c in enumerate(node.carried):
            for other in scope.alike(c.initial):
                yield replace(node, carried=(*node.carried[:k], replace(c, initial=other), *node.carried[k + 1 :]))


def collected_replaced(node: Node, scope: Scope) -> Iterator[Node]:
    """What is collected is another value of the body, or of the iteration before."""
    if isinstance(node, Loop):
        inside = [c.name for c in node.carried] + [n.name for n in node.body if isinstance(n, Statement)]
        for k, c in enumerate(node.collected):
            for other in inside:
                if other != c.inner and scope.types[other] == scope.types[c.inner]:
                    changed = replace(c, inner=other)
                    yield replace(node, collected=(*node.collected[:k], changed, *node.collected[k + 1 :]))


def branch_flipped(node: Node, scope: Scope) -> Iterator[Node]:
    if isinstance(node, Branch):
        results = tuple(replace(m, then=m.otherwise, otherwise=m.then) for m in node.results)
        yield replace(node, then=node.otherwise, otherwise=node.then, results=results)


def call_attribute(node: Node, scope: Scope) -> Iterator[Node]:
    """Another axis, order, reduction or the like."""
    if isinstance(node, Call):
        for k, (name, value) in enumerate(node.attributes):
            for other in _values(node, name, value, scope):
                yield replace(node, attributes=(*node.attributes[:k], (name, other), *node.attributes[k + 1 :]))


def _values(node: Call, name: str, value: Attribute, scope: Scope) -> Iterator[Attribute]:
    rank = len(scope.types[node.operands[0]].shape) if node.operands else 0
    match name, value:
        case (("descending" | "largest" | "right" | "accumulate" | "include_self"), bool()):
            yield not value
        case "axis", int():
            yield from (a for a in range(rank) if a != value)
        case "axes", tuple() if len(value) == 1 and isinstance(value[0], int):
            yield from ((a,) for a in range(rank) if a != value[0])
        case "axes", tuple():
            yield tuple(reversed(value))
        case "position", int():
            yield value + 1
            yield value - 1
        case "reduce", str():
            yield from (r for r in _REDUCES if r != value)
        case "kind", str():
            yield from _KINDS.get(value, ())
        case _:
            return


def call_operand_replaced(node: Node, scope: Scope) -> Iterator[Node]:
    if isinstance(node, Call):
        for k, operand in enumerate(node.operands):
            for other in scope.alike(operand):
                yield replace(node, operands=(*node.operands[:k], other, *node.operands[k + 1 :]))


def call_results_exchanged(node: Node, scope: Scope) -> Iterator[Node]:
    """The names of two results of one type are exchanged."""
    if isinstance(node, Call):
        for a in range(len(node.results)):
            for b in range(a):
                one, other = node.results[a], node.results[b]
                if TensorType(one.dtype, one.shape) == TensorType(other.dtype, other.shape):
                    results = list(node.results)
                    results[a], results[b] = other, one
                    yield replace(node, results=tuple(results))


def _each_statement(node: Node, new: Callable[[Statement], Node]) -> Node:
    match node:
        case Statement():
            return new(node)
        case Loop():
            return replace(node, body=tuple(_each_statement(n, new) for n in node.body))
        case Branch():
            then, otherwise = (tuple(_each_statement(n, new) for n in side) for side in (node.then, node.otherwise))
            return replace(node, then=then, otherwise=otherwise)
        case Call():
            return node


def _renamed(node: Node, old: str, new: str) -> Node:
    """The node with its own reads of one tensor made reads of another."""
    if isinstance(node, Call):
        return replace(node, operands=tuple(new if o == old else o for o in node.operands))

    def part(expr: Expr) -> Expr:
        return replace(expr, tensor=new) if isinstance(expr, Read) and expr.tensor == old else expr

    return _each_statement(node, lambda s: replace(s, body=each(s.body, part)))


CONTROL: Mapping[str, Change] = {
    "loop one trip short": change(loop_shortened),
    "loop backwards": change(loop_reversed),
    "loop a step late": change(loop_late),
    "carried value stays initial": change(carried_stale),
    "carried value not updated": change(carried_not_updated),
    "carried values exchanged": change(carried_exchanged),
    "carried initial replaced": change(initial_replaced),
    "collected value replaced": change(collected_replaced),
    "branch flipped": change(branch_flipped),
    "call attribute changed": change(call_attribute),
    "call operand replaced": change(call_operand_replaced),
    "call results exchanged": change(call_results_exchanged),
}
