"""Affine index expressions in canonical form: a constant plus integer multiples of atoms.

An atom is a dimension (or symbol) name, or a floor division or remainder of an affine expression by a positive integer.
Equal expressions are equal objects by value; building simplifies: `(6*h + 4) floordiv 2` is `3*h + 2`.
Grammar and semantics (Python's `//` and `%` on integers) stand in docs/ir.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, Any, TypeAlias, overload

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class FloorDiv:
    """`operand floordiv divisor`, divisor > 0."""

    operand: Affine
    divisor: int


@dataclass(frozen=True, slots=True)
class Mod:
    """`operand mod divisor`, in [0, divisor), divisor > 0."""

    operand: Affine
    divisor: int


Atom: TypeAlias = str | FloorDiv | Mod


def _order(term: tuple[Atom, int]) -> tuple[int, str]:
    atom = term[0]
    return (0, atom) if isinstance(atom, str) else (1, repr(atom))


@dataclass(frozen=True)
class Affine:
    """`constant + sum(coefficient * atom)`; terms are sorted, distinct, with non-zero coefficients."""

    constant: int = 0
    terms: tuple[tuple[Atom, int], ...] = ()

    @staticmethod
    def make(constant: int, terms: Mapping[Atom, int]) -> Affine:
        """The canonical expression of these coefficients."""
        kept = [(a, c) for a, c in terms.items() if c]
        if len(kept) > 1:
            kept.sort(key=_order)
        return Affine(constant, tuple(kept))

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.constant + other, self.terms)
        if not other.terms:
            return Affine(self.constant + other.constant, self.terms)
        terms: dict[Atom, int] = dict(self.terms)
        for atom, coefficient in other.terms:
            terms[atom] = terms.get(atom, 0) + coefficient
        return Affine.make(self.constant + other.constant, terms)

    __radd__ = __add__

    def __neg__(self) -> Affine:
        return self * -1

    def __sub__(self, other: Affine | int) -> Affine:
        return self + (-other)

    def __rsub__(self, other: int) -> Affine:
        return (-self) + other

    def __mul__(self, factor: int) -> Affine:
        if factor == 0:
            return Affine()
        return Affine(self.constant * factor, tuple((a, c * factor) for a, c in self.terms))

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> Affine:
        if divisor <= 0:
            raise ValueError(f"floordiv: expected a positive divisor, found {divisor}")
        whole = {a: c // divisor for a, c in self.terms if c % divisor == 0}
        rest = {a: c for a, c in self.terms if c % divisor != 0}
        quotient = Affine.make(self.constant // divisor, whole)
        if not rest:
            return quotient
        inner = Affine.make(self.constant % divisor, rest)
        common = gcd(divisor, *(c for _, c in inner.terms))
        if common > 1:
            inner = Affine(inner.constant // common, tuple((a, c // common) for a, c in inner.terms))
        divisor //= common
        if divisor == 1:
            return quotient + inner
        if len(inner.terms) == 1 and inner.constant == 0:
            atom, coefficient = inner.terms[0]
            if isinstance(atom, FloorDiv) and coefficient == 1:  # (x floordiv a) floordiv b == x floordiv (a * b)
                return quotient + atom.operand // (atom.divisor * divisor)
        return quotient + Affine(0, ((FloorDiv(inner, divisor), 1),))

    def __mod__(self, divisor: int) -> Affine:
        if divisor <= 0:
            raise ValueError(f"mod: expected a positive divisor, found {divisor}")
        inner = Affine.make(self.constant % divisor, {a: c % divisor for a, c in self.terms})
        if not inner.terms:
            return inner
        if divisor == 1:
            return Affine()
        return Affine(0, ((Mod(inner, divisor), 1),))

    @cached_property
    def names(self) -> frozenset[str]:
        """The dimension and symbol names that occur, also inside divisions."""
        found: set[str] = set()
        for atom, _ in self.terms:
            found |= {atom} if isinstance(atom, str) else atom.operand.names
        return frozenset(found)

    @property
    def is_constant(self) -> bool:
        """No atom occurs."""
        return not self.terms

    @property
    def single_name(self) -> str | None:
        """The name `d` when the expression is exactly `d`."""
        if self.constant == 0 and len(self.terms) == 1 and self.terms[0][1] == 1:
            atom = self.terms[0][0]
            return atom if isinstance(atom, str) else None
        return None

    @property
    def is_linear(self) -> bool:
        """No division or remainder occurs."""
        return all(isinstance(a, str) for a, _ in self.terms)

    def substitute(self, values: Mapping[str, Affine]) -> Affine:
        """Replace names by expressions, all at once."""
        result = Affine(self.constant)
        for atom, coefficient in self.terms:
            match atom:
                case str():
                    result += values.get(atom, Affine(0, ((atom, 1),))) * coefficient
                case FloorDiv():
                    result += (atom.operand.substitute(values) // atom.divisor) * coefficient
                case Mod():
                    result += (atom.operand.substitute(values) % atom.divisor) * coefficient
        return result

    @overload
    def evaluate(self, values: Mapping[str, int]) -> int: ...
    @overload
    def evaluate(self, values: Mapping[str, NDArray[Any]]) -> Any: ...
    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The value at a point, or at every point of arrays that broadcast together (a plain int without any)."""
        total: Any = self.constant
        for atom, coefficient in self.terms:
            match atom:
                case str():
                    total = total + coefficient * values[atom]
                case FloorDiv():
                    total = total + coefficient * (atom.operand.evaluate(values) // atom.divisor)
                case Mod():
                    total = total + coefficient * (atom.operand.evaluate(values) % atom.divisor)
        return total

    def bounds(self, extents: Mapping[str, int]) -> tuple[int, int]:
        """Smallest interval (low, high), both included, that holds every value when 0 <= name < extents[name].

        Exact for linear expressions; a superset otherwise. Extents must be positive.
        """
        low = high = self.constant
        for atom, c in self.terms:
            match atom:
                case str():
                    a, b = 0, extents[atom] - 1
                case FloorDiv():
                    a, b = (v // atom.divisor for v in atom.operand.bounds(extents))
                case Mod():
                    a, b = atom.operand.bounds(extents)
                    if a // atom.divisor == b // atom.divisor:
                        a, b = a % atom.divisor, b % atom.divisor
                    else:
                        a, b = 0, atom.divisor - 1
            low += c * (a if c > 0 else b)
            high += c * (b if c > 0 else a)
        return low, high

    def simplify(self, extents: Mapping[str, int]) -> Affine:
        """The same values on the box of `extents`, with divisions removed where ranges allow.

        `(8*h + d) floordiv 8` is `h` when `0 <= d < 8`.
        """
        if self.is_linear:
            return self
        result = Affine(self.constant)
        for atom, c in self.terms:
            if isinstance(atom, str):
                result += Affine(0, ((atom, c),))
                continue
            inner = atom.operand.simplify(extents)
            d = atom.divisor
            whole = Affine.make(inner.constant // d, {a: k // d for a, k in inner.terms})
            rest = Affine.make(inner.constant % d, {a: k % d for a, k in inner.terms})
            low, high = rest.bounds(extents)
            if low >= 0 and high < d:
                result += (whole if isinstance(atom, FloorDiv) else rest) * c
            else:
                result += (inner // d if isinstance(atom, FloorDiv) else inner % d) * c
        return result

    def __iter__(self) -> Iterator[tuple[Atom, int]]:
        return iter(self.terms)


def dim(name: str) -> Affine:
    """The expression that is just this dimension."""
    return Affine(0, ((name, 1),))


def const(value: int) -> Affine:
    """The constant expression."""
    return Affine(value)


@dataclass(frozen=True, slots=True)
class Constraint:
    """`expr >= 0`, or `expr == 0` when `equal`."""

    expr: Affine
    equal: bool = False

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether the constraint holds at a point."""
        value = self.expr.evaluate(values)
        return value == 0 if self.equal else value >= 0

    def substitute(self, values: Mapping[str, Affine]) -> Constraint:
        """The constraint over replaced names."""
        return Constraint(self.expr.substitute(values), self.equal)


def at_least(left: Affine | int, right: Affine | int) -> Constraint:
    """`left >= right`."""
    return Constraint(_affine(left) - right)


def less(left: Affine | int, right: Affine | int) -> Constraint:
    """`left < right`."""
    return Constraint(_affine(right) - left - 1)


def equals(left: Affine | int, right: Affine | int) -> Constraint:
    """`left == right`."""
    return Constraint(_affine(left) - right, equal=True)


def within(expr: Affine, extent: int) -> tuple[Constraint, Constraint]:
    """`0 <= expr < extent`."""
    return at_least(expr, 0), less(expr, extent)


def _affine(value: Affine | int) -> Affine:
    return Affine(value) if isinstance(value, int) else value
