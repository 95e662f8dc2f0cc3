"""Proof that an index stays inside a tensor wherever the guard and the enclosing selects hold.

First by intervals, which settles nearly every read; then exactly, by emptiness of an integer set (isl).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sollens.analysis.ir.affine import Affine, Constraint, Mod
from sollens.analysis.ir.nodes import Apply, Expr, IndexValue, Literal, Read, Select

# isl gives up beyond this many of its elementary operations: 0.3 s on the worst input found, 1 ms on real ones.
_MAX_OPERATIONS = 30_000
_MAX_ATOMS = 30


@dataclass(frozen=True)
class Context:
    """Where a part of a body is evaluated.

    `holds` is a conjunction; of each conjunction in `fails` (the other side of a Select) some constraint does not hold.
    """

    holds: tuple[Constraint, ...] = ()
    fails: tuple[tuple[Constraint, ...], ...] = ()

    def then(self, condition: tuple[Constraint, ...]) -> Context:
        """Where the condition holds as well."""
        return Context(self.holds + condition, self.fails)

    def otherwise(self, condition: tuple[Constraint, ...]) -> Context:
        """Where the condition does not hold."""
        return Context(self.holds, (*self.fails, condition))

    @cached_property
    def lower_bounds(self) -> tuple[Affine, ...]:
        """Expressions that are at least 0 here."""
        found = [c.expr for c in self.holds]
        found += [-c.expr for c in self.holds if c.equal]
        found += [-c[0].expr - 1 for c in self.fails if len(c) == 1 and not c[0].equal]
        return tuple(found)


def live_reads(expr: Expr, context: Context) -> Iterator[tuple[Read, Context]]:
    """Every read with the context in which it is evaluated."""
    match expr:
        case Read():
            yield expr, context
        case Apply():
            for argument in expr.args:
                yield from live_reads(argument, context)
        case Select():
            yield from live_reads(expr.then, context.then(expr.condition))
            yield from live_reads(expr.otherwise, context.otherwise(expr.condition))
        case Literal() | IndexValue():
            return


class Prover:
    """Proves reads in bounds, each distinct question once, within a budget of seconds for the exact part."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.known: dict[object, str] = {}

    def outside(self, index: Affine, extent: int, extents: Mapping[str, int], context: Context) -> str:
        """The values found where the index leaves 0..extent-1, empty when it does not.

        Asked over the box of `extents` (all positive), at the points of the context.
        """
        simple = index.simplify(extents)
        low, high = simple.bounds(extents)
        if low >= 0 and high < extent:
            return ""
        below = low < 0 and not _implied(simple, extents, context)
        above = high >= extent and not _implied(extent - 1 - simple, extents, context)
        if not below and not above:
            return ""
        involved = [index, *(c.expr for c in context.holds), *(c.expr for group in context.fails for c in group)]
        names = sorted(frozenset[str]().union(*(e.names for e in involved)))
        key = (index, extent, context, *((n, extents[n]) for n in names))
        if key not in self.known:
            interval = f"{low}..{high}"
            if sum(_atoms(e) for e in involved) + len(names) > _MAX_ATOMS or self.seconds <= 0:
                return f"{interval} (not decided exactly: too many terms)"
            start = time.process_time()
            found = _counterexample(index, extent, {n: extents[n] for n in names}, context)
            self.seconds -= time.process_time() - start
            self.known[key] = f"{interval} (not decided exactly: too hard)" if found is None else found
        return self.known[key]


def _implied(expr: Affine, extents: Mapping[str, int], context: Context) -> bool:
    """Whether one constraint of the context gives expr >= 0 by itself."""
    return any((expr - known).simplify(extents).bounds(extents)[0] >= 0 for known in context.lower_bounds)


def _counterexample(index: Affine, extent: int, extents: Mapping[str, int], context: Context) -> str | None:
    """A point where the index is outside, "" when there is none, None when isl gives up."""
    import islpy  # here, because importing it takes longer than verifying most programs

    isl: Any = islpy
    conditions = [f"0 <= {n} < {extents[n]}" for n in extents]
    conditions += [_constraint(c) for c in context.holds]
    conditions += [f"not ({_conjunction(group)})" for group in context.fails]
    conditions.append(f"({_isl(index)} < 0 or {_isl(index)} >= {extent})")
    isl_context = isl.Context()
    isl_context.set_max_operations(_MAX_OPERATIONS)
    try:
        text = f"{{ [{', '.join(extents)}] : {' and '.join(conditions)} }}"
        points = isl.Set.read_from_str(isl_context, text)
        if points.is_empty():
            return ""
        point = points.sample_point()
        found = {n: int(point.get_coordinate_val(isl.dim_type.set, k).to_python()) for k, n in enumerate(extents)}
    except isl.Error:
        return None
    at = ", ".join(f"{n}={v}" for n, v in found.items())
    return f"{index.evaluate(found)}{' at ' if at else ''}{at}"


def _atoms(expr: Affine) -> int:
    return sum(1 if isinstance(a, str) else 1 + _atoms(a.operand) for a, _ in expr.terms)


def _constraint(c: Constraint) -> str:
    return f"{_isl(c.expr)} {'=' if c.equal else '>='} 0"


def _conjunction(constraints: Sequence[Constraint]) -> str:
    return " and ".join(map(_constraint, constraints)) or "true"


def _isl(expr: Affine) -> str:
    parts = [str(expr.constant)]
    for atom, c in expr.terms:
        if isinstance(atom, str):
            parts.append(f"{c}*{atom}")
        elif isinstance(atom, Mod):
            parts.append(f"{c}*(({_isl(atom.operand)}) mod {atom.divisor})")
        else:
            parts.append(f"{c}*floor(({_isl(atom.operand)})/{atom.divisor})")
    return f"({' + '.join(parts)})"
