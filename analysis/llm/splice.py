"""Translated operators put in the place of opaque calls: the hybrid of a trace and a model's programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sollens.analysis.ir.nodes import (
    Apply,
    Branch,
    Call,
    Expr,
    Loop,
    Node,
    Program,
    Read,
    Select,
    Source,
    Statement,
    defined,
    walk,
)
from sollens.analysis.ir.tensors import TensorType, tensor_types
from sollens.analysis.ir.text_parse import parse
from sollens.analysis.ir.text_tokens import UNTRUSTED_LIMITS
from sollens.analysis.llm.task import Argument
from sollens.analysis.lower.lower import Lowered


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The program of an operator: its position in the trace, the text, and the arguments that stand for operands."""

    op: int
    operator: str
    text: str
    arguments: tuple[Argument, ...]


def splice(lowered: Lowered, replacements: Sequence[Replacement]) -> Lowered:
    """The lowered program with each opaque call replaced whose program fits it; others stay, and stay partial."""
    by_op = {one.op: one for one in replacements}
    types = tensor_types(lowered.program)
    taken = set(types)
    nodes: list[Node] = []
    done: set[int] = set()
    for node in lowered.program.nodes:
        one = by_op.get(node.source.op) if isinstance(node, Call) and node.op == "opaque" else None
        inner = _expanded(node, one, types, taken) if one is not None and isinstance(node, Call) else None
        if inner is None:
            nodes.append(node)
        else:
            nodes += inner
            done.add(node.source.op)
    return replace(
        lowered,
        program=replace(lowered.program, nodes=tuple(nodes)),
        partial=tuple(p for p in lowered.partial if p.source.op not in done),
    )


def opaque_calls(program: Program) -> tuple[Call, ...]:
    """The opaque calls that can be replaced: those outside of loops and branches."""
    return tuple(n for n in program.nodes if isinstance(n, Call) and n.op == "opaque" and n.source.op >= 0)


def _expanded(
    node: Call, one: Replacement, types: Mapping[str, TensorType], taken: set[str]
) -> tuple[Node, ...] | None:
    if len(one.arguments) != len(node.operands):
        return None
    sizes: dict[str, int] = {}
    for argument, operand in zip(one.arguments, node.operands, strict=True):
        sizes.update(zip(argument.dims, types[operand].shape, strict=True))
    program, _ = parse(one.text, bind={n: s for n, s in sizes.items() if n.isidentifier()}, limits=UNTRUSTED_LIMITS)
    if program is None or program.setup or not _fits(program, node, one, types):
        return None
    names = {a.name: operand for a, operand in zip(one.arguments, node.operands, strict=True)}
    names.update((out, result.name) for out, result in zip(program.outputs, node.results, strict=True))
    for inner in walk(program.nodes):
        for name in (*defined(inner), *_carried(inner)):
            if name not in names:
                names[name] = _fresh(f"{node.results[0].name}_{name}", taken)
    return tuple(_renamed(n, names, node.source) for n in program.nodes)


def _fits(program: Program, node: Call, one: Replacement, types: Mapping[str, TensorType]) -> bool:
    """Whether borders agree, so that the call's place can be taken: each result its own tensor, computed inside."""
    own = tensor_types(program)
    declared = {d.name: TensorType(d.dtype, d.shape) for d in program.declarations}
    wanted = {a.name: types[o] for a, o in zip(one.arguments, node.operands, strict=True)}
    results = [TensorType(r.dtype, r.shape) for r in node.results]
    return (
        declared == wanted
        and len(set(program.outputs)) == len(program.outputs)
        and not set(program.outputs) & declared.keys()
        and [own[o] for o in program.outputs] == results
    )


def _carried(node: Node) -> Iterable[str]:
    return (c.name for c in node.carried) if isinstance(node, Loop) else ()


def _fresh(name: str, taken: set[str]) -> str:
    candidate, number = name[:150], 1
    while candidate in taken:
        number += 1
        candidate = f"{name[:150]}_{number}"
    taken.add(candidate)
    return candidate


def _renamed(node: Node, names: Mapping[str, str], source: Source) -> Node:
    match node:
        case Statement():
            return replace(node, name=names[node.name], body=_expr(node.body, names), source=source)
        case Call():
            results = tuple(replace(r, name=names[r.name]) for r in node.results)
            return replace(node, results=results, operands=tuple(names[o] for o in node.operands), source=source)
        case Loop():
            return replace(
                node,
                body=tuple(_renamed(n, names, source) for n in node.body),
                carried=tuple(
                    replace(c, name=names[c.name], initial=names[c.initial], next=names[c.next], final=names[c.final])
                    for c in node.carried
                ),
                collected=tuple(replace(c, name=names[c.name], inner=names[c.inner]) for c in node.collected),
                source=source,
            )
        case Branch():
            return replace(
                node,
                condition=names[node.condition],
                then=tuple(_renamed(n, names, source) for n in node.then),
                otherwise=tuple(_renamed(n, names, source) for n in node.otherwise),
                results=tuple(
                    replace(m, name=names[m.name], then=names[m.then], otherwise=names[m.otherwise])
                    for m in node.results
                ),
                source=source,
            )


def _expr(expr: Expr, names: Mapping[str, str]) -> Expr:
    match expr:
        case Read():
            return replace(expr, tensor=names[expr.tensor])
        case Apply():
            return replace(expr, args=tuple(_expr(a, names) for a in expr.args))
        case Select():
            return replace(expr, then=_expr(expr.then, names), otherwise=_expr(expr.otherwise, names))
        case _:
            return expr
