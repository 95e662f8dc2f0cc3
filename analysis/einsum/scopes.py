"""Scopes: any set of einsums as one perfectly fused kernel (bounds.md section 3).

A scope's traffic is what crosses its border: the union of the regions read from outside, once, and each element that
is needed outside, written once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from sollens.analysis.einsum.lift import Einsum, EinsumGraph
from sollens.analysis.einsum.region import Region
from sollens.analysis.einsum.sharing import Computed, repeated, that_may_meet


@dataclass(slots=True)
class Scope:
    """Work and border traffic of a set of einsums. `macs` by pipe, `vector_ops` by dtype."""

    macs: dict[str, int] = field(default_factory=dict[str, int])
    vector_ops: dict[str, int] = field(default_factory=dict[str, int])
    read_bytes: int = 0
    written_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Bytes that cross the border."""
        return self.read_bytes + self.written_bytes

    @property
    def total_macs(self) -> int:
        """MACs of every pipe."""
        return sum(self.macs.values())

    @property
    def total_vector_ops(self) -> int:
        """Vector operations of every dtype."""
        return sum(self.vector_ops.values())


class Scopes:
    """Bounds groups of einsums of one graph; `pipe_of` names the matmul pipe a contraction may use."""

    def __init__(self, graph: EinsumGraph, pipe_of: Callable[[Einsum], str]) -> None:
        self.graph = graph
        self.pipes = [pipe_of(e) if e.macs else "" for e in graph.einsums]
        self.consumers = graph.consumers()
        places: dict[Hashable, list[tuple[int, Computed]]] = {}
        for k, einsum in enumerate(graph.einsums):
            for computed in einsum.computed:
                places.setdefault(computed.key, []).append((k, computed))
        self._repeats: dict[tuple[int, tuple[int, ...]], list[tuple[int, int]]] = {}
        self.shared = [group for found in places.values() if len(found) > 1 for group in that_may_meet(found)]

    def whole(self) -> Scope:
        """All einsums as one scope: compulsory traffic."""
        return self._whole

    @cached_property
    def _whole(self) -> Scope:
        return self.of(range(len(self.graph.einsums)))

    def whole_on(self, pipe_of: Callable[[Einsum], str]) -> Scope:
        """The whole, had its contractions used other pipes."""
        macs: dict[str, int] = {}
        for k, (own, _) in self._work(range(len(self.graph.einsums))).items():
            pipe = pipe_of(self.graph.einsums[k])
            if own:
                macs[pipe] = macs.get(pipe, 0) + own
        return replace(self._whole, macs=macs)

    def _work(self, members: Iterable[int]) -> dict[int, tuple[int, int]]:
        """MACs and vector operations of each einsum that no other of the members has done.

        Of those that compute the same it is the one of which the largest part is needed.
        """
        most: dict[str, int] = {}
        for k in members:
            einsum = self.graph.einsums[k]
            first = most.setdefault(einsum.value, k)
            if _size(self.graph.einsums[first]) < _size(einsum):
                most[einsum.value] = k
        result = {k: _size(self.graph.einsums[k]) for k in most.values()}
        for group, found in enumerate(self.shared):
            places = [(k, computed) for k, computed in found if k in result]
            if len(places) < 2:
                continue
            key = (group, tuple(k for k, _ in places))
            if key not in self._repeats:
                self._repeats[key] = list(repeated([computed for _, computed in places]))
            for position, count in self._repeats[key]:
                k, computed = places[position]
                macs, ops = result[k]
                result[k] = (macs - count, ops) if computed.is_mac else (macs, ops - computed.cost * count)
        return result

    def of(self, members: Iterable[int]) -> Scope:
        """The scope of the einsums at these positions of `graph.einsums`."""
        inside = set(members)
        scope = Scope()
        own: set[str] = set()
        for k in inside:
            own.update(self.graph.einsums[k].defines)
        for k, (macs, ops) in self._work(sorted(inside)).items():
            if macs:
                scope.macs[self.pipes[k]] = scope.macs.get(self.pipes[k], 0) + macs
            if ops:
                dtype = self.graph.einsums[k].dtype
                scope.vector_ops[dtype] = scope.vector_ops.get(dtype, 0) + ops
        incoming: dict[str, Region] = {}
        for k in sorted(inside):
            for tensor, region in self.graph.einsums[k].reads.items():
                if tensor not in own:
                    known = incoming.get(tensor)
                    incoming[tensor] = region if known is None else known.union(region)
        scope.read_bytes = sum(self.graph.bytes_of(t, r) for t, r in incoming.items())
        for tensor in own:
            needed = self.graph.returned.get(tensor)
            for k, region in self.consumers.get(tensor, ()):
                if k not in inside:
                    needed = region if needed is None else needed.union(region)
            if needed is not None:
                scope.written_bytes += self.graph.bytes_of(tensor, needed)
        return scope

    def grouped(self, key: Callable[[Einsum], Iterable[Hashable]]) -> Mapping[Hashable, list[int]]:
        """Positions of the einsums by each key they have, in order of first appearance."""
        groups: dict[Hashable, list[int]] = {}
        for k, einsum in enumerate(self.graph.einsums):
            for one in key(einsum):
                groups.setdefault(one, []).append(k)
        return groups


def _size(einsum: Einsum) -> tuple[int, int]:
    return einsum.macs, einsum.vector_ops
