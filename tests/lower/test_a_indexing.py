"""Indexing, scattering and sorting against torch."""

import pytest
import torch
from tracing import check

F = torch.nn.functional
K = torch.tensor([2, 0, 1, 2])
J = torch.tensor([[0, 3], [1, 1]])


def in_place(write):
    def f(x):
        y = x * 1
        write(y)
        return y

    return f


CASES = [
    lambda x: F.embedding(J % 2, x.reshape(2, 12)), lambda x: x.index_select(1, K), lambda x: x[:, K],
    lambda x: x[K % 2, K],
    lambda x: x[K % 2, :, K], lambda x: x[:, K, K], lambda x: x[None, J % 2], lambda x: x[x > 0], lambda x: x[:,
    torch.tensor([True, False, True])],
    lambda x: x[torch.tensor([[True, False, True], [False, True, True]])], lambda x: x[torch.tensor(1)],
    lambda x: x[:, -K],
    lambda x: torch.gather(x, 1, torch.tensor([[[0, 2, 1, 0]], [[1, 1, 2, 0]]])), lambda x: torch.take(x, J),
    lambda x: x.masked_select(x > 0),
    lambda x: torch.take_along_dim(x, x.argsort(-1), -1), lambda x: torch.take_along_dim(x, x.argmax(1, keepdim=True),
    1),
    lambda x: torch.nonzero(x > 0), lambda x: torch.nonzero(x > 0, as_tuple=True), lambda x: x.masked_scatter(x > 0,
    torch.arange(24.0).reshape(2, 3, 4)),
    lambda x: x.scatter(1, (x > 0).long(), x * 2), lambda x: x.scatter(2, torch.zeros(2, 3, 1, dtype=torch.long), 5.0),
    lambda x: x.scatter_add(1, (x > 0).long(), x), lambda x: x.scatter_reduce(1, (x > 0).long(), x, "mean"),
    lambda x: x.scatter_reduce(1, (x > 0).long(), x, "amax", include_self=False), lambda x: x.scatter_reduce(2,
    (x > 0).long(), x, "prod"),
    lambda x: x.index_add(1, K, torch.ones(2, 4, 4), alpha=2), lambda x: x.index_copy(2, torch.tensor([1, 0]),
    torch.ones(2, 3, 2)),
    lambda x: x.index_fill(1, torch.tensor([0, 2]), 7.0), lambda x: x.index_put((K % 2, K), torch.tensor(3.0)),
    lambda x: x.index_put((K % 2, K), torch.ones(4), accumulate=True) if False else x.index_put((torch.tensor([0, 0]),
    torch.tensor([1, 1])), x[0, :2], accumulate=True),
    in_place(lambda y: y.__setitem__(y > 0, 0.0)), in_place(lambda y: y.__setitem__((slice(None), K[:2]), 1.0)),
    in_place(lambda y: y[0].__setitem__(torch.tensor([True, False, True]), torch.arange(4.0))),
    in_place(lambda y: y.__setitem__(y > 0, torch.arange(float((y > 0).sum())))), in_place(lambda y: y.scatter_(1,
    torch.ones(2, 1, 4).long(), 3.0)),
    in_place(lambda y: y[:, 1].index_add_(0, torch.tensor([0, 1]), torch.ones(2, 4))),
    lambda x: x.sort(-1), lambda x: x.sort(0, descending=True), lambda x: x.argsort(1), lambda x: x.topk(2, 1),
    lambda x: x.topk(3, -1, largest=False),
    lambda x: x.sort(dim=1, stable=True)[0], lambda x: x.msort(), lambda x: x.median(1), lambda x: x.kthvalue(2, 2),
    lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), lambda x: torch.searchsorted(torch.tensor([-1.0,
    0.0, 1.0]), x, right=True),
    lambda x: torch.bincount(J.reshape(-1)), lambda x: x.put(J, torch.ones(2, 2)),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(CASES)))
def test_case(k):
    torch.manual_seed(k)
    check(CASES[k], torch.randn(2, 3, 4))
