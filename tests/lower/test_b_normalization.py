"""Normalizations and softmax against torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from sollens.analysis.ir.nodes import Apply, Expr, Select
from tests.lower.test_b_calling import check_rule
from tests.lower.tracing import check

pytestmark = pytest.mark.torch
dtypes = st.sampled_from([torch.float32, torch.float64, torch.bfloat16])
shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def operations(expr: Expr) -> int:
    """Scalar operations of a body."""
    match expr:
        case Apply():
            return 1 + sum(map(operations, expr.args))
        case Select():
            return operations(expr.then) + operations(expr.otherwise)
    return 0


@given(shapes, st.integers(1, 3), dtypes, st.booleans(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_layer_norm_equals_torch(shape, inner, dtype, has_weight, has_bias):
    inner = min(inner, len(shape))
    normalized = shape[len(shape) - inner :]
    x = torch.randn(shape).to(dtype)
    w = torch.randn(normalized).to(dtype) if has_weight else None
    c = torch.randn(normalized).to(dtype) if has_bias else None
    args = (x, normalized, w, c, 1e-5)
    expected = torch.ops.aten.native_layer_norm(*args)
    tolerance = None if dtype != torch.bfloat16 else 6e-2
    check_rule("aten.native_layer_norm.default", args, expected, tolerance=tolerance or 1e-4)


@pytest.mark.parametrize("eps", [None, 1e-3])
def test_rms_norm_equals_torch(eps):
    x, w = torch.randn(2, 3, 8), torch.randn(8)
    check(lambda x, w: F.rms_norm(x, (8,), w, eps), x, w)
    check_rule(
        "aten._fused_rms_norm.default", (x, [8], w, eps), [F.rms_norm(x, (8,), w, eps), torch.zeros(2, 3, 1)][:1]
    )


@given(st.integers(1, 3), st.sampled_from([(), (3,), (2, 3)]), st.booleans(), st.booleans(), dtypes)
@settings(max_examples=30, deadline=None)
def test_batch_norm_equals_torch(batch, spatial, training, affine, dtype):
    x = torch.randn(batch + 1, 3, *spatial).to(dtype)
    mean, variance = torch.randn(3).to(dtype), torch.rand(3).to(dtype) + 0.5
    w, c = (torch.randn(3).to(dtype), torch.randn(3).to(dtype)) if affine else (None, None)
    args = (x, w, c, mean, variance, training, 0.1, 1e-5)
    tolerance = 8e-2 if dtype == torch.bfloat16 else 2e-4
    expected = torch.ops.aten.native_batch_norm(*(a.clone() if isinstance(a, torch.Tensor) else a for a in args))
    check_rule("aten.native_batch_norm.default", args, expected, tolerance=tolerance)
    if not training:
        legit = torch.ops.aten._native_batch_norm_legit_no_training(x, w, c, mean, variance, 0.1, 1e-5)
        inference = (x, w, c, mean, variance, 0.1, 1e-5)
        check_rule("aten._native_batch_norm_legit_no_training.default", inference, legit, tolerance=tolerance)


def test_batch_norm_without_running_statistics():
    x = torch.randn(4, 3, 5)
    check(lambda x: F.batch_norm(x, None, None, training=True), x, tolerance=1e-4)
    args = (x, None, None, True, 0.1, 1e-5)
    expected = torch.ops.aten._native_batch_norm_legit.no_stats(*args)
    check_rule("aten._native_batch_norm_legit.no_stats", args, expected, tolerance=1e-4)


@pytest.mark.parametrize("training", [True, False])
def test_running_statistics_are_updated_where_the_trace_has_them(training):
    x, w, c = torch.randn(4, 3, 5), torch.randn(3), torch.randn(3)
    args = (x, w, c, torch.randn(3), torch.rand(3) + 0.5, training, 0.3, 1e-5)
    expected = torch.ops.aten._native_batch_norm_legit_functional(*args)
    check_rule("aten._native_batch_norm_legit_functional.default", args, expected, tolerance=1e-4)
    mean, variance = torch.zeros(3), torch.ones(3)
    check(
        lambda x: torch.ops.aten._native_batch_norm_legit(x, w, c, mean, variance, training, 0.3, 1e-5),
        x,
        tolerance=1e-4,
    )


def test_inference_batch_norm_is_two_operations_an_element():
    x, v = torch.randn(2, 3, 4, 4), torch.rand(3) + 0.5
    args = (x, v, v, v, v, False, 0.1, 1e-5)
    emitted = check_rule(
        "aten.native_batch_norm.default", args, torch.ops.aten.native_batch_norm(*args), tolerance=1e-4
    )
    full = [s for s in emitted.statements if s.shape == (2, 3, 4, 4)]
    assert [operations(s.body) for s in full] == [2]


@given(st.integers(1, 2), st.integers(1, 3), st.integers(1, 2), st.sampled_from([(), (3,), (2, 3)]), st.booleans())
@settings(max_examples=30, deadline=None)
def test_group_norm_equals_torch(batch, groups, size, spatial, affine):
    x = torch.randn(batch, groups * size, *spatial)
    w, c = (torch.randn(groups * size), torch.randn(groups * size)) if affine else (None, None)
    count = x[0, 0].numel()
    args = (x, w, c, batch, groups * size, count, groups, 1e-5)
    check_rule("aten.native_group_norm.default", args, torch.ops.aten.native_group_norm(*args), tolerance=1e-3)


def test_instance_and_local_response_norm_equal_torch():
    x, w = torch.randn(2, 3, 4, 5), torch.randn(3)
    check(lambda x, w: F.instance_norm(x, weight=w, bias=w), x, w, tolerance=1e-4)
    check(lambda x: F.local_response_norm(x, 2), x)
    check(lambda x: F.normalize(x, dim=1), x)


@pytest.mark.parametrize("p", [1, 2, 3.0, float("inf")])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_renorm_equals_torch(p, axis):
    check(lambda x: torch.renorm(x, p, axis, 1.0), torch.randn(3, 4, 2))


def test_weight_norm_equals_torch():
    check(lambda v, g: torch._weight_norm(v, g, 0), torch.randn(3, 4, 2), torch.randn(3, 1, 1))
    check(lambda v, g: torch._weight_norm(v, g, 2), torch.randn(3, 4, 2), torch.randn(1, 1, 2))


@given(shapes, st.integers(-4, 3), dtypes)
@settings(max_examples=40, deadline=None)
def test_softmax_equals_torch(shape, axis, dtype):
    axis = max(-len(shape), min(axis, len(shape) - 1))
    x = (torch.randn(shape) * 5).to(dtype)
    check(lambda x: torch.softmax(x, axis), x)
    check(lambda x: torch.log_softmax(x, axis), x)
    check(lambda x: F.softmin(x, axis), x)


def test_softmax_of_a_scalar_an_empty_tensor_and_another_dtype():
    check(lambda x: torch.softmax(x, 0), torch.tensor(3.0))
    check(lambda x: torch.softmax(x, 1), torch.randn(0, 3))
    check(lambda x: torch.softmax(x, 0, dtype=torch.float64), torch.randn(3))


def test_safe_softmax_gives_zeros_for_a_masked_row():
    x = torch.randn(3, 4)
    x[1] = float("-inf")
    check_rule("aten._safe_softmax.default", (x, -1), torch.ops.aten._safe_softmax(x, -1))
