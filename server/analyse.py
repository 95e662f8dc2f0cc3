"""One analysis of one text by the worker: what is asked, and every way it can fail as a problem to show."""

import asyncio
import codecs
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from sollens.analysis.report import FileReport, Problem, Validation, decode_file
from sollens.hardware.units import format_seconds
from sollens.server.codes import is_known
from sollens.server.config import Settings
from sollens.server.configuration import Surroundings
from sollens.server.worker import Progress, Updates, Worker, WorkerDied, WorkerError, WorkerSilent

# The deadline is the trace's; every stage behind it may take this long without a word before the worker counts as hung.
_SILENCE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A text to analyse. A file that was just saved must be on disk; a text that was never saved need not be."""

    path: Path
    text: str
    version: int
    must_exist: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysed:
    """A report; with `updates`, verdicts on its targets follow (`verdicts`), which must be closed."""

    report: FileReport
    updates: Updates | None = None


class _Text(msgspec.Struct, frozen=True):
    text: str
    problems: list[Problem] = []


async def analyse(
    worker: Worker,
    source: Source,
    surroundings: Surroundings,
    root: Path | None,
    on_progress: Callable[[Progress], None],
) -> Analysed:
    """The report on `source`. What goes wrong is a problem in it; only cancellation is raised."""
    disk = await asyncio.to_thread(_compare, source)
    if disk == "missing" and source.must_exist:
        return _failed(
            source, "file-missing", f"expected the saved file {source.path}, found none: it was moved or deleted"
        )
    if surroundings.interpreter.missing:
        return _failed(source, "interpreter-missing", surroundings.interpreter.missing)
    params = _params(source, surroundings, root, on_disk=disk == "same")
    silence_s = _silence_s(surroundings.settings)
    try:
        answer, updates = await worker.follow("analyse", params, on_progress=on_progress, silence_s=silence_s)
        try:
            report = decode_file(answer)
        except msgspec.MsgspecError:
            updates.close()
            raise
        if _is_pending(report):
            return Analysed(report=report, updates=updates)
        updates.close(cancel=False)
        return Analysed(report=report)
    except WorkerDied as problem:
        return _failed(source, "worker-died", f"the analysis ended before it answered: {problem}")
    except WorkerSilent:
        return _failed(
            source, "deadline", f"the analysis did not answer within {format_seconds(silence_s)} and was ended"
        )
    except WorkerError as problem:
        code = problem.code if is_known(problem.code) else "internal-error"
        return _failed(source, code, problem.message or problem.code)
    except msgspec.MsgspecError as problem:
        return _failed(
            source, "internal-error", f"expected a report from the analysis, found something else: {problem}"
        )


async def verdicts(analysed: Analysed) -> AsyncGenerator[FileReport, None]:
    """The report again with each verdict that follows. Where the worker ends first, that is the verdict."""
    report, updates = analysed.report, analysed.updates
    if updates is None:
        return
    try:
        while _is_pending(report):
            report = decode_file(await updates.next())
            yield report
    except (WorkerDied, WorkerError, msgspec.MsgspecError) as problem:
        yield _without_verdicts(report, f"the analysis ended before the verdict: {problem}")
    updates.close(cancel=False)


def _is_pending(report: FileReport) -> bool:
    return any(target.validation.is_pending for target in report.targets)


def _without_verdicts(report: FileReport, reason: str) -> FileReport:
    without = Validation(reason=reason)
    targets = [
        msgspec.structs.replace(target, validation=without) if target.validation.is_pending else target
        for target in report.targets
    ]
    return msgspec.structs.replace(report, targets=targets)


async def program_text(
    worker: Worker,
    method: Literal["ir", "einsum"],
    source: Source,
    surroundings: Surroundings,
    root: Path | None,
    form: str = "text",
) -> str:
    """The program of `source` in one of its textual forms; raises WorkerDied, WorkerSilent and WorkerError."""
    disk = await asyncio.to_thread(_compare, source)
    params = _params(source, surroundings, root, on_disk=disk == "same") | {"format": form}
    answer = await worker.request(method, params, silence_s=surroundings.settings.deadline_s + _SILENCE_S)
    found = msgspec.json.decode(answer, type=_Text)
    if not found.text and found.problems:
        raise WorkerError(found.problems[0].code, found.problems[0].message)
    return found.text


def _compare(source: Source) -> Literal["same", "other", "missing"]:
    """Whether the disk holds the text: then the worker reads it there, and tracebacks name the real file."""
    try:
        found = source.path.read_bytes()
    except FileNotFoundError:
        return "missing"
    except OSError:
        return "other"
    found = found.removeprefix(codecs.BOM_UTF8)
    return "same" if found == source.text.encode("utf-8", "surrogatepass") else "other"


def _params(source: Source, surroundings: Surroundings, root: Path | None, *, on_disk: bool) -> dict[str, Any]:
    settings = surroundings.settings
    return {
        "path": str(source.path),
        "text": None if on_disk else source.text,
        "version": source.version,
        "hardware": settings.hardware,
        "precision": settings.precision,
        "target_s": settings.target_s,
        "interpreter": surroundings.interpreter.path,
        "root": None if root is None else str(root),
        "deadline_s": settings.deadline_s,
        "memory_bytes": settings.memory_bytes,
        "validate": settings.validate_enabled,
        "llm": _model(settings),
    }


def _silence_s(settings: Settings) -> float:
    """How long the worker may say nothing: as long as a trace, or an answer of a model."""
    return max(settings.deadline_s, settings.llm_seconds if settings.llm_base_url else 0.0) + _SILENCE_S


def _model(settings: Settings) -> dict[str, Any] | None:
    """The endpoint that may be asked for what cannot be traced; None where none is configured."""
    if not settings.llm_base_url or not settings.llm_model:
        return None
    return {
        "base_url": settings.llm_base_url,
        "model": settings.llm_model,
        "key_variable": settings.llm_key_variable,
        "temperature": settings.llm_temperature,
        "rounds": int(settings.llm_rounds),
        "tokens": int(settings.llm_tokens),
        "seconds": settings.llm_seconds,
    }


def _failed(source: Source, code: str, message: str) -> Analysed:
    problem = Problem(code=code, line=1, message=message, severity="error")
    return Analysed(report=FileReport(path=str(source.path), problems=[problem], targets=[]))
