"""Losses against torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.lower.test_b_calling import check_rule
from tests.lower.tracing import check

pytestmark = pytest.mark.torch
REDUCTIONS = ["none", "mean", "sum"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (0, 3)])
def test_elementwise_losses_equal_torch(shape, reduction):
    x, y = torch.randn(shape) * 2, torch.randn(shape)
    check(lambda x, y: F.mse_loss(x, y, reduction=reduction), x, y)
    check(lambda x, y: F.l1_loss(x, y, reduction=reduction), x, y)
    check(lambda x, y: F.smooth_l1_loss(x, y, reduction=reduction, beta=0.7), x, y)
    check(lambda x, y: F.smooth_l1_loss(x, y, reduction=reduction, beta=0.0), x, y)
    check(lambda x, y: F.huber_loss(x, y, reduction=reduction, delta=0.7), x, y)
    check(lambda x, y: F.soft_margin_loss(x, y.sign(), reduction=reduction), x, y)
    check(lambda x, y: F.kl_div(x, y.abs(), reduction=reduction), x, y)
    check(lambda x, y: F.poisson_nll_loss(x, y.abs(), reduction=reduction), x, y)
    check(lambda x, y: F.hinge_embedding_loss(x, y.sign(), reduction=reduction), x, y)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropies_equal_torch(reduction):
    x, y, w = torch.rand(3, 4), torch.rand(3, 4), torch.rand(4)
    x[0, 0], x[0, 1] = 0, 1
    logits = torch.randn(3, 4) * 4
    check(lambda x, y: F.binary_cross_entropy(x, y, reduction=reduction), x, y)
    check(lambda x, y: F.binary_cross_entropy(x, y, w, reduction=reduction), x, y)
    f = F.binary_cross_entropy_with_logits
    check(lambda x, y: f(x, y, reduction=reduction), logits, y)
    check(lambda x, y: f(x, y, w, reduction=reduction), logits, y)
    check(lambda x, y: f(x, y, w, reduction=reduction, pos_weight=w + 1), logits, y)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("spatial", [(), (2,), (2, 3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_nll_loss_equals_torch(spatial, weighted, reduction):
    x = torch.randn(3, 5, *spatial)
    target = torch.randint(0, 5, (3, *spatial))
    target.view(-1)[0] = 2
    weight = torch.rand(5) if weighted else None
    check(lambda x, t: F.nll_loss(x, t, weight, ignore_index=2, reduction=reduction), x, target)
    check(lambda x, t: F.cross_entropy(x, t, weight, reduction=reduction), x, target)
    check(lambda x, t: F.cross_entropy(x, t, weight, reduction=reduction, label_smoothing=0.1), x, target)


def test_nll_loss_of_one_sample_and_with_ignored_labels_out_of_range():
    check(lambda x, t: F.nll_loss(x, t), torch.randn(5), torch.tensor(3))
    check(lambda x, t: F.cross_entropy(x, t), torch.randn(3, 5), torch.tensor([1, -100, 4]))
    check(lambda x, p: F.cross_entropy(x, p), torch.randn(3, 5), torch.rand(3, 5))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_multi_margin_loss_equals_torch(reduction, p, weighted):
    weight = torch.rand(5) if weighted else None
    x, target = torch.randn(3, 5), torch.randint(0, 5, (3,))
    check(lambda x, t: F.multi_margin_loss(x, t, p, 0.8, weight, reduction=reduction), x, target)


def test_embedding_losses_equal_torch():
    a, b, c = torch.randn(4, 5), torch.randn(4, 5), torch.randn(4, 5)
    check(lambda a, b, y: F.cosine_embedding_loss(a, b, y), a, b, torch.tensor([1.0, -1, 1, -1]))
    check(F.triplet_margin_loss, a, b, c)
    check(lambda a, b: F.multilabel_soft_margin_loss(a, (b > 0).float()), a, b)


def test_kl_div_as_one_operator_equals_torch():
    x, y = torch.randn(3, 4), torch.rand(3, 4)
    check_rule("aten.kl_div.default", (x, y, 1), F.kl_div(x, y, reduction="mean"))
    check_rule("aten.kl_div.default", (x, y, 2), F.kl_div(x, y, reduction="sum", log_target=True), log_target=True)
