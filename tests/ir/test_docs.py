"""docs/ir.md is true: its examples parse, verify and run, its tables name every operation and code."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from sollens.analysis.execute import reference
from sollens.analysis.execute.storage import store
from sollens.analysis.ir.calls import CALLS
from sollens.analysis.ir.nodes import Program
from sollens.analysis.ir.scalars import SCALAR_OPS
from sollens.analysis.ir.text_parse import parse
from sollens.analysis.ir.text_print import to_text
from sollens.analysis.ir.verify import verify
from sollens.analysis.trace.schema import DTYPE_BITS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "ir.md").read_text(encoding="utf-8")
EXAMPLES = {m.group(1).split("(")[0].split()[1]: m.group(1) for m in re.finditer(r"```ir\n(.*?)```", PAGE, re.DOTALL)}


def example(name: str) -> Program:
    program, problems = parse(EXAMPLES[name])
    assert program is not None, "\n".join(p.message for p in problems)
    return program


def inputs(program: Program) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(3)
    values = {}
    for d in program.declarations:
        if d.defined_by is None:
            is_float = d.dtype.startswith(("f", "bf"))
            raw = generator.standard_normal(d.shape) if is_float else generator.integers(0, 3, d.shape)
            values[d.name] = store(np.asarray(raw), d.dtype)
    return values


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_parse_verify_and_run(name: str) -> None:
    program = example(name)
    assert [p.message for p in verify(program)] == []
    assert parse(to_text(program))[0] == program
    outputs = reference.run(program, inputs(program))
    assert all(np.isfinite(v).all() for v in outputs.values())


def test_attention_is_causal_attention() -> None:
    program = example("attention")
    given = inputs(program)
    q, k, v = (given[n].astype(np.float64) for n in "qkv")
    scores = q @ k.swapaxes(-1, -2) / 2
    scores = np.where(np.tril(np.ones((5, 5), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(reference.run(program, given)["o"], expected, rtol=1e-4, atol=1e-6)


def test_movement_is_what_numpy_does() -> None:
    program = example("movement")
    given = inputs(program)
    x, y = given["x"], given["y"]
    got = reference.run(program, given)
    np.testing.assert_array_equal(got["transposed"], x.T)
    np.testing.assert_array_equal(got["flat"], x.ravel())
    np.testing.assert_array_equal(got["split"], x.reshape(4, 2, 3))
    np.testing.assert_array_equal(got["slice"], x[:, 1::2])
    np.testing.assert_array_equal(got["flipped"], x[::-1])
    np.testing.assert_array_equal(got["both"], np.concatenate([x, y]))
    np.testing.assert_array_equal(got["padded"], np.pad(x, ((0, 0), (1, 1))))
    np.testing.assert_array_equal(got["shifted"], np.roll(x, 1, axis=1))


def test_convolution_is_a_strided_convolution() -> None:
    program = example("conv")
    given = inputs(program)
    x = np.pad(given["x"], ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    expected = np.einsum("ncijrs,kcrs->nkij", windows, given["w"]) + given["bias"][:, None, None]
    np.testing.assert_allclose(reference.run(program, given)["y"], np.maximum(expected, 0), rtol=1e-4, atol=1e-5)


def test_routing_and_statistics() -> None:
    program = example("routing")
    given = inputs(program)
    got = reference.run(program, given)
    expert = given["scores"].argmax(1)
    pooled = np.zeros((3, 4))
    np.add.at(pooled, expert, given["table"][given["ids"]] * given["scores"].max(1, keepdims=True))
    np.testing.assert_allclose(got["pooled"], pooled, rtol=1e-5, atol=1e-6)
    program = example("statistics")
    given = inputs(program)
    got = reference.run(program, given)
    x = given["x"].astype(np.float64)
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(got["norm"], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(got["onehot"], np.eye(8)[x.argmax(1)])
    assert got["hits"] == (x > 0).sum()


def test_the_same_text_runs_at_another_size() -> None:
    program, _ = parse(EXAMPLES["attention"], bind={"T": 9, "B": 1})
    assert program is not None
    assert reference.run(program, inputs(program))["o"].shape == (1, 3, 9, 4)


def test_the_page_names_every_operation_dtype_and_call() -> None:
    words = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", PAGE))
    assert set(SCALAR_OPS) <= words
    assert set(DTYPE_BITS) <= words
    for call in CALLS.values():
        assert f"`{call.name}(" in PAGE
        assert set(call.attributes) <= words


def test_the_page_lists_every_problem_code() -> None:
    source = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "analysis" / "ir").glob("*.py"))
    codes = set(re.findall(r"""(?:Failure|_Wrong|self\.fail)\(\s*"([a-z-]+)\"""", source))
    codes |= set(re.findall(r"""(?:code=|yield )"([a-z-]+)\"""", source))
    listed = set(re.findall(r"`([a-z-]+)`", PAGE.split("## Problems")[1]))
    assert codes <= listed
