"""Integers that a module binds at its top level: literals and arithmetic of integers, read off the syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

_MAX_BITS = 63
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.LShift: lambda a, b: a << b if 0 <= b <= _MAX_BITS else _too_large(),
    ast.Pow: lambda a, b: a**b if 0 <= b <= _MAX_BITS and abs(a) < 2**_MAX_BITS else _too_large(),
}


def _too_large() -> int:
    raise OverflowError("larger than 63 bits")


def integer(node: ast.expr, names: Mapping[str, int]) -> int | None:
    """The value of an integer expression over known names; None for anything else, or beyond 63 bits.

    >>> integer(ast.parse("4 * dim + 2", mode="eval").body, {"dim": 8})
    34
    """
    try:
        value = _evaluate(node, names)
    except (ArithmeticError, RecursionError):
        return None
    return value if value is not None and value.bit_length() <= _MAX_BITS else None


def _evaluate(node: ast.expr, names: Mapping[str, int]) -> int | None:
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return names.get(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = _evaluate(operand, names)
            return None if value is None else -value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            a, b = _evaluate(left, names), _evaluate(right, names)
            return None if a is None or b is None else _OPERATORS[type(op)](a, b)
        case _:
            return None


def module_integers(tree: ast.Module) -> dict[str, int]:
    """Names that the module's top level binds to an integer; one that is last bound to anything else is left out."""
    names: dict[str, int] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    _bind(target, value, names)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                _bind(target, value, names)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                _bind_value(name, integer(ast.BinOp(ast.Name(name), op, value), names), names)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.pop(name, None)
            case ast.If() | ast.For() | ast.While() | ast.Try() | ast.With():
                for name in _assigned(statement):
                    names.pop(name, None)
            case _:
                pass
    return names


def _bind(target: ast.expr, value: ast.expr, names: dict[str, int]) -> None:
    match target, value:
        case ast.Name(id=name), _:
            _bind_value(name, integer(value, names), names)
        case ((ast.Tuple(elts=left) | ast.List(elts=left)), (ast.Tuple(elts=right) | ast.List(elts=right))) if len(
            left
        ) == len(right):
            before = dict(names)
            for one, other in zip(left, right, strict=True):
                if isinstance(one, ast.Name):
                    _bind_value(one.id, integer(other, before), names)
        case _:
            for name in _assigned(target):
                names.pop(name, None)


def _bind_value(name: str, value: int | None, names: dict[str, int]) -> None:
    if value is None:
        names.pop(name, None)
    else:
        names[name] = value


def _assigned(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
