"""Pooling: values against torch, taps against a brute-force count."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from sollens.analysis.ir.nodes import Statement
from tests.lower.test_b_counting import live_points
from tests.lower.tracing import check

pytestmark = pytest.mark.torch


@st.composite
def windows(draw, dilated: bool):
    rank = draw(st.integers(1, 3))
    axes = []
    for _ in range(rank):
        kernel = draw(st.integers(1, 3))
        dilation = draw(st.integers(1, 2)) if dilated else 1
        size = draw(st.integers(dilation * (kernel - 1) + 1, 6 if rank < 3 else 5))
        axes.append((size, kernel, draw(st.integers(1, 3)), draw(st.integers(0, kernel // 2)), dilation))
    lead = [2, 3][: draw(st.integers(1, 2))]
    return rank, axes, lead, draw(st.booleans())


def _taps(axes, outs):
    count = 1
    for (size, kernel, stride, padding, dilation), out in zip(axes, outs, strict=True):
        count *= sum(0 <= o * stride + k * dilation - padding < size for o in range(out) for k in range(kernel))
    return count


@given(windows(True))
@settings(max_examples=60, deadline=None)
def test_max_pool_equals_torch_and_folds_the_taps_inside(window):
    rank, axes, lead, ceil = window
    x = torch.randn(*lead, *(a[0] for a in axes))
    pool = getattr(F, f"max_pool{rank}d")
    _, kernel, stride, padding, dilation = ([a[k] for a in axes] for k in range(5))
    arguments = {"stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil}
    lowered = check(lambda x: pool(x, kernel, return_indices=True, **arguments), x)
    outs = pool(x, kernel, **arguments).shape[len(lead) :]
    statement = next(
        n for n in lowered.program.nodes if isinstance(n, Statement) and n.reduction and n.reduction.kind == "max"
    )
    lead_size = torch.Size(lead).numel()
    assert live_points(statement) == lead_size * _taps(axes, outs)


@given(windows(False), st.booleans(), st.sampled_from([None, 1, 5]))
@settings(max_examples=60, deadline=None)
def test_avg_pool_equals_torch(window, include_pad, override):
    rank, axes, lead, ceil = window
    x = torch.randn(*lead, *(a[0] for a in axes), dtype=torch.float64)
    _, kernel, stride, padding, _ = ([a[k] for a in axes] for k in range(5))
    more = {} if rank == 1 else {"divisor_override": override}
    pool = getattr(F, f"avg_pool{rank}d")
    check(lambda x: pool(x, kernel, stride, padding, ceil, include_pad, **more), x)


@given(st.integers(1, 3), st.data())
@settings(max_examples=60, deadline=None)
def test_adaptive_pools_equal_torch(rank, data):
    size = [data.draw(st.integers(1, 7 if rank < 3 else 5)) for _ in range(rank)]
    out = [data.draw(st.integers(1, 5)) for _ in range(rank)]
    x = torch.randn(2, 3, *size)
    check(lambda x: getattr(F, f"adaptive_avg_pool{rank}d")(x, out), x)
    check(lambda x: getattr(F, f"adaptive_max_pool{rank}d")(x, out, return_indices=True), x)


def test_bfloat16_pools_equal_torch():
    x = torch.randn(2, 3, 8, 8).bfloat16()
    check(lambda x: F.avg_pool2d(x, 3, 2, 1), x)
    check(lambda x: F.max_pool2d(x, 3, 2, 1), x)


def test_power_pools_equal_torch():
    check(lambda x: F.lp_pool2d(x, 2, 2), torch.rand(2, 3, 6, 6))
    check(lambda x: F.lp_pool1d(x, 3, 2), torch.rand(2, 3, 6))


def test_an_empty_batch_pools_to_nothing():
    check(lambda x: F.avg_pool2d(x, 2), torch.randn(0, 3, 4, 4))
    check(lambda x: F.max_pool2d(x, 2), torch.randn(0, 3, 4, 4))
