"""Scaled dot-product attention against torch, in every variant."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.test_b_calling import check_rule
from tests.lower.test_b_counting import macs
from tests.lower.tracing import check

pytestmark = pytest.mark.torch
FN = "fn.scaled_dot_product_attention"


def qkv(batch=(2, 3), rows=4, keys=5, width=6, value_width=7, dtype=torch.float32):
    return (torch.randn(*batch, n, w).to(dtype) for n, w in ((rows, width), (keys, width), (keys, value_width)))


@given(
    st.sampled_from([(), (2,), (2, 3), (2, 1, 3)]),
    st.integers(1, 6), st.integers(1, 6), st.integers(1, 5), st.integers(1, 5),
    st.sampled_from([None, 0.3, 1.0]), st.sampled_from(["none", "causal", "bool", "additive", "row"]),
    st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_attention_equals_torch(batch, rows, keys, width, value_width, scale, masking, dtype):
    q, k, v = qkv(batch, rows, keys, width, value_width, dtype)
    mask = {
        "bool": torch.rand(rows, keys) > 0.4,
        "row": torch.rand(*batch[:-1], *([1] if batch else []), 1, keys) > 0.4,
        "additive": torch.randn(rows, keys).to(dtype),
    }.get(masking)
    expected = F.scaled_dot_product_attention(q, k, v, mask, is_causal=masking == "causal", scale=scale)
    tolerance = 6e-2 if dtype == torch.bfloat16 else None
    emitted = check_rule(FN, (q, k, v, mask, 0.0, masking == "causal"), expected, scale=scale, tolerance=tolerance)
    assert macs(emitted.nodes) == torch.Size(batch).numel() * rows * keys * (width + value_width)


def test_the_function_takes_its_scale_by_position():
    q, k, v = qkv()
    expected = F.scaled_dot_product_attention(q, k, v, scale=0.2)
    check_rule(FN, (q, k, v, None, 0.0, False, 0.2, False), expected)


def test_grouped_queries_share_keys():
    q, k, v = torch.randn(2, 6, 4, 5), torch.randn(2, 2, 3, 5), torch.randn(2, 2, 3, 5)
    expected = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    emitted = check_rule(FN, (q, k, v), expected, enable_gqa=True)
    assert macs(emitted.nodes) == 2 * 2 * 6 * 4 * 3 * 5


def test_batch_dims_broadcast():
    q, k, v = torch.randn(2, 3, 4, 5), torch.randn(1, 3, 6, 5), torch.randn(6, 5)
    expected = F.scaled_dot_product_attention(q, k, v.expand(2, 3, 6, 5))
    check_rule(FN, (q, k, v), expected)


@pytest.mark.parametrize("causal", [False, True])
def test_the_cpu_back_end_gives_its_logarithms(causal):
    q, k, v = qkv(rows=5, value_width=6)
    args = (q, k, v, 0.0, causal)
    expected = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*args)
    check_rule("aten._scaled_dot_product_flash_attention_for_cpu.default", args, expected)


def test_the_math_back_end_gives_its_probabilities():
    q, k, v = qkv()
    expected = torch.ops.aten._scaled_dot_product_attention_math(q, k, v)
    check_rule("aten._scaled_dot_product_attention_math.default", (q, k, v), expected)


def test_a_trace_of_attention_equals_torch():
    q, k, v = qkv(value_width=6)
    check(F.scaled_dot_product_attention, q, k, v)
    check(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), q, k, v, torch.randn(4, 5))


def test_dropout_keeps_the_expected_value():
    q, k = torch.randn(1, 1, 4), torch.zeros(1, 400, 4)
    emitted = check_rule(FN, (q, k, torch.ones(1, 400, 2), None, 0.25), torch.ones(1, 1, 2), tolerance=0.2)
    assert macs(emitted.nodes) == 400 * (4 + 2)


def test_the_scale_goes_to_the_smallest_tensor():
    sizes = {}
    for name, (rows, keys, width) in {"q": (2, 9, 4), "k": (9, 2, 4), "s": (3, 3, 8)}.items():
        q, k, v = qkv((), rows, keys, width, width)
        emitted = check_rule(FN, (q, k, v), F.scaled_dot_product_attention(q, k, v))
        (sizes[name],) = (s.shape for s in emitted.statements if s.name.startswith("scaled"))
    assert sizes == {"q": (2, 4), "k": (2, 4), "s": (3, 3)}
