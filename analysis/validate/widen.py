"""A program in double precision, to tell rounding from error: as far as its results move, they may differ."""

from __future__ import annotations

from dataclasses import replace

from sollens.analysis.ir.nodes import Apply, Branch, Call, Expr, Loop, Node, Program, Select, Statement

_WIDER = {"f32": "f64", "f16": "f64", "bf16": "f64", "c64": "c128"}


def widen(program: Program) -> Program:
    """The same program with floats of 64 bits."""
    return replace(
        program,
        declarations=tuple(replace(d, dtype=_WIDER.get(d.dtype, d.dtype)) for d in program.declarations),
        nodes=tuple(_node(n) for n in program.nodes),
        setup=tuple(_node(n) for n in program.setup),
    )


def _node(node: Node) -> Node:
    match node:
        case Statement():
            return replace(node, dtype=_WIDER.get(node.dtype, node.dtype), body=_expr(node.body))
        case Call():
            return replace(node, results=tuple(replace(r, dtype=_WIDER.get(r.dtype, r.dtype)) for r in node.results))
        case Loop():
            return replace(node, body=tuple(_node(n) for n in node.body))
        case Branch():
            then, otherwise = (tuple(_node(n) for n in side) for side in (node.then, node.otherwise))
            return replace(node, then=then, otherwise=otherwise)


def _expr(expr: Expr) -> Expr:
    match expr:
        case Apply():
            return replace(expr, args=tuple(_expr(a) for a in expr.args), dtype=_WIDER.get(expr.dtype, expr.dtype))
        case Select():
            return replace(expr, then=_expr(expr.then), otherwise=_expr(expr.otherwise))
        case _:
            return expr
