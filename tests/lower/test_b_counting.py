"""Naive counters of multiply-accumulates: over a statement's points, and over the operator's definition."""

from __future__ import annotations

from itertools import product

from sollens.analysis.ir.nodes import Apply, Loop, Node, Read, Statement


def is_contraction(node: Statement) -> bool:
    """A sum over a product of two reads and nothing else."""
    body = node.body
    return (
        node.reduction is not None
        and node.reduction.kind == "sum"
        and isinstance(body, Apply)
        and body.op == "mul"
        and all(isinstance(a, Read) for a in body.args)
    )


def live_points(node: Statement) -> int:
    """Points of the statement's domain at which its guard holds, one by one."""
    names = [d.name for d in node.domain]
    boxes = product(*(range(d.extent) for d in node.domain))
    return sum(all(c.holds(dict(zip(names, p, strict=True))) for c in node.guard) for p in boxes)


def macs(nodes: list[Node]) -> int:
    """Multiply-accumulates of all contractions, loops multiplied."""
    total = 0
    for node in nodes:
        if isinstance(node, Loop):
            total += node.index.extent * macs(list(node.body))
        elif isinstance(node, Statement) and is_contraction(node):
            total += live_points(node)
    return total


def convolution_macs(
    batch: int,
    channels: int,
    out_channels: int,
    groups: int,
    axes: list[tuple[int, int, int, int, int, int]],
    transposed: bool,
) -> int:
    """By definition: every pair of an input and an output position that a tap joins.

    An axis is (size, out, kernel, stride, padding, dilation).
    """
    joined = 1
    for size, out, kernel, stride, padding, dilation in axes:
        far, near = (out, size) if transposed else (size, out)
        joined *= sum(0 <= p * stride + k * dilation - padding < far for p in range(near) for k in range(kernel))
    return batch * (channels // groups) * out_channels * joined
