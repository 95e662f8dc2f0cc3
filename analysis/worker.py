"""The analysis worker: `python -m sollens.analysis.worker`, a process that answers requests on stdin and stdout.

A message is a 4-byte big-endian length and JSON. Requests are {"id", "method", "params"}:

    analyse       params of pipeline.Request        result: FileReport, after {"id", "progress": {"stage", "message"}}
    validate      {"request", "name", "line"}       result: Validation of that target of the file
    ir, einsum    the same, einsum also "format"    result: {"text", "problems"}
    warm          {"interpreter"}                   result: {}  (the interpreter's agent has started)
    cancel        {"id"}                            ends that request with the error "cancelled"
    clear_cache   {}                                result: {"entries", "bytes"}
    ping          {}                                result: {}
    shutdown      {}                                ends the process, as the end of stdin does

Answers are {"id", "result"} or {"id", "error": {"code", "message"}}, in any order, each written whole. A request
without id is answered with nothing. While an analysis runs, its stage is repeated every two seconds: silence means
that the worker is stuck.

Where an analysis asks to validate and a verdict is not in the cache, the result comes with the numbers and
"validation is running" as the target's reason; for each such target {"id", "update": FileReport} follows with its
verdict, unless the request is cancelled meanwhile. Verdicts are worked out one at a time by a second worker
(`validator.py`; option --low-priority), so that they delay no numbers.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from sollens.analysis.channel import Channel
from sollens.analysis.report import FileReport, Validation
from sollens.analysis.validator import Task, Validator

if TYPE_CHECKING:
    from sollens.analysis.pipeline import Pipeline, Request

_THREADS = 2
_HEARTBEAT_S = 2.0
_LOW_PRIORITY = 19
# What an analysis needs, and what a verdict needs, imported while nobody waits.
_WARM = (
    "sollens.analysis.lower.lower", "sollens.analysis.lower.registry", "sollens.analysis.einsum.lift",
    "sollens.analysis.bounds.assess", "sollens.hardware.catalog",
)  # fmt: skip
_WARM_VERDICTS = (
    "sollens.analysis.lower.lower", "sollens.analysis.lower.registry", "sollens.analysis.validate.validate",
    "sollens.analysis.execute.compiled.executor",
)  # fmt: skip


class _Message(msgspec.Struct, frozen=True):
    method: str
    id: int | None = None
    params: msgspec.Raw = msgspec.Raw(b"{}")


class _Id(msgspec.Struct, frozen=True):
    id: int


class _Warm(msgspec.Struct, frozen=True):
    interpreter: str


class _Validate(msgspec.Struct, frozen=True):
    request: msgspec.Raw
    name: str
    line: int


class _Format(msgspec.Struct, frozen=True):
    format: str = "text"


class _Job:
    """A request that runs: its stage is repeated until it ends."""

    def __init__(self, channel: Channel, request_id: int | None) -> None:
        self.cancel = threading.Event()
        # Of an analysis: what was asked for, with the text that was analysed.
        self.request: Request | None = None
        self._channel = channel
        self._id = request_id
        self._stage = ("wait", "Waiting for its turn")
        self._ended = threading.Event()
        if request_id is not None:
            threading.Thread(target=self._beat, daemon=True).start()

    def progress(self, stage: str, message: str) -> None:
        self._stage = (stage, message)
        if self._id is not None:
            self._channel.write({"id": self._id, "progress": {"stage": stage, "message": message}})

    def end(self) -> None:
        self._ended.set()

    def _beat(self) -> None:
        while not self._ended.wait(_HEARTBEAT_S):
            self.progress(*self._stage)


class _Verdicts:
    """The verdicts that a report still lacks: each is sent as an update of it."""

    def __init__(self, channel: Channel, request_id: int, report: FileReport, ended: Callable[[], None]) -> None:
        self._channel = channel
        self._id = request_id
        self._report = report
        self._ended = ended
        self._waiting = [n for n, target in enumerate(report.targets) if target.validation.is_pending]

    def submit(self, validator: Validator, request: Request, cancel: threading.Event) -> None:
        """Ask for them all."""
        for n in tuple(self._waiting):
            target = self._report.targets[n]
            done = partial(self._take, n)
            validator.submit(Task(request=request, name=target.name, line=target.line, cancel=cancel, done=done))
        if not self._waiting:
            self._ended()

    def _take(self, number: int, verdict: Validation | None) -> None:
        from sollens.analysis.findings import validated

        self._waiting.remove(number)
        if verdict is not None:
            self._report = validated(self._report, number, verdict)
            self._channel.write({"id": self._id, "update": self._report})
        if not self._waiting:
            self._ended()


class Worker:
    """Reads requests until shutdown or the end of its input."""

    def __init__(
        self, channel: Channel, pipeline: Pipeline | None = None, *, validator: Validator | None = None,
        warm: Sequence[str] = _WARM,
    ) -> None:  # fmt: skip
        self._channel = channel
        self._pipeline = pipeline
        self._validator = validator or Validator()
        self._imports = warm
        self._pipeline_lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_THREADS, "analysis")
        self._jobs: dict[int, _Job] = {}
        self._jobs_lock = threading.Lock()
        self._work: Mapping[str, Callable[[msgspec.Raw, _Job], object]] = {
            "analyse": self._analyse,
            "validate": self._validate,
            "ir": self._ir,
            "einsum": self._einsum,
            "warm": self._warm,
            "clear_cache": self._clear_cache,
        }

    def run(self) -> None:
        """Serve until the end; then cancel what still runs."""
        threading.Thread(target=self._warm_up, daemon=True).start()
        while (body := self._channel.read()) is not None:
            try:
                message = msgspec.json.decode(body, type=_Message)
            except msgspec.MsgspecError as error:
                self._channel.write({"id": -1, "error": {"code": "bad-request", "message": str(error)}})
                continue
            if message.method == "shutdown":
                break
            self._take(message)
        with self._jobs_lock:
            for job in self._jobs.values():
                job.cancel.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._validator.close()
        if self._pipeline is not None:
            self._pipeline.close()

    @property
    def pipeline(self) -> Pipeline:
        """Built when first needed, so that a ping is answered before everything is imported."""
        from sollens.analysis.pipeline import Pipeline

        with self._pipeline_lock:
            if self._pipeline is None:
                self._pipeline = Pipeline()
            return self._pipeline

    def _take(self, message: _Message) -> None:
        if message.method == "ping":
            self._answer(message.id, {})
        elif message.method == "cancel":
            with contextlib.suppress(msgspec.MsgspecError), self._jobs_lock:
                job = self._jobs.get(msgspec.json.decode(message.params, type=_Id).id)
                if job is not None:
                    job.cancel.set()
        elif message.method in self._work:
            job = _Job(self._channel, message.id)
            if message.id is not None:
                with self._jobs_lock:
                    self._jobs[message.id] = job
            self._pool.submit(self._do, message, job)
        else:
            known = ", ".join([*self._work, "cancel", "ping", "shutdown"])
            self._error(message.id, "bad-request", f"expected a method ({known}), found {message.method!r}")

    def _do(self, message: _Message, job: _Job) -> None:
        from sollens.analysis.pipeline import Cancelled
        from sollens.hardware.catalog import UnknownTarget

        follows = False
        try:
            if job.cancel.is_set():
                raise Cancelled
            result = self._work[message.method](message.params, job)
            self._answer(message.id, result)
            if message.id is not None and job.request is not None and isinstance(result, FileReport):
                follows = True
                verdicts = _Verdicts(self._channel, message.id, result, partial(self._forget, message.id))
                verdicts.submit(self._validator, job.request, job.cancel)
        except Cancelled:
            self._error(message.id, "cancelled", "cancelled")
        except UnknownTarget as error:
            self._error(message.id, "bad-config", str(error))
        except msgspec.MsgspecError as error:
            self._error(message.id, "bad-request", f"params of {message.method}: {error}")
        except Exception as error:
            traceback.print_exc()
            self._error(
                message.id, "internal-error", f"{type(error).__name__}: {error} (a bug of ours; the log has more)"
            )
        finally:
            job.end()
            if message.id is not None and not follows:
                self._forget(message.id)

    def _forget(self, request_id: int) -> None:
        with self._jobs_lock:
            self._jobs.pop(request_id, None)

    def _answer(self, request_id: int | None, result: object) -> None:
        if request_id is not None:
            self._channel.write({"id": request_id, "result": result})

    def _error(self, request_id: int | None, code: str, message: str) -> None:
        if request_id is not None:
            self._channel.write({"id": request_id, "error": {"code": code, "message": message}})

    # --- methods ---

    def _analyse(self, params: msgspec.Raw, job: _Job) -> object:
        from sollens.analysis.pipeline import with_text

        job.request = with_text(_request(params))
        return self.pipeline.analyse(job.request, job.progress, job.cancel, await_verdicts=False)

    def _validate(self, params: msgspec.Raw, job: _Job) -> object:
        asked = msgspec.json.decode(params, type=_Validate)
        return self.pipeline.verdict(_request(asked.request), asked.name, asked.line, job.cancel)

    def _ir(self, params: msgspec.Raw, job: _Job) -> object:
        text, problems = self.pipeline.ir(_request(params), job.cancel)
        return {"text": text, "problems": problems}

    def _einsum(self, params: msgspec.Raw, job: _Job) -> object:
        form = msgspec.json.decode(params, type=_Format).format
        if form not in ("text", "dot", "json"):
            raise msgspec.ValidationError(f"expected format text, dot or json, found {form!r}")
        text, problems = self.pipeline.einsum(_request(params), form, job.cancel)
        return {"text": text, "problems": problems}

    def _warm(self, params: msgspec.Raw, job: _Job) -> object:
        self.pipeline.agents.warm(msgspec.json.decode(params, type=_Warm).interpreter)
        return {}

    def _clear_cache(self, params: msgspec.Raw, job: _Job) -> object:
        before = self.pipeline.cache.clear()
        return {"entries": before.entries, "bytes": before.bytes}

    def _warm_up(self) -> None:
        for name in self._imports:
            try:
                importlib.import_module(name)
            except ImportError as error:
                print(f"{name} is missing: {error}", file=sys.stderr)
        with contextlib.suppress(Exception):
            from sollens.analysis.lower.registry import load_rules

            load_rules()


def _request(params: msgspec.Raw) -> Request:
    from sollens.analysis.pipeline import Request

    return msgspec.json.decode(params, type=Request)


def main() -> None:
    """Serve on stdin and stdout; whatever a library prints goes to stderr."""
    protocol: Any = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    warm = _WARM
    if "--low-priority" in sys.argv[1:]:
        warm = _WARM_VERDICTS
        if hasattr(os, "nice"):
            os.nice(_LOW_PRIORITY)
    Worker(Channel(sys.stdin.buffer, protocol), warm=warm).run()
    # Threads of cancelled analyses may still run; nobody waits for them.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
