"""The verifier: each kind of problem, the exactness of its bounds, and agreement with execution."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sollens.analysis.execute import reference
from sollens.analysis.execute.errors import NotExecutable, OutOfBounds, TooLarge
from sollens.analysis.execute.storage import store
from sollens.analysis.ir.affine import Affine, dim
from sollens.analysis.ir.nodes import Apply, Declaration, Dim, Literal, Program, Read, Reduction, Scan, Statement
from sollens.analysis.ir.tensors import tensor_types
from sollens.analysis.ir.text_parse import parse
from sollens.analysis.ir.text_print import to_text
from sollens.analysis.ir.verify import IrProblem, WorkLimits, verify
from tests.ir.strategies import affines, constraints, programs


def problems(*lines: str, output: str = "y") -> list[IrProblem]:
    text = "\n  ".join(
        ("program p", "input x: f32[4]", "input m: f32[4, 4]", "input n: i64[4]", *lines, f"output {output}")
    )
    program, bad = parse(text)
    assert program is not None, bad
    return list(verify(program))


@pytest.mark.parametrize(
    ("line", "code", "expected", "found"),
    [
        ("y[i:4]: f32 = x[i + 1]", "bounds", "x axis 0, index i + 1 in 0..3", "4 at i=3"),
        ("y[i:4]: f32 = x[i + 1] if i < 4", "bounds", "0..3", "4 at i=3"),
        ("y[i:4]: f32 = select(i >= 1, x[i], x[i - 1])", "bounds", "i - 1", "-1 at i=0"),
        ("y[i:8]: f32 = x[i // 2 + i % 2]", "bounds", "0..3", "4 at i=7"),
        ("y[i:4]: f32 = q[i]", "undefined", "defined before its use", "q"),
        ("y[i:4]: f32 = y[i]", "undefined", "defined before its use", "y"),
        ("y[i:4]: f32 = m[i]", "rank", "2 indices of m[4, 4]", "1"),
        ("y[i:4]: f32 = x[i]\n  y[i:4]: f32 = x[i]", "redefined", "defined once", "y"),
        ("y[i:4]: f32 = argmax[j:4] m[i, j]", "dtype", "i64 for argmax", "f32"),
        ("y[]: i64 = argmax[i:4, j:4] m[i, j]", "fold", "one dimension", "2"),
        ("y[i:10000000, j:10000000]: f32 = 1.0", "limit", "elements", "100000000000000"),
        ("y = take(x, m; axis=0): f32[4, 4]", "dtype", "integer index", "f32"),
        ("y = take(x, n; axis=1): f32[4]", "attribute", "axis in 0..0", "1"),
        ("y = take(x, n): f32[4]", "attribute", "the attribute axis", "none"),
        ("y = take(x, n; axis=0): f32[5]", "shape", "shape [4]", "[5]"),
        ("y = take(x, n; axis=0): f64[4]", "dtype", "dtype f32", "f64"),
        ("y = take(x; axis=0): f32[4]", "arity", "2 operands", "1"),
        ("y = take(x, n; axis=0, mode=1): f32[4]", "attribute", "attributes of take (axis)", "mode"),
        ("y, z = topk(x; k=5, axis=0): f32[5], i64[5]", "attribute", "k in 0..4", "5"),
        ("y = sort(x; axis=0): f32[4]", "arity", "2 results", "1"),
        ("y = scatter(m, n, x; axis=0, reduce=\"add\"): f32[4, 4]", "shape", "within [4, 4]", "[4]"),
        ("y = scatter(x, n, x; axis=0, reduce=\"sub\"): f32[4]", "attribute", "reduce in", "sub"),
        ("y = index(m, n; axes=[0, 0], position=0): f32[4, 4]", "attribute", "distinct axes", "(0, 0)"),
        ("y = index_add(m, n, x; axis=0): f32[4, 4]", "shape", "shape [4, 4]", "[4]"),
        ("y = gather(m, n; axis=1): f32[4]", "shape", "within [4, 4]", "[4]"),
        ("y = q(x): f32[4]".replace("q", "opaque") + "\n  z[i:4]: f32 = y[i, i]", "rank", "1 indices", "2"),
        ("branch x\n    then\n    else\n  y[]: f32 = 1.0", "shape", "one element", "[4]"),
        ("loop t:2\n    carry h(initial=x, next=g, final=y)\n    g[i:3]: f32 = h[i]", "shape", "f32[4]", "f32[3]"),
        ("loop t:2\n    g[i:4]: f32 = x[i]\n  y[i:4]: f32 = g[i]", "undefined", "before its use", "inside a loop"),
        ("loop t:2\n    loop t:2\n      g[]: f32 = 1.0\n  y[]: f32 = 1.0", "redefined", "no enclosing loop", "t"),
        ("loop t:2 unknown_trips\n    g[]: f32 = 1.0\n  y[]: f32 = 1.0", "extent", "trip count is unknown", "2"),
    ],
)  # fmt: skip
def test_each_kind_of_problem(line: str, code: str, expected: str, found: str) -> None:
    first = problems(line)[0]
    assert first.code == code, first.message
    assert expected in first.expected and found in first.found, first.message


@pytest.mark.parametrize(
    "line",
    [
        "y[i:4]: f32 = x[i + 1] if i < 3",
        "y[i:4, k:3]: f32 = x[i + k - 1] if 0 <= i + k - 1 < 4",
        "y[i:4]: f32 = select(i >= 3, 0.0, x[i + 1])",
        "y[i:4]: f32 = select(i >= 2 and i % 2 == 1, 0.0, x[i + 1])",
        "y[i:9]: f32 = x[i // 2] if i % 2 == 0 and i < 8",
        "y[i:4, j:4]: f32 = x[i - j] if i >= j",
        "y[i:4]: f32 = sum[j:4] x[3 - (i + j) // 2]",
        "y[i:0]: f32 = x[i + 99]",
        "y[i:4]: f32 = x[i + 99] if i < 0",
        "loop t:4\n    g[i:4]: f32 = m[t, i] * x[3 - t]\n    collect y(inner=g)",
        "y[i:4, j:4]: f32 = x[(4 * i + j) % 4] + x[(4 * i + j) // 4]",
    ],
)
def test_reads_inside_are_proved(line: str) -> None:
    assert not problems(line)


def statement(**kw: object) -> Program:
    base = Statement(name="y", dtype="f32", dims=(Dim(name="i", extent=4),), body=Literal(1.0))
    x = Declaration(name="x", dtype="f32", shape=(4,), role="input")
    return Program(name="p", declarations=(x,), nodes=(replace(base, **kw),), outputs=("y",))


BUILT = {
    "unknown-name": statement(body=Read("x", (dim("q"),))),
    "unknown-function": statement(body=Apply("eval", (Literal(1.0),))),
    "arity": statement(body=Apply("add", (Literal(1.0),))),
    "dtype": statement(body=Apply("cast", (Literal(1.0),), "float")),
    "fold": statement(reduction=Reduction(kind="mean", dims=())),
    "identifier": statement(name="__import__"),
    "redefined": statement(dims=(Dim(name="i", extent=2), Dim(name="i", extent=2))),
    "extent": statement(dims=(Dim(name="i", extent=-1),)),
}


@pytest.mark.parametrize("code", BUILT)
def test_nodes_that_no_text_can_spell(code: str) -> None:
    assert verify(BUILT[code])[0].code == code


def test_program_level_problems() -> None:
    program = statement()
    assert verify(program) == ()
    assert verify(replace(program, outputs=("nope",)))[0].code == "undefined"
    assert verify(replace(program, outputs=()))[0].code == "output"
    assert verify(statement(scan=Scan(kind="sum", dim="z")))[0].code == "fold"
    x = program.declarations[0]
    assert verify(replace(program, declarations=(replace(x, role="secret"),)))[0].code == "role"
    assert verify(replace(program, declarations=(replace(x, defined_by="y"),)))[0].code == "undefined"
    assert verify(program, WorkLimits(points=3))[0].code == "limit"
    assert len(verify(statement(body=Apply("add", tuple(Read("q", ()) for _ in range(90)))))) == 50


def test_a_hopeless_bound_is_given_up_in_bounded_time() -> None:
    expr = Affine()
    for k in range(12):
        expr = (expr * 7 + dim(f"d{k}") * (k + 3)) // 5 + dim(f"d{k}") % 7
    dims = tuple(Dim(name=f"d{k}", extent=1009 + k) for k in range(12))
    start = time.process_time()
    found = verify(statement(dims=dims, body=Read("x", (expr % 5,))), WorkLimits(points=10**60, elements=10**60))
    assert found[0].code == "bounds"
    assert time.process_time() - start < 20


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(affines(("i", "j")), st.lists(constraints(("i", "j")), max_size=2), st.integers(1, 12))
def test_bounds_are_accepted_exactly_when_no_live_point_is_outside(index, guard, extent) -> None:
    x = Declaration(name="x", dtype="f32", shape=(extent,), role="input")
    dims = (Dim(name="i", extent=4), Dim(name="j", extent=3))
    node = Statement(name="y", dtype="f32", dims=dims, body=Read("x", (index,)), guard=tuple(guard))
    program = Program(name="p", declarations=(x,), nodes=(node,), outputs=("y",))
    live = [{"i": a, "j": b} for a in range(4) for b in range(3) if all(c.holds({"i": a, "j": b}) for c in guard)]
    inside = all(0 <= index.evaluate(p) < extent for p in live)
    assert (verify(program) == ()) == inside


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_valid_programs_verify_and_run(program: Program) -> None:
    assert [p.message for p in verify(program)] == []
    generator = np.random.default_rng(1)
    inputs = {
        d.name: store(generator.standard_normal(d.shape) * 3, d.dtype)
        for d in program.declarations
        if d.defined_by is None
    }
    types = tensor_types(program)
    try:
        outputs = reference.run_all(program, inputs)
    except (TooLarge, NotExecutable):
        return
    for name, value in outputs.items():
        assert value.shape == types[name].shape


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(max_nodes=3), st.data())
def test_verify_never_raises_and_what_it_accepts_reads_in_bounds(program: Program, data: st.DataObject) -> None:
    text = to_text(program)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        text = text[:at] + data.draw(st.sampled_from("0123456789ijkrxt+-<")) + text[at + 1 :]
    parsed, _ = parse(text)
    if parsed is None or verify(parsed, WorkLimits(points=100_000, elements=100_000)):
        return
    inputs = {d.name: np.ones(d.shape) for d in parsed.declarations if d.defined_by is None}
    try:
        reference.run(parsed, inputs, limit_points=300_000)
    except (TooLarge, NotExecutable):
        pass
    except OutOfBounds as error:
        raise AssertionError(text) from error
