"""A program under mutation: its golden run, made once, and the validator's own comparison of a mutant with it."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from sollens.analysis.execute.compiled.estimate import used
from sollens.analysis.execute.storage import Array
from sollens.analysis.ir.nodes import Declaration, Program, defined
from sollens.analysis.ir.tensors import tensor_types
from sollens.analysis.lower.lower import Lowered, lower
from sollens.analysis.trace.host import AgentHost, TraceRequest
from sollens.analysis.validate import golden as goldens
from sollens.analysis.validate.agree import How, agreement
from sollens.analysis.validate.golden import Exact, Golden
from sollens.analysis.validate.validate import Budget
from sollens.analysis.validate.verdict import Verdict

Values = Mapping[str, Array]


class NoSubject(Exception):
    """There is nothing to mutate: no golden run, or a program that does not validate."""


@dataclass(slots=True)
class Base:
    """A program and all that it computed on some inputs; of a mutant only what the mistake reaches is run anew."""

    program: Program
    inputs: Values
    values: Values

    @staticmethod
    def of(program: Program, inputs: Values) -> Base:
        """The base of a program."""
        names = [name for node in program.nodes for name in defined(node)]
        return Base(program, inputs, How()(program, inputs, names))

    def fits(self, program: Program) -> bool:
        """Whether the program can be this one with a mistake."""
        same = (self.program.declarations, self.program.setup) == (program.declarations, program.setup)
        return same and len(self.program.nodes) == len(program.nodes)

    def run(self, mutant: Program, want: list[str]) -> Values:
        """What the mutant computes on the same inputs."""
        reached: set[str] = set()
        nodes = []
        for mine, other in zip(self.program.nodes, mutant.nodes, strict=True):
            if other != mine or not reached.isdisjoint(used(other)):
                reached.update(defined(other))
                nodes.append(other)
        known = {**self.inputs, **self.values}
        if nodes:
            types = tensor_types(self.program)
            needed = {n for node in nodes for n in used(node)} - reached
            given = tuple(
                Declaration(name=n, dtype=types[n].dtype, shape=types[n].shape, role="constant")
                for n in sorted(needed & self.values.keys())
            )
            rest = replace(mutant, declarations=(*mutant.declarations, *given), nodes=tuple(nodes))
            inputs = {n: a for n, a in known.items() if n in self.inputs or n in needed}
            known.update(How()(rest, inputs, [n for n in dict.fromkeys(want) if n in reached]))
        return {name: known[name] for name in want}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resumed(How):
    """Runs a program from the bases that fit it; keeps what it was asked to run."""

    bases: list[Base]
    asked: list[tuple[Program, Values]] = field(default_factory=list)

    def __call__(self, program: Program, inputs: Values, want: list[str]) -> Values:
        self.asked.append((program, inputs))
        for base in self.bases:
            if program.nodes and base.fits(program):
                return base.run(program, want)
        return How.__call__(self, program, inputs, want)


@dataclass
class Subject:
    """A lowered program with the values that the original gave."""

    host: AgentHost
    request: TraceRequest
    golden: Golden
    lowered: Lowered
    bases: list[Base] = field(default_factory=list)

    @property
    def program(self) -> Program:
        """The program without mistakes."""
        return self.lowered.program

    def verdict(self, program: Program) -> Verdict:
        """What the validator says when this is the lowered program; raises what the executor does not foresee."""
        return self._judge(program, _Resumed(bases=self.bases))

    def runs(self, program: Program) -> tuple[Program, Values]:
        """The program as the validator runs it, random numbers given, and its inputs."""
        how = _Resumed(bases=self.bases)
        self._judge(program, how)
        return next((p, inputs) for p, inputs in how.asked if p.nodes)

    def keep(self) -> None:
        """Keep what the program without mistakes computes."""
        self.bases.append(Base.of(*self.runs(self.program)))

    def _judge(self, program: Program, how: How) -> Verdict:
        return agreement(self.golden, replace(self.lowered, program=program), how, lambda: self.exact)

    @cached_property
    def exact(self) -> Exact | None:
        """The original in double precision."""
        options = {**(self.request.golden or {}), "again": self.golden.again, "signed": self.golden.signed}
        reply = self.host.trace(replace(self.request, golden=options))
        try:
            return goldens.read_exact(reply.golden) if reply.golden is not None else None
        except (KeyError, TypeError, ValueError):
            return None


@contextmanager
def subject(host: AgentHost, request: TraceRequest, budget: Budget, seed: int = 0) -> Generator[Subject]:
    """The subject of a file; raises NoSubject with the reason."""
    with tempfile.TemporaryDirectory(prefix="sollens-mutation-") as folder:
        request = replace(request, golden=budget.options(folder, seed), seed=seed)
        reply = host.trace(request)
        if reply.trace is None or reply.golden is None:
            raise NoSubject(reply.problems[0].message if reply.problems else "no golden run")
        if "no_twin" in reply.golden:
            raise NoSubject(str(reply.golden["no_twin"]))
        golden = goldens.read(reply.trace, reply.golden, Path(folder))
        if golden.diverged:
            raise NoSubject(golden.diverged)
        one = Subject(host, request, golden, lower(golden.trace))
        verdict = one.verdict(one.program)
        if verdict.status != "validated":
            raise NoSubject(f"without a mutation: {verdict.status}: {verdict.reason}")
        one.keep()
        yield one
