# pyright: basic
"""From what was recorded to the trace: the operators that the outputs need, numbered, and nothing but data."""

from __future__ import annotations

from typing import Any


def pruned(ops: list[dict[str, Any]], outputs: Any) -> list[dict[str, Any]]:
    """The operators on which the outputs depend."""
    live: set[int] = set()
    _uses(outputs, live)
    kept: list[dict[str, Any]] = []
    for op in reversed(ops):
        made: set[int] = set()
        _uses(op["outputs"], made)
        if made.isdisjoint(live):
            continue
        _uses(op["args"], live)
        for block in op.get("blocks", ()):
            block["ops"] = pruned(block["ops"], block["outputs"])
            for inner in block["ops"]:
                _uses((inner["args"], [b["outputs"] for b in inner.get("blocks", ())]), live)
                _nested_uses(inner, live)
            _uses(block["outputs"], live)
        kept.append(op)
    kept.reverse()
    return kept


def _nested_uses(op: dict[str, Any], live: set[int]) -> None:
    for block in op.get("blocks", ()):
        for inner in block["ops"]:
            _uses((inner["args"], block["outputs"]), live)
            _nested_uses(inner, live)


def _uses(value: Any, found: set[int]) -> None:
    if isinstance(value, dict):
        if isinstance(value.get("tensor"), int):
            found.add(value["tensor"])
    elif isinstance(value, (list, tuple)):
        for item in value:
            _uses(item, found)


def finish(ops: list[dict[str, Any]]) -> None:
    """Number the operators as `schema.numbered` does and drop what only the recording needed."""
    found = list(ops)
    for op in found:
        found += [inner for block in op.get("blocks", ()) for inner in block["ops"]]
    numbers = {id(op): n for n, op in enumerate(found)}
    first: dict[int, int] = {}  # a group's leader may have been dropped
    for op in found:
        op["group"] = first.setdefault(id(op["_leader"]), numbers[id(op)])
    for op in found:
        for name in [k for k in op if k.startswith("_")]:
            del op[name]
