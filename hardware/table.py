"""The catalog as a Markdown table, for documentation and reports."""

from collections.abc import Iterable

from sollens.hardware.target import Peak, Target
from sollens.hardware.units import format_bytes, format_rate

_HEADER = ("id", "chip", "float32", "tf32", "16 bit", "float8", "int8", "vector float32", "memory", "on chip")


def markdown_table(targets: Iterable[Target]) -> str:
    """Return one row a chip: matmul ceilings (with the vendor's figure where it is lower), vector, memory, on chip."""
    rows = [_HEADER, ("---",) * len(_HEADER), *(_row(target) for target in targets)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(target: Target) -> tuple[str, ...]:
    matmul = target.matmul_peak_flop_per_s
    return (
        f"`{target.id}`",
        target.name,
        *(_peak(matmul.get(pipe)) for pipe in ("float32", "tf32")),
        _peak(matmul.get("bfloat16", matmul.get("float16"))),
        *(_peak(matmul.get(pipe)) for pipe in ("float8", "int8")),
        _peak(target.vector_peak_flop_per_s.get("float32")),
        f"{format_bytes(target.capacity_bytes.value)}, {format_rate(target.bandwidth_bytes_per_s.value, 'byte/s')}",
        format_bytes(target.on_chip_bytes),
    )


def _peak(peak: Peak | None) -> str:
    if peak is None:
        return "-"
    ceiling, printed = (_tera(rate) for rate in (peak.value, peak.vendor_value))
    return ceiling if ceiling == printed else f"{ceiling} ({printed})"


def _tera(rate: float) -> str:
    return format_rate(rate, "FLOP/s").removesuffix("FLOP/s")
