"""Targets that no tracer reads, by a language model: the task that a target is, asked once and kept in the cache.

Nothing is sent unless an endpoint is configured and the user agreed for this workspace.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sollens.analysis.cache import Cache, key, rules_version
from sollens.analysis.llm.config import BadConfig, LlmConfig
from sollens.analysis.llm.consent import Consents, question
from sollens.analysis.report import Mismatch, Problem, TargetReport, Validation
from sollens.analysis.source import described
from sollens.analysis.source.model import Shapes, Target, TensorSpec
from sollens.analysis.source.text import normalise
from sollens.analysis.tracing import TraceFailed

if TYPE_CHECKING:
    from sollens.analysis.ir.nodes import Call
    from sollens.analysis.llm.endpoint import Endpoint
    from sollens.analysis.llm.splice import Replacement
    from sollens.analysis.llm.task import Argument, Task
    from sollens.analysis.llm.translate import Transcript
    from sollens.analysis.lower.lower import Lowered
    from sollens.analysis.trace.schema import Trace
    from sollens.analysis.tracing import Agents, Recorded

# Failures of a trace that say nothing against the program itself: it may be read by other means.
UNTRACEABLE = frozenset(("import-error", "framework-missing", "needs-gpu", "forward-failed", "constructor-failed"))
_LATEST = "llm-latest"
_SYMBOL = re.compile(r"[A-Za-z_]\w*")
EndpointOf = Callable[[LlmConfig], "Endpoint"]


@dataclass(frozen=True, slots=True)
class Translated:
    """A translated target: its program in the form that bounds are made from, and how it came about."""

    trace: Trace
    lowered: Lowered
    transcript: Transcript


@dataclass(frozen=True, slots=True)
class Completed:
    """A lowered program in which operators were replaced by a model's programs, these, and how they came about."""

    lowered: Lowered
    replacements: tuple[Replacement, ...] = ()
    transcripts: tuple[Transcript, ...] = ()

    def of(self, twin: Lowered) -> Lowered:
        """A twin's program with the same operators replaced."""
        from sollens.analysis.llm.splice import splice

        return splice(twin, self.replacements)


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What a translation depends on besides the target."""

    path: Path
    text: str
    root: Path | None
    interpreter: str
    deadline_s: float
    memory_bytes: int


def http_endpoint(config: LlmConfig) -> Endpoint:
    """The configured endpoint."""
    from sollens.analysis.llm.endpoint import OpenAIEndpoint

    return OpenAIEndpoint(config)


class Translator:
    """Asks a model for targets; safe to use from several threads."""

    def __init__(self, cache: Cache, endpoint_of: EndpointOf = http_endpoint, consents: Consents | None = None) -> None:
        self.cache = cache
        self.endpoint_of = endpoint_of
        self.consents = consents or Consents()

    def translate(
        self, config: LlmConfig | None, target: Target, others: tuple[Target, ...], where: Where,
        cancel: threading.Event, progress: Callable[[str], None] | None = None,
    ) -> Translated:  # fmt: skip
        """The target's program, from the cache or from the model; raises TraceFailed, also on a cancellation."""
        config = self.allowed(config, target, where)
        task = self.task(target, others, where, cancel)
        transcript = self.transcript(task, config, cancel, progress)
        return self._read(transcript, target, where)

    def allowed(self, config: LlmConfig | None, target: Target, where: Where) -> LlmConfig:
        """The configuration, where something may be sent; raises TraceFailed with what the user can do."""
        if config is None or not config.is_on:
            message = (
                f"{target.name}: a model has to translate this source, and none is configured: set "
                "sollens.llm.baseUrl and sollens.llm.model, or SOLLENS_LLM_URL and SOLLENS_LLM_MODEL (docs/llm.md)"
            )
            raise _failed("llm-off", target, message, "information")
        try:
            config = config.checked()
        except BadConfig as error:
            raise _failed("bad-config", target, str(error)) from None
        workspace = where.root or where.path.parent
        if not self.consents.has(workspace, config.host):
            message = f"{target.name}: {question(workspace, config.host, config.model)}"
            message += " Nothing was sent yet: `sollens llm consent` agrees"
            raise _failed("llm-consent", target, message, "information")
        return config

    def task(self, target: Target, others: tuple[Target, ...], where: Where, cancel: threading.Event) -> Task:
        """What to ask for; raises TraceFailed where the pragma or its golden data cannot be used."""
        from sollens.analysis.llm.golden import golden_case
        from sollens.analysis.llm.task import BadGolden, Task

        shapes = target.shapes or Shapes()
        arguments, symbols = _arguments(shapes)
        if not arguments:
            message = f"{target.name}: expected the arrays it takes in its pragma (x=f32[N=8]), found none"
            raise _failed("bad-pragma", target, message)
        lines = normalise(where.text).split("\n")
        source, line = ("\n".join(lines), 1)
        if where.path.suffix != ".py":
            source, line = described.source_of(lines, target, others)
        case = None
        if shapes.golden:
            try:
                case = golden_case(
                    shapes.golden, where.path.parent, arguments, symbols, interpreter=where.interpreter,
                    deadline_s=where.deadline_s, memory_bytes=where.memory_bytes,
                    paths=(str(where.root),) if where.root else (), cancel=cancel,
                )  # fmt: skip
            except BadGolden as error:
                raise _failed("bad-golden", target, str(error)) from None
        return Task(
            name=target.name, source=source, language=described.language_of(where.path), arguments=arguments,
            symbols=symbols, path=str(where.path), line=line, case=case, notes=_notes(target, shapes),
        )  # fmt: skip

    def transcript(
        self, task: Task, config: LlmConfig, cancel: threading.Event, progress: Callable[[str], None] | None = None
    ) -> Transcript:
        """The translation of a task, kept unless the endpoint failed; raises TraceFailed on a cancellation."""
        from sollens.analysis.llm.endpoint import EndpointFailed
        from sollens.analysis.llm.translate import Transcript, translate

        name = _name(task, config)
        known = self.cache.get_as(name, Transcript)
        if known is not None:
            return known
        endpoint = self.endpoint_of(config)
        try:
            found = translate(task, endpoint, config, cancel=cancel, progress=progress)
        except EndpointFailed:
            raise TraceFailed([]) from None
        finally:
            close: Callable[[], None] = getattr(endpoint, "close", lambda: None)
            close()
        if not found.error_kind or found.error_kind == "budget":
            self.cache.put(name, found)
        self.cache.put(latest(task.path, task.name), found)
        return found

    def complete(
        self, config: LlmConfig, target: Target, trace: Trace, lowered: Lowered, where: Where, agents: Agents,
        cancel: threading.Event, progress: Callable[[str], None] | None = None,
    ) -> Completed:  # fmt: skip
        """The lowered program with those opaque operators replaced that a model translates; raises TraceFailed."""
        from sollens.analysis.llm.splice import opaque_calls, splice

        calls = opaque_calls(lowered.program)
        if not calls:
            return Completed(lowered)
        config = self.allowed(config, target, where)
        recorded = agents.recorded(
            interpreter=where.interpreter, path=where.path, text=where.text, target=target, root=where.root,
            deadline_s=where.deadline_s, memory_bytes=where.memory_bytes, operators={c.source.op for c in calls},
            cancel=cancel,
        )  # fmt: skip
        if cancel.is_set():
            raise TraceFailed([])
        found, transcripts = self.operators(config, target, lowered, recorded, where, trace, cancel, progress)
        return Completed(splice(lowered, found), tuple(found), tuple(transcripts))

    def operators(
        self, config: LlmConfig, target: Target, lowered: Lowered, recorded: Mapping[int, Recorded], where: Where,
        trace: Trace, cancel: threading.Event, progress: Callable[[str], None] | None = None,
    ) -> tuple[list[Replacement], list[Transcript]]:  # fmt: skip
        """Programs of the opaque operators that agree with what was recorded of them, and how each came about."""
        from sollens.analysis.llm.splice import Replacement, opaque_calls
        from sollens.analysis.llm.task import Case, Task, is_telling

        found: list[Replacement] = []
        transcripts: list[Transcript] = []
        for call in opaque_calls(lowered.program):
            run = recorded.get(call.source.op)
            if run is None or len(run.inputs) != len(call.operands) or not is_telling(run.outputs):
                continue
            arguments, full, small = _operands(call, lowered, run)
            outputs = tuple((f"result {k}", value) for k, value in enumerate(run.outputs))
            inputs = {a.name: value for a, value in zip(arguments, run.inputs, strict=True)}
            about = f"what {call.source.operator} gave in a run of {target.name}"
            op = trace.ops[call.source.op]
            notes = (
                f"Translate only the operator {call.source.operator} as line {call.source.line} calls it, with the "
                f"arguments {op.args} {op.kwargs or ''}, where {{'tensor': n}} are the arrays above in their order."
            )
            task = Task(
                name=f"{target.name}: {call.source.operator}", source=normalise(where.text), language="Python",
                arguments=arguments, symbols=full, path=str(where.path), notes=notes,
                case=Case(sizes=small, inputs=inputs, outputs=outputs, about=about),
            )  # fmt: skip
            transcript = self.transcript(task, config, cancel, progress)
            transcripts.append(transcript)
            if transcript.outcome == "validated":
                position, operator = call.source.op, call.source.operator
                found.append(Replacement(op=position, operator=operator, text=transcript.text, arguments=arguments))
        self.cache.put(_operators_of(str(where.path), target.name), _Names(names=[t.name for t in transcripts]))
        return found, transcripts

    def latest(self, path: Path, names: list[str]) -> list[Transcript]:
        """The last transcripts of a file's targets."""
        from sollens.analysis.llm.translate import Transcript

        found = [self.cache.get_as(latest(str(path), name), Transcript) for name in names]
        for name in names:
            noted = self.cache.get_as(_operators_of(str(path), name), _Names)
            operators = noted.names if noted is not None else []
            found += [self.cache.get_as(latest(str(path), each), Transcript) for each in operators]
        return [transcript for transcript in found if transcript is not None]

    def _read(self, transcript: Transcript, target: Target, where: Where) -> Translated:
        from sollens.analysis.ir.text_parse import parse
        from sollens.analysis.ir.text_tokens import UNTRUSTED_LIMITS
        from sollens.analysis.llm.program import as_lowered

        if transcript.outcome in ("endpoint", "no-program"):
            what = "gave no usable program" if transcript.outcome == "no-program" else "was not reached"
            message = f"{target.name}: {transcript.model} at {transcript.host} {what}: {transcript.reason}"
            rounds = len(transcript.rounds)
            raise _failed("llm-failed", target, f"{message} ({rounds} rounds; `sollens llm show` has them)")
        program, _ = parse(transcript.text, limits=UNTRUSTED_LIMITS)
        assert program is not None  # it was judged before it was kept
        lines = where.text.count("\n") + 1
        trace, lowered = as_lowered(
            program, name=target.name, path=str(where.path), line=target.line, lines=lines, model=transcript.model
        )
        return Translated(trace, lowered, transcript)


def _operands(
    call: Call, lowered: Lowered, run: Recorded
) -> tuple[tuple[Argument, ...], dict[str, int], dict[str, int]]:
    """An operator's operands as arguments, and its symbols' sizes in the program and in the recorded run.

    Extents that are equal in both are one symbol; those that are the same size in both runs stay numbers.
    """
    from sollens.analysis.ir.tensors import tensor_types
    from sollens.analysis.llm.task import Argument

    types = tensor_types(lowered.program)
    symbols: dict[tuple[int, int], str] = {}
    arguments: list[Argument] = []
    for number, (operand, array) in enumerate(zip(call.operands, run.inputs, strict=True)):
        dims: list[str] = []
        for full, small in zip(types[operand].shape, array.shape, strict=True):
            dims.append(str(full) if full == small else symbols.setdefault((full, small), f"D{len(symbols)}"))
        arguments.append(Argument(f"a{number}", types[operand].dtype, tuple(dims)))
    full_sizes = {name: full for (full, _), name in symbols.items()}
    return tuple(arguments), full_sizes, {name: small for (_, small), name in symbols.items()}


def latest(path: str, name: str) -> str:
    """The cache name of the last transcript of a target."""
    return key(_LATEST, path, name)


class _Names(msgspec.Struct, frozen=True):
    """The tasks of a target's operators."""

    names: list[str]


def _operators_of(path: str, name: str) -> str:
    return key("llm-operators", path, name)


def judged(report: TargetReport, transcript: Transcript) -> TargetReport:
    """The report with how far the translation was checked; nobody has proved that no other program needs less."""
    validated = transcript.outcome == "validated"
    confidence = "medium" if validated and report.confidence == "high" else report.confidence if validated else "low"
    return msgspec.structs.replace(report, validation=_validation(transcript, report), confidence=confidence)


def with_operators(report: TargetReport, completed: Completed | None) -> TargetReport:
    """The report with what a model translated of it, and what it tried and did not."""
    told: list[str] = []
    for one in completed.transcripts if completed is not None else ():
        operator = one.name.rpartition(": ")[2]
        if one.outcome == "validated":
            told.append(f"{operator} translated by {one.model}, compared with {one.golden}: another may need less work")
        else:
            told.append(f"{operator} could not be translated by {one.model}: {one.outcome} (`sollens llm show`)")
    if not told:
        return report
    confidence = "medium" if report.confidence == "high" else report.confidence
    return msgspec.structs.replace(report, assumptions=[*report.assumptions, *told], confidence=confidence)


def _validation(transcript: Transcript, report: TargetReport) -> Validation:
    told = f"translated by {transcript.model}"
    if transcript.outcome == "validated":
        return Validation(
            status="validated", sizes=transcript.sizes, max_rel_error=transcript.max_rel_error,
            seconds=transcript.seconds, reason=f"{told}, compared with {transcript.golden}",
        )  # fmt: skip
    if transcript.outcome == "not-validated":
        return Validation(reason=transcript.reason, seconds=transcript.seconds)
    mismatch = None
    if transcript.tensor:
        mismatch = Mismatch(
            tensor=transcript.tensor, index=transcript.index, expected=transcript.expected, found=transcript.found,
            statement=transcript.statement, operator=f"the program of {transcript.model}", line=report.line,
        )  # fmt: skip
    return Validation(
        status="failed", sizes=transcript.sizes, reason=f"{told}: {transcript.reason}", line=report.line,
        statement=transcript.statement, mismatch=mismatch, seconds=transcript.seconds,
    )  # fmt: skip


def _arguments(shapes: Shapes) -> tuple[tuple[Argument, ...], dict[str, int]]:
    """The arrays of a pragma, and the symbols in their extents; an extent over other names is its number."""
    from sollens.analysis.llm.task import Argument

    dims = dict(shapes.dims)
    symbols: dict[str, int] = {}
    bound = dict(shapes.names)
    for name, spec in shapes.inputs:
        if isinstance(spec, TensorSpec):
            for text, extent in zip(dims.get(name, ()), spec.shape, strict=False):
                if _SYMBOL.fullmatch(text):
                    symbols[text] = extent
                symbols.update((n, bound[n]) for n in _SYMBOL.findall(text) if n in bound)
    arguments: list[Argument] = []
    for name, spec in shapes.inputs:
        if isinstance(spec, TensorSpec):
            written = dims.get(name, tuple(map(str, spec.shape)))
            known = tuple(
                text if set(_SYMBOL.findall(text)) <= set(symbols) else str(extent)
                for text, extent in zip(written, spec.shape, strict=True)
            )
            arguments.append(Argument(name, spec.dtype, known))
    return tuple(arguments), symbols


def _notes(target: Target, shapes: Shapes) -> str:
    """What the pragma says besides arrays: constructor arguments and scalars."""
    told = [f"{name} = {value}" for name, value in shapes.inputs if not isinstance(value, TensorSpec)]
    if shapes.init_args or shapes.init_kwargs:
        given = [*map(str, shapes.init_args), *(f"{name}={value}" for name, value in shapes.init_kwargs)]
        told.append(f"{target.name} is constructed with ({', '.join(given)})")
    if target.kind == "class" and not shapes.golden:
        told.append("Declare the module's parameters as `parameter` with their shapes, after the inputs")
    return "Known: " + "; ".join(told) + "." if told else ""


def _name(task: Task, config: LlmConfig) -> str:
    """The cache name of a translation: everything that the answer and its judgement depend on."""
    from sollens.analysis.llm.prompt import prompt, version

    data = sha256()
    if task.case is not None:
        arrays = [*task.case.inputs.items(), *task.case.outputs, *task.case.checks.items()]
        for name, array in arrays:
            data.update(f"{name}:{array.dtype}{array.shape}".encode())
            data.update(array.tobytes())
    asked = [m.content for m in prompt(task)]
    settings = (config.host, config.model, config.temperature, config.rounds, config.tokens, config.reply_tokens)
    return key("llm", version(), rules_version("ir", "execute", "llm"), asked, data.hexdigest(), settings, task.path)


def _failed(code: str, target: Target, message: str, severity: str = "warning") -> TraceFailed:
    problem = Problem(code=code, line=target.line, message=message)
    return TraceFailed([msgspec.structs.replace(problem, severity=severity)])


def described_targets(path: Path) -> list[str]:
    """The names of a file's targets; none where it cannot be read."""
    from sollens.analysis.source.discover import discover
    from sollens.analysis.source.text import UnreadableSource, decode

    try:
        text = decode(path.read_bytes())
    except (OSError, UnreadableSource):
        return []
    found = discover(text, path) if path.suffix in (".py", ".pyi") else described.discover(text, path)
    return [target.name for target in found.targets]
