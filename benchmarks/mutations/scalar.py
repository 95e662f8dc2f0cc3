"""Mistakes in a statement's body: constants, operations, operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import isfinite, isnan

from mutations.places import Change, Scope, bodies
from sollens.analysis.ir.affine import dim
from sollens.analysis.ir.nodes import Apply, Expr, IndexValue, Literal, Read, Statement

_SMALL = 1e-3  # literals below are taken for epsilons
_OTHER: Mapping[str, tuple[str, ...]] = {
    "add": ("sub", "mul"), "sub": ("add",), "mul": ("add", "div"), "div": ("mul", "sub"), "floordiv": ("div", "mod"),
    "mod": ("floordiv",), "fmod": ("floordiv",), "pow": ("mul",), "atan2": ("div",), "logaddexp": ("maximum",),
    "maximum": ("minimum", "add"), "minimum": ("maximum", "add"), "exp": ("exp2", "expm1"), "exp2": ("exp",),
    "expm1": ("exp",), "log": ("log2", "log1p"), "log2": ("log",), "log1p": ("log",), "sqrt": ("rsqrt",),
    "rsqrt": ("sqrt", "reciprocal"), "reciprocal": ("neg",), "sin": ("cos",), "cos": ("sin",), "tan": ("tanh",),
    "tanh": ("sigmoid", "tan"), "sigmoid": ("tanh",), "sinh": ("cosh",), "cosh": ("sinh",), "asin": ("acos",),
    "acos": ("asin",), "atan": ("tanh",), "erf": ("tanh", "erfc"), "abs": ("neg",), "neg": ("abs",), "sign": ("abs",),
    "floor": ("ceil", "round"), "ceil": ("floor",), "round": ("trunc",), "trunc": ("floor",), "and": ("or",),
    "or": ("and",), "xor": ("or",), "not": ("neg",), "real": ("imag",), "imag": ("real",), "isnan": ("isfinite",),
    "isinf": ("isfinite",), "bitand": ("bitor",), "bitor": ("bitand",), "shl": ("shr",),
}  # fmt: skip
_TURNED = {"ge": "lt", "lt": "ge", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
_BOUNDARY = {"ge": "gt", "gt": "ge", "lt": "le", "le": "lt"}
_ORDERED = {
    "sub", "div", "floordiv", "mod", "fmod", "pow", "atan2", "ge", "gt", "le", "lt", "shl", "shr", "copysign",
    "complex", "xlogy",
}  # fmt: skip
_JOINS = {"add", "sub", "mul", "div", "maximum", "minimum", "and", "or", "pow"}


def _number(expr: Expr) -> float | int | None:
    """A finite number that is not a truth value."""
    value = expr.value if isinstance(expr, Literal) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return value


def literal_scaled(expr: Expr, node: Statement, scope: Scope) -> Iterator[Expr]:
    value = _number(expr)
    if value is not None and abs(value) > _SMALL:
        yield Literal(value * 2)
        yield Literal(value / 2 if isinstance(value, float) else value * 3)


def literal_nudged(expr: Expr, node: Statement, scope: Scope) -> Iterator[Expr]:
    """By a hundredth, and integers by one."""
    value = _number(expr)
    if value is not None and abs(value) > _SMALL:
        yield Literal(value * 1.01 if isinstance(value, float) else value + 1)


def literal_shifted(expr: Expr, node: Statement, scope: Scope) -> Iterator[Expr]:
    value = _number(expr)
    if value is not None and (abs(value) > _SMALL or value == 0):
        yield Literal(value + 1)
        yield Literal(value - 1)


def literal_negated(expr: Expr, node: Statement, scope: Scope) -> Iterator[Expr]:
    match expr:
        case Literal(bool() as value):
            yield Literal(not value)
        case Literal(int() | float() as value) if value and not isnan(value):
            yield Literal(-value)
        case _:
            return


def epsilon_changed(expr: Expr, node: Statement, scope: Scope) -> Iterator[Expr]:
    value = _number(expr)
    if value is not None and 0 < abs(value) <= _SMALL:
        yield Literal(value * 10)
        yield Literal(value * 100)


def operand_replaced(expr: Expr, node: Statement, scope: Scope) -> Iterator[Expr]:
    if isinstance(expr, Read):
        for other in scope.alike(expr.tensor):
            yield replace(expr, tensor=other)


def operands_swapped(expr: Expr, node: Statement, scope: Scope) -> Iterator[Expr]:
    if isinstance(expr, Apply) and expr.op in _ORDERED:
        yield replace(expr, args=(expr.args[1], expr.args[0]))


def operation_replaced(expr: Expr, node: Statement, scope: Scope) -> Iterator[Expr]:
    if isinstance(expr, Apply):
        for op in _OTHER.get(expr.op, ()):
            yield replace(expr, op=op)


def function_dropped(expr: Expr, node: Statement, scope: Scope) -> Iterator[Expr]:
    if isinstance(expr, Apply) and len(expr.args) == 1 and expr.op != "cast":
        yield expr.args[0]


def term_dropped(expr: Expr, node: Statement, scope: Scope) -> Iterator[Expr]:
    """A bias, a scale or a clamp is forgotten."""
    if isinstance(expr, Apply) and expr.op in _JOINS:
        yield from expr.args


def comparison_turned(expr: Expr, node: Statement, scope: Scope) -> Iterator[Expr]:
    if isinstance(expr, Apply) and expr.op in _TURNED:
        yield replace(expr, op=_TURNED[expr.op])


def comparison_boundary(expr: Expr, node: Statement, scope: Scope) -> Iterator[Expr]:
    if isinstance(expr, Apply) and expr.op in _BOUNDARY:
        yield replace(expr, op=_BOUNDARY[expr.op])


def cast_dropped(expr: Expr, node: Statement, scope: Scope) -> Iterator[Expr]:
    if isinstance(expr, Apply) and expr.op == "cast":
        yield expr.args[0]


def cast_narrowed(expr: Expr, node: Statement, scope: Scope) -> Iterator[Expr]:
    if isinstance(expr, Read) and scope.types[expr.tensor].dtype in ("f32", "f64"):
        yield Apply("cast", (expr,), "bf16")
        yield Apply("cast", (expr,), "f16")
        yield Apply("cast", (expr,), "i64")


def where_swapped(expr: Expr, node: Statement, scope: Scope) -> Iterator[Expr]:
    if isinstance(expr, Apply) and expr.op == "where":
        yield replace(expr, args=(expr.args[0], expr.args[2], expr.args[1]))


def where_dropped(expr: Expr, node: Statement, scope: Scope) -> Iterator[Expr]:
    if isinstance(expr, Apply) and expr.op == "where":
        yield from expr.args[1:]


def position_changed(expr: Expr, node: Statement, scope: Scope) -> Iterator[Expr]:
    """The value of a dimension is another."""
    if isinstance(expr, IndexValue):
        yield IndexValue(expr.expr + 1)
        yield IndexValue(expr.expr * 2)
        extents = scope.extents(node)
        for name in sorted(expr.expr.names):
            yield IndexValue(expr.expr.substitute({name: extents[name] - 1 - dim(name)}))


SCALAR: Mapping[str, Change] = {
    "literal scaled": bodies(literal_scaled),
    "literal nudged": bodies(literal_nudged),
    "literal shifted": bodies(literal_shifted),
    "literal's sign changed": bodies(literal_negated),
    "epsilon changed": bodies(epsilon_changed),
    "operand replaced": bodies(operand_replaced),
    "operands swapped": bodies(operands_swapped),
    "operation replaced": bodies(operation_replaced),
    "function dropped": bodies(function_dropped),
    "term dropped": bodies(term_dropped),
    "comparison turned round": bodies(comparison_turned),
    "comparison with or without equality": bodies(comparison_boundary),
    "cast dropped": bodies(cast_dropped),
    "cast narrower": bodies(cast_narrowed),
    "where branches swapped": bodies(where_swapped),
    "where dropped": bodies(where_dropped),
    "position changed": bodies(position_changed),
}
