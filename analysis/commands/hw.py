"""`sollens hw [ID]`: the chips, their peaks and where each number comes from."""

from __future__ import annotations

import argparse
from typing import Any

from sollens.analysis.commands import options
from sollens.hardware import catalog
from sollens.hardware.target import Peak, Quantity, Target
from sollens.hardware.units import format_bytes, format_rate


def add(commands: Any) -> None:
    """Declare the command."""
    parser: argparse.ArgumentParser = commands.add_parser("hw", help="list the chips, or one with its sources")
    parser.add_argument("id", nargs="?", type=options.hardware, metavar="ID")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print a table."""
    from rich.table import Table

    from sollens.analysis.commands.show import terminal

    console = terminal()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    if arguments.id is not None:
        chip = catalog.load(arguments.id)
        console.print(f"{chip.name} ({chip.vendor} {chip.architecture})", style="bold", markup=False)
        for name in ("what", "value", "source", "date"):
            table.add_column(name, overflow="fold", justify="right" if name == "value" else "left")
        for row in _sources(chip):
            table.add_row(*row)
        console.print(table)
        for note in chip.notes:
            console.print(f"- {note}", markup=False)
        return options.DONE
    for name in ("id", "chip", "memory", "capacity", "on chip", "float32", "tf32", "16 bit", "vector float32"):
        table.add_column(name, justify="left" if name in ("id", "chip") else "right")
    for chip_id in catalog.ids():
        table.add_row(*_row(catalog.load(chip_id)))
    console.print(table)
    return options.DONE


def _row(chip: Target) -> tuple[str, ...]:
    peaks = chip.matmul_peak_flop_per_s
    return (
        chip.id,
        chip.name,
        format_rate(chip.bandwidth_bytes_per_s.value, "byte/s"),
        format_bytes(chip.capacity_bytes.value),
        format_bytes(chip.on_chip_bytes),
        *(_rate(peaks.get(pipe)) for pipe in ("float32", "tf32")),
        _rate(peaks.get("bfloat16", peaks.get("float16"))),
        _rate(chip.vector_peak_flop_per_s.get("float32")),
    )


def _rate(peak: Peak | None) -> str:
    return "-" if peak is None else format_rate(peak.value, "FLOP/s")


def _sources(chip: Target) -> list[tuple[str, str, str, str]]:
    rows = [(f"matmul {name}", _rate(peak), peak) for name, peak in chip.matmul_peak_flop_per_s.items()]
    rows += [(f"vector {name}", _rate(peak), peak) for name, peak in chip.vector_peak_flop_per_s.items()]
    bandwidth, capacity = chip.bandwidth_bytes_per_s, chip.capacity_bytes
    found: list[tuple[str, str, Quantity]] = [
        *rows,
        ("memory bandwidth", format_rate(bandwidth.value, "byte/s"), bandwidth),
        ("memory", format_bytes(capacity.value), capacity),
        *((f"on chip: {level.name}", format_bytes(level.bytes.value), level.bytes) for level in chip.on_chip),
        *((f"clock: {name}", format_rate(clock.value, "Hz"), clock) for name, clock in chip.clocks_hz.items()),
    ]
    return [(what, value, quantity.source, quantity.date) for what, value, quantity in found]
