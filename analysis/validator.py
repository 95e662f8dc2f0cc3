"""Verdicts while somebody waits for numbers: a second worker process at low priority, one verdict at a time.

It has trace agents of its own, so that nothing of a validation stands in the way of a trace. It starts with the first
verdict that is asked for and ends when none was for a while. One that crashes, or takes too long, is a verdict too.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from sollens.analysis.channel import Channel
from sollens.analysis.report import Validation

if TYPE_CHECKING:
    from sollens.analysis.pipeline import Request

COMMAND = (sys.executable, "-P", "-m", "sollens.analysis.worker", "--low-priority")
_IDLE_S = 300.0
_LOOK_S = 0.05
# Beside the deadline of a trace: the original runs once or twice, at most two minutes each, then its twin's program.
_RUN_S = 270.0
# After a cancellation, for what cannot be interrupted at once.
_GRACE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A target to validate. `done` gets the verdict, or None once `cancel` is set; it is called exactly once."""

    request: Request
    name: str
    line: int
    cancel: threading.Event
    done: Callable[[Validation | None], None]


class _Error(msgspec.Struct, frozen=True):
    code: str = ""
    message: str = ""


class _Answer(msgspec.Struct, frozen=True):
    id: int = -1
    result: Validation | None = None
    error: _Error | None = None


class _Process:
    """The worker process and what it says."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tempfile.gettempdir()
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._channel = Channel(self._process.stdout, self._process.stdin)
        self._said: queue.SimpleQueue[_Answer | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True, name="validator-answers").start()

    def send(self, request_id: int | None, method: str, params: object) -> None:
        head = {} if request_id is None else {"id": request_id}
        self._channel.write({**head, "method": method, "params": params})

    def heard(self, timeout_s: float) -> _Answer | None:
        """Its next answer, None where it says nothing for so long; raises EOFError once it has ended."""
        try:
            answer = self._said.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if answer is None:
            raise EOFError
        return answer

    def end(self) -> None:
        """End it: it and its agents end with their input."""
        with contextlib.suppress(OSError):
            self._channel.close()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
            while (body := self._channel.read()) is not None:
                answer = msgspec.json.decode(body, type=_Answer)
                if answer.result is not None or answer.error is not None:  # not progress
                    self._said.put(answer)
        self._said.put(None)


class Validator:
    """Gives verdicts in the order in which they are asked for; `submit` returns at once."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._numbers = itertools.count(1)
        self._process: _Process | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def submit(self, task: Task) -> None:
        """Validate this target after those submitted before."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True, name="validator")
                self._thread.start()
        self._tasks.put(task)

    def close(self) -> None:
        """End the process and give no more verdicts. Tasks must have been cancelled."""
        self._tasks.put(None)
        process = self._process
        if process is not None:
            process.end()

    def _run(self) -> None:
        while True:
            try:
                task = self._tasks.get(timeout=_IDLE_S)
            except queue.Empty:
                self._end()
                continue
            if task is None:
                self._end()
                return
            verdict = None if task.cancel.is_set() else self._verdict(task)
            task.done(None if task.cancel.is_set() else verdict)

    def _verdict(self, task: Task) -> Validation | None:
        longest_s = task.request.deadline_s + _RUN_S
        end = time.monotonic() + longest_s
        number = next(self._numbers)
        try:
            process = self._process = self._process or _Process(self._command)
            process.send(number, "validate", _params(task))
            while not task.cancel.is_set():
                answer = process.heard(_LOOK_S)
                if answer is not None and answer.id == number:
                    return answer.result or Validation(reason=answer.error.message if answer.error else "no answer")
                if time.monotonic() > end:
                    self._end()
                    return Validation(reason=f"expected a verdict within {longest_s:.0f} seconds, found none")
            process.send(None, "cancel", {"id": number})
            end = time.monotonic() + _GRACE_S
            while (answer := process.heard(_LOOK_S)) is None or answer.id != number:
                if time.monotonic() > end:
                    self._end()
                    break
        except (EOFError, OSError) as error:
            self._end()
            return Validation(reason=f"the process that validates ended before it answered {error}".strip())
        return None

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()


def _params(task: Task) -> dict[str, object]:
    return {"request": task.request, "name": task.name, "line": task.line}
