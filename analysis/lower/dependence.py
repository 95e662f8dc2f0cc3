"""What depends on what: operators of the setup, nodes of a program, tensors that anything reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sollens.analysis.ir.nodes import Call, Node, Statement, defined, reads
from sollens.analysis.lower.decoding import tensor_ids
from sollens.analysis.trace.schema import Op, Tensor, Trace, numbered


def used_tensors(trace: Trace) -> set[int]:
    """Tensors that some operator or the caller reads."""
    used = set(tensor_ids(trace.outputs))
    for op in (*numbered(trace.ops), *trace.setup):
        used.update(tensor_ids(op.args, op.kwargs, *(block.outputs for block in op.blocks)))
    setup = {t for op in trace.setup for t in tensor_ids(op.outputs)}
    return used | setup


def setup_operators(trace: Trace, tensors: Mapping[int, Tensor], wanted: Sequence[int]) -> list[Op]:
    """The setup operators that may touch what `wanted` is computed from, by storage."""
    storages = {tensors[t].storage for t in wanted}
    ops: list[Op] = []
    for op in reversed(trace.setup):
        touched = (*tensor_ids(op.outputs), *op.mutates)
        if any(t in tensors and tensors[t].storage in storages for t in touched):
            ops.append(op)
            arguments = tensor_ids(op.args, op.kwargs)
            storages |= {tensors[t].storage for t in arguments if t in tensors}
    ops.reverse()
    return ops


def reachable(nodes: Sequence[Node], wanted: set[str]) -> tuple[tuple[Node, ...], set[str]]:
    """The nodes that `wanted` depends on, and every name they need."""
    needed = set(wanted)
    kept: list[Node] = []
    for node in reversed(nodes):
        if needed.isdisjoint(defined(node)):
            continue
        kept.append(node)
        match node:
            case Statement():
                needed.update(r.tensor for r in reads(node.body))
            case Call():
                needed.update(node.operands)
            case _:
                raise NotImplementedError("loops in setup")
    return tuple(reversed(kept)), needed
