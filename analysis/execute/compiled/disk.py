"""Compiled kernels between runs: one file each in the user's own cache folder, shared by processes.

A file holds its key, a checksum and machine code, nothing that is parsed as code or unpickled. It is read only when
the folder and the file belong to this user and nobody else may write them; a file that is damaged, or made for
another key, is as if it were absent. The key covers the kernel's text and all that the code depends on: our
version, Numba's, Python's, the processor.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import stat
import sys
from importlib import metadata
from pathlib import Path

from sollens.analysis import atomic
from sollens.analysis.execute.compiled import native
from sollens.analysis.execute.compiled.build import Code

VERSION = 1
"""Counts changes of what the generated functions expect or how they are compiled."""

_MAGIC = b"sollens kernel 1\n"
_MOST_BYTES = 4 << 20
_MOST_FILES = 8000


def folder() -> Path:
    """SOLLENS_CACHE_DIR, else the platform's cache folder of the user."""
    override = os.environ.get("SOLLENS_CACHE_DIR")
    if override:
        return Path(override) / "kernels"
    import platformdirs

    return Path(platformdirs.user_cache_dir("sollens", appauthor=False)) / "kernels"


@functools.cache
def environment() -> str:
    """What compiled code depends on beside its source."""
    versions = [metadata.version(p) for p in ("numba", "llvmlite")]
    return "|".join([str(VERSION), *versions, sys.version, platform.machine(), sys.platform, native.processor()])


def key(source: str, signature: tuple[str, ...]) -> str:
    """The name of a kernel, here and on disk."""
    return hashlib.sha256("\0".join((environment(), *signature, source)).encode()).hexdigest()[:40]


def read(name: str) -> Code | None:
    """The kernel, if a whole one of this user is there."""
    path = folder() / name[:2] / name
    try:
        if not (_private(folder()) and _private(path)):
            return None
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES)
    except OSError:
        return None
    magic, digest, payload = data[: len(_MAGIC)], data[len(_MAGIC) : len(_MAGIC) + 32], data[len(_MAGIC) + 32 :]
    if magic != _MAGIC or hashlib.sha256(payload).digest() != digest:
        return None
    with contextlib.suppress(ValueError, KeyError, TypeError):
        head, _, code = payload.partition(b"\n")
        fields = json.loads(head)
        if fields["key"] == name:
            return Code(str(fields["symbol"]), tuple(map(str, fields["externals"])), code)
    return None


def write(name: str, code: Code) -> None:
    """Keep a kernel; a disk that is full or read-only keeps nothing."""
    head = json.dumps({"key": name, "symbol": code.symbol, "externals": code.externals}).encode()
    payload = head + b"\n" + code.object
    data = _MAGIC + hashlib.sha256(payload).digest() + payload
    path = folder() / name[:2] / name
    with contextlib.suppress(OSError):
        folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not _private(folder()):
            return
        atomic.write(path, data)
        if name.startswith("00"):  # one write in 256 looks at the size of the whole
            _prune()


def _private(path: Path) -> bool:
    """Whether only this user may write it."""
    if os.name != "posix":
        return True
    found = path.stat()
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _prune() -> None:
    """Remove the oldest files beyond the limit."""
    files = [(entry.stat().st_mtime_ns, entry) for entry in folder().glob("??/*")]
    for _, path in sorted(files, reverse=True)[_MOST_FILES:]:
        with contextlib.suppress(OSError):
            path.unlink()
