"""One step of a recurrent cell: gates from pre-activations, then the new state.

A gate's pre-activation is an expression at the point (n, j) of [batch, hidden]; gates are numbered as PyTorch stacks
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sollens.analysis.ir.affine import dim
from sollens.analysis.ir.nodes import Expr, Read
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.contractions import add, linear
from sollens.analysis.lower.expressions import apply
from sollens.analysis.lower.pointwise import Dims, accumulator, filled
from sollens.analysis.lower.registry import rule

Gates: TypeAlias = Callable[[int], Expr]


def state_dims(state: Value) -> Dims:
    """Dims of a [batch, hidden] state."""
    return [("n", state.shape[0]), ("j", state.shape[1])]


def gate_read(stacked: Value, hidden: int, gate: int, *lead: str) -> Read:
    """Gate number `gate` of `stacked[..., gates * hidden]` at j."""
    return stacked[(*lead, dim("j") + gate * hidden)]


def lstm_step(b: Builder, gates: Gates, c: Value, dtype: str) -> tuple[Value, Value]:
    """New h and c: `c' = sigmoid(f) c + sigmoid(i) tanh(g)`, `h' = sigmoid(o) tanh(c')`; gates in the order i f g o."""
    dims, wide = state_dims(c), accumulator(dtype)
    i, f, g, o = (
        b.statement(hint, dims, apply(op, gates(k)), wide)
        for k, (hint, op) in enumerate((("input_gate", "sigmoid"), ("forget_gate", "sigmoid"), ("cell_gate", "tanh"),
                                        ("output_gate", "sigmoid")))
    )  # fmt: skip
    kept, written = apply("mul", f["n", "j"], c["n", "j"]), apply("mul", i["n", "j"], g["n", "j"])
    new_c = b.statement("c", dims, apply("add", kept, written), dtype)
    new_h = b.statement("h", dims, apply("mul", o["n", "j"], apply("tanh", new_c["n", "j"])), dtype)
    return new_h, new_c


def gru_step(b: Builder, inputs: Gates, hiddens: Gates, h: Value, dtype: str) -> Value:
    """`h' = n + z (h - n)` with `n = tanh(in + r hn)`; gates in the order r z n."""
    dims, wide = state_dims(h), accumulator(dtype)
    r = b.statement("reset_gate", dims, apply("sigmoid", apply("add", inputs(0), hiddens(0))), wide)
    z = b.statement("update_gate", dims, apply("sigmoid", apply("add", inputs(1), hiddens(1))), wide)
    reset = apply("mul", r["n", "j"], hiddens(2))
    new = b.statement("new_gate", dims, apply("tanh", apply("add", inputs(2), reset)), wide)
    moved = apply("mul", z["n", "j"], apply("sub", h["n", "j"], new["n", "j"]))
    return b.statement("h", dims, apply("add", new["n", "j"], moved), dtype)


def _with_bias(stacked: Value, bias: Value | None, hidden: int) -> Gates:
    def gates(k: int) -> Expr:
        element = gate_read(stacked, hidden, k, "n")
        return element if bias is None else apply("add", element, gate_read(bias, hidden, k))

    return gates


@rule("aten._thnn_fused_lstm_cell")
def fused_lstm_cell(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """`(input_gates, hidden_gates, cx, input_bias, hidden_bias)` -> h, c and a workspace."""
    x, y, c = call.args[:3]
    hidden = c.shape[1]
    left, right = _with_bias(x, call.arg(3, "input_bias"), hidden), _with_bias(y, call.arg(4, "hidden_bias"), hidden)
    new_h, new_c = lstm_step(b, lambda k: apply("add", left(k), right(k)), c, call.out_dtype)
    return new_h, new_c, *(filled(b, "workspace", *spec) if spec else None for spec in call.outputs[2:])


@rule("aten._thnn_fused_gru_cell")
def fused_gru_cell(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """`(input_gates, hidden_gates, hx, input_bias, hidden_bias)` -> h and a workspace."""
    x, y, h = call.args[:3]
    hidden = h.shape[1]
    left, right = _with_bias(x, call.arg(3, "input_bias"), hidden), _with_bias(y, call.arg(4, "hidden_bias"), hidden)
    workspace = (filled(b, "workspace", *spec) if spec else None for spec in call.outputs[1:])
    return gru_step(b, left, right, h, call.out_dtype), *workspace


def _projections(b: Builder, call: OpCall, h: Value) -> tuple[Value, Value]:
    x, (w_ih, w_hh), dtype = call.args[0], call.args[2:4], accumulator(call.out_dtype)
    return linear(b, x, w_ih, call.arg(4, "b_ih"), dtype), linear(b, h, w_hh, call.arg(5, "b_hh"), dtype)


@rule("aten.lstm_cell")
def lstm_cell(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """`(input, (h, c), w_ih, w_hh, b_ih, b_hh)` -> h, c."""
    h, c = call.args[1]
    left, right = _projections(b, call, h)
    total, hidden = add(b, left, right), c.shape[1]
    return lstm_step(b, lambda k: gate_read(total, hidden, k, "n"), c, call.out_dtype)


@rule("aten.gru_cell")
def gru_cell(b: Builder, call: OpCall) -> Value:
    """`(input, h, w_ih, w_hh, b_ih, b_hh)` -> h."""
    h = call.args[1]
    left, right = _projections(b, call, h)
    return gru_step(b, _with_bias(left, None, h.shape[1]), _with_bias(right, None, h.shape[1]), h, call.out_dtype)


@rule("aten.rnn_tanh_cell", "aten.rnn_relu_cell")
def rnn_cell(b: Builder, call: OpCall) -> Value:
    """`(input, h, w_ih, w_hh, b_ih, b_hh)` -> h."""
    h = call.args[1]
    left, right = _projections(b, call, h)
    total = apply("add", left["n", "j"], right["n", "j"])
    return b.statement(
        "h", state_dims(h), activation(total, "relu" if "relu" in call.target else "tanh"), call.out_dtype
    )


def activation(x: Expr, kind: str) -> Expr:
    """tanh or relu."""
    return apply("maximum", x, 0.0) if kind == "relu" else apply("tanh", x)
