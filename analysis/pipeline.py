"""The whole flow in one call: source, trace, lower, bounds, findings. `Pipeline.analyse` gives a file's report.

Problems come with results, never instead of them: a target that cannot be analysed is a problem, the others are still
reported. Traces, reports and verdicts are read from the cache where nothing they depend on has changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from sollens.analysis import findings
from sollens.analysis.cache import Cache, closure_digests, key, rules_version, unchanged
from sollens.analysis.interpreter import BadInterpreter, fingerprint
from sollens.analysis.llm.config import LlmConfig
from sollens.analysis.report import VALIDATION_RUNS, FileReport, Problem, TargetReport, Validation
from sollens.analysis.source import described
from sollens.analysis.source import project as projects
from sollens.analysis.source.dependencies import closure
from sollens.analysis.source.discover import discover
from sollens.analysis.source.model import Target
from sollens.analysis.source.text import UnreadableSource, decode
from sollens.analysis.stages import Clock
from sollens.analysis.tracing import Agents, Traced, TraceFailed
from sollens.analysis.translating import UNTRACEABLE, Completed, Translated, Translator, Where, judged, with_operators
from sollens.hardware import catalog

if TYPE_CHECKING:
    from sollens.analysis.lower.lower import Lowered
    from sollens.hardware.target import Target as Hardware

Progress = Callable[[str, str], None]
EinsumFormat = Literal["text", "dot", "json"]
_DOING = {
    "source": "Reading", "trace": "Tracing", "translate": "Translating", "lower": "Lowering", "bounds": "Bounding",
    "validate": "Validating",
}  # fmt: skip
# What a verdict depends on besides the trace, in `analysis/`.
_VERDICT_RULES = ("trace", "source", "ir", "lower", "execute", "validate")
# Ends of a golden run that another attempt, with more memory or on another day, may not meet again.
_PASSING = frozenset(
    ("agent-lost", "cancelled", "deadline", "internal-error", "memory-limit", "process-crash", "process-exit")
)


class Request(msgspec.Struct, kw_only=True, frozen=True):
    """One file to analyse. `text` is the editor's; without it the file is read. Times in seconds, memory in bytes.

    `hardware` and `target_s` give way to the pragma's, unless `explicit`. `llm` is the model that may be asked for what
    cannot be traced; None: none.
    """

    path: str
    interpreter: str
    hardware: str = "h100-sxm"
    precision: str = "as-written"
    text: str | None = None
    version: int | None = None
    target_s: float | None = None
    root: str | None = None
    deadline_s: float = 30.0
    memory_bytes: int = 4 * 2**30
    validate: bool = False
    explicit: bool = False
    llm: LlmConfig | None = None


def with_text(request: Request) -> Request:
    """The request with the file's text as it is now; the same where it cannot be read."""
    if request.text is not None:
        return request
    try:
        return msgspec.structs.replace(request, text=decode(Path(request.path).read_bytes()))
    except (OSError, UnreadableSource):
        return request


class Cancelled(Exception):
    """The request was cancelled."""


class _Manifest(msgspec.Struct):
    """What a trace was recorded from besides the file itself, and the entry it is kept in."""

    files: dict[str, str]
    trace: str


@dataclass(frozen=True, slots=True)
class _Located:
    """A target's place in the cache: the name of its manifest, and of its trace where that is still valid."""

    manifest: str
    trace: str | None


class Pipeline:
    """Analyses files with warm agents and a cache; safe to use from several threads."""

    def __init__(
        self, cache: Cache | None = None, agents: Agents | None = None, translator: Translator | None = None
    ) -> None:
        self.cache = cache or Cache()
        self.agents = agents or Agents()
        self.translator = translator or Translator(self.cache)

    def close(self) -> None:
        """End the agents."""
        self.agents.close()

    def analyse(
        self,
        request: Request,
        progress: Progress | None = None,
        cancel: threading.Event | None = None,
        *,
        await_verdicts: bool = True,
    ) -> FileReport:
        """The report of a file; raises Cancelled, and catalog.UnknownTarget for hardware that no file describes.

        Without `await_verdicts`, a verdict that is not in the cache is left pending, for `verdict` to give.
        """
        run = _Run(self, request, progress or _silent, cancel or threading.Event())
        run.await_verdicts = await_verdicts
        return run.report()

    def verdict(self, request: Request, name: str, line: int, cancel: threading.Event | None = None) -> Validation:
        """The verdict on one target of a file; raises Cancelled."""
        return _Run(self, request, _silent, cancel or threading.Event()).verdict(name, line)

    def lowered(self, request: Request, cancel: threading.Event | None = None) -> tuple[list[Lowered], list[Problem]]:
        """The IR programs of a file's targets, and why others are missing."""
        return _Run(self, request, _silent, cancel or threading.Event()).lowered()

    def ir(self, request: Request, cancel: threading.Event | None = None) -> tuple[str, list[Problem]]:
        """The Affine Loop IR of a file's targets as text."""
        from sollens.analysis.ir.text_print import to_text

        programs, problems = self.lowered(request, cancel)
        return "\n".join(to_text(one.program) for one in programs), problems

    def einsum(
        self, request: Request, form: EinsumFormat = "text", cancel: threading.Event | None = None
    ) -> tuple[str, list[Problem]]:
        """The einsum DAG of a file's targets."""
        from sollens.analysis.einsum import lift, show

        printer = {"text": show.to_text, "dot": show.to_dot, "json": show.to_json}[form]
        programs, problems = self.lowered(request, cancel)
        return "\n".join(printer(lift.lift(one.program, one.values)) for one in programs), problems


class _Run:
    """One request."""

    def __init__(self, pipeline: Pipeline, request: Request, progress: Progress, cancel: threading.Event) -> None:
        self.pipeline = pipeline
        self.cache = pipeline.cache
        self.request = request
        self.progress = progress
        self.cancel = cancel
        self.path = Path(request.path).absolute()
        self.root = Path(request.root).absolute() if request.root else None
        self.problems: list[Problem] = []
        self.source = Clock()
        self.text = ""
        self.found: tuple[Target, ...] = ()
        self.operators: Completed | None = None
        self.await_verdicts = True

    def report(self) -> FileReport:
        """Every target's report."""
        reports: list[TargetReport] = []
        for target in self.targets():
            clock = Clock(dict(self.source.stage_s))
            start = time.perf_counter() - sum(clock.stage_s.values())
            try:
                report = self.traced_or_translated(target, clock)
            except TraceFailed as failure:
                self.check()
                self.problems += [_located(p, self.path, target) for p in failure.problems]
                continue
            clock.stage_s["total"] = time.perf_counter() - start
            reports.append(msgspec.structs.replace(report, stage_s=clock.stage_s))
        failed = [problem for report in reports if (problem := findings.disproved(report)) is not None]
        problems = list(dict.fromkeys(self.problems + failed))
        return FileReport(path=self.request.path, problems=problems, targets=reports)

    def verdict(self, name: str, line: int) -> Validation:
        """The verdict on the target of that name and line."""
        target = next((t for t in self.targets() if (t.name, t.line) == (name, line)), None)
        if target is None:
            return Validation(reason=f"expected {name} in line {line}, found another text")
        clock = Clock()
        try:
            traced = self.trace(target, self.locate(target), clock)
        except TraceFailed as failure:
            self.check()
            return Validation(reason=str(failure))
        traced, lowered = self.completed(target, traced, self.lower(traced, clock), clock)
        return self.cached_verdict(traced.entry) or self.validate(target, traced, lowered)

    def lowered(self) -> tuple[list[Lowered], list[Problem]]:
        programs: list[Lowered] = []
        for target in self.targets():
            clock = Clock()
            try:
                if target.frontend == "llm":
                    programs.append(self.translate(target, clock).lowered)
                else:
                    traced = self.trace(target, self.locate(target), clock)
                    programs.append(self.completed(target, traced, self.lower(traced, clock), clock)[1])
            except TraceFailed as failure:
                self.check()
                self.problems += [_located(p, self.path, target) for p in failure.problems]
        return programs, self.problems

    def targets(self) -> tuple[Target, ...]:
        """The targets that the source names; what hinders them goes to the problems."""
        self.enter("source")
        with self.source.stage("source"):
            try:
                self.text = self.request.text if self.request.text is not None else decode(self.path.read_bytes())
            except UnreadableSource as error:
                self.problems.append(error.problem)
                return ()
            except OSError as error:
                message = f"expected a readable file at {self.path}, found {error.strerror or error}: save it again"
                self.problems.append(Problem(code="file-missing", line=1, message=message, severity="error"))
                return ()
            project = projects.find(self.path, self.root)
            if project.excludes(self.path):
                message = f"{self.path.name} is excluded by tool.sollens.exclude of {project.root}/pyproject.toml"
                self.problems.append(Problem(code="excluded", line=1, message=message, severity="information"))
                return ()
            is_python = self.path.suffix in (".py", ".pyi")
            found = discover(self.text, self.path, project) if is_python else described.discover(self.text, self.path)
            self.problems += found.problems
            self.found = found.targets
        if any(target.frontend != "llm" for target in found.targets):
            with self.source.stage("environment"):
                try:
                    self.environment = fingerprint(self.request.interpreter)
                except BadInterpreter as error:
                    self.problems.append(error.problem)
                    return ()
        return found.targets

    # --- one target ---

    def traced_or_translated(self, target: Target, clock: Clock) -> TargetReport:
        """The target's report, by a model where that is asked for, or allowed and the only way."""
        if target.frontend == "llm":
            return self.translated(target, clock)
        try:
            return self.analysed(target, clock)
        except TraceFailed as failure:
            self.check()
            codes = {problem.code for problem in failure.problems}
            if self.request.llm is None or not codes <= UNTRACEABLE or target.convention == "kernelbench":
                raise
            try:
                report = self.translated(target, clock)
            except TraceFailed as second:
                raise TraceFailed([*failure.problems, *second.problems]) from None
            told = [msgspec.structs.replace(p, severity="information") for p in failure.problems]
            self.problems += [_located(p, self.path, target) for p in told]
            return report

    def completed(self, target: Target, traced: Traced, lowered: Lowered, clock: Clock) -> tuple[Traced, Lowered]:
        """The program with a model's programs in place of operators that nobody knows, where that is allowed.

        Another program needs another place in the cache; transcripts have theirs, so this one has none.
        """
        self.operators = None
        if self.request.llm is None or not lowered.partial:
            return traced, lowered
        self.enter("translate", target.name)
        try:
            with clock.stage("translate"):
                found = self.operators = self.pipeline.translator.complete(
                    self.request.llm, target, traced.trace, lowered, self.where(), self.pipeline.agents, self.cancel,
                    lambda told: self.progress("translate", told),
                )  # fmt: skip
        except TraceFailed as failure:
            self.check()
            self.problems += failure.problems
            return traced, lowered
        self.check()
        return (Traced(traced.trace), found.lowered) if found.replacements else (traced, lowered)

    def where(self) -> Where:
        """What a translation depends on besides the target."""
        return Where(
            path=self.path, text=self.text, root=self.root, interpreter=self.request.interpreter,
            deadline_s=self.request.deadline_s, memory_bytes=self.request.memory_bytes,
        )  # fmt: skip

    def translated(self, target: Target, clock: Clock) -> TargetReport:
        """The report of a target by a model; raises TraceFailed."""
        found = self.translate(target, clock)
        self.enter("bounds")
        from sollens.analysis.bounds.assess import assess

        report = assess(
            found.trace, found.lowered, catalog.load(self.hardware_of(target)), self.request.precision,
            self.target_s_of(target), stage=clock.add, path=str(self.path),
        )  # fmt: skip
        return judged(findings.complete(report), found.transcript)

    def translate(self, target: Target, clock: Clock) -> Translated:
        """The target's program by a model; raises TraceFailed."""
        self.enter("translate", target.name)
        where = self.where()
        with clock.stage("translate"):
            found = self.pipeline.translator.translate(
                self.request.llm, target, self.found, where, self.cancel,
                lambda told: self.progress("translate", told),
            )  # fmt: skip
        self.check()
        return found

    def analysed(self, target: Target, clock: Clock) -> TargetReport:
        """The target's report, from the cache or anew."""
        hardware = catalog.load(self.hardware_of(target))
        with clock.stage("cache"):
            located = self.locate(target)
            known = self.cached_report(target, located)
        if known is not None and not (known.partial and self.request.llm is not None):
            return self.judged(target, known, located.trace, None, clock)
        traced = self.trace(target, located, clock)
        lowered = self.lower(traced, clock)
        traced, lowered = self.completed(target, traced, lowered, clock)
        report = self.bounded(target, traced, lowered, hardware, clock)
        report = with_operators(report, self.operators)
        return self.judged(target, report, traced.entry, (traced, lowered), clock)

    def bounded(
        self, target: Target, traced: Traced, lowered: Lowered, hardware: Hardware, clock: Clock
    ) -> TargetReport:
        """The numbers of a lowered program, kept in the cache without a verdict."""
        self.enter("bounds")
        from sollens.analysis.bounds.assess import assess

        goal, path = self.target_s_of(target), str(self.path)
        report = assess(traced.trace, lowered, hardware, self.request.precision, goal, stage=clock.add, path=path)
        self.check()
        with clock.stage("findings"):
            report = findings.complete(report, lowered.problems)
        if traced.entry is not None:
            self.cache.put(self.report_key(target, traced.entry), report)
        return report

    def judged(
        self, target: Target, report: TargetReport, entry: str | None, known: tuple[Traced, Lowered] | None,
        clock: Clock,
    ) -> TargetReport:  # fmt: skip
        """The report with its verdict, from the cache or anew; pending where the caller does not wait for it."""
        if not self.request.validate:
            return report
        with clock.stage("cache"):
            verdict = self.cached_verdict(entry)
        if verdict is None and not self.await_verdicts:
            verdict = Validation(reason=VALIDATION_RUNS)
        if verdict is None:
            traced = known[0] if known else self.trace(target, self.locate(target), clock)
            lowered = known[1] if known else self.lower(traced, clock)
            self.enter("validate", target.name)
            with clock.stage("validate"):
                verdict = self.validate(target, traced, lowered)
        return msgspec.structs.replace(report, validation=verdict)

    def validate(self, target: Target, traced: Traced, lowered: Lowered) -> Validation:
        """Run the program against the original; what goes wrong is a verdict too. Kept where it would be so again."""
        try:
            verdict = self.pipeline.agents.validate(
                interpreter=self.request.interpreter, path=self.path, text=self.text, target=target, root=self.root,
                deadline_s=self.request.deadline_s, memory_bytes=self.request.memory_bytes, lowered=lowered,
                cancel=self.cancel, complete=self.operators.of if self.operators else None,
            )  # fmt: skip
        except Exception as error:
            self.check()
            return Validation(reason=f"{type(error).__name__}: {error}: this is a bug of sollens, please report it")
        self.check()
        found = verdict.validation()
        if found.mismatch is not None and Path(found.mismatch.file) != self.path:
            found = msgspec.structs.replace(found, line=0)
        if traced.entry is not None and verdict.code not in _PASSING:
            self.cache.put(_verdict_key(traced.entry), found)
        return found

    def cached_verdict(self, entry: str | None) -> Validation | None:
        return self.cache.get_as(_verdict_key(entry), Validation) if entry is not None else None

    def hardware_of(self, target: Target) -> str:
        """The chip's id; a pragma's unknown one is a problem and the request's is taken."""
        named = target.shapes.hardware if target.shapes and not self.request.explicit else None
        if named is None:
            return self.request.hardware
        try:
            return catalog.load(named).id
        except catalog.UnknownTarget as error:
            message = f"pragma of {target.name}: {error}; {self.request.hardware} is used"
            self.problems.append(Problem(code="bad-pragma", line=target.line, message=message))
            return self.request.hardware

    def target_s_of(self, target: Target) -> float | None:
        """The latency to reach, in seconds."""
        named = target.shapes.target_s if target.shapes else None
        if self.request.explicit and self.request.target_s is not None:
            return self.request.target_s
        return named if named is not None else self.request.target_s

    def locate(self, target: Target) -> _Located:
        """Where the target's trace is kept, if it still holds."""
        name = key(
            "manifest", rules_version("trace", "source"), str(self.path), self.text, msgspec.to_builtins(target),
            self.environment, str(self.root),
        )  # fmt: skip
        manifest = self.cache.get_as(name, _Manifest)
        if manifest is None or not unchanged(manifest.files):
            return _Located(name, None)
        return _Located(name, manifest.trace)

    def report_key(self, target: Target, trace: str) -> str:
        """The cache name of a report; a trace's name stands for all that it was recorded from."""
        settings = (self.hardware_of(target), self.request.precision, self.target_s_of(target))
        return key("report", rules_version(), trace, *settings)

    def cached_report(self, target: Target, located: _Located) -> TargetReport | None:
        if located.trace is None:
            return None
        return self.cache.get_as(self.report_key(target, located.trace), TargetReport)

    def trace(self, target: Target, located: _Located, clock: Clock) -> Traced:
        """The target's trace, from the cache or from the agent; raises TraceFailed."""
        with clock.stage("cache"):
            traced = Traced.read(self.cache, located.trace)
        if traced is not None:
            return traced
        self.enter("trace", target.name)
        with clock.stage("trace"):
            roots = [self.root] if self.root else []
            # Hashed before the run: a file that changes during it must not pass for the one that was traced.
            files = closure_digests(str(path) for path in closure(self.text, self.path, roots))
            traced = self.pipeline.agents.trace(
                interpreter=self.request.interpreter, path=self.path, text=self.text, target=target, root=self.root,
                deadline_s=self.request.deadline_s, memory_bytes=self.request.memory_bytes, cancel=self.cancel,
            )  # fmt: skip
        self.check()
        with clock.stage("cache"):
            entry = key("trace", located.manifest, files)
            traced = traced.kept(self.cache, entry)
            self.cache.put(located.manifest, _Manifest(files=files, trace=entry))
        return traced

    def lower(self, traced: Traced, clock: Clock) -> Lowered:
        """The IR program of a trace."""
        self.enter("lower")
        with clock.stage("lower"):
            from sollens.analysis.lower.lower import lower

            return lower(traced.trace)

    def enter(self, stage: str, what: str = "") -> None:
        """Report a stage; raises Cancelled."""
        self.check()
        self.progress(stage, f"{_DOING[stage]} {what or self.path.name}")

    def check(self) -> None:
        if self.cancel.is_set():
            raise Cancelled(str(self.path))


def _verdict_key(trace: str) -> str:
    """The cache name of a verdict; a trace's name stands for all that it was recorded from."""
    return key("verdict", rules_version(*_VERDICT_RULES), trace)


def _located(problem: Problem, path: Path, target: Target) -> Problem:
    """A problem without a place in this file stands at the target."""
    return problem if problem.line > 0 else msgspec.structs.replace(problem, line=target.line)


def _silent(stage: str, message: str) -> None:
    return None
