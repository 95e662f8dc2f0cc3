"""Recurrent layers against torch, with their multiply-accumulate counts."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import _VF

from tests.lower.test_b_calling import check_rule
from tests.lower.test_b_counting import macs
from tests.lower.tracing import check

pytestmark = pytest.mark.torch
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def build(kind, inputs, hidden, layers, bias, bidirectional, projection=0):
    ways = 2 if bidirectional else 1
    out, params = projection or hidden, []
    for depth in range(layers):
        for _ in range(ways):
            width = inputs if depth == 0 else out * ways
            shapes = [(GATES[kind] * hidden, width), (GATES[kind] * hidden, out)]
            shapes += [(GATES[kind] * hidden,)] * 2 if bias else []
            shapes += [(projection, hidden)] if projection else []
            params += [torch.randn(s) * 0.5 for s in shapes]
    return params


@pytest.mark.parametrize("kind", GATES)
@given(st.tuples(*(st.integers(1, n) for n in (4, 3, 3, 4, 2))), st.tuples(*[st.booleans()] * 4))
@settings(max_examples=15, deadline=None)
def test_layers_equal_torch(kind, sizes, flags):
    steps, batch, inputs, hidden, layers = sizes
    bias, bidirectional, batch_first, projected = flags
    ways = 2 if bidirectional else 1
    projection = hidden - 1 if projected and kind == "lstm" else 0
    out = projection or hidden
    params = build(kind, inputs, hidden, layers, bias, bidirectional, projection)
    x = torch.randn(batch, steps, inputs) if batch_first else torch.randn(steps, batch, inputs)
    h = torch.randn(layers * ways, batch, out)
    hx = (h, torch.randn(layers * ways, batch, hidden)) if kind == "lstm" else h
    args = (x, hx, params, bias, layers, 0.0, False, bidirectional, batch_first)
    with torch.no_grad():
        expected = getattr(_VF, kind)(*args)
    emitted = check_rule(f"fn.{kind}", args, expected)
    per_step = sum(w.numel() for w in params if w.dim() == 2)
    assert macs(emitted.nodes_outside_loops) == steps * batch * per_step


def test_an_lstm_counts_its_gates_once_a_step():
    params = build("lstm", 12, 20, 1, True, False)
    zeros = torch.zeros(1, 3, 20)
    args = (torch.randn(3, 5, 12), (zeros, zeros), params, True, 1, 0.0, False, False, True)
    emitted = check_rule("fn.lstm", args, _VF.lstm(*args))
    assert macs(emitted.nodes_outside_loops) == 38400


def test_bfloat16_states_equal_torch():
    params = [p.bfloat16() for p in build("gru", 4, 5, 1, True, False)]
    args = (torch.randn(3, 2, 4).bfloat16(), torch.zeros(1, 2, 5).bfloat16(), params, True, 1, 0.0, False, False, False)
    check_rule("fn.gru", args, _VF.gru(*args), tolerance=5e-2)


def test_a_packed_sequence_is_refused():
    params = build("gru", 3, 4, 1, True, False)
    packed = (torch.randn(5, 3), torch.tensor([3, 2]), torch.zeros(1, 3, 4), params, True, 1, 0.0, False, False)
    with pytest.raises(NotImplementedError, match="packed"):
        check_rule("fn.gru", packed, [None, None])


@pytest.mark.parametrize("bias", [True, False])
def test_modules_and_cells_equal_torch(bias):
    x = torch.randn(4, 2, 3)
    for cell in (torch.nn.LSTMCell, torch.nn.GRUCell, torch.nn.RNNCell):
        module = cell(3, 5, bias=bias)
        check(lambda x, module=module: module(x[0]), x)
    for layer in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
        module = layer(3, 5, bias=bias, bidirectional=True)
        check(lambda x, module=module: module(x)[0], x)


def test_cells_as_one_operator_equal_torch():
    x, h, c = torch.randn(2, 3), torch.randn(2, 5), torch.randn(2, 5)
    for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        params = build(kind, 3, 5, 1, True, False)
        state = [h, c] if kind == "lstm" else h
        expected = getattr(torch.ops.aten, f"{kind}_cell")(x, state, *params)
        check_rule(f"aten.{kind}_cell.default", (x, state, *params), expected)


def test_fused_cells_equal_the_plain_ones():
    x, h, c = torch.randn(2, 3), torch.randn(2, 5), torch.randn(2, 5)
    w_ih, w_hh, b_ih, b_hh = build("lstm", 3, 5, 1, True, False)
    expected = torch.ops.aten.lstm_cell(x, [h, c], w_ih, w_hh, b_ih, b_hh)
    check_rule("aten._thnn_fused_lstm_cell.default", (x @ w_ih.T, h @ w_hh.T, c, b_ih, b_hh), list(expected))
    w_ih, w_hh, b_ih, b_hh = build("gru", 3, 5, 1, True, False)
    expected = torch.ops.aten.gru_cell(x, h, w_ih, w_hh, b_ih, b_hh)
    check_rule("aten._thnn_fused_gru_cell.default", (x @ w_ih.T, h @ w_hh.T, h, b_ih, b_hh), [expected])
