"""Integers that are known as affine expressions of enclosing loops' indices: counters, offsets, constants.

JAX computes an index step by step (wrapped when negative, clamped, stacked into a vector); here those steps are done
on expressions, and a comparison is decided where the ranges of the loops decide it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sollens.analysis.ir.affine import Affine
from sollens.analysis.ir.nodes import Apply, Expr, IndexValue, Literal, Read, Select, Statement, defined
from sollens.analysis.lower.builder import Builder, Value

MOST = 8
_MOST_STEPS = 32


def is_given(b: Builder, value: Value) -> bool:
    """Whether these indices are the caller's own, only moved, cast, or wrapped where negative.

    They are taken to lie in the tensor that they index; computed ones may leave it on purpose.
    """
    made = {n.name: n for n in b.nodes if isinstance(n, Statement)}
    wanted, seen = [value.name], set[str]()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        node = made.get(name)
        if len(seen) > _MOST_STEPS or (node is None and b.extents):
            return False
        if node is None:
            if any(name in defined(n) for n in b.nodes):
                return False  # what a call or a loop gave
            continue
        if node.reduction or node.scan or node.guard:
            return False
        found = _moved(node.body, made)
        if found is None:
            return False
        wanted += found
    return True


def _moved(body: Expr, made: dict[str, Statement]) -> list[str] | None:
    """The tensors whose elements a body only moves; None when it computes."""
    match body:
        case Read():
            return [body.tensor]
        case IndexValue():
            return []
        case Apply(op="cast", args=(inner,)):
            return _moved(inner, made)
        case Apply(op="where", args=(Read(tensor=condition), Read(tensor=wrapped), Read(tensor=own))):
            # i where i >= 0 else i + n
            test, sum_ = made.get(condition), made.get(wrapped)
            if test is None or sum_ is None:
                return None
            match test.body, sum_.body:
                case Apply(op="lt", args=(Read(tensor=a), Literal(value=0))), Apply(
                    op="add", args=(Read(tensor=c), Literal())
                ) if a == c == own:
                    return [own]
                case _:
                    return None
        case Select():
            parts = [_moved(body.then, made), _moved(body.otherwise, made)]
            return None if None in parts else [n for p in parts if p is not None for n in p]
        case _:
            return None


def positions(b: Builder, value: Any) -> tuple[Affine, ...] | None:
    """The elements of a small tensor or a number, where all of them are known."""
    if isinstance(value, bool | int):
        return (Affine(int(value)),)
    return b.positions.get(value.name) if isinstance(value, Value) else None


def follow(b: Builder, name: str, operands: Sequence[Any], result: Value | None) -> int | None:
    """Note what is known of `result`, one step of `name` on the operands.

    For "select" (without a result): the case that is always taken, if one is.
    """
    known = [positions(b, o) for o in operands]
    if name == "select":
        which = known[0]
        if which is None or len(which) != 1 or not which[0].is_constant:
            return None
        return which[0].constant
    if result is None or result.dtype[0] not in "iub" or result.size > MOST or any(k is None for k in known):
        return None
    rows = [k for k in known if k is not None]
    count = result.size
    columns = [row * count if len(row) == 1 else row for row in rows]
    found = [_step(b, name, [c[k] for c in columns]) for k in range(count)]
    if all(f is not None for f in found):
        b.positions[result.name] = tuple(f for f in found if f is not None)
    return None


def _step(b: Builder, name: str, args: list[Affine]) -> Affine | None:
    match name, args:
        case (("convert" | "same"), [x]):
            return x
        case (("add" | "sub"), [x, y]):
            return x + y if name == "add" else x - y
        case "neg", [x]:
            return -x
        case "mul", [x, y]:
            return x * y.constant if y.is_constant else y * x.constant if x.is_constant else None
        case (("lt" | "le" | "gt" | "ge" | "eq" | "ne"), [x, y]):
            return _compared(b, name, x - y)
        case (("max" | "min"), [x, y]):
            low, high = (x - y).bounds(b.extents)
            larger, smaller = (x, y) if low >= 0 else (y, x) if high <= 0 else (None, None)
            return larger if name == "max" else smaller
        case "clamp", [low, x, high]:
            raised = _step(b, "max", [x, low])
            return None if raised is None else _step(b, "min", [raised, high])
        case (("and" | "or"), [x, y]) if x.is_constant and y.is_constant:
            both = (x.constant, y.constant)
            return Affine(both[0] & both[1] if name == "and" else both[0] | both[1])
        case _:
            return None


def _compared(b: Builder, name: str, difference: Affine) -> Affine | None:
    """0 or 1 where every iteration agrees."""
    low, high = difference.bounds(b.extents)
    if name in ("gt", "ge"):
        low, high, name = -high, -low, {"gt": "lt", "ge": "le"}[name]
    match name:
        case "lt":
            return Affine(1) if high < 0 else Affine(0) if low >= 0 else None
        case "le":
            return Affine(1) if high <= 0 else Affine(0) if low > 0 else None
        case _:
            equal = True if low == high == 0 else False if low > 0 or high < 0 else None
            return None if equal is None else Affine(int(equal == (name == "eq")))


def start_within(b: Builder, start: Affine, room: int) -> Affine | None:
    """`start` clamped to [0, room], as slices of JAX are; None where that depends on the iteration."""
    return _step(b, "clamp", [Affine(), start, Affine(room)])
