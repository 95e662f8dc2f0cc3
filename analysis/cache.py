"""Content-addressed store of traces and reports: files of JSON, safe between processes, bounded in size.

An entry's name is the hash of everything it was computed from (`key`). Entries are written to a temporary file and
renamed, so a reader sees a whole entry or none. They are zlib-compressed, whose checksum finds damage; a damaged entry
is removed and counts as missing. Reading an entry marks it as used; the least recently used ones go when the store
grows over its limit. Nothing is ever unpickled or evaluated.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import threading
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache as memoized
from pathlib import Path
from typing import TypeVar

import msgspec

from sollens.analysis import atomic

_T = TypeVar("_T")
DEFAULT_LIMIT_BYTES = 256 * 10**6
_SUFFIX = ".json.z"
_PRUNE_TO = 0.8
_LARGEST_ENTRY_BYTES = 512 * 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """Where the store is, how many entries it holds and their bytes."""

    folder: Path
    entries: int
    bytes: int
    limit_bytes: int


def default_folder() -> Path:
    """SOLLENS_CACHE_DIR, else the platform's cache folder of the user."""
    override = os.environ.get("SOLLENS_CACHE_DIR")
    if override:
        return Path(override)
    import platformdirs

    return Path(platformdirs.user_cache_dir("sollens", appauthor=False))


def key(kind: str, *parts: object) -> str:
    """The name of an entry computed from these parts (strings, bytes, numbers, None, lists, dicts: what JSON holds).

    >>> key("trace", "text", {"a": 1}) == key("trace", "text", {"a": 1})
    True
    """
    return f"{kind}-{hashlib.sha256(msgspec.json.encode(parts, order='deterministic')).hexdigest()[:40]}"


def digest(data: bytes) -> str:
    """The content hash of some bytes."""
    return hashlib.sha256(data).hexdigest()[:40]


def file_digest(path: str | Path) -> str:
    """The content hash of a file; "" where it cannot be read."""
    try:
        return digest(Path(path).read_bytes())
    except OSError:
        return ""


@memoized
def rules_version(*parts: str) -> str:
    """A hash of our own sources and chip data, or of parts of `analysis/`: results of other rules are not read back."""
    analysis = Path(__file__).parent
    folders = [analysis / part for part in parts] or [analysis, analysis.parent / "hardware"]
    state = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".py", ".toml"):
                state.update(path.relative_to(analysis.parent).as_posix().encode())
                state.update(path.read_bytes())
    return state.hexdigest()[:20]


class Cache:
    """A store in a folder; `enabled=False` finds nothing and keeps nothing."""

    def __init__(
        self, folder: Path | None = None, limit_bytes: int = DEFAULT_LIMIT_BYTES, *, enabled: bool = True
    ) -> None:
        self.folder = folder or default_folder()
        self.limit_bytes = limit_bytes
        self.enabled = enabled
        self._lock = threading.Lock()
        self._bytes: int | None = None  # what is believed to be stored; None before the first look

    def get(self, name: str) -> bytes | None:
        """The entry's bytes, or None."""
        if not self.enabled:
            return None
        path = self._path(name)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        try:
            found = _decompress(data)
        except zlib.error:
            self.discard(name)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return found

    def get_as(self, name: str, kind: type[_T]) -> _T | None:
        """The entry decoded as a msgspec type; one of another shape is removed and counts as missing."""
        data = self.get(name)
        if data is None:
            return None
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.MsgspecError:
            self.discard(name)
            return None

    def put(self, name: str, value: bytes | msgspec.Struct) -> None:
        """Keep an entry. A full or read-only disk keeps nothing, which costs time later and nothing else."""
        if not self.enabled:
            return
        data = zlib.compress(value if isinstance(value, bytes) else msgspec.json.encode(value), 1)
        path = self._path(name)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            atomic.write(path, data)
        except OSError:
            return
        with self._lock:
            self._bytes = self._bytes + len(data) if self._bytes is not None else _total(self._files())
            if self._bytes > self.limit_bytes:
                self._prune()

    def discard(self, name: str) -> None:
        """Remove an entry if it is there."""
        with contextlib.suppress(OSError):
            self._path(name).unlink()

    def clear(self) -> Info:
        """Remove every entry; what was there."""
        before = self.info()
        for path in [path for path, _ in self._files()]:
            with contextlib.suppress(OSError):
                path.unlink()
        for folder in self._folders():
            shutil.rmtree(folder, ignore_errors=True)
        with self._lock:
            self._bytes = 0
        return before

    def info(self) -> Info:
        """What the store holds now."""
        files = self._files()
        return Info(folder=self.folder, entries=len(files), bytes=_total(files), limit_bytes=self.limit_bytes)

    def _path(self, name: str) -> Path:
        return self.folder / f"v1-{name[-2:]}" / f"{name}{_SUFFIX}"

    def _folders(self) -> list[Path]:
        try:
            return [path for path in self.folder.iterdir() if path.name.startswith("v1-") and path.is_dir()]
        except OSError:
            return []

    def _files(self) -> list[tuple[Path, os.stat_result]]:
        found: list[tuple[Path, os.stat_result]] = []
        for folder in self._folders():
            with contextlib.suppress(OSError):  # another process may remove what we look at
                for entry in os.scandir(folder):
                    with contextlib.suppress(OSError):
                        found.append((Path(entry.path), entry.stat()))
        return found

    def _prune(self) -> None:
        """Remove the least recently used entries until a fifth of the limit is free."""
        files = sorted(self._files(), key=lambda file: file[1].st_mtime_ns)
        total = _total(files)
        for path, stat in files:
            if total <= self.limit_bytes * _PRUNE_TO:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            total -= stat.st_size
        self._bytes = total


def closure_digests(files: Iterable[str]) -> dict[str, str]:
    """Content hashes by path, in a fixed order."""
    return {path: file_digest(path) for path in sorted(set(files))}


def unchanged(files: Mapping[str, str]) -> bool:
    """Whether every file still has the content hash noted for it."""
    return all(file_digest(path) == noted for path, noted in files.items())


def _total(files: Iterable[tuple[Path, os.stat_result]]) -> int:
    return sum(stat.st_size for _, stat in files)


def _decompress(data: bytes) -> bytes:
    """Decompress within a bound, so that a damaged or hostile entry cannot fill the memory; raises zlib.error."""
    stream = zlib.decompressobj()
    found = stream.decompress(data, _LARGEST_ENTRY_BYTES)
    if not stream.eof:
        raise zlib.error("cut short, or too large")
    return found
