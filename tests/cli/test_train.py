"""`mode=train`: forward and backward are counted, by hand here, and validated against autograd."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sollens.analysis.cache import Cache
from sollens.analysis.pipeline import Pipeline, Request
from sollens.analysis.report import TargetReport

pytestmark = pytest.mark.torch

MLP = """\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

# sol: x=f32[8, 6], mode=train
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(6, 16, bias=False)
        self.down = nn.Linear(16, 4, bias=False)
        {more}

    def forward(self, x):
        {body}
"""
PLAIN = "return self.down(torch.tanh(self.up(x)))"
FIRST, SECOND = 8 * 6 * 16, 8 * 16 * 4  # MAC of the two products, forward


@pytest.fixture(scope="module")
def pipeline() -> Iterator[Pipeline]:
    pytest.importorskip("torch")
    pipeline = Pipeline(Cache(enabled=False))
    yield pipeline
    pipeline.close()


@pytest.fixture
def report(pipeline: Pipeline, tmp_path: Path):
    def analysed(text: str, validate: bool = False) -> TargetReport:
        path = tmp_path / "model.py"
        path.write_text(text)
        found = pipeline.analyse(Request(path=str(path), interpreter=sys.executable, validate=validate))
        assert not found.problems, found.problems
        (target,) = found.targets
        assert not target.partial
        return target

    return analysed


def mlp(body: str = PLAIN, more: str = "pass") -> str:
    return MLP.format(body=body, more=more)


def test_each_product_has_two_in_the_backward_pass_but_none_for_the_input(report) -> None:
    found = report(mlp(), validate=True)
    assert found.macs == 2 * FIRST + 3 * SECOND
    assert found.validation.status == "validated"
    # x, both weights, the gradient of the output; the output, both gradients.
    assert found.bytes.compulsory == 4 * (8 * 6 + 2 * (6 * 16 + 16 * 4) + 2 * 8 * 4)


def test_lines_and_modules_hold_their_own_backward_operators(report) -> None:
    found = report(mlp("h = torch.tanh(self.up(x))\n        return self.down(h)"))
    first, second = (next(line for line in found.lines if line.line == number) for number in (14, 15))
    assert (first.macs, second.macs) == (2 * FIRST, 3 * SECOND)
    assert {row.path: row.macs for row in found.modules} == {"up": 2 * FIRST, "down": 3 * SECOND}


def test_a_frozen_weight_has_no_gradient_and_needs_no_product_for_one(report) -> None:
    found = report(mlp(more="self.up.weight.requires_grad_(False)"))
    assert found.macs == FIRST + 2 * SECOND


def test_checkpointing_counts_the_same(report) -> None:
    inner = "return self.down(checkpoint(lambda x: torch.tanh(self.up(x)), x, use_reentrant=False))"
    plain, again = report(mlp()), report(mlp(inner))
    assert (again.macs, again.vector_ops, again.bytes.compulsory) == (
        plain.macs, plain.vector_ops, plain.bytes.compulsory,
    )  # fmt: skip


def test_dead_gradients_are_no_work(report) -> None:
    found = report(mlp("y = self.up(x)\n        z = self.down(y.detach())\n        return z"))
    assert found.macs == FIRST + 2 * SECOND


LOSS = """\
import torch
import torch.nn.functional as F

# sol: x=f32[32, 16], w=f32[16, 10], mode=train
def target(x, w):
    {body}
"""


@pytest.mark.parametrize(
    ("body", "products"),
    [
        ("return ((x @ w) ** 2).sum()", 3),  # forward, by x, by w
        ("w.requires_grad_()\n    return torch.autograd.grad(((x @ w) ** 2).sum(), w)", 2),
        ("w.requires_grad_()\n    ((x @ w) ** 2).sum().backward()\n    return w.grad", 2),
    ],
    ids=["returned", "grad", "backward"],
)
def test_functions_are_differentiated_or_do_it_themselves(report, body: str, products: int) -> None:
    found = report(LOSS.format(body=body))
    assert found.macs == products * 32 * 16 * 10


def test_attention_has_seven_products(report) -> None:
    found = report(
        "import torch\nimport torch.nn.functional as F\n\n# sol: q=f32[2, 3, 8, 4], k=f32[2, 3, 8, 4], "
        "v=f32[2, 3, 8, 4], mode=train\ndef attention(q, k, v):\n    return F.scaled_dot_product_attention(q, k, v)\n",
        validate=True,
    )
    # Scores, output; gradients of v, of the weights, of q and of k. The scores are not counted again, and each row's
    # sum of gradient times output is one more over [8, 4].
    assert found.macs == 2 * 3 * (6 * 8 * 8 * 4 + 8 * 4)
    assert found.validation.status == "validated"


def test_a_convolution_counts_its_taps_inside_three_times(report) -> None:
    found = report(
        "import torch\nimport torch.nn.functional as F\n\n# sol: x=f32[2, 3, 6], w=f32[4, 3, 3], mode=train\n"
        "def conv(x, w):\n    return F.conv1d(x, w, padding=1)\n"
    )
    assert found.macs == 3 * 2 * 3 * 4 * (3 * 6 - 2)


def test_what_has_no_gradient_is_said(pipeline: Pipeline, tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(LOSS.format(body="return (x @ w).argmax(1)"))
    found = pipeline.analyse(Request(path=str(path), interpreter=sys.executable))
    (problem,) = found.problems
    assert "mode=train" in problem.message and "does not require grad" in problem.message
