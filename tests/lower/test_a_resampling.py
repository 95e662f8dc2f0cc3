"""Interpolation against torch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tracing import check

F = torch.nn.functional


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["nearest", "nearest-exact", "bilinear", "bicubic"]), st.tuples(st.integers(1, 6), st.integers(1,
    6)),
    st.tuples(st.integers(1, 9), st.integers(1, 9)), st.booleans(),
)  # fmt: skip
def test_sizes(mode, source, target, aligned):
    kwargs = {"align_corners": aligned} if mode in ("bilinear", "bicubic") else {}
    check(lambda v: F.interpolate(v, size=target, mode=mode, **kwargs), torch.randn(1, 2, *source), tolerance=1e-4)


@pytest.mark.parametrize("factor", [2.0, 1.5, 0.5, 3.0, 0.3, 1.234])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_factors(mode, factor):
    check(lambda v: F.interpolate(v, scale_factor=factor, mode=mode), torch.randn(1, 1, 7, 5), tolerance=1e-4)


def test_one_and_three_dimensions():
    check(lambda v: F.interpolate(v, scale_factor=2, mode="linear"), torch.randn(2, 3, 5))
    check(lambda v: F.interpolate(v, size=7), torch.randn(2, 3, 5))
    check(lambda v: F.interpolate(v, size=(4, 3, 6), mode="trilinear", align_corners=True), torch.randn(1, 2, 3, 3, 3))


def test_doubling_reads_half_the_position():
    lowered = check(lambda v: F.interpolate(v, scale_factor=2), torch.randn(1, 1, 4, 4))
    assert all("Select" not in repr(n) for n in lowered.program.nodes)
