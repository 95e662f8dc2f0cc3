"""A program in double precision, to tell rounding from error: as far as its results move, they may differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from sollens.analysis.ir.nodes import Apply, Branch, Call, Expr, Loop, Node, Program, Select, Statement

_WIDER = {"f32": "f64", "f16": "f64", "bf16": "f64", "c64": "c128"}


def widen(program: Program, dtypes: Collection[str] = tuple(_WIDER)) -> Program:
    """The same program with floats of 64 bits. Only `dtypes`, those of the original: any other is an error to keep."""
    wider = {d: w for d, w in _WIDER.items() if d in dtypes}
    return replace(
        program,
        declarations=tuple(replace(d, dtype=wider.get(d.dtype, d.dtype)) for d in program.declarations),
        nodes=tuple(_node(n, wider) for n in program.nodes),
        setup=tuple(_node(n, wider) for n in program.setup),
    )


def _node(node: Node, wider: Mapping[str, str]) -> Node:
    match node:
        case Statement():
            return replace(node, dtype=wider.get(node.dtype, node.dtype), body=_expr(node.body, wider))
        case Call():
            return replace(node, results=tuple(replace(r, dtype=wider.get(r.dtype, r.dtype)) for r in node.results))
        case Loop():
            return replace(node, body=tuple(_node(n, wider) for n in node.body))
        case Branch():
            then, otherwise = (tuple(_node(n, wider) for n in side) for side in (node.then, node.otherwise))
            return replace(node, then=then, otherwise=otherwise)


def _expr(expr: Expr, wider: Mapping[str, str]) -> Expr:
    match expr:
        case Apply():
            args = tuple(_expr(a, wider) for a in expr.args)
            return replace(expr, args=args, dtype=wider.get(expr.dtype, expr.dtype))
        case Select():
            return replace(expr, then=_expr(expr.then, wider), otherwise=_expr(expr.otherwise, wider))
        case _:
            return expr
