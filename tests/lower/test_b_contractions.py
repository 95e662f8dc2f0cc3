"""Matrix products and einsum, against torch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.test_b_calling import check_rule
from tests.lower.test_b_counting import is_contraction, macs
from tests.lower.tracing import check

pytestmark = pytest.mark.torch
extent = st.integers(0, 4)
dtypes = st.sampled_from([torch.float32, torch.float64, torch.bfloat16])


@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from("lrb")), max_size=2),
    extent,
    extent,
    extent,
    st.booleans(),
    st.booleans(),
    dtypes,
)
@settings(max_examples=60, deadline=None)
def test_matmul_broadcasts_batches_and_counts_each_product_once(batch, m, k, n, vector_left, vector_right, dtype):
    left = [1 if side == "r" else e for e, side in batch] + [m, k]
    right = [1 if side == "l" else e for e, side in batch] + [k, n]
    a = torch.randn([k] if vector_left else left).to(dtype)
    b = torch.randn([k] if vector_right else right).to(dtype)
    wanted = torch.matmul(a, b)
    emitted = check_rule("fn.matmul", (a, b), wanted)
    assert macs(emitted.nodes) == wanted.numel() * k
    assert len(emitted.statements) == 1


@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_adds_its_bias_apart(lead, bias):
    x, w, b = torch.randn(*lead, 5), torch.randn(4, 5), torch.randn(4) if bias else None
    emitted = check_rule("fn.linear", (x, w, b), torch.nn.functional.linear(x, w, b))
    assert macs(emitted.nodes) == x.numel() * 4
    assert len(emitted.statements) == 1 + bias


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b, c: torch.addmm(c, a, b),
        lambda a, b, c: torch.addmm(c, a, b, beta=0.5, alpha=2),
        lambda a, b, c: torch.addmm(c * float("nan"), a, b, beta=0),
        lambda a, b, c: torch.addmm(c[0], a, b),
        lambda a, b, c: torch.addmv(c[:, 0], a, b[:, 0], alpha=3),
        lambda a, b, c: torch.mv(a, b[:, 0]),
        lambda a, b, c: torch.dot(a[0], b[:, 0]),
        lambda a, b, c: torch.outer(a[0], b[0]),
        lambda a, b, c: torch.addr(c, a[:, 0], b[0], beta=2, alpha=3),
        lambda a, b, c: torch.kron(a, b),
        lambda a, b, c: torch.tensordot(a, b, 1),
        lambda a, b, c: torch.inner(a, a),
        lambda a, b, c: torch.linalg.multi_dot([a, b, c.T]),
        lambda a, b, c: torch.nn.functional.cosine_similarity(a, a + 1),
        lambda a, b, c: torch.nn.functional.bilinear(a, c, torch.ones(2, 4, 5), torch.ones(2)),
        lambda a, b, c: torch.chain_matmul(a, b) if False else torch.linalg.matmul(a, b),
    ],
)
def test_products_equal_torch(f):
    check(f, torch.randn(3, 4), torch.randn(4, 5), torch.randn(3, 5))


def test_batched_products_equal_torch():
    a, b, c = torch.randn(2, 3, 4), torch.randn(2, 4, 5), torch.randn(2, 3, 5)
    check(torch.bmm, a, b)
    check(lambda a, b, c: torch.baddbmm(c, a, b, beta=0.1, alpha=4), a, b, c)
    check(lambda a, b, c: torch.addbmm(c[0], a, b, beta=2, alpha=0.5), a, b, c)


EQUATIONS = [
    *("ij,jk->ik", "ij,jk", "ij->ji", "ij->", "ii->i", "ii", "ij,ij->ij", "ij,kl->ijkl", "bij,bjk->bik", "ij->ij"),
    *("...ij,...jk->...ik", "i...,j...->...ij", "ij,jk,kl->il", "ij,jk,kl,lm->im", "ia,ib,ic->abc", "ijk,il->jl"),
    *("iij,jk->ik", "ijk,jil,kl->", "bhid,bhjd->bhij", "Ab,bC->CA", "i,i", "...->...", "b...,b...->..."),
]


@pytest.mark.parametrize("equation", [*EQUATIONS, " i j , j -> i "])
@given(data=st.data())
@settings(max_examples=6, deadline=None)
def test_einsum_equals_torch(equation, data):
    sizes = {c: data.draw(st.integers(1, 4)) for c in "abcdefghijklmnopqrstuvwxyzAC"}
    ellipsis = [sizes["y"], sizes["z"]]
    operands = []
    for term in equation.replace(" ", "").split("->")[0].split(","):
        before, dots, after = term.partition("...")
        operands.append(
            torch.randn([*(sizes[c] for c in before), *(ellipsis if dots else []), *(sizes[c] for c in after)])
        )
    check_rule("fn.einsum", (equation, operands), torch.einsum(equation, operands))


def test_einsum_broadcasts_extents_of_one():
    a, b = torch.randn(3, 1), torch.randn(4, 5)
    check_rule("fn.einsum", ("ij,jk->ik", [a, b]), torch.einsum("ij,jk->ik", a, b))
    check_rule(
        "fn.einsum",
        ("...i,...i->...", [a, torch.randn(2, 1, 1)]),
        torch.einsum("...i,...i->...", a, torch.ones(2, 1, 1)) * 0,
        tolerance=1e9,
    )


def test_einsum_of_three_is_two_contractions_in_the_cheapest_order():
    a, b, c = torch.randn(2, 30), torch.randn(30, 3), torch.randn(3, 40)
    emitted = check_rule(
        "fn.einsum", ("ij,jk,kl->il", [a, b, c]), torch.einsum("ij,jk,kl->il", a, b, c), tolerance=1e-4
    )
    assert macs(emitted.nodes) == 2 * 30 * 3 + 2 * 3 * 40


def test_einsum_sums_a_lonely_label_before_the_product():
    a, b = torch.randn(4, 5, 6), torch.randn(4, 3)
    emitted = check_rule("fn.einsum", ("ijk,il->jl", [a, b]), torch.einsum("ijk,il->jl", a, b))
    assert [is_contraction(s) for s in emitted.statements] == [False, True]
    assert macs(emitted.nodes) == 5 * 4 * 3


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, float("inf")])
def test_distances_equal_torch(p):
    check(lambda a, b: torch.cdist(a, b, p=p), torch.randn(2, 3, 4), torch.randn(2, 5, 4))
    check(lambda a, b: torch.nn.functional.pairwise_distance(a, b, p=p), torch.randn(4, 3), torch.randn(4, 3))


def test_large_euclidean_distances_are_a_contraction():
    a, b = torch.randn(30, 4), torch.randn(26, 4)
    lowered = check(torch.cdist, a, b, tolerance=1e-3)
    assert macs(list(lowered.program.nodes)) == 30 * 26 * 4
