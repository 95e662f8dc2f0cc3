"""Layered layout of a directed acyclic graph: longest paths give layers, neighbours' middles the order in each.

The steps are Sugiyama's (IEEE Trans. SMC 11, 1981): layers, stand-ins where an edge crosses one, sweeps that put each
node at the mean of its neighbours.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)
_SWEEPS = 6
_SETTLING = 12


@dataclass(frozen=True, slots=True)
class Placed:
    """Where nodes are (middle, and the number of the layer), and the middles an edge passes on its way."""

    middles: Mapping[int, float]
    layers: Mapping[int, int]
    routes: Mapping[tuple[int, int], Sequence[tuple[float, int]]]
    width: float


def place(widths: Sequence[float], edges: Sequence[tuple[int, int]], *, gap: float, bend: float) -> Placed:
    """Places nodes 0, 1, … of these widths. `edges` lead from lower numbers to higher ones: no cycle is possible.

    `gap` is the least distance between neighbours, `bend` the width of an edge that passes a layer.
    """
    assert all(start < end for start, end in edges)
    layer = _layers(len(widths), edges)
    width = dict(enumerate(widths))
    chains: dict[tuple[int, int], list[int]] = {}
    links: list[tuple[int, int]] = []
    for edge in dict.fromkeys(edges):
        start, end = edge
        stops = [start]
        for between in range(layer[start] + 1, layer[end]):
            stand_in = len(width)
            width[stand_in], layer[stand_in] = bend, between
            stops.append(stand_in)
        chains[edge] = stops[1:]
        links += zip(stops, [*stops[1:], end], strict=True)
    rows: list[list[int]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for node, number in layer.items():
        rows[number].append(node)
    above: dict[int, list[int]] = {node: [] for node in width}
    below: dict[int, list[int]] = {node: [] for node in width}
    for start, end in links:
        above[end].append(start)
        below[start].append(end)
    middles = _middles(rows, above, below, width, gap)
    routes = {edge: [(middles[stop], layer[stop]) for stop in chain] for edge, chain in chains.items()}
    most = max((middles[node] + width[node] / 2 for node in middles), default=0.0)
    return Placed({n: middles[n] for n in range(len(widths))}, {n: layer[n] for n in range(len(widths))}, routes, most)


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Each node below all it comes from, and as near to its first reader as that allows."""
    layer = dict.fromkeys(range(count), 0)
    readers: dict[int, list[int]] = {}
    for start, end in sorted(edges):
        readers.setdefault(start, []).append(end)
    for node in range(count):
        for reader in readers.get(node, ()):
            layer[reader] = max(layer[reader], layer[node] + 1)
    for node in reversed(range(count)):
        if node in readers:
            layer[node] = min(layer[reader] for reader in readers[node]) - 1
    return layer


def _middles(
    rows: list[list[int]],
    above: Mapping[int, Sequence[int]],
    below: Mapping[int, Sequence[int]],
    width: Mapping[int, float],
    gap: float,
) -> dict[int, float]:
    middles: dict[int, float] = {}
    for row in rows:
        _side_by_side(row, middles, width, gap)
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        neighbours = above if downwards else below
        for row in rows if downwards else reversed(rows):
            row.sort(key=lambda node: _mean([middles[each] for each in neighbours[node]], middles[node]))
            _side_by_side(row, middles, width, gap)
    for step in range(_SETTLING):
        for row in rows if step % 2 == 0 else reversed(rows):
            wanted = [_mean([middles[each] for each in (*above[node], *below[node])], middles[node]) for node in row]
            _settle(row, wanted, middles, width, gap)
    left = min((middles[node] - width[node] / 2 for node in middles), default=0.0)
    return {node: middle - left for node, middle in middles.items()}


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _side_by_side(row: Sequence[int], middles: dict[int, float], width: Mapping[int, float], gap: float) -> None:
    at = 0.0
    for node in row:
        middles[node] = at + width[node] / 2
        at += width[node] + gap
    for node in row:
        middles[node] -= (at - gap) / 2


def _settle(
    row: Sequence[int],
    wanted: Sequence[float],
    middles: dict[int, float],
    width: Mapping[int, float],
    gap: float,
) -> None:
    """The middles nearest to those wanted that keep order and distance, by pooling neighbours that collide."""
    pools: list[tuple[float, list[int], list[float]]] = []
    for node, want in zip(row, wanted, strict=True):
        members, offsets, wish = [node], [0.0], want
        while pools:
            start, others, their = pools[-1]
            reach = their[-1] + (width[others[-1]] + width[members[0]]) / 2 + gap
            if start + reach <= wish:
                break
            pools.pop()
            total = len(others) + len(members)
            wish = (start * len(others) + (wish - reach) * len(members)) / total
            offsets = [*their, *(offset + reach for offset in offsets)]
            members = [*others, *members]
        pools.append((wish, members, offsets))
    for start, members, offsets in pools:
        for node, offset in zip(members, offsets, strict=True):
            middles[node] = start + offset
