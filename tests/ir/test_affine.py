"""The algebra of index expressions against brute force over a small box."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sollens.analysis.ir.affine import Affine, Constraint, at_least, dim, equals, less
from tests.ir.strategies import NAMES, affines, constraints, is_canonical

BOX = {"i": 4, "j": 3, "k": 5}
POINTS = [dict(zip(NAMES, values, strict=True)) for values in product(*(range(BOX[n]) for n in NAMES))]


@given(affines())
def test_built_expressions_are_canonical(expr: Affine) -> None:
    assert is_canonical(expr)


@given(affines(), affines(), st.integers(-5, 5), st.integers(1, 7))
def test_operators_agree_with_python(a: Affine, b: Affine, factor: int, divisor: int) -> None:
    for point in POINTS[::7]:
        x, y = a.evaluate(point), b.evaluate(point)
        assert (a + b).evaluate(point) == x + y
        assert (a - b).evaluate(point) == x - y
        assert (5 - a).evaluate(point) == 5 - x
        assert (a * factor).evaluate(point) == x * factor
        assert (a // divisor).evaluate(point) == x // divisor
        assert (a % divisor).evaluate(point) == x % divisor


@given(affines())
def test_simplify_keeps_every_value_on_the_box(expr: Affine) -> None:
    simple = expr.simplify(BOX)
    assert is_canonical(simple)
    for point in POINTS:
        assert simple.evaluate(point) == expr.evaluate(point)


@given(affines())
def test_bounds_hold_every_value_and_are_exact_when_linear(expr: Affine) -> None:
    low, high = expr.bounds(BOX)
    values = [expr.evaluate(p) for p in POINTS]
    assert low <= min(values) and max(values) <= high
    if expr.is_linear:
        assert (low, high) == (min(values), max(values))


@given(affines(), st.fixed_dictionaries({"i": affines(), "j": affines()}))
def test_substitute_is_evaluation_of_the_replacements(expr: Affine, values: dict[str, Affine]) -> None:
    replaced = expr.substitute(values)
    assert is_canonical(replaced)
    for point in POINTS[::7]:
        inner = point | {n: v.evaluate(point) for n, v in values.items()}
        assert replaced.evaluate(point) == expr.evaluate(inner)


@given(affines())
def test_evaluate_works_on_arrays(expr: Affine) -> None:
    grid = dict(zip(NAMES, np.ogrid[:4, :3, :5], strict=True))
    values = np.broadcast_to(expr.evaluate(grid), (4, 3, 5))
    assert values.ravel().tolist() == [expr.evaluate(p) for p in POINTS]


@given(constraints(), st.fixed_dictionaries({"i": affines()}))
def test_constraints_substitute(constraint: Constraint, values: dict[str, Affine]) -> None:
    replaced = constraint.substitute(values)
    for point in POINTS[::7]:
        assert replaced.holds(point) == constraint.holds(point | {"i": values["i"].evaluate(point)})


def test_relations() -> None:
    i, j = dim("i"), dim("j")
    for a, b in product(range(3), range(3)):
        point = {"i": a, "j": b}
        assert at_least(i, j).holds(point) == (a >= b)
        assert less(i, j).holds(point) == (a < b)
        assert equals(i, j).holds(point) == (a == b)


def test_divisions_that_cancel_disappear() -> None:
    h, d = dim("h"), dim("d")
    assert (6 * h + 4) // 2 == 3 * h + 2
    assert ((8 * h + d) // 8).simplify({"h": 4, "d": 8}) == h
    assert ((8 * h + d) % 8).simplify({"h": 4, "d": 8}) == d
    assert ((2 * h) // 3) // 2 == h // 3
