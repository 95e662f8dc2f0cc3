"""The compiled executor means what the reference interpreter means."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sollens.analysis.execute import reference
from sollens.analysis.execute.compiled import contraction, kernels, plan
from sollens.analysis.execute.compiled.emit import emit
from sollens.analysis.execute.compiled.executor import Limits, Stopped, run
from sollens.analysis.execute.compiled.flatten import flatten
from sollens.analysis.execute.errors import MissingInput, NotExecutable, OutOfBounds, TooLarge
from sollens.analysis.execute.storage import store
from sollens.analysis.ir.affine import Constraint, at_least, dim, equals, within
from sollens.analysis.ir.nodes import (
    Apply,
    Call,
    Declaration,
    Dim,
    Expr,
    Literal,
    Program,
    Read,
    Reduction,
    Result,
    Select,
    Statement,
    defined,
)
from sollens.analysis.ir.scalars import SCALAR_OPS
from sollens.analysis.ir.tensors import tensor_types
from sollens.analysis.ir.text_parse import parse
from sollens.analysis.ir.text_print import to_text
from tests.ir.strategies import programs

DOCS = Path(__file__).parents[2] / "docs" / "ir.md"


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOLLENS_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def compile_all() -> Iterator[None]:
    """Nothing is left to the interpreter because it is small, nor to loops."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "COMPILE_S", -1)
        patch.setattr(contraction, "LEAST_POINTS", 1)
        patch.setattr(contraction, "LEAST_REUSE", 0)
        yield


def inputs_of(program: Program, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    result: dict[str, np.ndarray] = {}
    for d in program.declarations:
        if d.defined_by is None:
            whole = np.asarray(rng.integers(0 if d.dtype == "u8" else -3, 9, d.shape))
            value = whole if d.dtype[0] in "iu" else np.asarray(3 * rng.standard_normal(d.shape))
            result[d.name] = store(value > 0 if d.dtype == "bool" else value, d.dtype)
    return result


def check(program: Program, inputs: dict[str, np.ndarray], **options: object) -> dict[str, np.ndarray]:
    """Both executors give the same tensors, or both find a read out of bounds."""
    names = tuple(dict.fromkeys((*program.outputs, *(name for n in program.nodes for name in defined(n)))))
    try:
        expected = reference.run_all(program, inputs)
    except OutOfBounds:
        with pytest.raises(OutOfBounds):
            run(program, inputs, want=names)
        return {}
    found = run(program, inputs, want=names, **options)
    types = tensor_types(program)
    for name in names:
        got, want = found[name], expected[name]
        assert (got.dtype, got.shape) == (want.dtype, want.shape), name
        if want.dtype.kind in "biu":
            np.testing.assert_array_equal(got, want, f"{name}\n{to_text(program)}")
        else:
            # A different last bit before rounding can be a step of the narrow type after it; BLAS sums in f32.
            bound = {"f16": 4e-3, "bf16": 2e-2, "f8e4m3": 0.2}.get(types[name].dtype, 1e-5)
            largest = float(np.max(np.abs(want), initial=0, where=np.isfinite(want)))
            near = bound * min(largest, 1e3) / 10
            np.testing.assert_allclose(got, want, bound, near, err_msg=f"{name}\n{to_text(program)}")
    return found


def program_of(nodes: tuple[Statement, ...], **shapes: tuple[int, ...]) -> Program:
    declarations = tuple(Declaration(name=n, dtype="f32", shape=s, role="input") for n, s in shapes.items())
    return Program(name="p", declarations=declarations, nodes=nodes, outputs=defined(nodes[-1]))


def dims(**extents: int) -> tuple[Dim, ...]:
    return tuple(Dim(name=n, extent=e) for n, e in extents.items())


def total(name: str, own: tuple[Dim, ...], over: tuple[Dim, ...], body: Expr, *guard: Constraint) -> Statement:
    return Statement(
        name=name, dtype="f32", dims=own, reduction=Reduction(kind="sum", dims=over), body=body, guard=guard
    )


def matmul(m: int, k: int, n: int) -> Program:
    body = Apply("mul", (Read("a", (dim("i"), dim("k"))), Read("b", (dim("k"), dim("j")))))
    return program_of((total("c", dims(i=m, j=n), dims(k=k), body),), a=(m, k), b=(k, n))


# --- meaning


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(program=programs(), seed=st.integers(0, 1000))
def test_random_programs(compile_all: None, program: Program, seed: int) -> None:
    check(program, inputs_of(program, seed))
    assert kernels.counters.refused == 0


@pytest.mark.parametrize("text", re.findall(r"```ir\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL))
@pytest.mark.parametrize("small", ["compiled", "interpreted"])
def test_programs_of_the_documentation(small: str, text: str, request: pytest.FixtureRequest) -> None:
    if small == "compiled":
        request.getfixturevalue("compile_all")
    program = parse(text)[0]
    assert program is not None
    check(program, inputs_of(program, 0))


TRICKY = {
    "f32": [0.0, -0.0, 1, -1, 2.5, -2.5, 0.5, 3, np.inf, -np.inf, np.nan, 1e-40, 3e38, 7, -7, 65520, 0.0123],
    "i64": [0, 1, -1, 2, -2, 3, -3, 5, 7, 63, 64, -64, 2**62, -(2**63), 2**63 - 1],
}

EDGY = [
    *("floordiv", "mod", "fmod", "pow", "shl", "shr", "maximum", "logaddexp", "xlogy", "and"),
    *("sign", "round", "abs", "isfinite"),
]


@pytest.mark.parametrize("dtype", TRICKY)
@pytest.mark.parametrize("op", EDGY)
def test_scalar_operations_at_the_edges(compile_all: None, op: str, dtype: str) -> None:
    if dtype == "f32" and op in ("shl", "shr"):
        return
    values = np.array(TRICKY[dtype], np.float32 if dtype == "f32" else np.int64)
    i, j = dims(i=len(values), j=len(values))
    arity = SCALAR_OPS[op].arity
    args = (Read("x", (dim("i"),)), Read("x", (dim("j"),)))[:arity]
    result = "i64" if dtype == "i64" and op not in ("logaddexp", "xlogy") else "f32"
    node = Statement(name="y", dtype=result, dims=(i, j)[:arity], body=Apply(op, args))
    x = Declaration(name="x", dtype=dtype, shape=values.shape, role="input")
    check(Program(name="p", declarations=(x,), nodes=(node,), outputs=("y",)), {"x": values})


@pytest.mark.parametrize("dtype", ["bool", "u8", "i4", "i32", "f16", "bf16", "f8e4m3", "f8e5m2", "f64", "c64"])
def test_casts_at_the_edges(compile_all: None, dtype: str) -> None:
    values = np.array([*TRICKY["f32"], 448, 464, 500, 57344, 1e5, 300, -300], np.float32)
    read = Read("x", (dim("i"),))
    i = dims(i=len(values))
    nodes = (
        Statement(name="y", dtype="f64", dims=i, body=Apply("cast", (read,), dtype)),
        Statement(name="z", dtype=dtype, dims=i, body=read),
    )
    check(program_of(nodes, x=values.shape), {"x": values})


def test_transposed_convolution_by_an_equation(compile_all: None) -> None:
    at = equals(dim("o"), dim("i") * 2 + dim("k") * 3 - 1)
    body = Apply("mul", (Read("x", (dim("n"), dim("i"))), Read("w", (dim("k"), dim("m")))))
    node = total("y", dims(n=3, m=5, o=17), dims(i=7, k=3), body, at)
    program = program_of((node,), x=(3, 7), w=(3, 5))
    check(program, inputs_of(program, 1))
    assert len(flatten(node, {"x": (3, 7), "w": (3, 5)}, {}).domain) == 4, "one reduction dim is solved"


def test_transposed_convolution_by_a_window(compile_all: None) -> None:
    tap = dim("o") + 1 - dim("i") * 2
    body = Apply("mul", (Read("x", (dim("n"), dim("c"), dim("i"))), Read("w", (dim("c"), tap, dim("m")))))
    node = total("y", dims(n=6, m=5, o=13), dims(c=4, i=7), body, *within(tap, 4))
    program = program_of((node,), x=(6, 4, 7), w=(4, 4, 5))
    check(program, inputs_of(program, 1))


def convolution(groups: int) -> Program:
    at = dim("i") * 2 + dim("r") - 1
    channel = dim("o") // (8 // groups) * (6 // groups) + dim("c")
    body = Apply("mul", (Read("x", (dim("n"), channel, at)), Read("w", (dim("o"), dim("c"), dim("r")))))
    node = total("y", dims(n=3, o=8, i=10), dims(c=6 // groups, r=3), body, *within(at, 19))
    return program_of((node,), x=(3, 6, 19), w=(8, 6 // groups, 3))


@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_is_a_matrix_product(compile_all: None, groups: int) -> None:
    program = convolution(groups)
    check(program, inputs_of(program, 2))
    (node,) = program.nodes
    assert isinstance(node, Statement)
    assert isinstance(plan.plan(node, tensor_types(program), {}), plan.Multiplied)


def test_padding_beside_infinite_weights_stays_zero(compile_all: None) -> None:
    program = convolution(1)
    inputs = inputs_of(program, 2)
    inputs["w"][0, 0, 0] = np.inf
    check(program, inputs)


def test_a_product_in_pieces(compile_all: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction, "PACKED_BYTES", 1000)
    program = convolution(1)
    check(program, inputs_of(program, 3))


def test_an_index_that_may_leave_its_tensor_is_found() -> None:
    for size in (4, 400_000):
        node = Statement(name="y", dtype="f32", dims=dims(i=size), body=Read("x", (dim("i") + 1,)))
        program = program_of((node,), x=(size,))
        with pytest.raises(OutOfBounds):
            run(program, inputs_of(program, 0))


def test_large_statements_run_in_pieces_and_threads() -> None:
    x = Read("x", (dim("i"), dim("j")))
    nodes = (
        Statement(name="y", dtype="f32", dims=dims(i=1500, j=1001), body=Apply("mul", (x, x))),
        Statement(name="z", dtype="f32", dims=dims(i=1500, j=1001), body=Apply("i1", (Apply("sin", (x,)),))),
    )
    program = program_of(nodes, x=(1500, 1001))
    inputs = inputs_of(program, 0)
    found = run(program, inputs, want=["y", "z"])
    np.testing.assert_allclose(found["y"], inputs["x"] ** 2, rtol=1e-6)
    expected = reference.run(program, inputs, limit_points=10**9)["z"]
    np.testing.assert_allclose(found["z"], expected)


# --- sharing


def test_sizes_share_a_kernel(compile_all: None) -> None:
    first = matmul(3, 5, 2)
    check(first, inputs_of(first, 0))
    before = kernels.counters.compiled
    for m, k, n in ((7, 2, 9), (2, 30, 4)):
        other = matmul(m, k, n)
        check(other, inputs_of(other, 0))
    assert kernels.counters.compiled == before


def test_ranks_literals_and_paddings_share_a_kernel(compile_all: None) -> None:
    def scaled(shape: tuple[int, ...], factor: float, shift: int) -> Program:
        names = [f"d{k}" for k in range(len(shape))]
        index = tuple(dim(n) for n in names)
        body = Select((at_least(index[-1], shift),), Read("x", (*index[:-1], index[-1] - shift)), Literal(factor))
        own = tuple(Dim(name=n, extent=e) for n, e in zip(names, shape, strict=True))
        return program_of((Statement(name="y", dtype="f32", dims=own, body=body),), x=shape)

    first = scaled((4, 6), 0.5, 1)
    check(first, inputs_of(first, 0))
    before = kernels.counters.compiled
    for other in (scaled((2, 3, 7), -1.25, 2), scaled((2, 3, 2, 5), 3.0, 3)):
        check(other, inputs_of(other, 0))
    assert kernels.counters.compiled == before


def test_loops_compile_their_body_once(compile_all: None) -> None:
    text = """program p(T=6, B=3)
  input x: f32[T, B]
  input h0: f32[B]
  loop t:T
    carry h(initial=h0, next=g, final=last)
    g[b:B]: f32 = tanh(h[b] + x[t, b] * index(t))
    collect all(inner=g)
  output all, last
"""
    program = parse(text)[0]
    assert program is not None
    before = kernels.counters.compiled
    check(program, inputs_of(program, 0))
    assert kernels.counters.compiled <= before + 1


def test_many_small_uses_are_worth_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "COMPILE_S", 0.01)
    kernels.forget()
    nodes = tuple(
        Statement(name=b, dtype="f32", dims=dims(i=7), body=Apply("cos", (Apply("cos", (Read(a, (dim("i"),)),)),)))
        for a, b in pairwise(["x", *(f"t{k}" for k in range(60))])
    )
    before = kernels.counters.compiled
    check(program_of(nodes[:3], x=(7,)), {"x": np.ones(7, np.float32)})
    assert kernels.counters.compiled == before
    check(program_of(nodes, x=(7,)), {"x": np.ones(7, np.float32)})
    assert kernels.counters.compiled == before + 1


# --- safety

HOSTILE = ("__import__('os').system('false')", 'x"]\n    raise SystemExit', "o", "I", "n0", "v1", "import os")


def test_names_never_reach_the_code(compile_all: None) -> None:
    a, b, c, d, e, f, g = HOSTILE
    body = Apply("mul", (Read(a, (dim(c), dim(e))), Read(b, (dim(e), dim(d)))))
    node = Statement(
        name=f, dtype="f32", dims=dims(**{c: 3, d: 4}), body=body, reduction=Reduction(kind="max", dims=dims(**{e: 5}))
    )
    declarations = tuple(
        Declaration(name=n, dtype="f32", shape=s, role="input", label=g) for n, s in ((a, (3, 5)), (b, (5, 4)))
    )
    program = Program(name=g, declarations=declarations, nodes=(node,), outputs=(f,))
    check(program, inputs_of(program, 0))
    source = emit(flatten(node, {a: (3, 5), b: (5, 4)}, {}), {a: "f32", b: "f32"}).source
    words = set(re.findall(r"[A-Za-z_]\w*", source))
    assert all(re.fullmatch(r"def|k|o|for|in|range|if|else|or|[xniurvf]\d+|float32", w) for w in words), words
    assert "'" not in source and '"' not in source


def test_limits_are_checked_before_anything_is_allocated() -> None:
    huge = matmul(10**6, 10**6, 10**6)
    with pytest.raises(TooLarge, match=f"{10**18} points"):
        run(huge, {})
    wide = program_of((Statement(name="y", dtype="f64", dims=dims(i=10**9), body=Literal(1.0)),))
    with pytest.raises(TooLarge, match=f"{8 * 10**9} bytes"):
        run(wide, {})


def test_a_tensor_is_dropped_after_its_last_use() -> None:
    names = [f"t{k}" for k in range(12)]
    nodes = tuple(
        Statement(name=b, dtype="f32", dims=dims(i=1000), body=Apply("add", (Read(a, (dim("i"),)), Literal(1.0))))
        for a, b in pairwise(["x", *names])
    )
    program = program_of(nodes, x=(1000,))
    found = run(program, {"x": np.zeros(1000, np.float32)}, limits=Limits(max_bytes=8000))
    np.testing.assert_array_equal(found["t11"], np.full(1000, 12))
    with pytest.raises(TooLarge):
        run(program, {"x": np.zeros(1000, np.float32)}, limits=Limits(max_bytes=8000), want=names)


def test_a_run_can_be_stopped() -> None:
    asked: list[None] = []

    def stop() -> bool:
        asked.append(None)
        return len(asked) > 1

    program = program_of(tuple(Statement(name=n, dtype="f32", dims=(), body=Literal(1.0)) for n in "abc"))
    with pytest.raises(Stopped):
        run(program, {}, limits=Limits(stop=stop), want="abc")


def test_problems_are_named() -> None:
    program = matmul(2, 3, 4)
    with pytest.raises(MissingInput, match="a: input without a value"):
        run(program, {})
    with pytest.raises(MissingInput, match=r"expected shape \[2, 3\]"):
        run(program, {"a": np.zeros((3, 2)), "b": np.zeros((3, 4))})
    unknown = Call(op="opaque", results=(Result(name="y", dtype="f32", shape=()),), operands=(),
                   attributes=(("operator", "aten.mystery"),))  # fmt: skip
    with pytest.raises(NotExecutable, match=r"aten\.mystery"):
        run(Program(name="p", declarations=(), nodes=(unknown,), outputs=("y",)), {})


def test_outputs_never_share_memory_with_inputs() -> None:
    copy = Statement(name="y", dtype="f32", dims=dims(i=6), body=Read("x", (dim("i") // 3, dim("i") % 3)))
    x = np.zeros((2, 3), np.float32)
    found = run(program_of((copy,), x=(2, 3)), {"x": x})
    assert not np.may_share_memory(found["y"], x)


def test_threads_run_programs_at_once(compile_all: None) -> None:
    kernels.forget()
    many = [matmul(3 + k, 4, 5) for k in range(4)] + [convolution(1), convolution(2)]
    failures: list[BaseException] = []

    def work(program: Program) -> None:
        try:
            for seed in range(5):
                check(program, inputs_of(program, seed))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(p,)) for p in many]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
