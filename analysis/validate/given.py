"""What is taken as given: random numbers, which no two generators draw alike; and which statements are dead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sollens.analysis.ir.nodes import Branch, Call, Declaration, Loop, Node, Program, Statement, defined, reads, walk
from sollens.analysis.lower.decoding import tensor_ids
from sollens.analysis.lower.lower import Lowered
from sollens.analysis.validate.golden import Entry, Golden


def given_random(lowered: Lowered, golden: Golden) -> tuple[Program, dict[int, Entry]]:
    """The program with what random operators gave as external tensors, and their golden entries by trace tensor id.

    Operators whose results the golden run did not keep stay as they are.
    """
    program = lowered.program
    positions = {n.source.op for n in walk(program.nodes) if isinstance(n, Call) and n.op == "random"}
    given: dict[int, Entry] = {}
    declarations: list[Declaration] = []
    for position in sorted(positions):
        entries = golden.ops.get(position, {})
        outputs = [t for t in tensor_ids(golden.trace.ops[position].outputs) if t in lowered.names]
        if position < 0 or any(t not in entries for t in outputs):
            positions.discard(position)
            continue
        types = {t.id: t for t in golden.trace.tensors}
        given.update({t: entries[t] for t in outputs})
        declarations += [
            Declaration(name=lowered.names[t], dtype=types[t].dtype, shape=tuple(types[t].shape), role="constant")
            for t in outputs
        ]
    if not given:
        return program, {}
    nodes = tuple(n for n in program.nodes if n.source.op not in positions)
    return replace(program, declarations=(*program.declarations, *declarations), nodes=nodes), given


def live_names(program: Program, outputs: Iterable[str]) -> set[str]:
    """Names that an output depends on, and the outputs."""
    live = {*outputs, *program.outputs}
    for node in reversed(program.nodes):
        if not live.isdisjoint(defined(node)):
            live.update(_needs(node))
    return live


def _needs(node: Node) -> set[str]:
    needs: set[str] = set()
    for inner in walk((node,)):
        match inner:
            case Statement():
                needs.update(r.tensor for r in reads(inner.body))
            case Call():
                needs.update(inner.operands)
            case Loop():
                needs.update(n for c in inner.carried for n in (c.initial, c.next))
                needs.update(c.inner for c in inner.collected)
            case Branch():
                needs.add(inner.condition)
                needs.update(n for m in inner.results for n in (m.then, m.otherwise))
    return needs
