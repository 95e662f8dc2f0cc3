"""The dtype and shape of every tensor a program defines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from sollens.analysis.ir.nodes import Branch, Call, Loop, Node, Program, Statement


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor's dtype and shape."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)


def tensor_types(program: Program) -> dict[str, TensorType]:
    """Every name of the program (declarations, setup, nodes at any depth) with its type.

    Raises KeyError when the program uses a name that is not defined; `verify` reports those.
    """
    types = {d.name: TensorType(d.dtype, d.shape) for d in program.declarations}
    add_types(types, program.setup)
    add_types(types, program.nodes)
    return types


def add_types(types: dict[str, TensorType], nodes: Iterable[Node]) -> None:
    """Add what these nodes define, in order, also inside loops and branches."""
    for node in nodes:
        match node:
            case Statement():
                types[node.name] = TensorType(node.dtype, node.shape)
            case Call():
                types.update((r.name, TensorType(r.dtype, r.shape)) for r in node.results)
            case Loop():
                types.update((c.name, types[c.initial]) for c in node.carried)
                add_types(types, node.body)
                types.update((c.final, types[c.initial]) for c in node.carried)
                for collected in node.collected:
                    inner = types[collected.inner]
                    types[collected.name] = TensorType(inner.dtype, (node.index.extent, *inner.shape))
            case Branch():
                add_types(types, node.then)
                add_types(types, node.otherwise)
                types.update((m.name, types[m.then]) for m in node.results)


def points(nodes: Iterable[Node]) -> int:
    """Domain points of all statements and elements of all call results; at least 1 a node and 1 an iteration.

    Loops multiply; both sides of a branch count.
    """
    total = 0
    for node in nodes:
        match node:
            case Statement():
                total += max(1, prod(d.extent for d in node.domain))
            case Call():
                total += sum(max(1, prod(r.shape)) for r in node.results)
            case Loop():
                total += node.index.extent * max(1, points(node.body)) + 1
            case Branch():
                total += 1 + points(node.then) + points(node.otherwise)
    return total
