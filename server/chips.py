"""What is shown of a chip: its name, how its memory is called, one line of its limits."""

from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from sollens.hardware import catalog
from sollens.hardware.limits import PIPES, memory_name
from sollens.hardware.target import Target
from sollens.hardware.units import format_bytes, format_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A chip as an editor shows it."""

    id: str
    name: str
    memory: str
    description: str
    detail: str


@cache
def chip(chip_id: str) -> Chip:
    """The chip of an id of the catalog; reads a file the first time. Raises catalog.UnknownTarget."""
    target = catalog.load(chip_id)
    return Chip(
        id=target.id,
        name=target.name,
        memory=memory_name(target),
        description=f"{target.vendor} {target.architecture}",
        detail=_detail(target),
    )


def all_chips() -> list[Chip]:
    return [chip(chip_id) for chip_id in catalog.ids()]


def known_chips(chip_ids: set[str]) -> dict[str, Chip]:
    """Those of the ids that are in the catalog."""
    found: dict[str, Chip] = {}
    for chip_id in chip_ids:
        with suppress(catalog.UnknownTarget):
            found[chip_id] = chip(chip_id)
    return found


def _detail(target: Target) -> str:
    peaks = target.matmul_peak_flop_per_s
    shown = [
        f"{PIPES[name]} {format_rate(peaks[name].value, 'FLOP/s')}"
        for name in ("float32", "tf32", "bfloat16")
        if name in peaks
    ]
    memory = f"{format_rate(target.bandwidth_bytes_per_s.value, 'byte/s')}, {format_bytes(target.capacity_bytes.value)}"
    return " · ".join([memory, *shown])
