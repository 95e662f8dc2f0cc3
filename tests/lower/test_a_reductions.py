"""Reductions and scans against torch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tracing import check

ALL = [
    torch.sum, torch.mean, torch.prod, torch.max, torch.min, torch.argmax, torch.argmin, torch.any, torch.all,
    torch.var, torch.std,
    torch.median, torch.count_nonzero, torch.norm, torch.linalg.vector_norm, torch.nansum, torch.aminmax,
    lambda x: torch.var(x, False),
    lambda x: torch.norm(x, 1), lambda x: torch.norm(x, 3), lambda x: torch.norm(x, float("inf")),
    lambda x: torch.norm(x, 0),
    lambda x: torch.linalg.norm(x.reshape(2, -1)), lambda x: torch.std_mean(x), lambda x: x.sum(dtype=torch.float64),
]  # fmt: skip
ALONG = [
    torch.sum, torch.mean, torch.prod, torch.amax, torch.amin, torch.argmax, torch.argmin, torch.any, torch.all,
    torch.logsumexp,
    torch.max, torch.min, torch.median, torch.nansum, torch.nanmean,
    lambda x, d, keepdim=False: torch.max(x, d, keepdim)[0], lambda x, d, keepdim=False: torch.max(x, d, keepdim)[1],
    lambda x, d, keepdim=False: torch.var(x, d, keepdim=keepdim), lambda x, d, keepdim=False: torch.std(x, d, False,
    keepdim),
    lambda x, d, keepdim=False: torch.var_mean(x, d, correction=0, keepdim=keepdim), lambda x, d,
    keepdim=False: torch.kthvalue(x, 1, d, keepdim),
    lambda x, d, keepdim=False: torch.norm(x, 2, d, keepdim), lambda x, d, keepdim=False: torch.linalg.vector_norm(x,
    4, d, keepdim),
]  # fmt: skip
SCANS = [torch.cumsum, torch.cumprod, torch.cummax, torch.cummin, torch.logcumsumexp,
         lambda x, d: torch.cumsum(x.flip(d), d).flip(d), lambda x, d: torch.cummax(x, d)[0]]  # fmt: skip


@pytest.mark.parametrize("k", range(len(ALL)))
def test_over_everything(k):
    check(ALL[k], torch.randn(2, 3, 4), tolerance=1e-4)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, len(ALONG) - 1), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(-3, 2),
    st.booleans(),
    st.sampled_from([torch.float32, torch.float64, torch.float16]),
)  # fmt: skip
def test_along_an_axis(k, shape, axis, keepdim, dtype):
    torch.manual_seed(k)
    axis = max(-len(shape), min(axis, len(shape) - 1))
    x = (torch.randperm(torch.Size(shape).numel()).reshape(shape).float() / 7 - 1).to(dtype)
    check(lambda v: ALONG[k](v, axis, keepdim=keepdim), x, tolerance=4e-3 if dtype == torch.float16 else 1e-4)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(SCANS) - 1), st.lists(st.integers(1, 4), min_size=0, max_size=3), st.integers(-3, 2))
def test_scan(k, shape, axis):
    axis = max(-max(1, len(shape)), min(axis, max(1, len(shape)) - 1))
    x = torch.randint(-3, 4, shape).float()
    if shape:
        check(lambda v: SCANS[k](v, axis), x, tolerance=1e-4)


def test_integers_and_bools():
    x = torch.randint(-3, 4, (2, 3))
    check(
        lambda v: (
            v.sum(),
            v.sum(0),
            v.prod(1),
            v.max(),
            v.amin(0),
            v.cumsum(0),
            (v > 0).sum(1),
            (v > 0).any(),
            v.max(1),
        ),
        x,
    )


def test_several_axes():
    check(
        lambda v: (v.sum((0, 2)), v.mean((-1, 0), keepdim=True), v.amax((1, 2)), v.logsumexp((0, 1)), v.std((0, 2))),
        torch.randn(2, 3, 4),
    )


def test_no_elements():
    check(lambda v: (v.sum(), v.sum(0), v.sum(1), v.mean(0), v.prod(1), v.any()), torch.randn(0, 3))


def test_scalars():
    check(
        lambda v: (v.sum(), v.mean(), v.max(0), v.argmax(), v.cumsum(0), v.cummax(0), v.logsumexp(0)), torch.tensor(2.5)
    )


def test_logsumexp_of_infinities():
    check(lambda v: v.logsumexp(1), torch.tensor([[float("-inf")] * 2, [0.0, float("-inf")], [float("inf"), 1.0]]))


def test_half_precision_mean_is_rounded_once():
    check(lambda v: v.mean(), torch.full((3000,), 1.001, dtype=torch.float16))


def test_isin():
    check(lambda v: torch.isin(v, torch.tensor([1, 3])), torch.arange(5))
