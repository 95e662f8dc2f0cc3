"""Code for indices, conditions and scalar bodies, with every number lifted out of it."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from sollens.analysis.execute.compiled.scalars import apply, kind_of, promote
from sollens.analysis.execute.compiled.writer import CONSTRUCTOR, Unsupported, Value, Writer
from sollens.analysis.execute.scalar_table import Scalar
from sollens.analysis.execute.scalar_table import apply as evaluate
from sollens.analysis.execute.storage import compute_type_of
from sollens.analysis.ir.affine import Affine, Constraint, FloorDiv, Mod, dim
from sollens.analysis.ir.nodes import Apply, Expr, IndexValue, Literal, Read, Select, Statement

_SIGNS = {1: "", -1: "-"}


class Bodies:
    """Writes parts of one kernel and collects its arguments: tensors by position, integers, floats."""

    def __init__(self, node: Statement, dtypes: Mapping[str, str]) -> None:
        self.node, self.dtypes = node, dtypes
        scan = node.scan.dim if node.scan else None
        self.own = sorted(node.dims, key=lambda d: d.name == scan)
        self.inner = list(node.reduction.dims) if node.reduction else []
        self.loops = {d.name: f"i{k}" for k, d in enumerate(self.own)} | {
            d.name: f"r{k}" for k, d in enumerate(self.inner)
        }
        self.order = {name: k for k, name in enumerate(self.loops)}
        self.w = Writer()
        self.integers: list[Affine] = []
        self.floats: list[float] = []
        self.slots: dict[str, str] = {}
        self.known: dict[Read, Value] = {}

    def integer(self, value: Affine) -> str:
        self.integers.append(value)
        return f"n{len(self.integers) - 1}"

    def number(self, value: float) -> str:
        self.floats.append(value)
        return f"f{len(self.floats) - 1}"

    def affine(self, expr: Affine) -> str:
        """Code for the expression; what no loop of this kernel changes is one argument."""
        fixed = Affine(expr.constant)
        parts: list[str] = []
        for atom, factor in sorted(expr.terms, key=lambda t: self.rank(t[0])):
            names = frozenset((atom,)) if isinstance(atom, str) else atom.operand.names
            if names.isdisjoint(self.loops):
                fixed = fixed + Affine(0, ((atom, factor),))
                continue
            match atom:
                case str():
                    code = self.loops[atom]
                case FloorDiv():
                    code = f"(({self.affine(atom.operand)}) // {self.integer(Affine(atom.divisor))})"
                case Mod():
                    code = f"(({self.affine(atom.operand)}) % {self.integer(Affine(atom.divisor))})"
            parts.append(_SIGNS[factor] + code if factor in _SIGNS else f"{self.integer(Affine(factor))} * {code}")
        return " + ".join([self.integer(fixed), *parts])

    def rank(self, atom: str | FloorDiv | Mod) -> tuple[int, ...]:
        if isinstance(atom, str):
            return (0, self.order.get(atom, -1))
        return (1 + isinstance(atom, Mod), *sorted(self.order.get(n, -1) for n in atom.operand.names))

    def condition(self, constraints: tuple[Constraint, ...]) -> str:
        return " and ".join(f"({self.affine(c.expr)}) {'==' if c.equal else '>='} 0" for c in constraints) or "True"

    def result_offset(self) -> str:
        total = Affine()
        for k, d in enumerate(self.node.dims):
            total = total + dim(d.name) * prod(e.extent for e in self.node.dims[k + 1 :])
        return self.affine(total)

    def body(self, expr: Expr) -> Value:
        """Code for a body; equal reads are one."""
        match expr:
            case Read():
                if expr not in self.known:
                    self.known[expr] = self.read(expr)
                return self.known[expr]
            case Literal():
                return self.literal(expr.value)
            case IndexValue():
                return self.w.let(self.affine(expr.expr), "i")
            case Apply():
                return self.operation(expr)
            case Select():
                return self.select(expr)

    def read(self, expr: Read) -> Value:
        slot = self.slots.setdefault(expr.tensor, f"x{len(self.slots)}")
        dtype = self.dtypes[expr.tensor]
        kind = kind_of(dtype)
        element = f"{slot}[{self.affine(expr.index[0])}]"
        if kind == "b":
            return self.w.let(f"{element} != 0", "b")
        return self.w.let(f"int64({element})" if kind == "i" else element, kind)

    def literal(self, value: float | int | bool | complex) -> Value:
        match value:
            case bool():
                return Value(str(value), "b", True)
            case int():
                return Value(self.integer(Affine(wrapped(value))), "i", True)
            case float():
                return Value(self.number(value), "d", True)
            case complex():
                return self.w.let(f"complex({self.number(value.real)}, {self.number(value.imag)})", "D", True)

    def operation(self, expr: Apply) -> Value:
        if expr.op != "cast" and all(isinstance(a, Literal) for a in expr.args):
            folded = [Scalar(_array(a.value), weak=True) for a in expr.args if isinstance(a, Literal)]
            try:
                with np.errstate(all="ignore"):
                    return self.literal(evaluate(expr.op, folded).array.item())
            except (ArithmeticError, ValueError, TypeError) as error:
                raise Unsupported(f"{expr.op} of literals") from error
        if expr.op == "pow" and isinstance(expr.args[1], Literal) and expr.args[1].value in (2, 3):
            return self.small_power(expr.args[0], expr.args[1])
        return apply(self.w, expr.op, [self.body(a) for a in expr.args], expr.dtype)

    def small_power(self, base: Expr, exponent: Literal) -> Value:
        value = self.body(base)
        kind, (code, _) = promote(self.w, [value, self.literal(exponent.value)], 1)
        if kind not in "ifd":
            raise Unsupported("complex pow")
        x = self.w.let(code if kind == "i" else f"float64({code})", kind).code
        product = " * ".join([x] * int(abs(exponent.value)))
        return self.w.let(f"{CONSTRUCTOR[kind]}({product})", kind, value.weak)

    def select(self, expr: Select) -> Value:
        w, before = self.w, self.known
        name = w.fresh()
        with w.block(f"if {self.condition(expr.condition)}:"):
            self.known = dict(before)
            then, end = self.body(expr.then), len(w.lines)
        with w.block("else:"):
            self.known = dict(before)
            otherwise = self.body(expr.otherwise)
            kind, codes = promote(w, (then, otherwise))
            w.line(f"{name} = {codes[1]}")
            w.lines.insert(end, "    " * w.depth + f"{name} = {codes[0]}")
        self.known = before
        return Value(name, kind, then.weak and otherwise.weak)


def wrapped(value: int) -> int:
    """The value as i64 holds it."""
    return (value + 2**63) % 2**64 - 2**63


def _array(value: float | int | bool | complex) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    array = np.asarray(wrapped(value) if type(value) is int else value)
    return array.astype(compute_type_of(array.dtype))
