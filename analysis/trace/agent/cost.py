# pyright: basic
"""How much work executing a trace's loop program is: points of its loop nests, and its largest tensor."""

from __future__ import annotations

from math import prod
from typing import Any


def cost_of(trace: dict[str, Any]) -> tuple[int, int]:
    """(points of all operators, elements of the largest tensor)."""
    shapes = {t["id"]: t["shape"] for t in trace["tensors"]}
    used = [t for t in trace["tensors"] if t["kind"] != "intermediate"]
    elements = max((prod(t["shape"]) for t in used), default=0)
    points = 0
    for op in trace["ops"]:
        ins = [shapes[n] for n in ids(op["args"])]
        outs = [shapes[n] for n in ids(op["outputs"])]
        largest = max((prod(s) for s in (*ins, *outs)), default=0)
        elements = max(elements, max((prod(s) for s in outs), default=0))
        rule = _RULES.get(op["target"].split(".")[1])
        points += max(largest, rule(op["args"], ins, outs)) if rule is not None and ins and outs else largest
    return points, elements


def ids(value: Any) -> list[int]:
    """Tensor ids of encoded values, in order."""
    if isinstance(value, dict):
        if isinstance(value.get("tensor"), int):
            return [value["tensor"]]
        return [n for v in value.values() for n in ids(v)]
    if isinstance(value, (list, tuple)):
        return [n for v in value for n in ids(v)]
    return []


def _contracted(args: Any, ins: Any, outs: Any) -> int:
    return prod(outs[0]) * ins[0][-1] if ins[0] else 1


def _added(args: Any, ins: Any, outs: Any) -> int:
    return prod(outs[0]) * ins[1][-1]


def _convolution(args: Any, ins: Any, outs: Any) -> int:
    if len(args) < 7 or args[6] is not True:
        return prod(outs[0]) * prod(ins[1][1:])
    # The loop program of a transposed one runs over inputs (and taps) and keeps the few that meet an output.
    points = prod(outs[0]) * ins[1][0]
    for axis, (extent, kernel) in enumerate(zip(ins[0][2:], ins[1][2:], strict=False)):
        stride, dilation = (v[axis] if axis < len(v) else v[0] for v in (args[3], args[5]))
        points *= kernel if stride == 1 else extent if dilation == 1 else extent * kernel
    return points // max(1, args[8])


def _einsum(args: Any, ins: Any, outs: Any) -> int:
    sizes: dict[str, int] = {}
    for term, shape in zip(args[0].replace(" ", "").partition("->")[0].split(","), ins, strict=False):
        if "." in term:
            head, _, tail = term.partition("...")
            middle = shape[len(head) : len(shape) - len(tail)]
            sizes.update({f".{len(middle) - k}": n for k, n in enumerate(middle)})
            sizes.update(zip(tail, shape[len(shape) - len(tail) :], strict=False))
            term = head
        sizes.update(zip(term, shape, strict=False))
    return prod(sizes.values())


def _attention(args: Any, ins: Any, outs: Any) -> int:
    return 2 * prod(ins[0]) * ins[1][-2]


def _recurrent(args: Any, ins: Any, outs: Any) -> int:
    steps = prod(ins[0][:-1])
    return steps * sum(prod(s) for s in ins[1:] if len(s) == 2)


def _pool(args: Any, ins: Any, outs: Any) -> int:
    kernel = args[1] if isinstance(args[1], list) else [args[1]]
    rank = len(kernel) if len(kernel) > 1 else 2
    return prod(outs[0]) * (prod(kernel) if len(kernel) > 1 else int(kernel[0] or 1) ** rank)


def _distance(args: Any, ins: Any, outs: Any) -> int:
    return prod(outs[0]) * ins[0][-1]


_RULES = {
    **dict.fromkeys(("linear", "matmul", "mm", "bmm", "mv"), _contracted),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), _added),
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), _recurrent),
    **dict.fromkeys(("max_pool2d_with_indices", "max_pool3d_with_indices"), _pool),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), _pool),
    **dict.fromkeys(("cdist", "_cdist_forward"), _distance),
    "convolution": _convolution,
    "einsum": _einsum,
    "scaled_dot_product_attention": _attention,
}
