"""Counts and regions against enumeration: random boxes, constraints with divisions, indices."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sollens.analysis.einsum.domain import Domain
from sollens.analysis.einsum.points import count_points
from sollens.analysis.einsum.pointset import PointSet
from sollens.analysis.einsum.polyhedra import count_set, domain_set
from sollens.analysis.einsum.region import Region
from sollens.analysis.ir.affine import Affine, Constraint, dim
from tests.einsum.sampling import examples

NAMES = ("i", "j", "k")


@st.composite
def affines(draw: Any, depth: int = 1) -> Affine:
    """Linear expressions, and divisions and remainders of them."""
    result = Affine(draw(st.integers(-4, 4)))
    for name in NAMES:
        result += dim(name) * draw(st.sampled_from((0, 0, 1, 1, -1, 2, 3)))
    if depth and draw(st.integers(0, 3)) == 0:
        inner = draw(affines(depth=depth - 1))
        divisor = draw(st.integers(1, 4))
        result += (inner // divisor if draw(st.booleans()) else inner % divisor) * draw(st.sampled_from((1, 1, -1, 2)))
    return result


constraints = st.lists(st.builds(Constraint, affines(), st.sampled_from((False, False, True))), max_size=3)
boxes = st.tuples(
    *(st.tuples(st.integers(0, 2), st.integers(0, 5)).map(lambda p: (p[0], p[0] + p[1] - 1)) for _ in NAMES)
)


def enumerate_points(box: Any, cuts: list[Constraint]) -> list[dict[str, int]]:
    every = (dict(zip(NAMES, p, strict=True)) for p in itertools.product(*(range(a, b + 1) for a, b in box)))
    return [p for p in every if all(c.holds(p) for c in cuts)]


@examples(300)
@given(boxes, constraints)
def test_count_points_counts_every_point(box, cuts):
    assert count_points(dict(zip(NAMES, box, strict=True)), cuts) == len(enumerate_points(box, cuts))


@examples(150)
@given(boxes, constraints)
def test_count_set_counts_every_point(box, cuts):
    found = domain_set(list(zip(NAMES, box, strict=True)), cuts)
    assert count_set(found, box) == len(enumerate_points(box, cuts))


@examples(150)
@given(boxes, constraints, st.sets(st.sampled_from(NAMES)))
def test_a_domain_counts_its_points_as_seen_through_some_dimensions(box, cuts, used):
    seen = {tuple(p[n] for n in sorted(used)) for p in enumerate_points(box, cuts)}
    assert Domain(NAMES, box, tuple(cuts)).count(frozenset(used)) == len(seen)


@examples(150)
@given(boxes, constraints, st.lists(affines(), min_size=1, max_size=2))
def test_a_domain_counts_distinct_values(box, cuts, functions):
    seen = {tuple(f.evaluate(p) for f in functions) for p in enumerate_points(box, cuts)}
    assert Domain(NAMES, box, tuple(cuts)).distinct(functions) == len(seen)


@examples(250)
@given(boxes, constraints, st.lists(affines(), min_size=1, max_size=2))
def test_the_fast_image_is_the_exact_one(box, cuts, index):
    shape = (9,) * len(index)
    touched = {tuple(f.evaluate(p) for f in index) for p in enumerate_points(box, cuts)}
    touched = {t for t in touched if all(0 <= v < 9 for v in t)}
    domain = Domain(NAMES, box, tuple(cuts))
    fast = domain.image(index, shape)
    exact = Domain(NAMES, box, (), domain.to_set()).image(index, shape)
    assert fast == exact
    assert fast.count == len(touched)
    assert all(fast.intersect(Region.of_box(shape, [(v, v) for v in t])).count == 1 for t in list(touched)[:3])


@st.composite
def regions(draw: Any) -> tuple[Region, set[tuple[int, ...]]]:
    """A region of a 5 x 4 x 3 tensor and its elements."""
    shape = (5, 4, 3)
    box = draw(boxes)
    clipped = tuple((max(0, a), min(e - 1, b)) for (a, b), e in zip(box, shape, strict=True))
    cuts = draw(constraints) if draw(st.booleans()) else []
    members = {tuple(p[n] for n in NAMES) for p in enumerate_points(clipped, cuts)}
    if not cuts:
        return Region.of_box(shape, box), members
    points = domain_set(list(zip(NAMES, clipped, strict=True)), cuts)
    return Region.of_set(shape, PointSet.of_isl(points, tuple((0, e - 1) for e in shape))), members


@examples(200)
@given(regions(), regions(), regions())
def test_regions_are_sets(first, second, third):
    (a, x), (b, y), (c, z) = first, second, third
    assert a.count == len(x)
    assert a.union(b).count == len(x | y)
    assert a.intersect(b).count == len(x & y)
    assert a.subtract(b).count == len(x - y)
    assert a.union(b).intersect(c) == a.intersect(c).union(b.intersect(c))
    assert (a.union(b).subtract(c)).count == len((x | y) - z)
    assert a.union(b) == b.union(a)
    assert a.is_empty == (not x)
    assert a.is_full == (len(x) == 60)
