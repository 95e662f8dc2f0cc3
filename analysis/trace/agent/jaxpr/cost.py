# pyright: basic
"""How much work executing a JAX trace's loop program is: points of its loop nests, and its largest tensor."""

from __future__ import annotations

from math import prod
from typing import Any

from ..cost import ids


def cost_of(trace: dict[str, Any]) -> tuple[int, int]:
    """(points of all operators, elements of the largest tensor)."""
    shapes = {t["id"]: t["shape"] for t in trace["tensors"]}
    used = [prod(t["shape"]) for t in trace["tensors"] if t["kind"] != "intermediate"]
    points, elements = _of(trace["ops"], shapes)
    return points, max([elements, *used])


def _of(ops: list[dict[str, Any]], shapes: dict[int, list[int]]) -> tuple[int, int]:
    points = elements = 0
    for op in ops:
        ins, outs = ([shapes[n] for n in ids(op[side])] for side in ("args", "outputs"))
        largest = max((prod(s) for s in (*ins, *outs)), default=0)
        elements = max(elements, max((prod(s) for s in outs), default=0))
        inner = [_of(block["ops"], shapes) for block in op.get("blocks", ())]
        trips = op["kwargs"].get("length") or 1
        points += max(largest, _own(op, ins, outs)) + trips * sum(p for p, _ in inner)
        elements = max([elements, *(e for _, e in inner)])
    return points, elements


def _own(op: dict[str, Any], ins: list[list[int]], outs: list[list[int]]) -> int:
    name, kwargs = op["target"].split(".")[1], op["kwargs"]
    if name == "dot_general" and len(ins) == 2:
        (over, _), _ = kwargs["dimension_numbers"]
        return prod(outs[0]) * prod(ins[0][axis] for axis in over)
    if name == "conv_general_dilated" and len(ins) == 2:
        spec = dict(kwargs["dimension_numbers"]["dict"])["rhs_spec"]
        return prod(outs[0]) * prod(n for axis, n in enumerate(ins[1]) if axis != spec[0])
    if "window_dimensions" in kwargs and outs:
        return max(prod(outs[0]), prod(ins[0])) * prod(kwargs["window_dimensions"])
    return 0
