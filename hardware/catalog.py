"""The chips that ship with sollens, and TOML files of a user's own; docs/hardware.md describes the format."""

import difflib
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from sollens.hardware.target import EXACT_PIPES, OnChipLevel, Peak, Quantity, Target
from sollens.hardware.units import UnitError, to_base_unit

TARGETS_DIRECTORY = Path(__file__).parent / "targets"

ALIASES: Mapping[str, str] = {
    "a100": "a100-sxm",
    "a100-80gb": "a100-sxm",
    "a6000": "rtx-a6000",
    "agx-orin": "jetson-agx-orin",
    "h100": "h100-sxm",
    "jetson-thor": "jetson-thor-t5000",
    "trillium": "tpu-v6e",
}

Table = Mapping[str, Any]


class UnknownTarget(ValueError):
    """A chip id that is neither in the catalog nor an alias."""

    def __init__(self, found: str) -> None:
        nearest = difflib.get_close_matches(found.lower(), (*ids(), *ALIASES), n=1)
        hint = f" (did you mean {nearest[0]!r}?)" if nearest else ""
        super().__init__(f"unknown hardware {found!r}{hint}: expected one of {', '.join(ids())}")
        self.found = found
        self.suggestion = nearest[0] if nearest else None


class TargetFileError(ValueError):
    """A target file that does not hold what the format asks for."""

    def __init__(self, *, path: Path, key: str, expected: str, found: object) -> None:
        shown = "nothing" if found is None else repr(found)
        super().__init__(f"{path}: {key}: expected {expected}, found {shown}")
        self.path, self.key, self.expected, self.found = path, key, expected, found


@cache
def ids() -> tuple[str, ...]:
    """Return the ids of all chips in the catalog, sorted."""
    return tuple(sorted(path.stem for path in TARGETS_DIRECTORY.glob("*.toml")))


@cache
def load(target_id: str) -> Target:
    """Return a chip of the catalog by id or alias, in any case; raises UnknownTarget.

    >>> load("h100").name
    'NVIDIA H100 SXM5 80GB'
    """
    known = ALIASES.get(target_id.lower(), target_id.lower())
    if known not in ids():
        raise UnknownTarget(target_id)
    return load_file(TARGETS_DIRECTORY / f"{known}.toml")


def load_all() -> tuple[Target, ...]:
    """Return every chip of the catalog, by id."""
    return tuple(load(target_id) for target_id in ids())


def load_file(path: str | Path) -> Target:
    """Return the chip that a TOML file describes; raises TargetFileError: which key, expected, found."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            document = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise TargetFileError(path=path, key="file", expected="readable TOML", found=str(problem)) from None
    return _Reader(path, document).target()


class _Reader:
    """Checks and converts one parsed target file."""

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self.path = path
        self.document = document
        self.sources = self.table(document, "sources", "sources")

    def target(self) -> Target:
        document = self.document
        clocks = self.table(document, "clock", "clock")
        clocks_hz = {name: self.quantity(clocks, name, f"clock.{name}", "Hz") for name in clocks}
        memory = self.table(document, "memory", "memory")
        vector = self.peaks("vector", clocks_hz)
        if not vector:
            self.fail("vector", "at least one vector peak", None)
        return Target(
            id=self.text(document, "id", "id"),
            name=self.text(document, "name", "name"),
            vendor=self.text(document, "vendor", "vendor"),
            architecture=self.text(document, "architecture", "architecture"),
            compute_units=self.compute_units(),
            clocks_hz=clocks_hz,
            matmul_peak_flop_per_s=self.peaks("matmul", clocks_hz),
            vector_peak_flop_per_s=vector,
            bandwidth_bytes_per_s=self.quantity(memory, "bandwidth", "memory.bandwidth", "byte/s"),
            printed_bandwidth_bytes_per_s=self.printed_bandwidth(memory),
            capacity_bytes=self.quantity(memory, "capacity", "memory.capacity", "byte"),
            bus_width_bits=self.optional_quantity(memory, "bus_width", "memory.bus_width", "bit"),
            data_rate_bits_per_s=self.optional_quantity(memory, "data_rate", "memory.data_rate", "bit/s"),
            on_chip=self.on_chip(),
            tdp_w=self.optional_quantity(document, "tdp", "tdp", "W"),
            notes=self.notes(),
        )

    def fail(self, key: str, expected: str, found: object) -> None:
        raise TargetFileError(path=self.path, key=key, expected=expected, found=found)

    def table(self, parent: Table, name: str, key: str) -> dict[str, Any]:
        found = parent.get(name)
        if not isinstance(found, dict):
            self.fail(key, "a table", found)
        return cast(dict[str, Any], found)

    def text(self, parent: Table, name: str, key: str) -> str:
        found = parent.get(name)
        if not isinstance(found, str) or not found.strip():
            self.fail(key, "a text", found)
        return cast(str, found)

    def number(self, parent: Table, name: str, key: str) -> float:
        found = parent.get(name)
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found < float("inf"):
            self.fail(key, "a number above 0", found)
        return float(cast(float, found))

    def base(self, value: float, unit: str, key: str, base_unit: str) -> float:
        try:
            converted, base = to_base_unit(value, unit)
        except UnitError:
            converted, base = value, "?"
        if base != base_unit:
            self.fail(f"{key}.unit", f"a unit of {base_unit}", unit)
        return converted

    def origin(self, parent: Table, key: str) -> tuple[str, str]:
        """Return source and date: `source` names a table under [sources]; its date may be overridden beside it."""
        name = self.text(parent, "source", f"{key}.source")
        if name not in self.sources:
            self.fail(f"{key}.source", f"one of {', '.join(self.sources)}", name)
        source = self.table(self.sources, name, f"sources.{name}")
        title = self.text(source, "title", f"sources.{name}.title")
        url = self.text(source, "url", f"sources.{name}.url") if "url" in source else ""
        date = self.text(parent if "date" in parent else source, "date", f"sources.{name}.date")
        return f"{title}, {url}" if url else title, date

    def quantity(self, parent: Table, name: str, key: str, base_unit: str) -> Quantity:
        table = self.table(parent, name, key)
        source, date = self.origin(table, key)
        value = self.number(table, "value", f"{key}.value")
        value = self.base(value, self.text(table, "unit", f"{key}.unit"), key, base_unit)
        return Quantity(value=value, unit=base_unit, source=source, date=date)

    def optional_quantity(self, parent: Table, name: str, key: str, base_unit: str) -> Quantity | None:
        return self.quantity(parent, name, key, base_unit) if name in parent else None

    def compute_units(self) -> Quantity:
        table = self.table(self.document, "units", "units")
        source, date = self.origin(table, "units")
        value = self.number(table, "value", "units.value")
        return Quantity(value=value, unit=self.text(table, "unit", "units.unit"), source=source, date=date)

    def peaks(self, kind: str, clocks_hz: Mapping[str, Quantity]) -> dict[str, Peak]:
        parent = self.table(self.document, kind, kind)
        for pipe in parent:
            if pipe not in EXACT_PIPES:
                self.fail(f"{kind}.{pipe}", f"a pipe among {', '.join(EXACT_PIPES)}", pipe)
        return {pipe: self.peak(parent, pipe, f"{kind}.{pipe}", clocks_hz) for pipe in parent}

    def peak(self, parent: Table, pipe: str, key: str, clocks_hz: Mapping[str, Quantity]) -> Peak:
        quantity = self.quantity(parent, pipe, key, "FLOP/s")
        table = self.table(parent, pipe, key)
        printed = self.number(table, "printed", f"{key}.printed") if "printed" in table else None
        return Peak(
            value=quantity.value,
            unit=quantity.unit,
            source=quantity.source,
            date=quantity.date,
            flop_per_clock=self.number(table, "per_clock", f"{key}.per_clock") if "per_clock" in table else None,
            clock=self.clock(table, "clock", key, clocks_hz),
            printed=None if printed is None else self.base(printed, cast(str, table["unit"]), key, "FLOP/s"),
            printed_clock=self.clock(table, "printed_clock", key, clocks_hz),
            note=self.text(table, "note", f"{key}.note") if "note" in table else "",
        )

    def clock(self, table: Table, name: str, key: str, clocks_hz: Mapping[str, Quantity]) -> str | None:
        if name not in table:
            return None
        clock = self.text(table, name, f"{key}.{name}")
        if clock not in clocks_hz:
            self.fail(f"{key}.{name}", f"one of {', '.join(clocks_hz)}", clock)
        return clock

    def printed_bandwidth(self, memory: Table) -> float | None:
        table = self.table(memory, "bandwidth", "memory.bandwidth")
        if "printed" not in table:
            return None
        printed = self.number(table, "printed", "memory.bandwidth.printed")
        return self.base(printed, cast(str, table["unit"]), "memory.bandwidth", "byte/s")

    def on_chip(self) -> tuple[OnChipLevel, ...]:
        tables = self.items("on_chip")
        if not tables:
            self.fail("on_chip", "an array of tables, one a level", self.document.get("on_chip"))
        levels: list[OnChipLevel] = []
        for index, level in enumerate(tables or []):
            key = f"on_chip[{index}]"
            if not isinstance(level, dict):
                self.fail(key, "a table", level)
            levels.append(self.level(cast(dict[str, Any], level), key))
        return tuple(levels)

    def level(self, level: dict[str, Any], key: str) -> OnChipLevel:
        each = self.quantity({"level": level}, "level", key, "byte")
        count = self.number(level, "count", f"{key}.count")
        if count != int(count):
            self.fail(f"{key}.count", "a whole number", count)
        total = Quantity(value=each.value * count, unit="byte", source=each.source, date=each.date)
        return OnChipLevel(
            name=self.text(level, "name", f"{key}.name"), bytes=total, bytes_each=each.value, count=int(count)
        )

    def notes(self) -> tuple[str, ...]:
        notes = self.items("notes") if "notes" in self.document else []
        if notes is None or not all(isinstance(note, str) for note in notes):
            self.fail("notes", "a list of texts", self.document["notes"])
        return tuple(cast(list[str], notes))

    def items(self, name: str) -> list[Any] | None:
        found = self.document.get(name)
        return cast(list[Any], found) if isinstance(found, list) else None
