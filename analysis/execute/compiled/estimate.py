"""What running a program would take, before anything is allocated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from sollens.analysis.execute.compiled.contraction import LEAST_POINTS, PACKED_BYTES
from sollens.analysis.execute.compiled.emit import held_dtype
from sollens.analysis.execute.compiled.flatten import effective_points
from sollens.analysis.execute.errors import TooLarge
from sollens.analysis.ir.nodes import Branch, Call, Loop, Node, Statement, defined, reads
from sollens.analysis.ir.tensors import TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may use. `stop` is asked between statements; when it says True the run ends with `Stopped`."""

    max_bytes: int = 4 * 10**9
    max_points: int = 20 * 10**9
    threads: int = 2
    stop: Callable[[], bool] | None = None


class Stopped(Exception):
    """The run was asked to end."""


def used(node: Node) -> Iterator[str]:
    """Names that the node needs, of tensors outside or inside it."""
    match node:
        case Statement():
            yield from (r.tensor for r in reads(node.body))
        case Call():
            yield from node.operands
        case Loop():
            for c in node.carried:
                yield from (c.initial, c.next)
            yield from (c.inner for c in node.collected)
            for inner in node.body:
                yield from used(inner)
        case Branch():
            yield node.condition
            for m in node.results:
                yield from (m.then, m.otherwise)
            for inner in (*node.then, *node.otherwise):
                yield from used(inner)


def releases(nodes: Sequence[Node], kept: frozenset[str], also: Iterable[str] = ()) -> list[tuple[str, ...]]:
    """For each node, the names of this list (and of `also`) that nothing after it needs."""
    last = dict.fromkeys(also, 0)
    for position, node in enumerate(nodes):
        for name in used(node):
            if name in last:
                last[name] = position
        last.update(dict.fromkeys(defined(node), position))
    result: list[list[str]] = [[] for _ in nodes]
    for name, position in last.items():
        if name not in kept and nodes:
            result[position].append(name)
    return [tuple(names) for names in result]


def loop_kept(node: Loop, kept: frozenset[str]) -> frozenset[str]:
    """What a loop's body must leave for the end of its iteration."""
    return kept | {c.next for c in node.carried} | {c.inner for c in node.collected}


def points(nodes: Iterable[Node]) -> int:
    """Points that are evaluated: of statements after solving their guards, of call results; loops multiply."""
    total = 0
    for node in nodes:
        match node:
            case Statement():
                total += effective_points(node)
            case Call():
                total += sum(prod(r.shape) for r in node.results)
            case Loop():
                total += node.index.extent * max(1, points(node.body))
            case Branch():
                total += max(points(node.then), points(node.otherwise))
    return total


def check(
    name: str, nodes: Sequence[Node], types: Mapping[str, TensorType], external: Sequence[str], kept: frozenset[str],
    limits: Limits,
) -> None:  # fmt: skip
    """Raises TooLarge when the nodes have too many points or the tensors alive at once too many bytes."""
    wanted = points(nodes)
    if wanted > limits.max_points:
        raise TooLarge(f"{name}: {wanted} points to evaluate, the limit is {limits.max_points}")
    peak = sum(_bytes(types[n]) for n in external) + _peak(nodes, types, kept, external)
    if peak > limits.max_bytes:
        raise TooLarge(f"{name}: {peak} bytes at once, the limit is {limits.max_bytes}")


def _scratch(node: Statement) -> int:
    """What a sum may take beside its result when it is made as a matrix product."""
    if node.reduction is None or node.reduction.kind != "sum" or effective_points(node) < LEAST_POINTS:
        return 0
    return 8 * prod(node.shape) + 2 * PACKED_BYTES


def _bytes(kind: TensorType) -> int:
    return prod(kind.shape) * held_dtype(kind.dtype).itemsize


def _peak(
    nodes: Sequence[Node], types: Mapping[str, TensorType], kept: frozenset[str], also: Sequence[str] = ()
) -> int:
    """The most bytes that the tensors of a list (beyond `also`, which may go) take at once."""
    alive = peak = 0
    for node, gone in zip(nodes, releases(nodes, kept, also), strict=True):
        alive += sum(_bytes(types[n]) for n in defined(node))
        inside = 0
        match node:
            case Loop():
                inside = _peak(node.body, types, loop_kept(node, kept))
            case Branch():
                inside = max(_peak(side, types, kept | {m for r in node.results for m in (r.then, r.otherwise)})
                             for side in (node.then, node.otherwise))  # fmt: skip
            case Statement():
                inside = _scratch(node)
            case Call():
                pass
        peak = max(peak, alive + inside)
        alive -= sum(_bytes(types[n]) for n in gone)
    return peak
