# pyright: basic
"""What two traces of one source share when they are the same program at other sizes.

The same operators in the same order at the same places on the same values, with the same attributes. What PyTorch's own
schemas declare as a symbolic integer or a scalar may differ (sizes of views, a factor of 1/sqrt(dim)), but for strides,
paddings and the like; so may extents, but not where one is 1 and the other is not.
"""

from __future__ import annotations

from typing import Any

import torch

from .differs import Differs

_KEPT = {"stride", "padding", "dilation", "output_padding", "kernel_size", "padding_idx", "step"}
_POLICY: dict[str, Any] = {}
_ANY, _SIZES, _PADS, _GROUPS = "any", "sizes", "pads", "groups"


class Signature:
    """Of one trace."""

    def __init__(self, trace: dict[str, Any]) -> None:
        self.targets = [op["target"] for op in trace["ops"]]
        shapes = {t["id"]: t["shape"] for t in trace["tensors"]}
        self._ops = [_operator(op, shapes) for op in trace["ops"]]
        self._table = _table(trace)
        self._frame = (
            trace["outputs"],
            [_place(s) for s in trace["spans"]],
            [(m["path"], m["type"]) for m in trace["modules"]],
        )

    def check(self, trace: dict[str, Any]) -> None:
        """Raise Differs unless `trace` is the same program, and one that runs."""
        _check_channels(trace)
        other = Signature(trace)
        if self.targets != other.targets:
            raise Differs(f"{len(other.targets)} operators for {len(self.targets)}")
        for number, (mine, theirs) in enumerate(zip(self._ops, other._ops, strict=False)):
            if mine != theirs:
                raise Differs(f"operator {number}, {self.targets[number]}: {mine} became {theirs}")
        if self._frame != other._frame:
            raise Differs("other outputs, places or modules")
        if self._table != other._table:
            raise Differs("other tensors")


def _check_channels(trace: dict[str, Any]) -> None:
    """PyTorch's meta kernels let transposed convolutions of the wrong width pass."""
    shapes = {t["id"]: t["shape"] for t in trace["tensors"]}
    for op in trace["ops"]:
        if op["target"] == "aten.convolution.default" and op["args"][6]:
            x, weight = shapes[op["args"][0]["tensor"]], shapes[op["args"][1]["tensor"]]
            if len(x) == len(weight) and x[1] != weight[0]:
                raise Differs(f"a convolution of {weight[0]} channels over {x[1]}")


def _place(span: dict[str, Any]) -> tuple[Any, ...]:
    return span["file"], span["line"], span["column"], span["end_line"], span["end_column"]


def _table(trace: dict[str, Any]) -> list[Any]:
    used: set[int] = set()
    for op in trace["ops"]:
        _ids((op["args"], op["kwargs"], op["outputs"]), used)
    _ids(trace["outputs"], used)
    return [
        (t["id"], t["dtype"], t["kind"], t.get("name", ""), t["storage"], [n if n < 2 else 2 for n in t["shape"]])
        for t in trace["tensors"]
        if t["id"] in used
    ]


def _ids(value: Any, found: set[int]) -> None:
    if isinstance(value, dict):
        number = value.get("tensor")
        if isinstance(number, int):
            found.add(number)
        else:
            for item in value.values():
                _ids(item, found)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _ids(item, found)


def _operator(op: dict[str, Any], shapes: dict[int, Any]) -> tuple[Any, ...]:
    policy = policy_of(op["target"])
    args = [_argument(policy.get(position), value, op, shapes) for position, value in enumerate(op["args"])]
    kwargs = [(k, _argument(policy.get(k), v, op, shapes)) for k, v in op["kwargs"].items()]
    if op["target"] == "aten.native_group_norm.default":
        args.append(shapes[op["args"][0]["tensor"]][1] == op["args"][6])  # one channel a group is another program
    return args, kwargs, op["outputs"], op["span"], op["module"], op.get("view", False), op.get("mutates")


def _argument(policy: Any, value: Any, op: dict[str, Any], shapes: dict[int, Any]) -> Any:
    if policy == _ANY:
        return _form(value, lambda n: "number")
    if policy == _SIZES:
        return _form(value, lambda n: "inferred" if n == -1 else "number")
    if policy == _PADS:
        return _form(value, lambda n: (n > 0) - (n < 0))
    if policy == _GROUPS and isinstance(value, int) and value > 1:
        channels = shapes[op["args"][0]["tensor"]][1]
        return "depthwise" if value == channels else value
    return value


def _form(value: Any, of_number: Any) -> Any:
    """A value with something coarser in place of its numbers."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return of_number(value)
    if isinstance(value, list):
        return [_form(v, of_number) for v in value]
    return value


def policy_of(target: str) -> Any:
    """By position and by name: which arguments of an operator may differ."""
    known = _POLICY.get(target)
    if known is None:
        known = _POLICY[target] = _find_policy(target)
    return known


def _find_policy(target: str) -> dict[Any, str]:
    if target in _FUNCTIONS:
        return _FUNCTIONS[target]
    namespace, name, overload = (*target.split("."), "default", "default")[:3]
    try:
        schema = getattr(getattr(getattr(torch.ops, namespace), name), overload)._schema
    except (AttributeError, RuntimeError):
        return {}
    policy: dict[Any, str] = {}
    for position, argument in enumerate(schema.arguments):
        if argument.name == "groups":
            policy[position] = policy[argument.name] = _GROUPS
        elif (argument.name not in _KEPT or name.startswith("as_strided")) and _element_kind(
            argument.real_type
        ) in _FREE:
            policy[position] = policy[argument.name] = _NAMED.get(argument.name, _ANY)
    return policy


# A Python number in a tensor's place is a scalar.
_NAMED = {"size": _SIZES, "shape": _SIZES, "pad": _PADS}
# Functions that are kept whole have no schema: the scale of attention follows from the width of a head.
_FUNCTIONS: dict[str, Any] = {"fn.scaled_dot_product_attention": {6: _ANY}}
_FREE = {"SymIntType", "NumberType", "TensorType"}


def _element_kind(kind: Any) -> str:
    while kind.kind() in ("OptionalType", "ListType"):
        kind = kind.getElementType()
    return kind.kind()
