"""The einsum graph of a file as a page: a box an einsum, an edge a tensor with the bytes that are read of it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

import msgspec

from sollens.analysis.page.document import document
from sollens.analysis.page.layers import Placed, place
from sollens.hardware.units import format_bytes, format_flop, format_macs

_MOST_NODES = 600
_ROW, _HEIGHT, _MARGIN = 92, 46, 16
_CHARACTER, _WIDEST = 6.6, 34


class Einsum(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    equation: str
    operator: str = ""
    line: int = 0
    module: str = ""
    macs: int = 0
    vector_ops: int = 0
    dtype: str = ""


class Tensor(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    dtype: str
    shape: list[int]
    role: str
    demanded_bytes: int


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    tensor: str
    to: str
    bytes: int


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """What `sollens einsum --format json` prints of one target."""

    name: str
    einsums: list[Einsum]
    tensors: list[Tensor]
    edges: list[Edge]


@dataclass(frozen=True, slots=True)
class _Box:
    name: str
    kind: str
    detail: str
    tooltip: str
    line: int

    @property
    def width(self) -> float:
        return 20 + _CHARACTER * max(len(self.name), len(self.detail))


def decode_graphs(text: str) -> list[Graph]:
    """The graphs of a file, one JSON object a target, an object's end being a line with "}" alone."""
    parts = text.split("\n}")
    return [msgspec.json.decode(f"{part}}}", type=Graph) for part in parts if part.strip()]


def graph_page(title: str, graphs: Sequence[Graph]) -> str:
    """The page of a file's graphs."""
    return document(f"Einsum graph: {title}", "\n".join(_section(graph) for graph in graphs) or "<p>Nothing.</p>")


def _section(graph: Graph) -> str:
    head = (
        f"<h1>{escape(graph.name)}</h1><p class='headline'>{len(graph.einsums)} einsums; a click goes to the line.</p>"
    )
    boxes, edges = _nodes(graph)
    if len(boxes) > _MOST_NODES:
        drawing = (
            f"<p>Expected at most {_MOST_NODES} nodes to draw, found {len(boxes)}. Show the graph as text instead.</p>"
        )
    else:
        drawing = f'<div class="scroll">{_drawing(boxes, edges)}</div>'
    return f'<section class="target">{head}{drawing}</section>'


def _nodes(graph: Graph) -> tuple[list[_Box], dict[tuple[int, int], int]]:
    """Boxes, origins before their readers, and the bytes of each edge between two of them."""
    known = {einsum.name for einsum in graph.einsums}
    producer: dict[str, str] = {einsum.name: einsum.name for einsum in graph.einsums}
    for einsum in graph.einsums:
        # A library call may define several tensors: "values, indices = topk(scores)".
        for name in einsum.equation.partition(" = ")[0].split(", "):
            producer.setdefault(name, einsum.name)
    read = {edge.tensor for edge in graph.edges}
    external = [tensor for tensor in graph.tensors if tensor.name not in producer and tensor.name in read]
    boxes = [_external(tensor) for tensor in external] + [_einsum(einsum) for einsum in graph.einsums]
    number = {box.name: index for index, box in enumerate(boxes)}
    edges: dict[tuple[int, int], int] = {}
    for edge in graph.edges:
        origin = producer.get(edge.tensor, edge.tensor)
        if edge.to not in known or origin not in number:
            continue
        start, end = number[origin], number[edge.to]
        # A carried value is read by the step before it is written again: that edge leads back and is not drawn.
        if start < end:
            edges[start, end] = edges.get((start, end), 0) + edge.bytes
    return boxes, edges


def _external(tensor: Tensor) -> _Box:
    shape = ", ".join(map(str, tensor.shape))
    detail = f"{tensor.dtype}[{shape}]"
    tooltip = f"{tensor.name}: {detail}, {tensor.role}, {format_bytes(tensor.demanded_bytes)} read"
    return _Box(tensor.name, "external", _short(detail), tooltip, 0)


def _einsum(einsum: Einsum) -> _Box:
    amounts = [format_macs(einsum.macs)] if einsum.macs else []
    amounts += [format_flop(einsum.vector_ops)] if einsum.vector_ops else []
    tooltip = "\n".join([einsum.equation, *(f"in {part}" for part in (einsum.operator, einsum.module) if part)])
    return _Box(einsum.name, einsum.kind, _short(" · ".join([einsum.kind, *amounts])), tooltip, einsum.line)


def _short(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _drawing(boxes: Sequence[_Box], edges: dict[tuple[int, int], int]) -> str:
    placed = place([box.width for box in boxes], list(edges), gap=18, bend=10)
    bottom = max(placed.layers.values(), default=0) * _ROW + _HEIGHT + 2 * _MARGIN
    width, height = placed.width + 2 * _MARGIN, bottom
    parts = [f'<svg class="graph" width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}">']
    leave, enter = _ports(boxes, edges, placed)
    for (start, end), count in edges.items():
        stops = [
            (leave[start, end], placed.layers[start] * _ROW + _HEIGHT),
            *((middle, layer * _ROW + _HEIGHT / 2) for middle, layer in placed.routes[start, end]),
            (enter[start, end], placed.layers[end] * _ROW),
        ]
        parts += _edge([(x + _MARGIN, y + _MARGIN) for x, y in stops], format_bytes(count))
    parts += [
        _drawn(box, placed.middles[number] + _MARGIN, placed.layers[number] * _ROW + _MARGIN)
        for number, box in enumerate(boxes)
    ]
    return "".join([*parts, "</svg>"])


def _ports(
    boxes: Sequence[_Box], edges: Iterable[tuple[int, int]], placed: Placed
) -> tuple[dict[tuple[int, int], float], dict[tuple[int, int], float]]:
    """Where edges leave and enter their boxes: side by side, in the order of what is at their other ends."""
    leaving: dict[int, list[tuple[float, tuple[int, int]]]] = {}
    entering: dict[int, list[tuple[float, tuple[int, int]]]] = {}
    for edge in edges:
        start, end = edge
        route = placed.routes[edge]
        leaving.setdefault(start, []).append((route[0][0] if route else placed.middles[end], edge))
        entering.setdefault(end, []).append((route[-1][0] if route else placed.middles[start], edge))

    def spread(sides: dict[int, list[tuple[float, tuple[int, int]]]]) -> dict[tuple[int, int], float]:
        ports: dict[tuple[int, int], float] = {}
        for node, side in sides.items():
            left = placed.middles[node] - boxes[node].width / 2
            for index, (_, edge) in enumerate(sorted(side), 1):
                ports[edge] = left + boxes[node].width * index / (len(side) + 1)
        return ports

    return spread(leaving), spread(entering)


def _edge(stops: Sequence[tuple[float, float]], label: str) -> Iterator[str]:
    (x, y), *rest = stops
    path = f"M{x:.1f} {y:.1f}"
    for next_x, next_y in rest:
        middle = (y + next_y) / 2
        path += f"C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {next_y:.1f}"
        x, y = next_x, next_y
    yield f'<path class="edge" d="{path}"/>'
    # The arrow's head, at the end that is read.
    yield f'<path class="edge tip" d="M{x - 4:.1f} {y - 7:.1f}L{x:.1f} {y:.1f}L{x + 4:.1f} {y - 7:.1f}"/>'
    (last_x, last_y), (before_x, before_y) = stops[-1], stops[-2]
    at_x, at_y = (last_x + before_x) / 2, (last_y + before_y) / 2
    yield f'<text class="bytes" x="{at_x:.1f}" y="{at_y + 3:.1f}" text-anchor="middle">{escape(label)}</text>'


def _drawn(box: _Box, middle: float, top: float) -> str:
    left = middle - box.width / 2
    return (
        f'<g class="node {escape(box.kind)}" data-line="{box.line}"><title>{escape(box.tooltip)}</title>'
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{_HEIGHT}" rx="6"/>'
        f'<text class="name" x="{middle:.1f}" y="{top + 19:.1f}" text-anchor="middle">{escape(box.name)}</text>'
        f'<text class="detail" x="{middle:.1f}" y="{top + 35:.1f}" text-anchor="middle">{escape(box.detail)}</text></g>'
    )
