# pyright: basic
"""The process of one request: limits, redirected streams, one trace, one reply."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import json
import os
import signal
import struct
import sys
from typing import Any

_FILE_BYTES = 64 * 2**20
_AS_SLACK_BYTES = 4 * 2**30
_PR_SET_PDEATHSIG = 1


def serve(request: dict[str, Any], reply_fd: int, output_fd: int, dump_fd: int, libc: Any) -> None:
    """Trace and write the framed reply; never returns."""
    me = os.getpid()
    status = 1
    try:
        _confine(request, output_fd, dump_fd, libc)
        from .dispatch import reply_of

        reply = reply_of(request)
        data = json.dumps(reply, separators=(",", ":")).encode()
        if os.getpid() == me:  # a fork of the user's may come back here
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
            _write(reply_fd, struct.pack("<Q", len(data)) + data)
        status = 0
    finally:
        os._exit(status)


def _confine(request: dict[str, Any], output_fd: int, dump_fd: int, libc: Any) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.setsid()
    if libc is not None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.nice(10)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(output_fd, 1)
    os.dup2(output_fd, 2)
    faulthandler.enable(file=dump_fd, all_threads=False)
    faulthandler.register(signal.SIGUSR1, file=dump_fd, all_threads=False, chain=False)
    gc.set_threshold(50_000, 50, 50)
    _limit(int(request.get("memory_bytes") or 0))


def _limit(memory_bytes: int) -> None:
    import resource

    _set(resource.RLIMIT_CORE, 0)
    _set(resource.RLIMIT_FSIZE, _FILE_BYTES)
    sizes = _sizes()
    if memory_bytes and sizes is not None:
        mapped, data = sizes
        _set(resource.RLIMIT_DATA, data + memory_bytes)
        _set(resource.RLIMIT_AS, mapped + memory_bytes + _AS_SLACK_BYTES)


def _set(which: int, value: int) -> None:
    import resource

    with contextlib.suppress(ValueError, OSError):
        hard = resource.getrlimit(which)[1]
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(which, (value, value))


def _sizes() -> tuple[int, int] | None:
    """Bytes mapped and bytes of private data now: PyTorch alone maps gigabytes."""
    try:
        with open("/proc/self/status") as file:
            found = {
                k: int(v.split()[0]) * 1024
                for k, v in (line.split(":", 1) for line in file)
                if k in ("VmSize", "VmData")
            }
        return found["VmSize"], found["VmData"]
    except (OSError, KeyError, ValueError):
        return None


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view[: 1 << 20]) :]


def load_libc() -> Any:
    """libc where it has prctl (Linux), else None."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL(None, use_errno=True)
    except OSError:
        return None
