"""Golden outputs as the agent wrote them: raw arrays in files of one folder, never pickled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from sollens.analysis.execute.storage import Array, stored_dtype
from sollens.analysis.trace.schema import Trace

_FILE = re.compile(r"[a-z]{1,16}-\d{1,6}\.bin")


class BadGolden(ValueError):
    """An entry that does not name an array of the folder."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Where an array is: file, offset in bytes, dtype and shape."""

    file: str
    offset: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Exact:
    """Entries of a run in double precision: outputs in order, and by operator and tensor id."""

    outputs: tuple[Entry, ...] = ()
    ops: Mapping[int, Mapping[int, Entry]] = field(default_factory=dict[int, Mapping[int, Entry]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """A golden run of a program or of its twin.

    `trace` is of exactly this run. `externals` are by trace tensor id as the program found them; `ops` by position of
    the operator and tensor id as the operator left them; `outputs` in the order of `trace.outputs`. `sizes` are the
    twin's.
    """

    trace: Trace
    directory: Path
    full: bool
    sizes: Mapping[str, int]
    externals: Mapping[int, Entry]
    outputs: tuple[Entry, ...]
    ops: Mapping[int, Mapping[int, Entry]]
    points: int
    elements: int
    diverged: str
    undefined: bool
    signed: bool = True
    again: tuple[tuple[int, int], ...] = ()
    # The same run in double precision, where it was made.
    exact: Exact | None = None

    def array(self, entry: Entry) -> Array:
        """The values of an entry; raises BadGolden or OSError."""
        count = prod(entry.shape)
        dtype = stored_dtype(entry.dtype)
        path = self.directory / entry.file
        if path.stat().st_size < entry.offset + count * dtype.itemsize:
            raise BadGolden(f"{entry.file} is shorter than its entry at {entry.offset} says")
        return np.fromfile(path, dtype, count, offset=entry.offset).reshape(entry.shape)


def read(trace: Trace, raw: Mapping[str, Any], directory: Path) -> Golden:
    """The golden run of a reply; raises BadGolden."""
    try:
        return Golden(
            trace=trace,
            directory=directory,
            full=bool(raw["full"]),
            sizes={str(k): int(v) for k, v in raw["sizes"].items()},
            externals=_entries(raw["externals"]),
            outputs=tuple(_entry(e) for e in raw["outputs"]),
            ops={int(n): _entries(found) for n, found in raw["ops"].items()},
            points=int(raw["points"]),
            elements=int(raw["elements"]),
            diverged=str(raw["diverged"]),
            undefined=bool(raw["undefined"]),
            signed=bool(raw.get("signed", True)),
            again=tuple((int(n), int(v)) for n, v in raw.get("again", ())),
            exact=read_exact(raw["exact"]) if raw.get("exact") else None,
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadGolden(f"expected a golden run, found {error!r}") from None


def read_exact(raw: Mapping[str, Any]) -> Exact:
    """The entries of a run in double precision; raises KeyError, TypeError or ValueError."""
    return Exact(tuple(_entry(e) for e in raw["outputs"]), {int(n): _entries(found) for n, found in raw["ops"].items()})


def _entries(raw: Mapping[str, Any]) -> dict[int, Entry]:
    return {int(n): _entry(e) for n, e in raw.items()}


def _entry(raw: Mapping[str, Any]) -> Entry:
    if not _FILE.fullmatch(raw["file"]):
        raise ValueError(f"file {raw['file']!r}")
    shape = tuple(int(n) for n in raw["shape"])
    offset = int(raw["offset"])
    if offset < 0 or any(n < 0 for n in shape):
        raise ValueError(f"offset {offset}, shape {shape}")
    stored_dtype(raw["dtype"])
    return Entry(raw["file"], offset, raw["dtype"], shape)
