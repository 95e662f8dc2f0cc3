"""The form of a loop program, so that a twin's program can be held against the full one's.

All of it but extents, and guards: those that the extents imply are left out of either.
"""

from __future__ import annotations

from typing import Any

from sollens.analysis.ir.affine import Affine
from sollens.analysis.ir.nodes import (
    Apply,
    Branch,
    Call,
    Expr,
    IndexValue,
    Literal,
    Loop,
    Node,
    Program,
    Read,
    Select,
    Statement,
)


def form_difference(one: Program, other: Program) -> tuple[Node, Node] | str | None:
    """The first two nodes of different form, or what else differs; None for programs that differ in sizes only."""
    if len(one.nodes) == len(other.nodes):
        for mine, theirs in zip(one.nodes, other.nodes, strict=True):
            if _node(mine) != _node(theirs):
                return mine, theirs
    else:
        for mine, theirs in zip(one.nodes, other.nodes, strict=False):
            if _node(mine) != _node(theirs):
                return mine, theirs
        return f"{len(one.nodes)} statements, {len(other.nodes)} in the twin"
    roles = [[(d.name, d.dtype, len(d.shape), d.role) for d in p.declarations] for p in (one, other)]
    return None if roles[0] == roles[1] and one.outputs == other.outputs else "other declarations or outputs"


def _node(node: Node) -> Any:
    match node:
        case Statement():
            reduction = (node.reduction.kind, [d.name for d in node.reduction.dims]) if node.reduction else None
            scan = (node.scan.kind, node.scan.dim, node.scan.reverse) if node.scan else None
            return (
                node.name, node.dtype, [d.name for d in node.dims], reduction, scan, _expr(node.body),
            )  # fmt: skip
        case Call():
            results = [(r.name, r.dtype, len(r.shape)) for r in node.results]
            return node.op, results, node.operands, [name for name, _ in node.attributes]
        case Loop():
            return node.index.name, node.carried, node.collected, [_node(n) for n in node.body]
        case Branch():
            return node.condition, node.results, [_node(n) for n in (*node.then, *node.otherwise)]


def _affine(expr: Affine) -> Any:
    return sorted(
        atom if isinstance(atom, str) else f"{type(atom).__name__} {_affine(atom.operand)}" for atom, _ in expr.terms
    )


def _expr(expr: Expr) -> Any:
    match expr:
        case Read():
            return "read", expr.tensor, [_affine(i) for i in expr.index]
        case Literal():
            return "literal", type(expr.value).__name__
        case IndexValue():
            return "index", _affine(expr.expr)
        case Apply():
            return expr.op, expr.dtype, [_expr(a) for a in expr.args]
        case Select():
            return "select", _expr(expr.then), _expr(expr.otherwise)
