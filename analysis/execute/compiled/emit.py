"""Source code for a flattened statement, with every number lifted out of it.

The text depends on the structure alone: loops, which dims an index walks, scalar operations, dtypes. Extents,
strides, constants and literals are arguments, so equal texts share one compiled kernel; the text is its own key. It
holds no name or string of the program. Sums and products of floats accumulate in f64, so that a comparison sees the
other side's rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeVar

import numpy as np

from sollens.analysis.execute.compiled.bodies import Bodies, wrapped
from sollens.analysis.execute.compiled.flatten import holds_linearly
from sollens.analysis.execute.compiled.scalars import apply, cast, convert
from sollens.analysis.execute.compiled.writer import CONSTRUCTOR, Unsupported, Value, Writer
from sollens.analysis.execute.reductions import identity
from sollens.analysis.execute.storage import stored_dtype
from sollens.analysis.ir.affine import Affine, Constraint, dim
from sollens.analysis.ir.nodes import Apply, Dim, Expr, Select, Statement

_Leaf = TypeVar("_Leaf")
_MOST_OPERATIONS = 600
_MOST_LOOPS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A loop nest to compile and the arguments of one use of it.

    The function takes pointers to the result and to `tensors`, with elements of the types in `signature`, then
    `integers` and `floats` by value. The first two integers are the range of the outermost own dim, whose extent is
    `split` (1: there is none). Integers are affine in the indices of enclosing loops. `zeroed`: the result must be 0
    before.
    """

    source: str
    signature: tuple[str, ...]
    tensors: tuple[str, ...]
    integers: tuple[Affine, ...]
    floats: tuple[float, ...]
    split: int
    points: int
    zeroed: bool


def held_dtype(dtype: str) -> np.dtype[np.generic]:
    """How the executor holds a tensor: f16 as rounded f32, like the narrower floats."""
    return np.dtype(np.float32) if dtype == "f16" else stored_dtype(dtype)


def emit(node: Statement, dtypes: Mapping[str, str]) -> Kernel:
    """The kernel of a flattened statement; raises Unsupported."""
    if len(node.domain) > _MOST_LOOPS or _operations(node.body) > _MOST_OPERATIONS:
        raise Unsupported("too large a statement")
    return _Emitter(node, dtypes).kernel()


def _operations(body: Expr) -> int:
    match body:
        case Apply():
            return 1 + sum(_operations(a) for a in body.args)
        case Select():
            return 1 + len(body.condition) + _operations(body.then) + _operations(body.otherwise)
        case _:
            return 1


def _pointer(dtype: str) -> str:
    held = held_dtype(dtype)
    return "uint8" if held.kind == "b" else held.name


class _Emitter(Bodies):
    def kernel(self) -> Kernel:
        self.integer(Affine())
        self.integer(Affine(self.own[0].extent) if self.own else Affine(1))
        self.own_loops(0)
        outer = prod(d.extent for d in self.own)
        numbers = [f"n{k}" for k in range(len(self.integers))] + [f"f{k}" for k in range(len(self.floats))]
        arguments = ", ".join(("o", *self.slots.values(), *numbers))
        return Kernel(
            source="\n".join((f"def k({arguments}):", *self.w.lines, "")),
            signature=(_pointer(self.node.dtype), *(_pointer(self.dtypes[t]) for t in self.slots)),
            tensors=tuple(self.slots),
            integers=tuple(self.integers),
            floats=tuple(self.floats),
            split=self.own[0].extent if self.own and not (self.node.scan and len(self.own) == 1) else 1,
            points=outer * prod(d.extent for d in self.inner),
            zeroed=self.zeroed,
        )

    # --- loops

    def own_loops(self, k: int) -> None:
        own = self.own[k:]
        if self.node.scan is not None and len(own) == 1:
            self.scan(own[0])
        elif k == 0 and self.zeroed:
            self.live_loops(self.own, (), list(self.node.guard), lambda: self.store(self.body(self.node.body)))
        elif own:
            first = "n0, n1" if k == 0 else self.integer(Affine(own[0].extent))
            with self.w.block(f"for {self.loops[own[0].name]} in range({first}):"):
                self.own_loops(k + 1)
        elif self.node.reduction is not None:
            self.reduction(self.node.reduction.kind)
        else:
            self.store(self.body(self.node.body))

    @property
    def zeroed(self) -> bool:
        """Whether only the elements in the guard are written."""
        return bool(self.node.guard) and self.node.reduction is None and self.node.scan is None

    def store(self, value: Value) -> None:
        code = convert(self.w, value, self.node.dtype).code
        pointer = _pointer(self.node.dtype)
        plain = pointer in ("float32", "float64", "int64", "complex64", "complex128")
        self.w.line(f"o[{self.result_offset()}] = {code if plain else f'{pointer}({code})'}")

    def reduction(self, kind: str) -> None:
        mark, depth = len(self.w.lines), self.w.depth
        own = tuple(d.name for d in self.own)
        guard = list(self.node.guard)
        fold = self.live_loops(self.inner, own, guard, lambda: self.fold(kind, self.body(self.node.body)))
        start = Writer(depth=depth)
        for line in fold.start:
            start.line(line)
        self.w.lines[mark:mark] = start.lines
        self.store(fold.result)

    def live_loops(
        self, dims: list[Dim], outer: tuple[str, ...], guard: list[Constraint], leaf: Callable[[], _Leaf]
    ) -> _Leaf:
        """Loops over the points in the guard, each part of which is looked at as early as can be, or limits a loop."""
        reach = frozenset(outer)
        ready = [c for c in guard if c.expr.names & self.loops.keys() <= reach]
        if ready:
            with self.w.block(f"if {self.condition(tuple(ready))}:"):
                return self.live_loops(dims, outer, [c for c in guard if c not in ready], leaf)
        if not dims:
            return leaf()
        d = dims[0]
        split = self.loops[d.name] == "i0"
        low, high = (["n0"], ["n1"]) if split else (["0"], [self.integer(Affine(d.extent))])
        rest = list(guard)
        for c in guard:
            factor = 0 if c.equal else holds_linearly(c.expr, d.name)
            if factor and c.expr.names & self.loops.keys() <= reach | {d.name}:
                rest.remove(c)
                self.limit(c.expr - dim(d.name) * factor, factor, low, high)
        span = f"{self.extreme('>', low)}, {self.extreme('<', high)}".removeprefix("0, ")
        with self.w.block(f"for {self.loops[d.name]} in range({span}):"):
            return self.live_loops(dims[1:], (*outer, d.name), rest, leaf)

    def extreme(self, sign: str, candidates: list[str]) -> str:
        """The largest or smallest of some integers."""
        best = candidates[0]
        for other in candidates[1:]:
            best = self.w.let(f"{other} if {other} {sign} {best} else {best}", "i").code
        return best

    def limit(self, rest: Affine, factor: int, low: list[str], high: list[str]) -> None:
        """`factor * d + rest >= 0` as a limit of the loop over d."""
        name = self.w.fresh()
        divided = "" if abs(factor) == 1 else f" // {self.integer(Affine(abs(factor)))}"
        rest_code = f"({self.affine(rest)}){divided}"
        self.w.line(f"{name} = -({rest_code})" if factor > 0 else f"{name} = {rest_code} + 1")
        (low if factor > 0 else high).append(name)

    # --- folds

    def fold(self, kind: str, value: Value) -> _Fold:
        w = self.w
        if kind in ("argmax", "argmin"):
            return self.first_position(kind, value)
        acc = w.fresh()
        if kind in ("any", "all"):
            truth = cast(w, value, "b").code
            w.line(f"{acc} = {acc} {'|' if kind == 'any' else '&'} {truth}")
            return _Fold((f"{acc} = {kind == 'all'}",), Value(acc, "b"))
        start, value, kind_ = self.start(kind, value)
        w.line(f"{acc} = {_combined(kind, acc, value.code, kind_)}")
        return _Fold((f"{acc} = {start}",), Value(acc, kind_))

    def start(self, kind: str, value: Value) -> tuple[str, Value, str]:
        """The fold's identity, the value as it is folded, and the kind of both."""
        w, original = self.w, value
        value = cast(w, value, "i") if value.kind == "b" else value
        if kind in ("sum", "prod", "logsumexp") and value.kind != "i":
            value = cast(w, value, "d" if value.kind in "fd" else "D")
        if (value.kind in "FD" and kind not in ("sum", "prod")) or (kind == "logsumexp" and value.kind != "d"):
            raise Unsupported(f"{kind} of this kind")
        return self.neutral(kind, original, value.kind), value, value.kind

    def neutral(self, kind: str, original: Value, folded: str) -> str:
        if kind in ("sum", "prod"):
            number = int(kind == "prod")
            return f"{number}.0" if folded == "d" else f"{CONSTRUCTOR[folded]}({number})"
        if folded in "fd":
            return f"{CONSTRUCTOR[folded]}({self.number(identity(kind, 'f32'))})"
        own = stored_dtype(self.node.dtype)
        dtype = "bool" if original.kind == "b" else self.node.dtype if own.kind in "iu" else "i64"
        return self.integer(Affine(wrapped(int(identity(kind, dtype)))))

    def first_position(self, kind: str, value: Value) -> _Fold:
        if value.kind in "FD":
            raise Unsupported(f"complex {kind}")
        w = self.w
        value = cast(w, value, "i") if value.kind == "b" else value
        best, at = w.fresh(), w.fresh()
        sign = ">" if kind == "argmax" else "<"
        better = f"{value.code} {sign} {best}"
        if value.kind in "fd":
            better = f"({best} == {best} and ({better} or {value.code} != {value.code}))"
        with w.block(f"if {at} < 0 or {better}:"):
            w.line(f"{best} = {value.code}")
            w.line(f"{at} = {self.loops[self.inner[0].name]}")
        start = (f"{best} = {CONSTRUCTOR[value.kind]}(0)", f"{at} = int64(-1)")
        return _Fold(start, Value(f"({at} if {at} > 0 else 0)", "i"))

    def scan(self, along: Dim) -> None:
        assert self.node.scan is not None
        w, kind = self.w, self.node.scan.kind
        mark, depth = len(w.lines), w.depth
        name, extent = self.loops[along.name], self.integer(Affine(along.extent))
        step = w.fresh()
        with w.block(f"for {step} in range({extent}):"):
            w.line(f"{name} = {extent} - 1 - {step}" if self.node.scan.reverse else f"{name} = {step}")
            value = self.guarded(kind)
            if kind in ("argmax", "argmin"):
                fold = self.running_position(kind, value, name, step)
            else:
                start, value, folded = self.start(kind, value)
                acc = w.fresh()
                combined = (
                    _logaddexp(self, acc, value) if kind == "logsumexp" else _combined(kind, acc, value.code, folded)
                )
                w.line(f"{acc} = {combined}")
                fold = _Fold((f"{acc} = {start}",), Value(acc, folded))
            self.store(fold.result)
        begin = Writer(depth=depth)
        for line in fold.start:
            begin.line(line)
        w.lines[mark:mark] = begin.lines

    def guarded(self, kind: str) -> Value:
        """The body where the guard holds, else the fold's identity."""
        w = self.w
        if not self.node.guard:
            return self.body(self.node.body)
        name = w.fresh()
        with w.block(f"if {self.condition(self.node.guard)}:"):
            value = self.body(self.node.body)
            folded = cast(w, value, "i") if value.kind == "b" else value
            if value.kind in "FD" and kind not in ("sum", "prod"):
                raise Unsupported(f"complex {kind}")
            w.line(f"{name} = {folded.code}")
        with w.block("else:"):
            w.line(f"{name} = {self.neutral(kind, value, folded.kind)}")
        return Value(name, folded.kind)

    def running_position(self, kind: str, value: Value, position: str, step: str) -> _Fold:
        if value.kind in "FD":
            raise Unsupported(f"complex {kind}")
        w = self.w
        value = cast(w, value, "i") if value.kind == "b" else value
        best, at = w.fresh(), w.fresh()
        better = f"{value.code} {'>=' if kind == 'argmax' else '<='} {best}"
        if value.kind in "fd":
            better = f"{value.code} != {value.code} or ({best} == {best} and {better})"
        with w.block(f"if {step} == 0 or {better}:"):
            w.line(f"{best} = {value.code}")
            w.line(f"{at} = {position}")
        return _Fold((f"{best} = {CONSTRUCTOR[value.kind]}(0)", f"{at} = int64(0)"), Value(at, "i"))


@dataclass(frozen=True, slots=True)
class _Fold:
    """Lines that go before the loops, and the value after them."""

    start: tuple[str, ...]
    result: Value


def _combined(kind: str, acc: str, value: str, folded: str) -> str:
    match kind:
        case "sum":
            return f"{acc} + {value}"
        case "prod":
            return f"{acc} * {value}"
        case "max" | "min":
            sign = ">=" if kind == "max" else "<="
            kept = f"{acc} {sign} {value}" + (f" or {acc} != {acc}" if folded in "fd" else "")
            return f"{acc} if ({kept}) else {value}"
        case _:
            raise Unsupported(kind)


def _logaddexp(emitter: _Emitter, acc: str, value: Value) -> str:
    w = emitter.w
    return apply(w, "logaddexp", (Value(acc, "d"), value), "").code
