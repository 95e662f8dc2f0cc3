"""LSTM, GRU and plain RNN layers as loops over time: one loop a layer and direction.

The product with the input is one contraction over all steps before the loop; the body holds what depends on the state.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from sollens.analysis.ir.affine import Affine, dim, equals, less
from sollens.analysis.ir.nodes import Carried, Collected, Dim, Expr, Loop, Node
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.cells import activation, gate_read, gru_step, lstm_step, state_dims
from sollens.analysis.lower.contractions import contraction
from sollens.analysis.lower.expressions import apply, select
from sollens.analysis.lower.pointwise import accumulator, dims_of, filled, pointwise
from sollens.analysis.lower.registry import rule


@dataclass(frozen=True, slots=True)
class Weights:
    """Of one layer and direction. `project` is the LSTM's optional projection of h."""

    input: Value
    hidden: Value
    input_bias: Value | None = None
    hidden_bias: Value | None = None
    project: Value | None = None


@dataclass(frozen=True, slots=True)
class Layer:
    """What all layers of a call share: `kind` is lstm, gru, tanh or relu."""

    kind: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Direction:
    """Result of one loop: the states in the order of its steps, and the last ones."""

    states: Value
    h: Value
    c: Value | None


@contextmanager
def _body(b: Builder) -> Generator[list[Node]]:
    """Nodes emitted inside go to a loop's body."""
    outside = b.nodes
    b.nodes = []
    try:
        yield b.nodes
    finally:
        b.nodes = outside


def _run(
    b: Builder, layer: Layer, x: Value, batch_first: bool, w: Weights, h: Value, c: Value | None, reverse: bool
) -> Direction:
    """One layer in one direction over `x` [t, n, i] (or [n, t, i])."""
    steps = x.shape[1 if batch_first else 0]
    inputs = _input_gates(b, layer, x, batch_first, w)
    step = b.fresh("step")
    at = (steps - 1) - dim(step) if reverse else dim(step)
    state, cell = replace_name(h, b.fresh("h_in")), None if c is None else replace_name(c, b.fresh("c_in"))
    with _body(b) as body:
        new_h, new_c = _step(b, layer, inputs, at, w, state, cell)
    final_h = replace_name(h, b.fresh("h_last"))
    carried = [Carried(name=state.name, initial=h.name, next=new_h.name, final=final_h.name)]
    final_c = None
    if c is not None and cell is not None and new_c is not None:
        final_c = replace_name(c, b.fresh("c_last"))
        carried.append(Carried(name=cell.name, initial=c.name, next=new_c.name, final=final_c.name))
    states = Value(b.fresh("states"), layer.dtype, (steps, *h.shape))
    b.nodes.append(
        Loop(
            index=Dim(name=step, extent=steps),
            carried=tuple(carried),
            body=tuple(body),
            collected=(Collected(name=states.name, inner=new_h.name),),
            source=b.source,
        )
    )
    return Direction(states, final_h, final_c)


def replace_name(value: Value, name: str) -> Value:
    """A tensor of the same type under another name."""
    return replace(value, name=name)


def _input_gates(b: Builder, layer: Layer, x: Value, batch_first: bool, w: Weights) -> Value:
    """`x @ w_ih.T` and every bias that does not depend on the state, [t, n, gates]."""
    time, batch = (1, 0) if batch_first else (0, 1)
    dims = [("t", x.shape[time]), ("n", x.shape[batch]), ("g", w.input.shape[0])]
    pixel = x["n", "t", "i"] if batch_first else x["t", "n", "i"]
    product = contraction(
        b, "input_gates", dims, [("i", x.shape[2])], pixel, w.input["g", "i"], accumulator(layer.dtype)
    )
    if w.input_bias is None or w.hidden_bias is None:
        return product
    total: Expr = apply("add", w.input_bias["g"], w.hidden_bias["g"])
    if layer.kind == "gru":  # the new gate's hidden bias is scaled by the reset gate
        total = select(less(dim("g"), w.input.shape[0] // 3 * 2), total, w.input_bias["g"])
    bias = b.statement("bias", [dims[2]], total, product.dtype)
    return b.statement("input_gates", dims, apply("add", product["t", "n", "g"], bias["g"]), product.dtype)


def _step(
    b: Builder, layer: Layer, inputs: Value, at: Affine, w: Weights, h: Value, c: Value | None
) -> tuple[Value, Value | None]:
    gates_dim = ("g", w.hidden.shape[0])
    dims, over = [("n", h.shape[0]), gates_dim], [("k", h.shape[1])]
    product = contraction(b, "hidden_gates", dims, over, h["n", "k"], w.hidden["g", "k"], inputs.dtype)

    def given(hidden: int, k: int) -> Expr:
        return inputs[(at, "n", dim("j") + k * hidden)]

    if layer.kind == "lstm":
        assert c is not None
        size = c.shape[1]
        new_h, new_c = lstm_step(
            b, lambda k: apply("add", given(size, k), gate_read(product, size, k, "n")), c, layer.dtype
        )
        if w.project is not None:
            row = [("n", h.shape[0]), ("p", w.project.shape[0])]
            over = [("k", size)]
            new_h = contraction(b, "h", row, over, new_h["n", "k"], w.project["p", "k"], layer.dtype)
        return new_h, new_c
    size = h.shape[1]
    if layer.kind == "gru":

        def hiddens(k: int) -> Expr:
            element = gate_read(product, size, k, "n")
            return (
                element if k < 2 or w.hidden_bias is None else apply("add", element, gate_read(w.hidden_bias, size, k))
            )

        return gru_step(b, lambda k: given(size, k), hiddens, h, layer.dtype), None
    total = apply("add", given(size, 0), gate_read(product, size, 0, "n"))
    return b.statement("h", state_dims(h), activation(total, layer.kind), layer.dtype), None


def _joined(b: Builder, runs: Sequence[Direction], batch_first: bool) -> Value:
    """Both directions side by side in the order of time, [t, n, f] or [n, t, f]; a single forward run is itself."""
    if len(runs) == 1 and not batch_first:
        return runs[0].states
    steps, batch, width = runs[0].states.shape
    body: Expr = runs[0].states["t", "n", "f"]
    if len(runs) == 2:
        backward = runs[1].states[(steps - 1) - dim("t"), "n", dim("f") - width]
        body = select(less(dim("f"), width), body, backward)
    dims = [("t", steps), ("n", batch), ("f", width * len(runs))]
    return b.statement("output", [dims[1], dims[0], dims[2]] if batch_first else dims, body, runs[0].states.dtype)


def _stacked(b: Builder, hint: str, parts: Sequence[Value]) -> Value:
    dims = dims_of((len(parts), *parts[0].shape))
    names = [n for n, _ in dims]
    body: Expr = parts[-1][tuple(names[1:])]
    for k in range(len(parts) - 2, -1, -1):
        body = select(equals(dim(names[0]), k), parts[k][tuple(names[1:])], body)
    return b.statement(hint, dims, body, parts[0].dtype)


def _slot(b: Builder, hint: str, states: Value, slot: int) -> Value:
    dims = dims_of(states.shape[1:])
    return b.statement(hint, dims, states[(slot, *(n for n, _ in dims))], states.dtype)


def _dropped(b: Builder, x: Value, probability: float) -> Value:
    chance = filled(b, "keep_probability", "f32", x.shape, 1 - probability)
    (kept,) = b.call("random", [chance], [("bool", x.shape)], "kept", distribution="bernoulli")
    scaled = pointwise(b, "scaled", x.dtype, x.shape, "mul", x, 1 / (1 - probability))
    return pointwise(b, "dropped", x.dtype, x.shape, "where", kept, scaled, 0.0)


_KINDS = {"lstm": "lstm", "gru": "gru", "rnn_tanh": "tanh", "rnn_relu": "relu"}


@rule(*(f"{space}.{name}" for space in ("fn", "aten") for name in _KINDS))
def recurrent(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """`(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)` -> output, h_n, c_n."""
    if isinstance(call.args[3], list | tuple):
        raise NotImplementedError("packed sequences: their lengths are data")
    x, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first = call.args[:9]
    layer = Layer(_KINDS[call.target.split(".")[1]], call.out_dtype)
    h_0, c_0 = hx if layer.kind == "lstm" else (hx, None)
    ways = 2 if bidirectional else 1
    each = len(params) // (layers * ways)
    sets = [_weights(params[k * each : (k + 1) * each], has_biases) for k in range(layers * ways)]
    finals: list[Direction] = []
    for depth in range(layers):
        runs: list[Direction] = []
        for way in range(ways):
            slot = depth * ways + way
            h = _slot(b, "h_0", h_0, slot)
            c = None if c_0 is None else _slot(b, "c_0", c_0, slot)
            runs.append(_run(b, layer, x, batch_first and depth == 0, sets[slot], h, c, way == 1))
        finals += runs
        last = depth == layers - 1
        x = _joined(b, runs, batch_first and last)
        if train and dropout > 0 and not last:
            x = _dropped(b, x, dropout)
    h_n = _stacked(b, "h_n", [r.h for r in finals])
    cells = [r.c for r in finals if r.c is not None]
    return (x, h_n, _stacked(b, "c_n", cells)) if cells else (x, h_n)


def _weights(params: Sequence[Value], has_biases: bool) -> Weights:
    input_bias, hidden_bias = params[2:4] if has_biases else (None, None)
    extra = params[4 if has_biases else 2 :]
    return Weights(params[0], params[1], input_bias, hidden_bias, extra[0] if extra else None)


@rule("aten.mkldnn_rnn_layer")
def mkldnn_rnn_layer(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """One LSTM layer in one direction: `(input, w_ih, w_hh, b_ih, b_hh, hx, cx, reverse, batch_sizes, mode, ...)`."""
    x, w_ih, w_hh, b_ih, b_hh, h, c, reverse, _, mode = call.args[:10]
    if mode != 2:
        raise NotImplementedError(f"mkldnn_rnn_layer: expected mode 2 (LSTM), found {mode}")
    biases: tuple[Any, Any] = (b_ih, b_hh) if call.args[12] else (None, None)
    run = _run(b, Layer("lstm", call.out_dtype), x, False, Weights(w_ih, w_hh, *biases), h, c, reverse)
    y = run.states
    if reverse:
        dims = dims_of(y.shape)
        index = ((y.shape[0] - 1) - dim(dims[0][0]), *(n for n, _ in dims[1:]))
        y = b.statement("output", dims, y[index], y.dtype)
    workspace = (filled(b, "workspace", *spec) if spec else None for spec in call.outputs[3:])
    return y, run.h, run.c, *workspace
