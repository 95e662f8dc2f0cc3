"""Runs the trace agent in the user's interpreter and asks it for traces.

python -m sollens.analysis.trace.host FILE [FILE ...]     a summary of each trace and its stage times
python -m sollens.analysis.trace.host --json FILE         the trace as JSON
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from sollens.analysis.trace.schema import Problem, Trace, from_json

BOOT = Path(__file__).parent / "agent" / "boot.py"
START_TIMEOUT_S = 120.0
_STDERR_BYTES = 8192
# Offline and without accelerators: a trace needs neither; single threads: a process that forks must hold no pool.
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false",
    "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """What to trace.

    `target` is {"kind": "kernelbench" | "class" | "function", "name", "inputs", "init", "init_kwargs", "line",
    "mode"}; an input is {"name", "dtype", "shape"} or {"name", "value"} or a literal.
    """

    path: str
    text: str | None = None
    target: Mapping[str, Any] = field(default_factory=lambda: {"kind": "kernelbench"})
    deadline_s: float = 30.0
    memory_bytes: int = 4 * 2**30
    # Roots of the user's project, on sys.path after the file's own folder.
    paths: Sequence[str] = ()
    seed: int = 0
    max_operators: int = 200_000
    # Also run the program (or a twin) on real values: {"directory", "seed", and the limits of `agent/golden.py`}.
    golden: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReply:
    """A trace, or the problems that prevented it; `spent_s` is the agent's wall time, `stage_s` its parts."""

    trace: Trace | None = None
    problems: tuple[Problem, ...] = ()
    stage_s: Mapping[str, float] = field(default_factory=dict[str, float])
    spent_s: float = 0.0
    # Where each array of a golden run is, and the twin's sizes (`agent/golden.py`).
    golden: Mapping[str, Any] | None = None


class _Pending:
    def __init__(self) -> None:
        self.done = threading.Event()
        self.message: dict[str, Any] | None = None


class AgentHost:
    """A warm agent in one interpreter. Thread-safe; starts on first use and again after its process died.

    >>> with AgentHost(sys.executable) as host:  # doctest: +SKIP
    ...     reply = host.trace(TraceRequest(path="model.py"))
    """

    def __init__(
        self,
        interpreter: str,
        *,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        warm: bool = True,
    ) -> None:
        self.interpreter = interpreter
        self.cwd = cwd
        self.environment = {**os.environ, **_ENVIRONMENT, **(environment or {})}
        self.warm = warm and hasattr(os, "fork")
        self.hello: Mapping[str, Any] = {}
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pending: dict[int, _Pending] = {}
        self._numbers = itertools.count(1)
        self._ready = threading.Event()
        self._stderr = bytearray()

    def __enter__(self) -> AgentHost:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def start(self) -> Problem | None:
        """Start the agent if it is not running and wait until it is warm; the problem when it cannot."""
        with self._lock:
            if self._process is not None and self._process.poll() is None and self._ready.is_set():
                return _start_problem(self.hello)
            self._stop()
            command = [self.interpreter, "-X", "faulthandler", str(BOOT)]
            ready = self._ready = threading.Event()
            self._stderr.clear()
            self.hello = {}
            try:
                process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    env=self.environment, cwd=self.cwd, start_new_session=True, bufsize=0,
                )  # fmt: skip
            except OSError as error:
                return _interpreter_problem(self.interpreter, error)
            self._process = process
            threading.Thread(target=self._read, args=(process, ready), daemon=True, name="trace-agent-replies").start()
            threading.Thread(target=self._read_stderr, args=(process,), daemon=True, name="trace-agent-stderr").start()
            if not ready.wait(START_TIMEOUT_S) or not self.hello:
                process.kill()
                process.wait()
                return self._start_failure(process.returncode)
            return _start_problem(self.hello)

    def trace(self, request: TraceRequest, *, cancel: threading.Event | None = None) -> TraceReply:
        """Trace a target and wait for it. A set `cancel` ends it at once with the problem "cancelled"."""
        if not self.warm:
            return self._trace_once(request, cancel)
        for attempt in (1, 2):
            problem = self.start()
            if problem is not None:
                return TraceReply(problems=(problem,))
            reply = self._ask(request, cancel)
            if reply is not None:
                return reply
            if attempt == 2 or (cancel is not None and cancel.is_set()):
                break
        told = self._told()
        return TraceReply(
            problems=(
                Problem(
                    "agent-lost",
                    "the trace agent ended while tracing this file; see detail.",
                    request.path,
                    detail=told,
                ),
            )
        )

    def close(self) -> None:
        """End the agent and everything it runs."""
        with self._lock:
            self._stop()

    def _ask(self, request: TraceRequest, cancel: threading.Event | None) -> TraceReply | None:
        number = next(self._numbers)
        pending = self._pending[number] = _Pending()
        try:
            if not self._send({"id": number, **_plain(request)}):
                return None
            # The agent enforces the deadline; requests before this one may hold it up.
            limit = time.monotonic() + 4 * request.deadline_s + 30.0
            cancelled = False
            while not pending.done.wait(0.02 if cancel is not None and not cancelled else 1.0):
                if cancel is not None and cancel.is_set() and not cancelled:
                    cancelled = True
                    self._send({"cancel": number})
                    return _cancelled(request)
                if time.monotonic() > limit:
                    self.close()
                    return None
            return _reply(pending.message) if pending.message is not None else None
        finally:
            self._pending.pop(number, None)

    def _send(self, message: Mapping[str, Any]) -> bool:
        data = json.dumps(message).encode()
        process = self._process
        if process is None or process.stdin is None:
            return False
        try:
            with self._write_lock:
                _write_all(process.stdin, struct.pack("<Q", len(data)) + data)
        except (OSError, ValueError):
            return False
        return True

    def _read(self, process: subprocess.Popen[bytes], ready: threading.Event) -> None:
        stream = process.stdout
        assert stream is not None
        try:
            while (message := _read_frame(stream)) is not None:
                if "hello" in message:
                    self.hello = message["hello"]
                    ready.set()
                    continue
                pending = self._pending.get(message.get("id", -1))
                if pending is not None:
                    pending.message = message
                    pending.done.set()
        except (OSError, ValueError):
            process.kill()
        finally:
            process.wait()
            ready.set()
            if self._process is process or self._process is None:
                for pending in list(self._pending.values()):
                    pending.done.set()

    def _read_stderr(self, process: subprocess.Popen[bytes]) -> None:
        stream = process.stderr
        assert stream is not None
        with contextlib.suppress(OSError, ValueError):
            while data := stream.read(4096):
                self._stderr += data
                del self._stderr[:-_STDERR_BYTES]

    def _told(self) -> str:
        return bytes(self._stderr).decode("utf-8", "replace").strip()

    def _start_failure(self, status: int | None) -> Problem:
        message = (
            f"{self.interpreter} did not start the trace agent (exit status {status}). "
            "Expected a Python 3.10 or newer with PyTorch 2.4 or JAX 0.5 or newer; see detail."
        )
        return Problem("agent-start", message, detail=self._told())

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        try:
            process.wait(2.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _trace_once(self, request: TraceRequest, cancel: threading.Event | None) -> TraceReply:
        """A fresh process for this request, where there is no fork."""
        command = [self.interpreter, "-X", "faulthandler", str(BOOT), "once"]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self.environment,
                cwd=self.cwd,
            )
        except OSError as error:
            return TraceReply(problems=(_interpreter_problem(self.interpreter, error),))
        data: bytes | None = json.dumps(_plain(request)).encode()
        end = time.monotonic() + request.deadline_s + START_TIMEOUT_S
        while True:
            try:
                out, told = process.communicate(data, timeout=0.05)
                break
            except subprocess.TimeoutExpired:
                data = None
                stop = cancel is not None and cancel.is_set()
                if stop or time.monotonic() > end:
                    process.kill()
                    process.communicate()
                    message = f"expected an answer within {request.deadline_s:g} s, but it was still running."
                    return (
                        _cancelled(request)
                        if stop
                        else TraceReply(problems=(Problem("deadline", message, request.path),))
                    )
        try:
            return _reply({"reply": json.loads(out)})
        except ValueError:
            message = f"the process running the file ended with status {process.returncode} before it answered."
            return TraceReply(
                problems=(
                    Problem("process-exit", message, request.path, detail=told.decode("utf-8", "replace")[-4096:]),
                )
            )


def _plain(request: TraceRequest) -> dict[str, Any]:
    return {
        "path": request.path, "text": request.text, "target": dict(request.target), "deadline_s": request.deadline_s,
        "memory_bytes": request.memory_bytes, "paths": list(request.paths), "seed": request.seed,
        "max_operators": request.max_operators,
        "golden": dict(request.golden) if request.golden else None,
    }  # fmt: skip


def _reply(message: Mapping[str, Any]) -> TraceReply:
    reply = message["reply"]
    stages: dict[str, float] = reply.get("stage_s") or {}
    spent_s = float(message.get("spent_s") or 0.0)
    if reply.get("ok"):
        trace = from_json(reply["trace"])
        return TraceReply(trace=trace, stage_s=stages, spent_s=spent_s, golden=reply.get("golden"))
    return TraceReply(problems=tuple(Problem(**p) for p in reply["problems"]), stage_s=stages, spent_s=spent_s)


def _cancelled(request: TraceRequest) -> TraceReply:
    return TraceReply(problems=(Problem("cancelled", "cancelled: a newer request replaced it", request.path),))


def _start_problem(hello: Mapping[str, Any]) -> Problem | None:
    return Problem(**hello["problem"]) if hello.get("problem") else None


def _interpreter_problem(interpreter: str, error: OSError) -> Problem:
    message = (
        f"the interpreter {interpreter!r} cannot be run ({error.strerror or error}): "
        "expected the path of a Python with PyTorch or JAX. Choose another in the settings (sollens.interpreter)."
    )
    return Problem("interpreter-missing", message)


def _write_all(stream: IO[bytes], data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[stream.write(view) or 0 :]


def _read_frame(stream: IO[bytes]) -> dict[str, Any] | None:
    head = _read_exactly(stream, 8)
    if head is None:
        return None
    body = _read_exactly(stream, int(struct.unpack("<Q", head)[0]))
    return None if body is None else json.loads(body)


def _read_exactly(stream: IO[bytes], count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        part = stream.read(min(count - len(data), 1 << 20))
        if not part:
            return None
        data += part
    return bytes(data)


def main(arguments: list[str]) -> int:
    """Print traces; 2 when a file has none."""
    as_json = "--json" in arguments
    status = 0
    with AgentHost(sys.executable) as host:
        for name in (a for a in arguments if not a.startswith("--")):
            reply = host.trace(TraceRequest(path=str(Path(name).resolve())))
            for problem in reply.problems:
                print(
                    f"{problem.file or name}:{problem.line}: {problem.code}: {problem.message}\n{problem.detail}",
                    file=sys.stderr,
                )
                status = 2
            if reply.trace is not None:
                print(reply.trace.to_json() if as_json else _summary(reply))
    return status


def _summary(reply: TraceReply) -> str:
    trace = reply.trace
    assert trace is not None
    stages = " ".join(f"{k} {1e3 * v:.0f}" for k, v in reply.stage_s.items())
    counts = f"{len(trace.ops)} operators, {len(trace.setup)} of setup, {len(trace.tensors)} tensors"
    lines = [f"{trace.name}: {counts}; ms: {stages}"]
    for op in trace.ops:
        span = trace.spans[op.span] if op.span >= 0 else None
        place = f"{Path(span.file).name}:{span.line}:{span.column}" if span else ""
        module = trace.modules[op.module].path if op.module >= 0 else ""
        lines.append(f"  {op.target:44s} {place:24s} {module}{'  view' if op.view else ''}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
