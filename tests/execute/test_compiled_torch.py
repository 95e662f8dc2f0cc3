"""Programs lowered from torch functions give what torch gives, large enough for kernels and matrix products."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

from sollens.analysis.execute.compiled import contraction, kernels, plan  # noqa: E402
from sollens.analysis.execute.compiled.executor import run  # noqa: E402
from sollens.analysis.lower.lower import lower  # noqa: E402
from tests.lower.tracing import INTERMEDIATE, compare, record  # noqa: E402

pytestmark = pytest.mark.torch
generator = torch.Generator().manual_seed(0)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=generator)


def imaginary(*shape: int) -> torch.Tensor:
    return torch.complex(normal(*shape), normal(*shape))


@pytest.fixture(autouse=True, scope="module")
def compile_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOLLENS_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(plan, "COMPILE_S", -1)
        patch.setattr(contraction, "LEAST_POINTS", 1000)
        yield


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = q @ k.transpose(-1, -2) / 8
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ v


CASES: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "matmul": (torch.matmul, (normal(70, 90), normal(90, 50))),
    "batched matmul": (torch.bmm, (normal(3, 20, 30), normal(3, 30, 25))),
    "linear": (F.linear, (normal(6, 10, 40), normal(24, 40), normal(24))),
    "convolution": (
        lambda x, w: F.conv2d(x, w, stride=2, padding=2, dilation=2), (normal(2, 8, 19, 17), normal(12, 8, 3, 5))),
    "grouped convolution": (
        lambda x, w: F.conv2d(x, w, groups=4, padding=1), (normal(2, 16, 10, 12), normal(32, 4, 3, 3))),
    "depthwise convolution": (lambda x, w: F.conv1d(x, w, groups=6, padding=1), (normal(2, 6, 40), normal(6, 1, 3))),
    "transposed convolution": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
        (normal(2, 8, 7, 9), normal(8, 6, 3, 4))),
    "dilated transposed convolution": (
        lambda x, w: F.conv_transpose2d(x, w, stride=3, dilation=2), (normal(2, 8, 7, 5), normal(8, 6, 3, 3))),
    "pooling": (lambda x: F.max_pool2d(F.avg_pool2d(x, 3, 2, 1), 2), (normal(2, 4, 22, 25),)),
    "normalization": (lambda x: F.layer_norm(x, (48,)), (normal(4, 9, 48),)),
    "attention": (causal, (normal(2, 3, 24, 16), normal(2, 3, 24, 16), normal(2, 3, 24, 16))),
    "scan": (lambda x: torch.cumsum(x, 0).flip(1), (normal(60, 7),)),
    "argmax": (lambda x: torch.argmax(x, 1), (normal(30, 70),)),
    "activation": (lambda x: F.gelu(x, approximate="tanh") * torch.sigmoid(x), (normal(40, 30),)),
    "half": (lambda a, b: (a @ b).relu(), (normal(40, 32).half(), normal(32, 24).half())),
    "brain float": (lambda a, b: F.gelu(a @ b), (normal(40, 32).bfloat16(), normal(32, 24).bfloat16())),
    "double": (lambda a, b: torch.exp(-(a @ b).abs()), (normal(40, 32).double(), normal(32, 24).double())),
    "complex": (lambda a, b: torch.view_as_real(a * b + a), (imaginary(9, 8), imaginary(9, 8))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_as_torch(name: str) -> None:
    function, arguments = CASES[name]
    recording = record(function, *arguments)
    lowered = lower(recording.trace)
    assert not lowered.partial
    kinds = {t.id: t.kind for t in recording.trace.tensors}
    given = {
        lowered.names[number]: array
        for number, array in recording.arrays.items()
        if number in lowered.names and kinds[number] != INTERMEDIATE
    }
    found = run(lowered.program, given, want=lowered.returned)
    for result, expected in zip(lowered.returned, recording.returned, strict=True):
        compare(found[result], expected, 5e-5 if expected.dtype == torch.float32 else None)
    assert kernels.counters.refused == 0
