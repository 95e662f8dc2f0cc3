"""Calls of the brute force: which elements a lookup, an update or a sort touches, for known index values."""

from __future__ import annotations

from typing import Any

import numpy as np

from sollens.analysis.ir.nodes import Call, Program
from tests.einsum.brute import Counts, Machine, Tensor, Value, indices


def call(machine: Machine, node: Call) -> None:
    """Define the call's results."""
    operands = [machine.tensors[o] for o in node.operands]
    numbers = [_numbers(machine, o, t) for o, t in zip(node.operands, operands, strict=True)]
    axis = node.attribute("axis", 0)
    results = [Tensor(r.dtype, r.shape) for r in node.results]
    for tensor, result in zip(results, node.results, strict=True):
        tensor.places = {i: (result.name, *machine.trips.values(), *i) for i in indices(result.shape)}
        machine.tensors[result.name] = tensor
    match node.op:
        case "take":
            _take(machine, results[0], operands, numbers[1], axis)
        case "gather":
            _gather(machine, results[0], operands, numbers[1], axis)
        case "scatter" | "index_add":
            _scatter(machine, node, results[0], operands, numbers[1], axis)
        case "sort" | "topk":
            _sort(machine, node, results, operands[0], axis)
        case "random":
            for i in indices(results[0].shape):
                results[0].values[i] = machine.value(("random", node.results[0].name, *machine.trips.values(), i))
        case _:
            raise NotImplementedError(node.op)


def _numbers(machine: Machine, name: str, tensor: Tensor) -> np.ndarray | None:
    if name in machine.known:
        return machine.known[name]
    if all(v.constant for v in tensor.values.values()):
        found = np.zeros(tensor.shape, dtype=np.float64)
        for i, v in tensor.values.items():
            found[i] = v.number
        return found.astype(np.int64)
    return None


def _pick(machine: Machine, x: Value, at: Value) -> Value:
    """An element that another one chose: both are needed, nothing is computed."""
    return x if at.constant else machine.value(("pick",), (x, at))


def _take(machine: Machine, result: Tensor, operands: list[Tensor], numbers: Any, axis: int) -> None:
    x, idx = operands
    rank = len(idx.shape)
    for i in indices(result.shape):
        k = i[axis : axis + rank]
        row = int(numbers[k]) % x.shape[axis]
        result.values[i] = _pick(machine, x.values[(*i[:axis], row, *i[axis + rank :])], idx.values[k])


def _gather(machine: Machine, result: Tensor, operands: list[Tensor], numbers: Any, axis: int) -> None:
    x, idx = operands
    for i in indices(result.shape):
        result.values[i] = _pick(machine, x.values[(*i[:axis], int(numbers[i]), *i[axis + 1 :])], idx.values[i])


def _scatter(machine: Machine, node: Call, result: Tensor, operands: list[Tensor], numbers: Any, axis: int) -> None:
    x, idx, src = operands
    reduce = node.attribute("reduce", "none")
    keep = node.attribute("include_self", True)
    rows = node.op == "index_add"
    hits: dict[tuple[int, ...], list[Value]] = {}
    deciding: dict[tuple[int, ...], list[Value]] = {}
    for i in indices(src.shape):
        k = (i[axis],) if rows else i
        if not rows and any(a >= b for a, b in zip(i, idx.shape, strict=True)):
            continue
        target = (*i[:axis], int(numbers[k]), *i[axis + 1 :])
        hits.setdefault(target, []).append(src.values[i])
        deciding.setdefault((*i[:axis], *i[axis + 1 :]), []).append(idx.values[k])
    for i in indices(result.shape):
        own = hits.get(i, [])
        decide = tuple(v for v in deciding.get((*i[:axis], *i[axis + 1 :]), ()) if not v.constant)
        if reduce in ("none", None):
            chosen = (own[-1],) if own else (x.values[i],)
            cost = 0
        else:
            chosen = (*([x.values[i]] if keep or not own else []), *own)
            live = [v for v in chosen if not (v.constant and v.number == 0)]
            cost = max(0, len(live) - 1)
        result.values[i] = machine.value(("scatter", node.results[0].name), (*chosen, *decide), vector_ops=cost)


def _sort(machine: Machine, node: Call, results: list[Tensor], x: Tensor, axis: int) -> None:
    for rest in indices(x.shape[:axis] + x.shape[axis + 1 :]):
        fibre = tuple(x.values[(*rest[:axis], t, *rest[axis:])] for t in range(x.shape[axis]))
        whole = machine.value(("sort", node.results[0].name), fibre, vector_ops=len(fibre) - 1)
        for k, result in enumerate(results):
            for t in range(result.shape[axis]):
                i = (*rest[:axis], t, *rest[axis:])
                result.values[i] = machine.value(("sorted", k, t), (whole,))


def with_sliced(program: Program, name: str, values: np.ndarray) -> Counts:
    """The counts where the loop tensor `name` holds `values[t]` at iteration t."""
    machine = Machine(program)

    class Sliced(dict[str, np.ndarray]):
        def __contains__(self, key: object) -> bool:
            return key == name

        def __getitem__(self, key: str) -> np.ndarray:
            return values[tuple(machine.trips.values())]

    machine.known = Sliced()
    return machine.run().counts()
