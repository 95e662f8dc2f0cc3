# pyright: basic
"""The warm parent: imports torch once, forks a child for each request, holds it to its deadline and memory.

Frames in both directions are an 8-byte little-endian length and JSON. Requests: {"id", "path", ...}, {"cancel": id}.
Replies: {"hello": ...} once, then {"id": ..., "reply": {"ok", ...}}.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import json
import os
import selectors
import signal
import struct
import sys
import time
from typing import Any

from . import child
from .dispatch import framework_of, missing
from .supervise import Active, kill_strays, resident_bytes

_CONCURRENT = 2
_TICK_S = 0.25
_PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    """Serve until the host closes its end."""
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    started = time.perf_counter()
    hello = _warm()
    hello["start_s"] = time.perf_counter() - started
    send(replies, {"hello": hello})
    if "problem" not in hello:
        Server(requests, replies).run()


def _warm() -> dict[str, Any]:
    hello: dict[str, Any] = {"python": sys.version.split()[0], "executable": sys.executable}
    found = [name for name in ("torch", "jax") if importlib.util.find_spec(name)]
    if "torch" in found:
        return {**hello, **_warm_torch()}
    if "jax" in found:
        return {**hello, **warm_jax()}
    return {**hello, "problem": missing("torch")}


def _warm_torch() -> dict[str, Any]:
    try:
        import torch
    except ImportError as error:
        return {"problem": {**missing("torch"), "detail": repr(error)}}
    torch.set_num_threads(1)
    for name in ("numpy", "einops"):
        with contextlib.suppress(Exception):
            if importlib.util.find_spec(name):
                importlib.import_module(name)
    from . import golden as golden  # loaded once for every child
    from .target import Run

    return {"torch": torch.__version__, **_warmed(Run, "warm.py")}


_WARM_JAX: list[dict[str, Any]] = []


def warm_jax(text: str = "") -> dict[str, Any]:
    """Import JAX, and those of its libraries that `text` names, and trace a small program; starts no back end."""
    for name in ("flax", "equinox", "optax"):
        if name in text and name not in sys.modules and importlib.util.find_spec(name):
            with contextlib.suppress(Exception):
                from .jaxpr import patches

                patches.install()
                importlib.import_module(name)
    if not _WARM_JAX:
        try:
            import jax

            from .jaxpr import golden as golden
            from .jaxpr.run import Run
        except ImportError as error:
            _WARM_JAX.append({"problem": {**missing("jax"), "detail": repr(error)}})
        else:
            _WARM_JAX.append({"jax": jax.__version__, **_warmed(Run, "jaxpr", "warm.py")})
    return _WARM_JAX[0]


def _warmed(run: Any, *names: str) -> dict[str, Any]:
    """Trace the small program of a file twice, so that what a framework imports lazily is there."""
    path, modules = list(sys.path), set(sys.modules)
    file = os.path.join(os.path.dirname(os.path.abspath(__file__)), *names)
    with open(file, encoding="utf-8") as source:
        text = source.read()
    reply: dict[str, Any] = {}
    for _ in range(2):
        reply = run({"path": file, "text": text}).reply()
        for name in set(sys.modules) - modules:
            if name in ("warm", "_target_warm"):
                del sys.modules[name]
        sys.path[:] = path
    hello: dict[str, Any] = {"warm": bool(reply.get("ok"))}
    if not reply.get("ok"):
        hello["warm_problem"] = reply.get("problems")
    return hello


def send(fd: int, value: dict[str, Any]) -> None:
    """Write one frame."""
    write_frame(fd, json.dumps(value, separators=(",", ":")).encode())


def write_frame(fd: int, data: bytes) -> None:
    """Write one frame of JSON text."""
    view = memoryview(struct.pack("<Q", len(data)) + data)
    while view:
        view = view[os.write(fd, view[: 1 << 20]) :]


class Server:
    """The event loop of the parent."""

    def __init__(self, requests: int, replies: int) -> None:
        self.requests = requests
        self.replies = replies
        self.active: dict[int, Active] = {}
        self.waiting: list[dict[str, Any]] = []
        self.selector = selectors.DefaultSelector()
        self.buffer = bytearray()
        self.libc = child.load_libc()
        if self.libc is not None:
            self.libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self.wake_read, self.wake_write = os.pipe()
        for fd in (self.wake_read, self.wake_write, requests):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        self.selector.register(requests, selectors.EVENT_READ, self._on_request)
        self.selector.register(self.wake_read, selectors.EVENT_READ, self._on_child)
        gc.collect()
        gc.freeze()
        gc.disable()

    def run(self) -> None:
        """Loop until the host's end closes; then every child is killed."""
        try:
            while True:
                for key, _ in self.selector.select(self._timeout()):
                    key.data(key.fd)
                self._tick()
        except (EOFError, BrokenPipeError):
            pass
        finally:
            for active in list(self.active.values()):
                active.kill()
            kill_strays(set())

    def _timeout(self) -> float | None:
        if not self.active:
            return None
        now = time.monotonic()
        return max(0.0, min(_TICK_S, *(a.next_event() - now for a in self.active.values())))

    def _on_request(self, fd: int) -> None:
        try:
            data = os.read(fd, 1 << 20)
        except BlockingIOError:
            return
        if not data:
            raise EOFError
        self.buffer += data
        while len(self.buffer) >= 8:
            (length,) = struct.unpack_from("<Q", self.buffer)
            if len(self.buffer) < 8 + length:
                return
            message = json.loads(bytes(self.buffer[8 : 8 + length]))
            del self.buffer[: 8 + length]
            if "cancel" in message:
                self._cancel(message["cancel"])
            else:
                self.waiting.append(message)
                self._start_waiting()

    def _cancel(self, request_id: Any) -> None:
        self.waiting = [r for r in self.waiting if r["id"] != request_id]
        for active in list(self.active.values()):
            if active.request["id"] == request_id:
                active.cancelled = True
                self._finish(active)

    def _start_waiting(self) -> None:
        while self.waiting and len(self.active) < _CONCURRENT:
            self._start(self.waiting.pop(0))

    def _start(self, request: dict[str, Any]) -> None:
        if framework_of(request) == "jax":
            warm_jax(_text_of(request))
            gc.freeze()
        pipes = [os.pipe() for _ in range(3)]
        pid = os.fork()
        if pid == 0:
            for fd in (self.requests, self.replies, self.wake_read, self.wake_write):
                os.close(fd)
            for read, _ in pipes:
                os.close(read)
            for other in self.active.values():
                other.close()
            child.serve(request, pipes[0][1], pipes[1][1], pipes[2][1], self.libc)
        for _, write in pipes:
            os.close(write)
        for read, _ in pipes:
            os.set_blocking(read, False)
        active = Active(request, pid, pipes[0][0], pipes[1][0], pipes[2][0])
        self.active[pid] = active
        self.selector.register(active.reply_fd, selectors.EVENT_READ, lambda _: self._on_reply(active))
        self.selector.register(active.output_fd, selectors.EVENT_READ, lambda fd: self._drain(active, fd))
        self.selector.register(active.dump_fd, selectors.EVENT_READ, lambda fd: self._drain(active, fd))

    def _on_reply(self, active: Active) -> None:
        if active.read_reply() and active.pid in self.active:
            self._finish(active)
        elif active.reply_closed:
            self.selector.unregister(active.reply_fd)

    def _drain(self, active: Active, fd: int) -> None:
        if not active.drain(fd):
            with contextlib.suppress(KeyError, ValueError):
                self.selector.unregister(fd)

    def _on_child(self, fd: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(fd, 4096)
        for active in list(self.active.values()):
            if active.exited():
                active.read_reply()
                self._finish(active)
        self._reap()

    def _reap(self) -> None:
        """Collect strays that this process adopted as their reaper."""
        kill_strays(set(self.active))

    def _tick(self) -> None:
        now = time.monotonic()
        for active in list(self.active.values()):
            if active.next_event() <= now and not active.ask_where(now):
                self._finish(active)
            elif active.memory_bytes and now >= active.next_look:
                active.next_look = now + _TICK_S
                if resident_bytes(active.pid) > active.resident_limit:
                    active.over_memory = True
                    self._finish(active)

    def _finish(self, active: Active) -> None:
        del self.active[active.pid]
        active.kill()
        for fd in (active.reply_fd, active.output_fd, active.dump_fd):
            with contextlib.suppress(KeyError, ValueError):
                self.selector.unregister(fd)
        payload = active.payload()
        active.close()
        head = json.dumps({"id": active.request["id"], "spent_s": time.monotonic() - active.started})
        write_frame(self.replies, head[:-1].encode() + b',"reply":' + payload + b"}")
        kill_strays(set(self.active))
        self._start_waiting()


def _text_of(request: dict[str, Any]) -> str:
    if request.get("text") is not None:
        return str(request["text"])
    try:
        with open(request["path"], encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""
