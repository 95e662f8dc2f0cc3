"""The text form: exact round trips, one golden program, and clear problems for bad text."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sollens.analysis.ir.affine import Affine, Constraint
from sollens.analysis.ir.nodes import Declaration, Dim, Literal, Program, Statement
from sollens.analysis.ir.text_expression import Cursor
from sollens.analysis.ir.text_parse import parse
from sollens.analysis.ir.text_print import affine_text, constraint_text, to_text
from sollens.analysis.ir.text_tokens import LIMITS, Limits, TextProblem, lines
from tests.ir.strategies import NAMES, affines, constraints, programs

GOLDEN = Path(__file__).parent / "golden"


def read(text: str, **bind: int) -> Program:
    program, problems = parse(text, bind=bind)
    assert program is not None, "\n".join(p.message for p in problems)
    return program


def problem(text: str) -> TextProblem:
    program, problems = parse(text)
    assert program is None and problems
    return problems[0]


def cursor(text: str) -> Cursor:
    return Cursor(next(iter(lines(text))), {}, NAMES, LIMITS)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(programs())
def test_programs_round_trip(program: Program) -> None:
    text = to_text(program)
    again = read(text)
    assert again == program
    assert to_text(again) == text


@given(affines())
def test_index_expressions_round_trip(expr: Affine) -> None:
    assert cursor(affine_text(expr)).affine() == expr


@given(constraints())
def test_constraints_round_trip(constraint: Constraint) -> None:
    assert cursor(constraint_text(constraint)).condition() == (constraint,)


@given(st.one_of(st.floats(), st.integers(-(2**63), 2**64 - 1), st.booleans(), st.complex_numbers()))
def test_literals_round_trip(value: float | int | bool | complex) -> None:
    statement = Statement(name="y", dtype="c128", dims=(), body=Literal(value))
    program = Program(name="p", declarations=(), nodes=(statement,), outputs=("y",))
    again = read(to_text(program)).nodes[0]
    assert isinstance(again, Statement) and isinstance(again.body, Literal)
    assert type(again.body.value) is type(value)
    assert repr(again.body.value) == repr(value)


def test_programs_with_nan_compare_equal() -> None:
    text = "program p()\n  y[]: f32 = nan\n  output y\n"
    assert read(text) == read(text)
    assert Literal(float("nan")) == Literal(math.nan)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.ir")), ids=lambda p: p.stem)
def test_golden_programs_are_canonical(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert to_text(read(text)) == text


def test_symbols_bind_extents_and_may_be_overridden() -> None:
    text = "program p(B=8, N=2*B)\n  input x: f32[N, B]\n  y[i:N]: f32 = sum[b:B] x[i, b] / B\n  output y\n"
    assert read(text).symbols == (("B", 8), ("N", 16))
    small = read(text, B=2)
    assert small.declarations == (Declaration(name="x", dtype="f32", shape=(4, 2), role="input"),)
    assert read(text, N=3).declarations[0].shape == (3, 8)
    assert problem(text.replace("B=8", "B=8x")).code == "syntax"
    assert parse(text, bind={"Z": 1})[0] is None


def test_names_may_equal_words_of_the_language() -> None:
    body = "sum[] + max[] * not[] - if[]"
    names = ("sum", "max", "not", "if", "loop", "output", "input", "setup", "carry", "select", "true")
    text = "program p()\n" + "".join(f"  input {n}: f32[]\n" for n in names)
    text += f"  y[]: f32 = ({body})\n  loop[]: f32 = not true[] and select[] < 1.0\n  output y\n"
    assert to_text(read(text)) == text


def test_chained_relations_are_conjunctions() -> None:
    both = read("program p\n  y[i:9]: f32 = 1.0 if 0 <= i - 1 < 7\n  output y\n").nodes[0]
    apart = read("program p\n  y[i:9]: f32 = 1.0 if i - 1 >= 0 and i - 1 < 7\n  output y\n").nodes[0]
    assert both == apart


def test_brackets_continue_on_deeper_lines() -> None:
    text = "program p\n  y[i:2,\n    j:3]: f32 = maximum(1.0,\n\n      2.0)\n  output y\n"
    assert read(text).nodes[0].dims == (Dim(name="i", extent=2), Dim(name="j", extent=3))


PROGRAM = "program p(T=4)\n  input x: f32[T]\n  {}\n  output x\n"


@pytest.mark.parametrize(
    ("line", "code", "column", "expected"),
    [
        ("y[i:T]: f32 = x[q]", "unknown-name", 19, "a dimension or symbol (i, T)"),
        ("y[i:T]: f32 = x[i*i]", "affine", 21, "a constant factor"),
        ("y[i:T]: f32 = x[x[i]]", "affine", 19, "is a call"),
        ("y[i:T]: f33 = x[i]", "dtype", 11, "a dtype"),
        ("y[i:T]: f32 = max(x[i], 0)", "unknown-function", 17, "'maximum'"),
        ("y[i:T]: f32 = expo(x[i])", "unknown-function", 17, "'exp'"),
        ("y[i:T]: f32 = exp(x[i], 1)", "arity", 17, "1 argument of exp"),
        ("y[i:T]: f32 = x[i] if i >= 2 else 0.0", "syntax", 32, "select(condition, then, otherwise)"),
        ("y[i:T]: f32 = i * 2", "syntax", 17, "index(i)"),
        ("y[i:T]: f32 = x[i] < 1 < 2", "syntax", 26, "one comparison"),
        ("y[i:T, i:T]: f32 = x[i]", "duplicate-name", 10, "distinct"),
        ("y[i:0-1]: f32 = x[0]", "extent", 7, "an extent of at least 0"),
        ("y[i:T]: f32 = x[i", "syntax", 20, "',' or ']'"),
        ("y[i:T]: f32 = x[i] @ oops!", "syntax", 28, "an operator"),
        ("__y__[i:T]: f32 = x[i]", "identifier", 3, "double underscore"),
        ("y = frobnicate(x): f32[T]", "unknown-function", 7, "a call (take"),
        ("y, z = sort(x; axis=0): f32[T]", "arity", 10, "2 result types"),
        ("import os", "syntax", 10, "NAME[dims]"),
        ("y[i:T]: f32 = é", "syntax", 17, "a value"),
        ("y[i:T]: f32 = 99999999999999999999999", "limit", 17, "an integer of at most"),
        ("y[i:T]: f32 = scan sum[q] x[i]", "unknown-name", 26, "a dimension of the statement"),
        ("loop t:T\n    carry h(initial=x)", "syntax", 23, "next=, final="),
        ("y[i:T]: f32 = x[i]\n      z[i:T]: f32 = x[i]", "indentation", 7, "2 columns"),
    ],
)
def test_problems_point_at_the_place(line: str, code: str, column: int, expected: str) -> None:
    found = problem(PROGRAM.format(line))
    assert (found.code, found.column) == (code, column)
    assert expected in found.expected
    caret = found.excerpt.splitlines()[1].index("^")
    assert caret == found.column - 1
    assert found.line == 3 + line.count("\n")


def test_each_line_reports_its_own_first_problem() -> None:
    _, problems = parse("program p\n  y[]: f32 = (\n  z[]: f32 = 1.0\n  w[]: f33 = 1.0\n  output y\n")
    assert [p.line for p in problems] == [2, 4]


def test_a_text_without_a_program_is_a_problem() -> None:
    for text in ("", "\n# nothing\n", "hello", "program", "program p", "program p\noutput x"):
        assert parse(text)[0] is None and parse(text)[1]


HOSTILE = {
    "deep parentheses": "y[]: f32 = " + "(" * 100_000,
    "deep index": "y[i:2]: f32 = x[" + "(" * 100_000,
    "many minuses": "y[]: f32 = " + "-" * 100_000 + "1.0",
    "many nots": "y[]: f32 = " + "not " * 100_000 + "1.0",
    "a long sum": "y[]: f32 = " + "+".join(["1.0"] * 100_000),
    "a long index": "y[i:2]: f32 = x[" + "+".join(["i//2"] * 100_000) + "]",
    "nested divisions": "y[i:2]: f32 = x[" + "(" * 90 + "i" + "//3+i)" * 90 + "]",
    "huge product": "y[i:2]: f32 = x[" + "*".join(["9" * 18] * 1000) + "]",
    "a gigabyte literal": "y[]: f32 = " + "9" * 1_000_000,
    "a long string": 'y = opaque(x; operator="' + "a" * 1_000_000 + '"): f32[1]',
    "unclosed string": 'y = opaque(x; operator="' + "a" * 1_000_000,
    "many dims": "y[" + ",".join(f"d{k}:2" for k in range(50_000)) + "]: f32 = 1.0",
    "a long name": "y" * 1_000_000 + "[]: f32 = 1.0",
    "a long operator": "y[]: f32 = 1.0 @ " + ".".join(["a"] * 300_000),
    "nested lists": "y = opaque(x; a=" + "[" * 100_000,
    "nul": "y[]: f32 = \x00",
    "right to left": "y[]: f32 = \u202e1.0",
    "look-alike": "у[]: f32 = 1.0",
    "surrogate": "y[]: f32 = \ud800",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused_in_bounded_time(name: str) -> None:
    start = time.process_time()
    program, problems = parse(f"program p()\n  input x: f32[1]\n  {HOSTILE[name]}\n  output x\n")
    assert program is None and problems
    assert all(len(p.message) < 2000 for p in problems)
    assert time.process_time() - start < 5


def test_nested_blocks_are_limited() -> None:
    text = "program p\n" + "".join("  " * (k + 1) + f"loop t{k}:2\n" for k in range(300)) + "  output x\n"
    assert problem(text).code == "limit"
    assert parse("x" * 100, limits=Limits(characters=50))[1][0].code == "limit"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(max_nodes=3), st.data())
def test_mutated_text_never_raises(program: Program, data: st.DataObject) -> None:
    text = to_text(program)
    pieces = (
        "(",
        ")",
        "[",
        "]",
        ":",
        "=",
        "\n",
        "  ",
        "@",
        "if ",
        "//0",
        "*",
        "sum[",
        "select(",
        "-",
        "1e999",
        '"',
        "loop t:3\n",
        "\x00",
    )
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 12))
        text = text[:at] + data.draw(st.sampled_from(pieces) | st.text(max_size=3)) + text[at + cut :]
    parsed, problems = parse(text)
    assert (parsed is None) == bool(problems)
    if parsed is not None:
        assert read(to_text(parsed)) == parsed


def test_thousand_statements_take_well_under_a_second() -> None:
    line = "  s{}[b:8, h:12, i:512, j:512]: f32 = sum[d:64] q[b, h, i, d] * q[b, h, j, d] "
    line += 'if i >= j @ "a.py":12:1-12:9 op={} aten.bmm\n'
    text = (
        "program p()\n  input q: f32[8, 12, 512, 64]\n"
        + "".join(line.format(k, k) for k in range(1000))
        + "  output q\n"
    )
    start = time.process_time()
    program = read(text)
    assert to_text(program) == text
    assert time.process_time() - start < 1.5
