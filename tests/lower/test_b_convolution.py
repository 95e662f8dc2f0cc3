"""Convolutions in every dimension with every option: values against torch, counts against the definition."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.lower.test_b_calling import check_rule
from tests.lower.test_b_counting import convolution_macs, macs
from tests.lower.tracing import check

pytestmark = pytest.mark.torch


@st.composite
def geometries(draw, transposed: bool):
    rank = draw(st.integers(1, 3))
    top = 6 if rank < 3 else 4
    axes = []
    for _ in range(rank):
        size, kernel = draw(st.integers(1, top)), draw(st.integers(1, 3))
        stride, padding, dilation = draw(st.integers(1, 3)), draw(st.integers(0, 2)), draw(st.integers(1, 2))
        extra = draw(st.integers(0, max(stride, dilation) - 1)) if transposed else 0
        if transposed:
            out = (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1
        else:
            out = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        assume(out >= 1)
        axes.append((size, out, kernel, stride, padding, dilation, extra))
    groups = draw(st.integers(1, 3))
    channels, out_channels = groups * draw(st.integers(1, 2)), groups * draw(st.integers(1, 2))
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    return axes, groups, channels, out_channels, draw(st.integers(1, 2)), dtype, draw(st.booleans())


@pytest.mark.parametrize("transposed", [False, True])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_convolution_equals_torch_and_counts_the_taps_inside(transposed, data):
    axes, groups, channels, out_channels, batch, dtype, has_bias = data.draw(geometries(transposed))
    x = torch.randn(batch, channels, *(a[0] for a in axes), dtype=dtype)
    first, second = (channels, out_channels) if transposed else (out_channels, channels)
    w = torch.randn(first, second // groups, *(a[2] for a in axes), dtype=dtype)
    bias = torch.randn(out_channels, dtype=dtype) if has_bias else None
    columns = [[a[k] for a in axes] for k in range(7)]
    args = (x, w, bias, columns[3], columns[4], columns[5], transposed, columns[6], groups)
    emitted = check_rule("aten.convolution.default", args, torch.ops.aten.convolution(*args), tolerance=1e-4)
    assert macs(emitted.nodes) == convolution_macs(
        batch, channels, out_channels, groups, [a[:6] for a in axes], transposed
    )
    assert len(emitted.statements) == 1 + has_bias
    assert emitted.statements[0].shape == (batch, out_channels, *columns[1])


def test_a_guard_stands_only_on_axes_that_can_leave_the_input():
    x, w = torch.randn(1, 2, 6, 6), torch.randn(3, 2, 3, 3)
    args = (x, w, None, [1, 1], [0, 1], [1, 1], False, [0, 0], 1)
    guard = check_rule("aten.convolution.default", args, torch.ops.aten.convolution(*args)).statements[0].guard
    assert len(guard) == 2
    assert all("h" not in c.expr.names for c in guard)


def test_a_pointwise_convolution_reduces_only_channels():
    x, w = torch.randn(1, 4, 3, 3), torch.randn(5, 4, 1, 1)
    args = (x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    (statement,) = check_rule("aten.convolution.default", args, torch.ops.aten.convolution(*args)).statements
    assert statement.reduction is not None
    assert [d.name for d in statement.reduction.dims] == ["c"]


def test_a_depthwise_convolution_reads_its_own_channel():
    x, w = torch.randn(1, 4, 5), torch.randn(8, 1, 3)
    args = (x, w, None, [1], [1], [1], False, [0], 4)
    emitted = check_rule("aten.convolution.default", args, torch.ops.aten.convolution(*args))
    assert macs(emitted.nodes) == 8 * (5 * 3 - 2)


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (lambda x, w: torch.nn.functional.conv2d(x, w, padding="same"), [(2, 3, 6, 6), (4, 3, 4, 2)]),
        (lambda x, w: torch.nn.functional.conv2d(x, w), [(3, 6, 6), (4, 3, 3, 3)]),
        (lambda x, w: torch.nn.functional.conv_transpose2d(x, w, stride=2, padding=1), [(3, 4, 4), (3, 2, 3, 3)]),
        (lambda x, w, b: torch.conv_tbc(x, w, b, 1), [(5, 2, 3), (3, 3, 4), (4,)]),
        (lambda x, w: torch.nn.functional.conv1d(x, w), [(0, 3, 6), (4, 3, 3)]),
    ],
)
def test_functional_convolutions_equal_torch(f, shapes):
    check(f, *(torch.randn(s) for s in shapes))


def test_string_padding_is_understood():
    x, w = torch.randn(1, 2, 7), torch.randn(3, 2, 4)
    for padding in ("same", "valid"):
        check_rule("aten.conv1d.padding", (x, w, None, [1], padding), torch.nn.functional.conv1d(x, w, padding=padding))


def test_bfloat16_accumulates_wide():
    x, w = torch.randn(1, 16, 5, 5).bfloat16(), torch.randn(4, 16, 3, 3).bfloat16()
    args = (x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    check_rule("aten.convolution.default", args, torch.ops.aten.convolution(*args), tolerance=5e-2)
