"""Does a loop program give what the original gave, tensor by tensor?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from sollens.analysis.execute.errors import MissingInput, NotExecutable, OutOfBounds, TooLarge
from sollens.analysis.execute.storage import Array
from sollens.analysis.ir.nodes import NO_SOURCE, Node, Program, defined, walk
from sollens.analysis.ir.text_print import node_text
from sollens.analysis.lower.lower import Lowered
from sollens.analysis.validate.compare import Difference, Rounding, difference, roundings
from sollens.analysis.validate.execute import Executor, execute
from sollens.analysis.validate.given import given_random, live_names
from sollens.analysis.validate.golden import Entry, Exact, Golden
from sollens.analysis.validate.verdict import Mismatch, Verdict
from sollens.analysis.validate.widen import widen

_SETUP = Rounding(2.0**-24, 16.0)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A tensor that both sides know: its IR name, what the original gave, and how it may differ."""

    name: str
    expected: Array
    rounding: Rounding
    output: bool
    original: Entry | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How a loop program is run."""

    executor: Executor = "compiled"
    limit_points: int = 800_000_000
    stop: Callable[[], bool] | None = None

    def __call__(self, program: Program, inputs: Mapping[str, Array], want: list[str]) -> Mapping[str, Array]:
        return execute(program, inputs, want, executor=self.executor, limit_points=self.limit_points, stop=self.stop)


def agreement(
    golden: Golden, lowered: Lowered, how: How, exact_run: Callable[[], Exact | None] | None = None
) -> Verdict:
    """Run `lowered`, the program of `golden.trace`, on the golden inputs and compare what it gives.

    `exact_run` runs the original in double precision, for programs that amplify rounding.
    """
    program, drawn = given_random(lowered, golden)
    declared = {d.name for d in program.declarations}
    entries = {lowered.names[n]: entry for n, entry in golden.externals.items() if n in lowered.names} | drawn
    inputs = {name: golden.array(entry) for name, entry in entries.items() if name in declared}
    pairs = list(_pairs(golden, lowered, program))
    want = list(dict.fromkeys(p.name for p in pairs))
    try:
        made = _setup_values(lowered, program, inputs, how)
        for name, value in made.items():
            _, differs = difference(value, inputs[name], _SETUP)
            if differs is not None:
                return _failed(program, _Pair(name, inputs[name], _SETUP, False), differs, float("inf"), 0)
        values = how(program, inputs, want)
        worst, wrong, differs = _compared(golden, pairs, values, None)
        if wrong is not None and (worst < 1.0 or _faint(wrong.expected)):  # ill-conditioned, or wrong?
            exact = golden.exact or (exact_run() if exact_run is not None else None)
            pairs = list(_pairs(replace(golden, exact=exact), lowered, program))
            worst, wrong, differs = _compared(golden, pairs, values, how(widen(program, _dtypes(golden)), inputs, want))
    except (TooLarge, MissingInput, NotExecutable) as error:
        return Verdict(status="not-validated", reason=str(error))
    except OutOfBounds as error:
        return Verdict(status="failed", reason=str(error))
    if wrong is not None and differs is not None:
        return _failed(program, wrong, differs, worst, len(want))
    reason = "random numbers were taken from the original's run" if drawn else ""
    return Verdict(status="validated", max_rel_error=worst, tensors=len(want), reason=reason)


def _faint(expected: Array) -> bool:
    """Whether a result may be rounding throughout: what goes in is of size 1."""
    return expected.dtype.kind in "fc" and bool(np.abs(expected).max(initial=0.0) < 1e-3)


def _dtypes(golden: Golden) -> frozenset[str]:
    return frozenset(t.dtype for t in golden.trace.tensors)


def _pairs(golden: Golden, lowered: Lowered, program: Program) -> Iterator[_Pair]:
    """What operators gave, in the program's order, then its outputs.

    `Lowered.names` has a tensor's first name; what a later operator wrote into it is compared through the outputs.
    """
    rounding, exact = roundings(program, _dtypes(golden)), golden.exact or Exact()
    visible = {n for node in program.nodes for n in defined(node)}
    live = live_names(program, lowered.returned) & visible
    seen: set[int] = set(golden.externals)
    for position in sorted(golden.ops):
        op = golden.trace.ops[position]
        if op.target.split(".")[1].startswith(("empty", "new_empty")):
            continue
        for number, entry in golden.ops[position].items():
            name = lowered.names.get(number)
            if name in live and number not in seen and number not in op.mutates:
                seen.add(number)
                yield _Pair(name, golden.array(entry), rounding[name], False, exact.ops.get(position, {}).get(number))
    for k, (name, entry) in enumerate(zip(lowered.returned, golden.outputs, strict=True)):
        original = exact.outputs[k] if k < len(exact.outputs) else None
        yield _Pair(name, golden.array(entry), rounding[name], True, original)


def _compared(
    golden: Golden, pairs: list[_Pair], values: Mapping[str, Array], exact: Mapping[str, Array] | None
) -> tuple[float, _Pair | None, Difference | None]:
    """(largest relative error of an output, the first pair that differs, where)."""
    worst = 0.0
    first: tuple[_Pair, Difference] | None = None
    for pair in pairs:
        if first is not None and not pair.output:
            continue
        own = exact[pair.name] if exact is not None else None
        original = golden.array(pair.original) if exact is not None and pair.original is not None else None
        error, differs = difference(values[pair.name], pair.expected, pair.rounding, own, original)
        worst = max(worst, error) if pair.output else worst
        if differs is not None and first is None:
            first = pair, differs
    return (worst, *first) if first is not None else (worst, None, None)


def _setup_values(lowered: Lowered, program: Program, inputs: Mapping[str, Array], how: How) -> Mapping[str, Array]:
    """What the setup says about external tensors whose golden values are known: masks and tables."""
    defined_by = {d.name: d.defined_by for d in program.declarations if d.defined_by is not None and d.name in inputs}
    if not defined_by:
        return {}
    known = {n: a for n, a in {**lowered.values, **inputs}.items() if n not in defined_by}
    used = live_names(replace(program, nodes=program.setup, outputs=()), defined_by.values())
    declarations = tuple(d for d in program.declarations if d.defined_by is not None or d.name in used)
    setup = replace(program, declarations=declarations, nodes=(), outputs=tuple(defined_by))
    try:
        return how(setup, known, list(defined_by))
    except MissingInput:  # of what is used only before the program starts
        return {}


def _failed(program: Program, pair: _Pair, differs: Difference, worst: float, tensors: int) -> Verdict:
    node = next((n for n in walk((*program.setup, *program.nodes)) if pair.name in defined(n)), None)
    source = node.source if node is not None else NO_SOURCE
    mismatch = Mismatch(
        tensor=pair.name, difference=differs, statement=statement_text(node) if node is not None else "",
        operator=source.operator, file=source.file, line=source.line, column=source.column, output=pair.output,
    )  # fmt: skip
    return Verdict(status="failed", reason=str(mismatch), max_rel_error=worst, mismatch=mismatch, tensors=tensors)


def statement_text(node: Node) -> str:
    """The IR text of a node without its source."""
    return node_text(replace(node, source=NO_SOURCE)).strip()
