"""The reference interpreter against NumPy written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from sollens.analysis.execute import reference
from sollens.analysis.execute.errors import MissingInput, NotExecutable, OutOfBounds, TooLarge
from sollens.analysis.ir.affine import at_least, const, dim, within
from sollens.analysis.ir.nodes import (
    Apply,
    Branch,
    Call,
    Carried,
    Collected,
    Declaration,
    Dim,
    IndexValue,
    Literal,
    Loop,
    Merged,
    Program,
    Read,
    Reduction,
    Result,
    Scan,
    Select,
    Statement,
)

rng = np.random.default_rng(7)


def f32(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def dims(**extents: int) -> tuple[Dim, ...]:
    return tuple(Dim(name=n, extent=e) for n, e in extents.items())


def read(tensor: str, *index: str | int) -> Read:
    return Read(tensor, tuple(dim(i) if isinstance(i, str) else const(i) if isinstance(i, int) else i for i in index))


def declare(inputs: dict[str, np.ndarray]) -> tuple[Declaration, ...]:
    short = {"float32": "f32", "int64": "i64", "bool": "bool", "float64": "f64", "complex64": "c64"}
    return tuple(Declaration(name=n, dtype=short[str(a.dtype)], shape=a.shape, role="input") for n, a in inputs.items())


def evaluate(nodes, **inputs):
    nodes = nodes if isinstance(nodes, tuple) else (nodes,)
    from sollens.analysis.ir.nodes import defined

    program = Program(name="p", declarations=declare(inputs), nodes=nodes, outputs=defined(nodes[-1]))
    results = list(reference.run(program, inputs).values())
    return results[0] if len(results) == 1 else results


def mul(a, b):
    return Apply("mul", (a, b))


def statement(name="y", dtype="f32", **kw):
    return Statement(name=name, dtype=dtype, **kw)


def test_matmul() -> None:
    a, b = f32(4, 5), f32(5, 3)
    y = statement(
        dims=dims(i=4, j=3),
        reduction=Reduction(kind="sum", dims=dims(k=5)),
        body=mul(read("a", "i", "k"), read("b", "k", "j")),
    )
    np.testing.assert_allclose(evaluate(y, a=a, b=b), a @ b, rtol=1e-5)


def test_convolution_with_padding_as_a_guard() -> None:
    x, w = f32(8), f32(3)
    at = dim("i") + dim("k") - 1
    y = statement(
        dims=dims(i=8),
        reduction=Reduction(kind="sum", dims=dims(k=3)),
        body=mul(Read("x", (at,)), read("w", "k")),
        guard=within(at, 8),
    )
    np.testing.assert_allclose(evaluate(y, x=x, w=w), np.convolve(x, w[::-1], "same"), rtol=1e-5, atol=1e-6)


def test_softmax() -> None:
    x = f32(3, 6)
    m = statement("m", dims=dims(i=3), reduction=Reduction(kind="max", dims=dims(j=6)), body=read("x", "i", "j"))
    e = statement("e", dims=dims(i=3, j=6), body=Apply("exp", (Apply("sub", (read("x", "i", "j"), read("m", "i"))),)))
    z = statement("z", dims=dims(i=3), reduction=Reduction(kind="sum", dims=dims(j=6)), body=read("e", "i", "j"))
    y = statement(dims=dims(i=3, j=6), body=Apply("div", (read("e", "i", "j"), read("z", "i"))))
    expected = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(evaluate((m, e, z, y), x=x), expected / expected.sum(1, keepdims=True), rtol=1e-5)


def test_tril_by_select_and_by_guard() -> None:
    x = f32(4, 4)
    lower = at_least(dim("i"), dim("j"))
    select = statement(dims=dims(i=4, j=4), body=Select((lower,), read("x", "i", "j"), Literal(0.0)))
    guard = statement(dims=dims(i=4, j=4), body=read("x", "i", "j"), guard=(lower,))
    np.testing.assert_array_equal(evaluate(select, x=x), np.tril(x))
    np.testing.assert_array_equal(evaluate(guard, x=x), np.tril(x))


@pytest.mark.parametrize("reverse", [False, True])
def test_scans(reverse: bool) -> None:
    x = f32(2, 5)
    flip = (lambda v: v[:, ::-1]) if reverse else (lambda v: v)
    for kind, fold in {"sum": np.cumsum, "prod": np.cumprod, "max": np.maximum.accumulate}.items():
        y = statement(dims=dims(i=2, j=5), body=read("x", "i", "j"), scan=Scan(kind=kind, dim="j", reverse=reverse))
        np.testing.assert_allclose(evaluate(y, x=x), flip(fold(flip(x), axis=1)), rtol=1e-5)
    y = statement(dims=dims(i=2, j=5), body=read("x", "i", "j"), scan=Scan(kind="logsumexp", dim="j", reverse=reverse))
    np.testing.assert_allclose(evaluate(y, x=x), flip(np.log(np.cumsum(np.exp(flip(x)), axis=1))), rtol=1e-4, atol=1e-6)


def test_running_argmax_takes_the_latest_of_equals_and_argmax_the_first() -> None:
    x = np.array([1, 3, 3, 2, 3], np.float32)
    y = statement(dtype="i64", dims=dims(i=5), body=read("x", "i"), scan=Scan(kind="argmax", dim="i"))
    np.testing.assert_array_equal(evaluate(y, x=x), [0, 1, 2, 2, 4])
    y = statement(dtype="i64", dims=(), reduction=Reduction(kind="argmax", dims=dims(i=5)), body=read("x", "i"))
    assert evaluate(y, x=x) == 1


def test_argmax_ignores_points_outside_the_guard() -> None:
    x = np.full(4, -np.inf, np.float32)
    y = statement(
        dtype="i64",
        dims=(),
        reduction=Reduction(kind="argmax", dims=dims(i=4)),
        body=read("x", "i"),
        guard=(at_least(dim("i"), 2),),
    )
    assert evaluate(y, x=x) == 2


def test_rnn_as_a_loop() -> None:
    x, w, h0 = f32(6, 3), f32(3, 3), f32(3)
    mixed = statement(
        "mixed",
        dims=dims(i=3),
        reduction=Reduction(kind="sum", dims=dims(k=3)),
        body=mul(read("w", "i", "k"), read("h", "k")),
    )
    step = statement(
        "step", dims=dims(i=3), body=Apply("tanh", (Apply("add", (read("mixed", "i"), read("x", "t", "i"))),))
    )
    loop = Loop(
        index=Dim(name="t", extent=6),
        carried=(Carried(name="h", initial="h0", next="step", final="last"),),
        collected=(Collected(name="all", inner="step"),),
        body=(mixed, step),
    )
    last, every = evaluate((loop,), x=x, w=w, h0=h0)
    h, states = h0, []
    for t in range(6):
        h = np.tanh(w @ h + x[t])
        states.append(h)
    np.testing.assert_allclose(last, h, rtol=1e-4)
    np.testing.assert_allclose(every, np.stack(states), rtol=1e-4)


def test_branch_runs_one_side() -> None:
    x = f32(3)
    for flag in (True, False):
        side = [statement(n, dims=dims(i=3), body=mul(read("x", "i"), Literal(v))) for n, v in (("a", 2.0), ("b", 3.0))]
        branch = Branch(
            condition="c", then=(side[0],), otherwise=(side[1],), results=(Merged(name="y", then="a", otherwise="b"),)
        )
        np.testing.assert_allclose(evaluate((branch,), x=x, c=np.array(flag)), x * (2 if flag else 3), rtol=1e-6)


def call(op, operands, results, **attributes):
    named = tuple(Result(name=n, dtype=d, shape=s) for n, d, s in results)
    return Call(op=op, operands=operands, results=named, attributes=tuple(attributes.items()))


def test_gather_take_and_index() -> None:
    x, idx = f32(4, 5), np.array([[0, 2], [1, 1], [3, 0], [2, 2]])
    got = evaluate(call("gather", ("x", "idx"), [("y", "f32", (4, 2))], axis=1), x=x, idx=idx)
    np.testing.assert_array_equal(got, np.take_along_axis(x, idx, 1))
    got = evaluate(call("take", ("x", "idx"), [("y", "f32", (4, 2, 5))], axis=0), x=x, idx=idx)
    np.testing.assert_array_equal(got, x[idx])
    rows, columns = np.array([1, 2, 0]), np.array([4, 0, 1])
    got = evaluate(
        call("index", ("x", "r", "c"), [("y", "f32", (3,))], axes=(0, 1), position=0), x=x, r=rows, c=columns
    )
    np.testing.assert_array_equal(got, x[rows, columns])
    z = f32(2, 3, 4)
    got = evaluate(call("index", ("z", "r"), [("y", "f32", (2, 3, 4))], axes=(1,), position=1), z=z, r=rows)
    np.testing.assert_array_equal(got, z[:, rows])


def test_scatter() -> None:
    x, idx, src = f32(4, 3), np.array([[0, 2, 2]]), f32(1, 3)
    expected = x.copy()
    for j in range(3):
        expected[idx[0, j], j] += src[0, j]
    got = evaluate(
        call("scatter", ("x", "idx", "s"), [("y", "f32", (4, 3))], axis=0, reduce="add"), x=x, idx=idx, s=src
    )
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    rows = np.array([1, 1])
    src = f32(2, 3)
    expected = x.copy()
    np.add.at(expected, rows, src)
    got = evaluate(call("index_add", ("x", "r", "s"), [("y", "f32", (4, 3))], axis=0, reduce="add"), x=x, r=rows, s=src)
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    got = evaluate(
        call("index_put", ("x", "r", "v"), [("y", "f32", (4, 3))], axes=(0,), accumulate=False),
        x=x,
        r=np.array([2, 0]),
        v=src,
    )
    expected = x.copy()
    expected[[2, 0]] = src
    np.testing.assert_array_equal(got, expected)


def test_sort_and_topk_are_stable() -> None:
    x = np.array([3, 1, 3, 2], np.float32)
    values, order = evaluate(
        call("sort", ("x",), [("v", "f32", (4,)), ("i", "i64", (4,))], axis=0, descending=True), x=x
    )
    np.testing.assert_array_equal(order, [0, 2, 3, 1])
    np.testing.assert_array_equal(values, x[order])
    values, order = evaluate(call("topk", ("x",), [("v", "f32", (2,)), ("i", "i64", (2,))], k=2, axis=0), x=x)
    np.testing.assert_array_equal(order, [0, 2])


def test_problems_are_named() -> None:
    x = f32(3)
    with pytest.raises(NotExecutable, match=r"aten\.mystery"):
        evaluate(call("opaque", ("x",), [("y", "f32", (3,))], operator="aten.mystery"), x=x)
    with pytest.raises(OutOfBounds, match="x axis 0 read at 3"):
        evaluate(statement(dims=dims(i=3), body=Read("x", (dim("i") + 1,))), x=x)
    program = Program(name="p", declarations=declare({"x": x}), nodes=(), outputs=("x",))
    with pytest.raises(MissingInput, match="x: input without a value"):
        reference.run(program, {})
    big = statement(dims=dims(i=10**6, j=10**6), body=Literal(1.0))
    with pytest.raises(TooLarge, match="1000000000000 points"):
        evaluate(big)


def test_setup_gives_values_to_declarations() -> None:
    table = statement("table", dims=dims(i=4), body=IndexValue(dim("i")))
    known = Declaration(name="pos", dtype="f32", shape=(4,), role="buffer", defined_by="table")
    y = statement(dims=dims(i=4), body=mul(read("pos", "i"), Literal(2.0)))
    program = Program(name="p", declarations=(known,), setup=(table,), nodes=(y,), outputs=("y",))
    np.testing.assert_array_equal(reference.run(program, {})["y"], [0, 2, 4, 6])
    np.testing.assert_array_equal(reference.run(program, {"pos": np.ones(4)})["y"], np.full(4, 2.0))


def test_division_floors_and_fmod_truncates() -> None:
    x = np.array([-7, 7, -6])
    for op, expected in (("floordiv", [-3, 2, -2]), ("mod", [2, 1, 0]), ("fmod", [-1, 1, 0])):
        y = statement(dtype="i64", dims=dims(i=3), body=Apply(op, (read("x", "i"), Literal(3))))
        np.testing.assert_array_equal(evaluate(y, x=x), expected)


def test_zero_extents() -> None:
    x = np.zeros((0, 3), np.float32)
    y = statement(dims=dims(j=3), reduction=Reduction(kind="sum", dims=dims(i=0)), body=read("x", "i", "j"))
    np.testing.assert_array_equal(evaluate(y, x=x), np.zeros(3))
    y = statement(dims=dims(i=0, j=3), body=read("x", "i", "j"))
    assert evaluate(y, x=x).shape == (0, 3)
    y = statement(dims=dims(j=3), reduction=Reduction(kind="max", dims=dims(i=0)), body=read("x", "i", "j"))
    np.testing.assert_array_equal(evaluate(y, x=x), np.full(3, -np.inf))
