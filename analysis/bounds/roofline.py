"""Rooflines of scopes: the time below which no implementation can go on a chip (bounds.md section 3)."""

from __future__ import annotations

from dataclasses import dataclass

from sollens.analysis.einsum.scopes import Scope
from sollens.hardware.target import Target

# Vector dtypes as the hardware files name them.
_VECTOR_NAMES = {
    "f64": "float64", "c128": "float64", "f32": "float32", "c64": "float32", "f16": "float16", "bf16": "bfloat16",
    "c32": "float16", "i64": "int64", "u64": "int64", "i32": "int32", "u32": "int32", "i16": "int16", "u16": "int16",
    "i8": "int8", "u8": "uint8", "bool": "bool", "i4": "int8", "u4": "uint8",
}  # fmt: skip

@dataclass(frozen=True, slots=True)
class Row:
    """One resource: what is asked of it (bytes, or FLOP), its peak per second, and the time that takes."""

    name: str
    amount: float
    unit: str
    peak_per_s: float

    @property
    def time_s(self) -> float:
        """Seconds at peak."""
        return self.amount / self.peak_per_s if self.amount else 0.0


@dataclass(frozen=True, slots=True)
class Roofline:
    """Every resource's row, the limiting one first. Empty work has no limit and takes no time."""

    rows: tuple[Row, ...]

    @property
    def time_s(self) -> float:
        """The largest row's time: pipes overlap perfectly."""
        return self.rows[0].time_s if self.rows else 0.0

    @property
    def limit(self) -> str:
        """The limiting resource: "memory", "vector", "matmul:<pipe>", or "free"."""
        return self.rows[0].name if self.rows and self.rows[0].time_s > 0 else "free"

    @property
    def compute_s(self) -> float:
        """Time of the slowest pipe, memory aside."""
        return max((r.time_s for r in self.rows if r.name != "memory"), default=0.0)


def roofline(scope: Scope, target: Target, traffic_bytes: int | None = None) -> Roofline:
    """The scope's roofline on a chip; `traffic_bytes` replaces the scope's own border traffic."""
    moved = scope.bytes if traffic_bytes is None else traffic_bytes
    rows = [Row("memory", float(moved), "byte", target.bandwidth_bytes_per_s.value)]
    for pipe, macs in scope.macs.items():
        rows.append(Row(f"matmul:{pipe}", 2.0 * macs, "FLOP", target.matmul_peak(pipe)))
    vector = [
        (ops, target.vector_peak(_VECTOR_NAMES.get(dtype, "float32"))) for dtype, ops in scope.vector_ops.items() if ops
    ]
    if vector:
        # The dtypes share the lanes, but a chip may overlap some of them: every operation is priced at the fastest
        # rate among those used.
        rows.append(Row("vector", float(sum(ops for ops, _ in vector)), "FLOP", max(peak for _, peak in vector)))
    rows = [r for r in rows if r.amount]
    return Roofline(tuple(sorted(rows, key=lambda r: -r.time_s)))
