"""What is taken as given: random numbers, which no two generators draw alike; and which statements are dead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sollens.analysis.ir.nodes import Branch, Call, Declaration, Loop, Node, Program, Statement, defined, reads, walk
from sollens.analysis.ir.tensors import tensor_types
from sollens.analysis.lower.lower import Lowered
from sollens.analysis.validate.golden import Entry, Golden


def given_random(lowered: Lowered, golden: Golden) -> tuple[Program, dict[str, Entry]]:
    """The program with what random operators gave as external tensors, and their golden entries by name.

    Operators whose results the golden run did not keep stay as they are.
    """
    program = lowered.program
    types = tensor_types(program)
    given: dict[str, Entry] = {}
    replaced: set[int] = set()
    for position in sorted({n.source.op for n in walk(program.nodes) if isinstance(n, Call) and n.op == "random"}):
        entries = _seen_outside(program, lowered, golden, position)
        if entries is not None:
            given.update(entries)
            replaced.add(position)
    if not given:
        return program, {}
    declarations = (
        Declaration(name=name, dtype=types[name].dtype, shape=types[name].shape, role="constant") for name in given
    )
    nodes = tuple(n for n in program.nodes if n.source.op not in replaced)
    return replace(program, declarations=(*program.declarations, *declarations), nodes=nodes), given


def _seen_outside(program: Program, lowered: Lowered, golden: Golden, position: int) -> dict[str, Entry] | None:
    """Golden entries of what an operator's nodes define for others; None where one is missing."""
    own = [n for n in program.nodes if n.source.op == position]
    others = [n for n in program.nodes if n.source.op != position]
    wanted = {*program.outputs, *lowered.returned}.union(*(_needs(n) for n in others))
    entries = golden.ops.get(position, {})
    by_name = {lowered.names[t]: e for t, e in entries.items() if t in lowered.names}
    found: dict[str, Entry] = {}
    for node in own:
        for name in wanted.intersection(defined(node)):
            # What was written into a tensor has a name of its own.
            written = [entries[t] for t in golden.trace.ops[position].mutates if t in entries]
            entry = by_name.get(name) or next(iter(written), None)
            if entry is None or entry.shape != tensor_types(program)[name].shape:
                return None
            found[name] = entry
    return found


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
