"""Targets that no tracer reads, by a language model: the task that a target is, asked once and kept in the cache.

Nothing is sent unless an endpoint is configured and the user agreed for this workspace.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
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
    from sollens.analysis.llm.endpoint import Endpoint
    from sollens.analysis.llm.task import Argument, Task
    from sollens.analysis.llm.translate import Transcript
    from sollens.analysis.lower.lower import Lowered
    from sollens.analysis.trace.schema import Trace

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

    def latest(self, path: Path, names: list[str]) -> list[Transcript]:
        """The last transcripts of a file's targets."""
        from sollens.analysis.llm.translate import Transcript

        found = (self.cache.get_as(latest(str(path), name), Transcript) for name in names)
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


def latest(path: str, name: str) -> str:
    """The cache name of the last transcript of a target."""
    return key(_LATEST, path, name)


def judged(report: TargetReport, transcript: Transcript) -> TargetReport:
    """The report with how far the translation was checked; nobody has proved that no other program needs less."""
    validated = transcript.outcome == "validated"
    confidence = "medium" if validated and report.confidence == "high" else report.confidence if validated else "low"
    return msgspec.structs.replace(report, validation=_validation(transcript, report), confidence=confidence)


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
