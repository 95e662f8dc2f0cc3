# pyright: basic
"""What the parent knows of one child: its pipes, its limits, how it ended, and the problem that amounts to."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import struct
import time
from typing import Any

_OUTPUT_BYTES = 4096
_DUMP_BYTES = 65536
_GRACE_S = 0.3
_DEADLINE_S = 30.0
_FRAME = re.compile(r'File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<function>.*)')
_LIBRARY = re.compile(r"site-packages|dist-packages|[/\\]lib[/\\]python3|analysis[/\\]trace[/\\]agent|^<")


class Active:
    """A request under way."""

    def __init__(self, request: dict[str, Any], pid: int, reply_fd: int, output_fd: int, dump_fd: int) -> None:
        self.request = request
        self.pid = pid
        self.reply_fd, self.output_fd, self.dump_fd = reply_fd, output_fd, dump_fd
        self.started = time.monotonic()
        self.deadline_s = float(request.get("deadline_s") or _DEADLINE_S)
        self.memory_bytes = int(request.get("memory_bytes") or 0)
        self.resident_limit = resident_bytes(os.getpid(), tree=False) + int(self.memory_bytes * 1.1)
        self.next_look = self.started + 0.25
        self.cancelled = self.over_memory = self.asked = self.reply_closed = False
        self.status: int | None = None
        self._event = self.started + self.deadline_s
        self._reply = bytearray()
        self._tails = {output_fd: bytearray(), dump_fd: bytearray()}

    def next_event(self) -> float:
        """When something is due: the deadline, or the end of the grace after it."""
        return self._event

    def ask_where(self, now: float) -> bool:
        """At the deadline, have the child write its stack; False when it was asked before."""
        if self.asked:
            return False
        self.asked = True
        self._event = now + _GRACE_S
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGUSR1)
        return True

    def read_reply(self) -> bool:
        """Take what is in the reply pipe; True once the frame is whole."""
        while not self.reply_closed:
            try:
                data = os.read(self.reply_fd, 1 << 20)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            self.reply_closed = not data
            self._reply += data
        return self.whole()

    def whole(self) -> bool:
        """Whether the reply is complete."""
        return len(self._reply) >= 8 and len(self._reply) >= 8 + int(struct.unpack_from("<Q", self._reply)[0])

    def drain(self, fd: int) -> bool:
        """Keep the tail of the user's output or of the stack dump; False at its end."""
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            return False
        tail = self._tails[fd]
        tail += data
        del tail[: -(_OUTPUT_BYTES if fd == self.output_fd else _DUMP_BYTES)]
        if self.asked and fd == self.dump_fd and data:
            self._event = min(self._event, time.monotonic() + 0.05)
        return bool(data)

    def exited(self) -> bool:
        """Whether the child has ended by itself."""
        if self.status is None:
            with contextlib.suppress(ChildProcessError):
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.status = status
        return self.status is not None

    def kill(self) -> None:
        """End the child, its process group and what it spawned elsewhere."""
        ended_itself = self.exited()
        for pid in descendants(self.pid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        if not ended_itself:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
        for fd in self._tails:
            while self.drain(fd):
                if not _ready(fd):
                    break

    def close(self) -> None:
        """Close the parent's ends."""
        for fd in (self.reply_fd, self.output_fd, self.dump_fd):
            with contextlib.suppress(OSError):
                os.close(fd)

    def payload(self) -> bytes:
        """The reply as JSON text: the child's, or the problem that its end amounts to."""
        if self.whole() and not self.cancelled:
            data = bytes(self._reply[8 : 8 + struct.unpack_from("<Q", self._reply)[0]])
            if data.startswith(b'{"ok":true'):
                return data
            with contextlib.suppress(ValueError):
                return json.dumps(self._with_output(json.loads(data))).encode()
        return json.dumps({"ok": False, "problems": [self._problem()]}).encode()

    def _with_output(self, reply: dict[str, Any]) -> dict[str, Any]:
        told = self._told()
        for problem in reply.get("problems", []) if told else []:
            problem["detail"] = f"{problem.get('detail', '')}\n--- output ---\n{told}"
        return reply

    def _told(self) -> str:
        return bytes(self._tails[self.output_fd]).decode("utf-8", "replace").strip()

    def _problem(self) -> dict[str, Any]:
        dump = bytes(self._tails[self.dump_fd]).decode("utf-8", "replace")
        file, line, function = self._place(dump)
        at = f" in {function}, line {line}" if line else ""
        if self.cancelled:
            code, message = "cancelled", "cancelled: a newer request replaced it"
        elif self.over_memory:
            code = "memory-limit"
            message = f"the file used more than the {self.memory_bytes / 2**30:.3g} GiB of memory allowed to a trace."
        elif self.asked:
            code = "deadline"
            message = (
                f"expected an answer within {self.deadline_s:g} s, but it was still running{at}. "
                "Look for a loop that does not end, or allow more time."
            )
        elif self.status is not None and os.WIFSIGNALED(self.status):
            number = os.WTERMSIG(self.status)
            name = signal.Signals(number).name if number in list(signal.Signals) else str(number)
            code, message = "process-crash", f"the process running the file died of {name}{at}; expected it to finish."
        else:
            status = os.WEXITSTATUS(self.status) if self.status is not None else -1
            code = "process-exit"
            message = (
                f"the file ended its process with status {status} (os._exit?); expected it to return. Guard that call."
            )
        told = self._told()
        detail = dump[-3000:] + (f"\n--- output ---\n{told}" if told else "")
        return {"code": code, "message": message, "file": file, "line": line, "column": 0, "detail": detail}

    def _place(self, dump: str) -> tuple[str, int, str]:
        path = os.path.abspath(self.request["path"])
        for match in _FRAME.finditer(dump):
            if match["file"] == path or not _LIBRARY.search(match["file"]):
                return match["file"], int(match["line"]), match["function"]
        return path, 0, ""


def _ready(fd: int) -> bool:
    import select

    return bool(select.select([fd], [], [], 0)[0])


def descendants(pid: int) -> list[int]:
    """All live descendants of a process, where /proc tells."""
    found: list[int] = []
    queue = [pid]
    while queue and len(found) < 4096:
        parent = queue.pop()
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{task}/children") as file:
                    children = [int(p) for p in file.read().split()]
                found.extend(children)
                queue.extend(children)
    return found


def resident_bytes(pid: int, *, tree: bool = True) -> int:
    """Resident bytes of a process and its descendants (shared pages count for each)."""
    total = 0
    for one in [pid, *(descendants(pid) if tree else ())]:
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{one}/statm") as file:
                fields = file.read().split()
            total += (int(fields[1]) - (int(fields[2]) if one != pid else 0)) * _PAGE
    return total


_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def kill_strays(active: set[int]) -> None:
    """Kill and reap what children left behind (this process adopts orphans where it is their subreaper)."""
    me = os.getpid()
    for _ in range(64):
        strays: list[int] = []
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{me}/task"):
                with open(f"/proc/{me}/task/{task}/children") as file:
                    strays.extend(int(p) for p in file.read().split())
        strays = [p for p in strays if p not in active]
        if not strays:
            return
        for pid in strays:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
