"""Views, movement, padding, creation and in-place writes against torch."""

from operator import itemgetter, methodcaller

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tracing import check, record

from sollens.analysis.ir.affine import dim
from sollens.analysis.lower.aliasing import invert
from sollens.analysis.lower.lower import lower
from sollens.analysis.lower.views import reshape_index

F = torch.nn.functional

VIEWS = [
    lambda x: x.view(6, 4), lambda x: x.reshape(2, 12), lambda x: x.reshape(24), lambda x: x.reshape(4, 3, 2),
    lambda x: x.reshape(8, 3),
    lambda x: x.transpose(0, -1), lambda x: x.permute(2, 0, 1), lambda x: x.mT.reshape(2, 12), lambda x: x.movedim(0,
    2), lambda x: x.flatten(1),
    lambda x: x.unsqueeze(1).expand(2, 5, 3, 4), lambda x: x[:, 1], lambda x: x[1, ::2, -3:], lambda x: x[..., None,
    1:3], lambda x: x[-1],
    lambda x: x.narrow(2, 1, 2), lambda x: x.split(2, -1), lambda x: x.chunk(3, 1), lambda x: x.unbind(1),
    lambda x: x.diagonal(1, 1, 2),
    lambda x: x.diagonal(-1, 0, 2), lambda x: x.unfold(2, 3, 1), lambda x: x.as_strided((2, 3), (5, 2), 1),
    lambda x: x.squeeze(),
    lambda x: x[:, :1].squeeze(1), lambda x: x.unflatten(2, (2, 2)), lambda x: x.split([1, 3], dim=2),
    lambda x: torch.tensor_split(x, 3, 2),
    lambda x: x.transpose(1, 2).contiguous().view(2, 12), lambda x: x.swapaxes(0, 1), lambda x: x.expand(3, 2, 3,
    4).reshape(3, 24),
]  # fmt: skip

MOVEMENT = [
    lambda x: torch.cat([x, x + 1, x * 2], 1), lambda x: torch.cat([x, x[:, :0], x], 1), lambda x: torch.stack([x,
    x + 1, x * 2, x], 1),
    lambda x: torch.stack([x, -x], -1), lambda x: torch.cat([torch.empty(0), x], 0), lambda x: x.flip(0, 2),
    lambda x: x.roll(1, 0),
    lambda x: x.roll((1, -2), (1, 2)), lambda x: x.roll(5), lambda x: x.repeat(2, 1, 3), lambda x: x.repeat(3, 1, 1, 2),
    lambda x: x.tile(2), lambda x: x.repeat_interleave(2, 1), lambda x: x.repeat_interleave(3), lambda x: x.tril(),
    lambda x: x.triu(1),
    lambda x: x.tril(-1), lambda x: torch.diag(x[0, 0]), lambda x: torch.diag(x[0], 1), lambda x: torch.diag(x[0, 0],
    -2),
    lambda x: torch.diag_embed(x, 1), lambda x: torch.diag_embed(x[0], -1, 0, 2), lambda x: x.rot90(1, (1, 2)),
    lambda x: x.rot90(3, (0, 1)),
    lambda x: torch.meshgrid(x[0, 0], x[0, 1], indexing="ij"), lambda x: torch.meshgrid(x[0, 0], x[0, :, 0],
    indexing="xy"),
    lambda x: F.pixel_shuffle(torch.cat([x] * 2, 0).repeat(2, 1, 1)[None], 2), lambda x: F.pixel_unshuffle(x.repeat(1,
    2, 1), 2),
    lambda x: F.channel_shuffle(x.permute(1, 2, 0).reshape(1, 6, 4), 3), lambda x: torch.block_diag(x[0], x[1, :2]),
    lambda x: torch.select_scatter(x, x[:, 0] * 2, 1, -1), lambda x: torch.slice_scatter(x, x[:, :, :2] * 2, 2, 0, 4,
    2),
    lambda x: torch.diagonal_scatter(x, x.diagonal(0, 1, 2) * 3, 0, 1, 2), lambda x: torch.hstack([x, x]),
    lambda x: torch.vstack([x, x]),
    lambda x: F.pad(x, (1, 2)), lambda x: F.pad(x, (1, 0, 2, 1), value=3.0), lambda x: F.pad(x, (-1, 2, 0, -1)),
    lambda x: F.pad(x, (2, 1), mode="reflect"),
    lambda x: F.pad(x, (3, 2), mode="replicate"), lambda x: F.pad(x, (1, 2), mode="circular"), lambda x: F.pad(x, (1,
    2, 2, 1), mode="reflect"),
    lambda x: F.pad(x[None], (1, 2, 2, 1, 1, 1), mode="replicate"), lambda x: F.pad(x[None], (1, 2, 0, 1),
    mode="circular"),
]  # fmt: skip

CREATION = [
    lambda x: torch.arange(5) + x[0, 0, 0], lambda x: torch.arange(2, 9, 3), lambda x: torch.arange(0.5, 2, 0.25),
    lambda x: torch.zeros(2, 3),
    lambda x: torch.ones_like(x), lambda x: torch.full((2,), 3.5), lambda x: x.new_full((2,), 3),
    lambda x: torch.eye(3, 4), lambda x: torch.eye(3),
    lambda x: torch.linspace(-1, 1, 7), lambda x: torch.linspace(0, 3, 1), lambda x: torch.zeros(0, 2),
    lambda x: x.new_zeros(2),
    lambda x: F.one_hot(torch.tensor([0, 2, 1]), 4), lambda x: torch.full_like(x, 2), lambda x: torch.tril_indices(3,
    4), lambda x: torch.logspace(0, 2, 5),
    lambda x: torch.arange(4, device="cpu", dtype=torch.float32), lambda x: torch.ones(3, 3, dtype=torch.bool).tril(),
    lambda x: torch.view_as_real(torch.view_as_complex(x.reshape(2, 3, 2, 2).contiguous()) * 2),
    lambda x: torch.scalar_tensor(2.0),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(VIEWS)))
def test_view(k):
    check(VIEWS[k], torch.randn(2, 3, 4))


@pytest.mark.parametrize("k", range(len(MOVEMENT)))
def test_movement(k):
    check(MOVEMENT[k], torch.randn(2, 3, 4))


@pytest.mark.parametrize("k", range(len(CREATION)))
def test_creation(k):
    check(CREATION[k], torch.randn(2, 3, 4))


def test_random_values_are_calls():
    recording = record(
        lambda x: (torch.rand(3), torch.randn_like(x), torch.bernoulli(x), F.dropout(x, 0.5)), torch.rand(2)
    )
    lowered = lower(recording.trace)
    assert not lowered.partial
    assert sum(getattr(n, "op", "") == "random" for n in lowered.program.nodes) == 4


def test_splitting_and_merging_axes_leaves_no_spare_division():
    b, t, h, d = (dim(f"i{k}") for k in range(4))
    assert reshape_index((2, 5, 12), (2, 5, 3, 4)) == (b, t, h * 4 + d)
    assert reshape_index((2, 5, 3, 4), (2, 5, 12)) == (b, t, h // 4, h % 4)
    assert reshape_index((1, 5, 1), (5,)) == (reshape_index((1,), ())[0], dim("i0"), reshape_index((1,), ())[0])


@st.composite
def two_shapes(draw):
    factors = draw(st.lists(st.sampled_from([1, 2, 3]), max_size=5))

    def group(items):
        shape, current = [], 1
        for f in items:
            current *= f
            if draw(st.booleans()):
                shape.append(current)
                current = 1
        return (*shape, current)

    return group(factors), group(draw(st.permutations(factors)))


@settings(max_examples=80, deadline=None)
@given(two_shapes())
def test_reshape_between_any_two_shapes(shapes):
    old, new = shapes
    check(lambda x: x.reshape(new), torch.arange(float(torch.Size(old).numel())).reshape(old))


@st.composite
def view_chains(draw):
    """A shape and a chain of view operations on it, as functions."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    x = torch.zeros(shape)
    steps = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["select", "slice", "transpose", "unsqueeze", "diagonal", "flatten", "split"]))
        axis = draw(st.integers(0, max(0, x.dim() - 1)))
        if kind == "select" and x.dim() > 1:
            step = methodcaller("select", axis, draw(st.integers(0, x.shape[axis] - 1)))
        elif kind == "slice" and x.dim():
            cut = slice(draw(st.integers(0, x.shape[axis] - 1)), None, draw(st.integers(1, 2)))
            step = itemgetter((slice(None),) * axis + (cut,))
        elif kind == "transpose" and x.dim() > 1:
            step = methodcaller("transpose", axis, 0)
        elif kind == "diagonal" and x.dim() > 1:
            step = methodcaller("diagonal", draw(st.integers(-1, 1)), 0, 1)
        elif kind == "flatten" and x.is_contiguous():
            step = methodcaller("view", -1)
        elif kind == "split" and x.dim() and x.shape[axis] % 2 == 0:
            step = methodcaller("unflatten", axis, (2, -1))
        else:
            step = methodcaller("unsqueeze", axis)
        if step(x).numel():
            x = step(x)
            steps.append(step)
    return shape, steps


@settings(max_examples=150, deadline=None)
@given(view_chains(), st.booleans())
def test_writing_through_a_chain_of_views_updates_the_base_and_other_views(chain, external):
    shape, steps = chain

    def f(x):
        base = x if external else x * 1
        other = base.transpose(0, -1)
        view = base
        for step in steps:
            view = step(view)
        view.mul_(2).add_(7)
        return base, other, view * 1

    lowered = check(f, torch.randn(shape))
    if external and lowered.program.nodes and all(shape):
        assert lowered.program.outputs


def test_an_updated_input_is_an_output_by_the_part_written():
    def f(cache, x):
        cache[:, 2] = x

    recording = record(f, torch.zeros(2, 5), torch.randn(2))
    lowered = lower(recording.trace)
    (name,) = lowered.program.outputs
    written = next(n for n in lowered.program.nodes if n.name == name)
    assert written.shape == (2,)


def test_overwritten_parts_count_once():
    def f(cache, x):
        cache[:, 2] = x
        cache[:, 1] = x
        cache[:, 2] = x + 1

    assert len(lower(record(f, torch.zeros(2, 5), torch.randn(2)).trace).program.outputs) == 2


def test_views_read_after_a_write_see_it():
    def f(x):
        y = torch.zeros(3, 4)
        row, column = y[1], y[:, 2]
        row += x
        first = column * 1
        y[:, 2] = 5
        return first, row, y.sum(1)

    check(f, torch.randn(4))


def test_an_unknown_in_place_operator_is_partial_and_named():
    def f(x):
        y = x * 1
        y[0].geometric_(0.5)
        torch.unique(y)
        return y

    lowered = lower(record(f, torch.rand(3, 3)).trace)
    assert [p.operator for p in lowered.partial] == ["aten._unique2.default"]


def test_inversion_of_a_strided_view():
    solution, conditions = invert([dim("d0") * 2 + 1], [3], [8])
    assert [s.evaluate({"b0": 5}) for s in solution] == [2]
    for at in range(8):
        assert all(c.holds({"b0": at}) for c in conditions) == (at in (1, 3, 5))
