"""A translated program in the form that bounds are made from: what a trace and its lowering would give."""

from __future__ import annotations

from dataclasses import replace

from sollens.analysis.ir.nodes import Branch, Call, Loop, Node, Program, Source, Statement
from sollens.analysis.lower.lower import Lowered
from sollens.analysis.trace.schema import Tensor, Trace


def as_lowered(program: Program, *, name: str, path: str, line: int, lines: int, model: str) -> tuple[Trace, Lowered]:
    """The trace and the lowered program that stand for `program`, whose `@ op=N` name lines of the file at `path`.

    Each line counts as one operator. A statement without a line of the file stands at the target's, and is an operator.
    """
    placed = replace(
        program,
        name=name,
        nodes=tuple(_placed(n, path, line, lines) for n in program.nodes),
        setup=tuple(_placed(n, path, line, lines) for n in program.setup),
    )
    tensors = [
        Tensor(id=k, dtype=d.dtype, shape=list(d.shape), storage=k, kind=d.role, name=d.label or d.name)
        for k, d in enumerate(placed.declarations)
    ]
    assumption = f"translated by {model}: the bound is that of its program, another one may need less work"
    trace = Trace(
        name=name, frontend="llm", tensors=tensors, ops=[], outputs=[], spans=[], modules=[], line=line,
        assumptions=[assumption],
    )  # fmt: skip
    lowered = Lowered(
        program=placed, values={}, partial=(), names={k: d.name for k, d in enumerate(placed.declarations)},
        returned=placed.outputs, problems=(),
    )  # fmt: skip
    return trace, lowered


def _placed(node: Node, path: str, line: int, lines: int) -> Node:
    named = node.source.op if 0 < node.source.op <= lines else 0
    source = Source(file=path, line=named or line, end_line=named or line, op=named or -1, operator=_operator(node))
    match node:
        case Loop():
            return replace(node, source=source, body=tuple(_placed(n, path, line, lines) for n in node.body))
        case Branch():
            then = tuple(_placed(n, path, line, lines) for n in node.then)
            otherwise = tuple(_placed(n, path, line, lines) for n in node.otherwise)
            return replace(node, source=source, then=then, otherwise=otherwise)
        case _:
            return replace(node, source=source)


def _operator(node: Node) -> str:
    match node:
        case Statement():
            return node.name
        case Call():
            return node.op
        case Loop():
            return f"loop {node.index.name}"
        case Branch():
            return "branch"
