"""Library calls, sliding blocks and grid sampling against torch."""

import pytest
import torch
from tracing import check

F = torch.nn.functional


@pytest.mark.parametrize("f", [
    torch.fft.fft, torch.fft.rfft, torch.fft.fft2, lambda x: torch.fft.irfft(torch.fft.rfft(x, norm="ortho"), n=6,
    norm="ortho"),
    lambda x: torch.fft.ifft(x, dim=0), lambda x: torch.linalg.inv(x[:, :4] + 3 * torch.eye(4)),
    lambda x: torch.linalg.det(x[:, :4]),
])  # fmt: skip
def test_a_library_routine_runs_and_is_partial(f):
    lowered = check(f, torch.randn(4, 6), partial=True, tolerance=1e-4)
    assert lowered.partial
    assert "not counted" in lowered.partial[0].reason


@pytest.mark.parametrize(
    "kwargs", [{}, {"padding": 1}, {"stride": 2, "padding": (1, 0)}, {"dilation": 2, "padding": 2, "stride": (1, 2)}]
)
def test_blocks(kwargs):
    x = torch.randn(2, 3, 6, 5)
    columns = F.unfold(x, (3, 2), **kwargs)
    check(lambda v: F.unfold(v, (3, 2), **kwargs), x)
    check(lambda v: F.fold(v, (6, 5), (3, 2), **kwargs), columns)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border"])
@pytest.mark.parametrize("aligned", [True, False])
def test_grid_sample(mode, padding, aligned):
    grid = torch.rand(2, 3, 4, 2) * 2.4 - 1.2
    check(lambda v, g: F.grid_sample(v, g, mode, padding, aligned), torch.randn(2, 3, 5, 4), grid, tolerance=1e-4)


def test_cross_trace_and_repeats():
    check(
        lambda x: (torch.linalg.cross(x, x.flip(0)), x.trace(), x.repeat_interleave(torch.tensor([2, 0, 1]), 0)),
        torch.randn(3, 3),
    )
