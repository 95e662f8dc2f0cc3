"""The analysis worker as the server sees it: one process, many requests at a time, started when needed.

Messages are a 4-byte big-endian length and JSON, over the worker's stdin and stdout; its stderr goes to the log. A
worker that dies fails what it was doing with WorkerDied and is started again by the next request, after a growing
pause while it keeps dying.

SOLLENS_WORKER_COMMAND (a test hook) is a JSON array that replaces the command.
"""

import asyncio
import json
import logging
import os
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

logger = logging.getLogger(__name__)

_LONGEST_PAUSE_S = 30.0
_SHUTDOWN_S = 2.0
_LONGEST_MESSAGE = 2**30


class WorkerDied(Exception):
    """The worker ended before it answered."""


class WorkerSilent(Exception):
    """The worker neither answered nor reported progress in time, and was ended."""


class WorkerError(Exception):
    """The worker answered with an error; `code` is one of docs/diagnostics.md or "cancelled"."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Progress(msgspec.Struct, frozen=True):
    stage: str = ""
    message: str = ""


class _Error(msgspec.Struct, frozen=True):
    code: str = ""
    message: str = ""


class _Reply(msgspec.Struct, frozen=True):
    id: int = -1
    progress: Progress | None = None
    error: _Error | None = None
    update: msgspec.Raw = msgspec.Raw(b"")
    result: msgspec.Raw = msgspec.Raw(b"null")


class _Call:
    def __init__(self, process: Process, on_progress: Callable[[Progress], None] | None) -> None:
        self.process = process
        self.answer: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        self.on_progress = on_progress
        self.heard = asyncio.Event()
        self.updates: asyncio.Queue[bytes | Exception] = asyncio.Queue()

    def fail(self, problem: Exception) -> None:
        """Nothing more is said about this request."""
        if self.answer.done():
            self.updates.put_nowait(problem)
        else:
            self.answer.set_exception(problem)


class Updates:
    """What the worker says about a request after its result. Close it when nothing more is wanted."""

    def __init__(self, call: _Call, ended: Callable[[bool], None]) -> None:
        self._call = call
        self._ended = ended
        self._is_open = True

    async def next(self) -> bytes:
        """The next update as JSON; raises WorkerDied and WorkerError."""
        found = await self._call.updates.get()
        if isinstance(found, Exception):
            raise found
        return found

    def close(self, *, cancel: bool = True) -> None:
        """Listen no more; with `cancel`, have the worker stop too. Again is no error."""
        if self._is_open:
            self._is_open = False
            self._ended(cancel)


def worker_command() -> list[str]:
    replaced = os.environ.get("SOLLENS_WORKER_COMMAND")
    if replaced:
        return [str(part) for part in json.loads(replaced)]
    # -P: a file of the user's beside the working folder must not be imported in place of a package of ours.
    return [sys.executable, "-P", "-m", "sollens.analysis.worker"]


class Worker:
    """Requests to the worker process; use from one event loop."""

    def __init__(self, command: list[str] | None = None) -> None:
        self._command = command or worker_command()
        self._process: Process | None = None
        self._calls: dict[int, _Call] = {}
        self._next_id = 0
        self._deaths = 0
        self._starting = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        *,
        on_progress: Callable[[Progress], None] | None = None,
        silence_s: float | None = None,
    ) -> bytes:
        """The result as JSON. Cancelling the caller cancels the request in the worker.

        With `silence_s`, a worker that says nothing about this request for so long is ended. Raises WorkerDied,
        WorkerSilent and WorkerError.
        """
        result, updates = await self.follow(method, params, on_progress=on_progress, silence_s=silence_s)
        updates.close(cancel=False)
        return result

    async def follow(
        self,
        method: str,
        params: dict[str, Any],
        *,
        on_progress: Callable[[Progress], None] | None = None,
        silence_s: float | None = None,
    ) -> tuple[bytes, Updates]:
        """As `request`, and what follows the result."""
        process = await self._running()
        self._next_id += 1
        request_id = self._next_id
        call = self._calls[request_id] = _Call(process, on_progress)
        try:
            self._send(process, {"id": request_id, "method": method, "params": params})
            answer = await self._answer(call, silence_s)
        except asyncio.CancelledError:
            self._end(request_id, process, cancel=True)
            raise
        except WorkerSilent:
            self._end(request_id, process, cancel=False)
            self._kill(process)
            raise
        except BaseException:
            self._end(request_id, process, cancel=False)
            raise
        self._deaths = 0
        return bytes(answer), Updates(call, lambda cancel: self._end(request_id, process, cancel=cancel))

    def _end(self, request_id: int, process: Process, *, cancel: bool) -> None:
        self._calls.pop(request_id, None)
        if cancel:
            self._send(process, {"method": "cancel", "params": {"id": request_id}})

    async def close(self) -> None:
        """End the worker for good."""
        self._closed = True
        await self.restart()

    async def restart(self) -> None:
        """End the worker, politely first (it also ends when its stdin closes); the next request starts another."""
        self._deaths = 0
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        self._send(process, {"method": "shutdown"})
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _SHUTDOWN_S)
        except TimeoutError:
            self._kill(process)
            await process.wait()

    async def _answer(self, call: _Call, silence_s: float | None) -> msgspec.Raw:
        while True:
            call.heard.clear()
            heard = asyncio.ensure_future(call.heard.wait())
            try:
                done, _ = await asyncio.wait(
                    [call.answer, heard], timeout=silence_s, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                heard.cancel()
            if call.answer in done:
                return call.answer.result()
            if not done:
                raise WorkerSilent

    async def _running(self) -> Process:
        async with self._starting:
            if self._closed:
                raise WorkerDied("the server is closing")
            if self._process is not None and self._process.returncode is None:
                return self._process
            if self._deaths:
                await asyncio.sleep(min(0.25 * 2**self._deaths, _LONGEST_PAUSE_S))
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=tempfile.gettempdir()
                )
            except OSError as problem:
                self._deaths += 1
                raise WorkerDied(f"cannot start {self._command[0]}: {problem}") from None
            self._process = process
            for task in (self._read(process), self._drain(process)):
                running = asyncio.create_task(task)
                self._tasks.add(running)
                running.add_done_callback(self._tasks.discard)
            return process

    def _send(self, process: Process, message: dict[str, Any]) -> None:
        """Queue a message. A dead worker's pipe is no error here: the reader notices the death."""
        if process.stdin is None or process.stdin.is_closing() or process.returncode is not None:
            return
        body = msgspec.json.encode(message)
        process.stdin.write(len(body).to_bytes(4, "big") + body)

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        reason = "its output ended"
        try:
            while True:
                length = int.from_bytes(await process.stdout.readexactly(4), "big")
                if length > _LONGEST_MESSAGE:
                    reason = f"it sent a message of {length} bytes"
                    break
                self._receive(await process.stdout.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except msgspec.MsgspecError as problem:
            reason = f"it sent something else than the protocol: {problem}"
        finally:
            self._kill(process)
        code = await process.wait()
        self._died(process, f"{reason} (exit status {code})")

    def _receive(self, body: bytes) -> None:
        reply = msgspec.json.decode(body, type=_Reply)
        call = self._calls.get(reply.id)
        if call is None:
            return
        if reply.error is not None:
            call.fail(WorkerError(reply.error.code, reply.error.message))
        elif update := bytes(reply.update):
            call.updates.put_nowait(update)
        elif call.answer.done():
            return
        elif reply.progress is not None:
            call.heard.set()
            if call.on_progress is not None:
                call.on_progress(reply.progress)
        else:
            call.answer.set_result(reply.result)

    async def _drain(self, process: Process) -> None:
        assert process.stderr is not None
        while chunk := await process.stderr.read(4096):
            for line in chunk.decode("utf-8", "replace").splitlines():
                logger.warning("worker: %s", line)

    def _died(self, process: Process, reason: str) -> None:
        if self._process is process:
            self._process = None
            self._deaths += 1
            logger.warning("the analysis worker ended: %s", reason)
        for call in self._calls.values():
            if call.process is process:
                call.fail(WorkerDied(reason))

    @staticmethod
    def _kill(process: Process) -> None:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
