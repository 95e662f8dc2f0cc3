"""Layered layout: whatever the graph, edges lead down and nothing overlaps."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from sollens.analysis.page.layers import place


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[float], list[tuple[int, int]]]:
    widths = draw(st.lists(st.floats(10, 200), min_size=1, max_size=14))
    pairs = st.tuples(st.integers(0, len(widths) - 1), st.integers(0, len(widths) - 1))
    edges = draw(st.lists(pairs, max_size=24))
    return widths, [(min(pair), max(pair)) for pair in edges if pair[0] != pair[1]]


@given(graphs())
@settings(max_examples=150, deadline=None)
def test_edges_lead_down_and_neighbours_keep_their_distance(graph: tuple[list[float], list[tuple[int, int]]]) -> None:
    widths, edges = graph
    placed = place(widths, edges, gap=18, bend=10)
    for start, end in edges:
        assert placed.layers[start] < placed.layers[end]
        passed = [layer for _, layer in placed.routes[start, end]]
        assert passed == list(range(placed.layers[start] + 1, placed.layers[end]))
    for layer in set(placed.layers.values()):
        row = sorted((placed.middles[n], widths[n]) for n in placed.layers if placed.layers[n] == layer)
        for (left, wide), (right, next_wide) in itertools.pairwise(row):
            assert right - left >= (wide + next_wide) / 2 + 18 - 1e-6
        assert row[0][0] - row[0][1] / 2 >= -1e-6
        assert row[-1][0] + row[-1][1] / 2 <= placed.width + 1e-6


def test_a_parameter_stands_right_above_its_reader() -> None:
    placed = place([50] * 4, [(0, 1), (1, 2), (2, 3)], gap=10, bend=10)
    assert [placed.layers[n] for n in range(4)] == [0, 1, 2, 3]
    #  x -> a -> b, and a weight that only b reads
    placed = place([50] * 4, [(0, 2), (2, 3), (1, 3)], gap=10, bend=10)
    assert placed.layers[1] == placed.layers[2] == placed.layers[3] - 1
