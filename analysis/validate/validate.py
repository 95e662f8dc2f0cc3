"""Validate a lowered program: run it (or its twin) on golden inputs and compare every tensor that both sides know."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sollens.analysis.execute.errors import MissingInput, NotExecutable, OutOfBounds, TooLarge
from sollens.analysis.execute.storage import Array
from sollens.analysis.ir.nodes import NO_SOURCE, Node, Program, defined, walk
from sollens.analysis.ir.text_print import node_text
from sollens.analysis.lower.lower import Lowered, lower
from sollens.analysis.validate import golden as goldens
from sollens.analysis.validate.compare import INNER_SLACK, Difference, Rounding, difference, roundings
from sollens.analysis.validate.execute import execute
from sollens.analysis.validate.form import form_difference
from sollens.analysis.validate.given import given_random, live_names
from sollens.analysis.validate.golden import BadGolden, Entry, Golden
from sollens.analysis.validate.verdict import Mismatch, Verdict

if TYPE_CHECKING:
    import threading

    from sollens.analysis.trace.host import AgentHost, TraceRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a validation may cost; programs above `full_points` are run as twins of about `target_points`."""

    full_points: int = 3_000_000
    target_points: int = 3_000_000
    points: int = 200_000_000
    elements: int = 2_000_000
    search_s: float = 10.0
    golden_bytes: int = 256 * 2**20
    kernels: bool = True

    def options(self, directory: str, seed: int) -> dict[str, Any]:
        """The "golden" part of an agent's request."""
        return {
            "directory": directory, "seed": seed, "full_points": self.full_points, "target_points": self.target_points,
            "points": self.points, "elements": self.elements, "search_s": self.search_s, "bytes": self.golden_bytes,
            "kernels": self.kernels,
        }  # fmt: skip


@dataclass
class _Clock:
    stage_s: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.stage_s[name] = self.stage_s.get(name, 0.0) + time.perf_counter() - start


def validate(
    host: AgentHost, request: TraceRequest, full: Lowered, *, budget: Budget | None = None, seed: int = 0,
    cancel: threading.Event | None = None,
) -> Verdict:  # fmt: skip
    """How far `full`, the lowered program of `request`'s trace, agrees with the program that `request` names.

    Runs the user's code once more, on real tensors, in the agent. Never raises on what that code does.
    """
    budget = budget or Budget()
    clock = _Clock()
    if full.partial:
        one = full.partial[0]
        return Verdict(status="not-validated", reason=f"{one.operator} (line {one.source.line}): {one.reason}")
    with tempfile.TemporaryDirectory(prefix="sollens-golden-") as folder:
        with clock.stage("golden"):
            options = budget.options(folder, seed)
            reply = host.trace(replace(request, golden=options, seed=seed), cancel=cancel)
        if reply.trace is None or reply.golden is None:
            told = reply.problems[0].message if reply.problems else "the agent gave no golden outputs"
            return Verdict(status="not-validated", reason=told, stage_s=clock.stage_s)
        if "no_twin" in reply.golden:
            return _by_kernel(reply.golden, Path(folder), clock)
        try:
            golden = goldens.read(reply.trace, reply.golden, Path(folder))
            return _whole(golden, full, budget, clock)
        except (BadGolden, OSError) as error:
            return Verdict(status="not-validated", reason=str(error), stage_s=clock.stage_s)


def _by_kernel(raw: Mapping[str, Any], folder: Path, clock: _Clock) -> Verdict:
    from sollens.analysis.validate.kernels import by_kernel

    with clock.stage("kernels"):
        verdict = by_kernel(raw, folder)
    return replace(verdict, stage_s=clock.stage_s)


def _whole(golden: Golden, full: Lowered, budget: Budget, clock: _Clock) -> Verdict:
    if golden.diverged:
        reason = f"the program ran other operators on real values than on shapes: {golden.diverged}"
        return Verdict(status="not-validated", reason=reason, sizes=golden.sizes, stage_s=clock.stage_s)
    with clock.stage("lower"):
        lowered = full if golden.full else lower(golden.trace)
    if lowered.partial:
        one = lowered.partial[0]
        reason = f"{one.operator} (line {one.source.line}) at the twin's sizes: {one.reason}"
        return Verdict(status="not-validated", reason=reason, sizes=golden.sizes, stage_s=clock.stage_s)
    verdict = agreement(golden, lowered, limit_points=4 * budget.points, clock=clock)
    if verdict.status == "validated" and not golden.full:
        other = form_difference(full.program, lowered.program)
        if other is not None:
            reason = other if isinstance(other, str) else f"{_text(other[0])} is {_text(other[1])} in the twin"
            verdict = replace(verdict, reason=f"the twin's loop program has another form: {reason}")
    return replace(verdict, sizes=golden.sizes, points=golden.points, stage_s=clock.stage_s)


def agreement(golden: Golden, lowered: Lowered, *, limit_points: int, clock: _Clock | None = None) -> Verdict:
    """Run `lowered`, the program of `golden.trace`, on the golden inputs and compare what it gives."""
    clock = clock or _Clock()
    program, drawn = given_random(lowered, golden)
    declared = {d.name for d in program.declarations}
    externals = {
        lowered.names[number]: golden.array(entry)
        for number, entry in {**golden.externals, **drawn}.items()
        if lowered.names.get(number) in declared
    }  # fmt: skip
    with clock.stage("execute"):
        try:
            values = execute(program, externals, limit_points=limit_points)
            made = _setup_values(program, externals, limit_points)
        except (TooLarge, MissingInput, NotExecutable) as error:
            return Verdict(status="not-validated", reason=str(error))
        except OutOfBounds as error:
            return Verdict(status="failed", reason=str(error))
    with clock.stage("compare"):
        verdict = _compared(golden, lowered, values, {n: (externals[n], v) for n, v in made.items()})
    if drawn and verdict.status == "validated":
        return replace(verdict, reason="random numbers were taken from the original's run")
    return verdict


def _setup_values(program: Program, externals: Mapping[str, Array], limit_points: int) -> dict[str, Array]:
    """What the setup says about external tensors whose golden values are known: masks and tables."""
    defined_by = {d.name: d.defined_by for d in program.declarations if d.defined_by is not None and d.name in externals}
    if not defined_by:
        return {}
    known = {n: a for n, a in externals.items() if n not in defined_by}
    declarations = tuple(d for d in program.declarations if d.name in known or d.defined_by is not None)
    values = execute(replace(program, declarations=declarations, nodes=(), outputs=()), known, limit_points=limit_points)
    return {name: values[name] for name in defined_by}


def _compared(
    golden: Golden, lowered: Lowered, values: Mapping[str, Array], made: Mapping[str, tuple[Array, Array]]
) -> Verdict:
    rounding = roundings(lowered.program)
    worst, compared = 0.0, 0
    first: tuple[str, Difference] | None = None
    for name, (expected, found) in made.items():
        _, differs = difference(found, expected, Rounding(2.0**-24, 16.0))
        if differs is not None:
            first = first or (name, differs)
    for name, entry in zip(lowered.returned, golden.outputs, strict=True):
        error, differs = difference(values[name], golden.array(entry), rounding[name])
        worst = max(worst, error)
        compared += 1
        if differs is not None:
            first = first or (name, differs)
    wrong_output = first is not None
    inner = None
    live = live_names(lowered.program, lowered.returned)
    for name, entry in _intermediates(golden, lowered):
        if name in values and name in live:
            allowed = rounding.get(name, Rounding())
            if not wrong_output:
                allowed = replace(allowed, slack=INNER_SLACK)
            _, differs = difference(values[name], golden.array(entry), allowed)
            compared += 1
            if differs is not None:
                inner = (name, differs)
                break
    if first is None and inner is None:
        return Verdict(status="validated", max_rel_error=worst, tensors=compared)
    name, differs = inner or first  # pyright: ignore[reportGeneralTypeIssues]
    mismatch = _mismatch(lowered.program, name, differs, output=name in lowered.returned)
    reason = str(mismatch) if wrong_output else f"{mismatch}; the outputs agree"
    return Verdict(status="failed", reason=reason, max_rel_error=worst, mismatch=mismatch, tensors=compared)


def _intermediates(golden: Golden, lowered: Lowered) -> Iterator[tuple[str, Entry]]:
    """IR names and golden entries of what operators gave, in the program's order.

    `Lowered.names` has a tensor's first name; what a later operator wrote into it is compared through the outputs.
    """
    seen: set[int] = set(golden.externals)
    for position in sorted(golden.ops):
        op = golden.trace.ops[position]
        if op.target.split(".")[1].startswith(("empty", "new_empty")):
            continue
        for number, entry in golden.ops[position].items():
            name = lowered.names.get(number)
            if name is not None and number not in seen and number not in op.mutates:
                seen.add(number)
                yield name, entry


def _mismatch(program: Program, name: str, differs: Difference, *, output: bool) -> Mismatch:
    node = next((n for n in walk((*program.setup, *program.nodes)) if name in defined(n)), None)
    if node is None:
        return Mismatch(tensor=name, difference=differs, output=output)
    source = node.source
    return Mismatch(
        tensor=name, difference=differs, statement=_text(node), operator=source.operator, file=source.file,
        line=source.line, column=source.column, output=output,
    )  # fmt: skip


def _text(node: Node) -> str:
    return node_text(replace(node, source=NO_SOURCE)).strip()
