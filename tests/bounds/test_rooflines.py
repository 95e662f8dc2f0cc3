"""Rooflines: rows, limits, free work, the order of the bounds, and what a wanted latency asks for."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from sollens.analysis.bounds.assess import Unfused
from sollens.analysis.bounds.inverse import inverse
from sollens.analysis.bounds.precision import POLICIES, pipe_policy
from sollens.analysis.bounds.roofline import roofline
from sollens.analysis.einsum.lift import lift
from sollens.analysis.einsum.scopes import Scope, Scopes
from sollens.analysis.ir.text_print import to_text
from sollens.hardware import catalog
from tests.einsum.programs import programs
from tests.einsum.sampling import examples
from tests.einsum.test_loops import loops, program

TARGETS = catalog.load_all()
H100 = next(t for t in TARGETS if "h100" in t.id)

MATMUL = """program product()
  input x: {dtype}[64, 32]
  parameter w: {dtype}[32, 16]
  y[i:64, j:16]: {dtype} = sum[k:32] x[i, k] * w[k, j] @ op=0 {operator}
  output y
"""


def pipe_of(dtype: str, operator: str, policy: str = "as-written", **settings: object) -> str:
    graph = lift(program(MATMUL.format(dtype=dtype, operator=operator)))
    (name,) = Scopes(graph, pipe_policy(policy, settings)).whole().macs
    return name


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.id)
def test_each_row_is_its_amount_over_its_peak(target):
    scope = Scope(macs={"bfloat16": 10**12}, vector_ops={"f32": 10**10}, read_bytes=10**9, written_bytes=10**8)
    line = roofline(scope, target)
    rows = {r.name: r for r in line.rows}
    assert rows["matmul:bfloat16"].amount == 2e12
    assert rows["matmul:bfloat16"].time_s == pytest.approx(2e12 / target.matmul_peak("bfloat16"))
    assert rows["vector"].time_s == pytest.approx(1e10 / target.vector_peak("float32"))
    assert rows["memory"].time_s == pytest.approx(1.1e9 / target.bandwidth_bytes_per_s.value)
    assert line.time_s == max(r.time_s for r in line.rows)
    assert line.limit == max(line.rows, key=lambda r: r.time_s).name


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.id)
def test_no_work_and_no_bytes_is_free(target):
    line = roofline(Scope(), target)
    assert (line.time_s, line.limit, line.rows, line.compute_s) == (0.0, "free", (), 0.0)


def test_a_copy_has_no_work_and_a_view_is_free():
    copied = Scopes(lift(program("program c()\n  input x: f32[8]\n  y[i:8]: f32 = x[i]\n  output y\n")), lambda e: "x")
    assert roofline(copied.whole(), H100).limit == "memory"
    assert copied.whole().bytes == 64
    text = "program v()\n  input x: f32[8]\n  y[i:8]: f32 = x[7 - i] @ op=0 aten.flip view\n  output y\n"
    viewed = Scopes(lift(program(text)), lambda e: "x")
    assert roofline(viewed.whole(), H100).limit == "free"


def test_the_vector_row_is_priced_at_the_fastest_dtype_used():
    mixed = roofline(Scope(vector_ops={"f64": 10**9, "f32": 10**9}), H100)
    assert mixed.time_s <= 2e9 / H100.vector_peak("float32")


@pytest.mark.parametrize(
    ("dtype", "operator", "settings", "pipe"),
    [
        ("f32", "aten.mm.default", {}, "float32"),
        ("f32", "aten.convolution.default", {}, "tf32"),
        ("f32", "aten.conv2d.default", {}, "tf32"),
        ("f32", "aten.lstm.input", {}, "tf32"),
        ("f32", "aten.convolution.default", {"cudnn_allow_tf32": False}, "float32"),
        ("f32", "aten.mm.default", {"float32_matmul_precision": "high"}, "tf32"),
        ("f32", "aten.mm.default", {"float32_matmul_precision": "medium"}, "bfloat16"),
        ("f32", "aten.mm.default", {"cuda_matmul_allow_tf32": True}, "tf32"),
        ("bf16", "aten.mm.default", {}, "bfloat16"),
        ("f16", "aten.mm.default", {}, "float16"),
        ("f64", "aten.mm.default", {}, "float64"),
        ("i8", "aten.mm.default", {}, "int8"),
    ],
)
def test_the_pipe_is_what_the_framework_may_use(dtype, operator, settings, pipe):
    assert pipe_of(dtype, operator, **settings) == pipe


def test_a_policy_changes_only_float32():
    assert pipe_of("f32", "aten.mm.default", "tf32") == "tf32"
    assert pipe_of("f32", "aten.mm.default", "16bit") == "bfloat16"
    for policy in POLICIES:
        assert pipe_of("f64", "aten.mm.default", policy) == "float64"
        assert pipe_of("f16", "aten.mm.default", policy) == "float16"
    with pytest.raises(ValueError, match="expected one of"):
        pipe_policy("fast", {})


def test_float32_copies_of_16_bit_operands_may_use_the_16_bit_pipe():
    text = """program upcast()
  input x: bf16[64, 32]
  parameter w: bf16[32, 16]
  a[i:64, k:32]: f32 = cast<f32>(x[i, k])
  b[k:32, j:16]: f32 = cast<f32>(w[k, j])
  y[i:64, j:16]: f32 = sum[k:32] a[i, k] * b[k, j] @ op=2 aten.mm.default
  output y
"""
    assert set(Scopes(lift(program(text)), pipe_policy("as-written", {})).whole().macs) == {"bfloat16"}


@examples(40)
@given(st.one_of(programs(), loops()), st.sampled_from(TARGETS))
def test_fused_is_never_slower_than_unfused(example, target):
    note(to_text(example))
    scopes = Scopes(lift(example), pipe_policy("as-written", {}))
    everything = range(len(scopes.graph.einsums))
    seconds, moved = Unfused(scopes, target).of(everything)
    fused = roofline(scopes.whole(), target)
    assert fused.time_s <= seconds * (1 + 1e-12)
    assert scopes.whole().bytes <= moved


@given(
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.sampled_from(TARGETS),
    st.floats(1e-9, 1e3),
)
@examples(60)
def test_a_wanted_latency_asks_for_rates_that_give_it(macs, ops, moved, target, seconds):
    scope = Scope(macs={"float16": macs} if macs else {}, vector_ops={"f32": ops} if ops else {}, read_bytes=moved)
    wanted = inverse(scope, {"compulsory": moved}, target, seconds)
    for row in wanted.rows:
        assert row.ratio == pytest.approx(row.needed_per_s / row.available_per_s)
    line = roofline(scope, target)
    worst = max((r.ratio for r in wanted.rows), default=0.0)
    assert worst * seconds == pytest.approx(line.time_s, rel=1e-9)
    assert (target.id in wanted.meets) == (line.time_s <= seconds)
    assert wanted.reachable == bool(wanted.meets)


def test_a_latency_that_nothing_reaches_says_so():
    wanted = inverse(Scope(read_bytes=10**15), {"compulsory": 10**15}, H100, 1e-9)
    assert wanted.meets == []
    assert not wanted.reachable


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.inf, math.nan])
def test_a_latency_is_positive_and_finite(seconds):
    with pytest.raises(ValueError, match="target latency"):
        inverse(Scope(), {}, H100, seconds)
