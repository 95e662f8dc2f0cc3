"""One chip: the rates, bandwidth and capacities that bounds are computed from.

Every rate is a ceiling: a program that runs faster than a bound made from it proves the ceiling wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass

# Formats that hold every value of the key exactly, so that a contraction over the key may run on any of these pipes
# with unchanged products. Emulation by several narrower products (bfloat16x9, Ozaki) is not in this table.
EXACT_PIPES: Mapping[str, tuple[str, ...]] = {
    "float64": ("float64",),
    "float32": ("float32", "float64"),
    "tf32": ("tf32", "float32", "float64"),
    "bfloat16": ("bfloat16", "tf32", "float32", "float64"),
    "float16": ("float16", "float16_acc32", "tf32", "float32", "float64"),
    "float16_acc32": ("float16_acc32", "tf32", "float32", "float64"),
    "float8": ("float8", "float8_acc32", "float16", "bfloat16", "tf32", "float32", "float64"),
    "float8_acc32": ("float8_acc32", "float16_acc32", "bfloat16", "tf32", "float32", "float64"),
    "float6": ("float6", "float8", "int8", "float16", "bfloat16", "tf32", "float32", "float64"),
    "float4": ("float4", "float6", "float8", "int8", "float16", "bfloat16", "tf32", "float32", "float64"),
    "int8": ("int8", "float16", "bfloat16", "tf32", "float32", "float64"),
    "int4": ("int4", "int8", "float6", "float8", "float16", "bfloat16", "tf32", "float32", "float64"),
    "uint8": ("int8", "float16", "bfloat16", "tf32", "float32", "float64"),
    "int16": ("float32", "int32", "float64"),
    "int32": ("int32", "float64"),
    "int64": ("int64", "int32", "float64"),
}
# A chip that does not list the key runs it at the rate of the value: only GeForce-like chips halve the rate when
# products are summed in float32.
_SAME_RATE_UNLESS_LISTED = {"float16_acc32": "float16", "float8_acc32": "float8"}

# A vector operation on the key may be done at the rate of any of these.
_EXACT_VECTORS: Mapping[str, tuple[str, ...]] = {
    "float64": ("float64",),
    "float32": ("float32", "float64"),
    "tf32": ("float32", "float64"),
    "bfloat16": ("bfloat16", "float32", "float64"),
    "float16": ("float16", "float32", "float64"),
    "int64": ("int64", "int32", "float64"),
    "int32": ("int32", "float64"),
}
_INTEGER_LANES_PER_32_BIT: Mapping[str, int] = {"int16": 2, "uint16": 2, "int8": 4, "uint8": 4, "bool": 4}


class UnknownPipe(ValueError):
    """A matmul pipe that no chip is described by."""

    def __init__(self, found: str) -> None:
        super().__init__(f"unknown matmul pipe {found!r}: expected one of {', '.join(EXACT_PIPES)}")
        self.found = found


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number in SI base units (FLOP/s, byte/s, byte, bit, bit/s, Hz, W) with where and when it comes from."""

    value: float
    unit: str
    source: str
    date: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak(Quantity):
    """A peak rate, and how the vendor derives it: units x flop_per_clock x clock.

    `printed` is the vendor's own figure (FLOP/s) and `printed_clock` the clock it assumes, where `value` is a higher
    ceiling than that.
    """

    flop_per_clock: float | None = None
    clock: str | None = None
    printed: float | None = None
    printed_clock: str | None = None
    note: str = ""

    @property
    def vendor_value(self) -> float:
        """The rate the vendor prints, in FLOP/s."""
        return self.value if self.printed is None else self.printed


@dataclass(frozen=True, slots=True, kw_only=True)
class OnChipLevel:
    """One level of on-chip memory, summed over the chip: `count` instances of `bytes_each`."""

    name: str
    bytes: Quantity
    bytes_each: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A chip. Rates count a fused multiply-add as 2 FLOP and are dense, never 2:4 sparse."""

    id: str
    name: str
    vendor: str
    architecture: str
    compute_units: Quantity
    clocks_hz: Mapping[str, Quantity]
    matmul_peak_flop_per_s: Mapping[str, Peak]
    vector_peak_flop_per_s: Mapping[str, Peak]
    bandwidth_bytes_per_s: Quantity
    printed_bandwidth_bytes_per_s: float | None
    capacity_bytes: Quantity
    bus_width_bits: Quantity | None
    data_rate_bits_per_s: Quantity | None
    on_chip: tuple[OnChipLevel, ...]
    tdp_w: Quantity | None
    notes: tuple[str, ...]

    @property
    def clock_hz(self) -> Quantity:
        """The highest clock that any rate of this chip assumes."""
        return max(self.clocks_hz.values(), key=lambda clock: clock.value)

    @property
    def on_chip_bytes(self) -> float:
        """All on-chip memory together: registers, shared memory and L1, every cache level."""
        return sum(level.bytes.value for level in self.on_chip)

    def matmul_peak(self, pipe: str) -> float:
        """Return the fastest rate, in FLOP/s, at which a contraction over `pipe`'s format can run without changing it.

        That is the best of every pipe whose format holds all values of `pipe` (a T4 has no bfloat16 pipe: float16
        lacks the range, so float32), matmul or vector. It never understates: a chip without any such pipe gets its
        fastest vector rate. Raises UnknownPipe.
        """
        if pipe not in EXACT_PIPES:
            raise UnknownPipe(pipe)
        if pipe in _SAME_RATE_UNLESS_LISTED and pipe not in self.matmul_peak_flop_per_s:
            return self.matmul_peak(_SAME_RATE_UNLESS_LISTED[pipe])
        rates = [
            peaks[wide].value
            for wide in EXACT_PIPES[pipe]
            for peaks in (self.matmul_peak_flop_per_s, self.vector_peak_flop_per_s)
            if wide in peaks
        ]
        return max(rates, default=self._fastest_vector)

    def vector_peak(self, dtype: str) -> float:
        """Return the fastest rate, in FLOP/s, of elementwise work on `dtype`; the chip's fastest for an unknown one.

        Narrow integers and booleans are packed two or four to a 32-bit integer lane.
        """
        if dtype in _EXACT_VECTORS:
            peaks = self.vector_peak_flop_per_s
            rates = [peaks[wide].value for wide in _EXACT_VECTORS[dtype] if wide in peaks]
            return max(rates, default=self._fastest_vector)
        return max(self._fastest_vector, _INTEGER_LANES_PER_32_BIT.get(dtype, 1) * self.vector_peak("int32"))

    @property
    def _fastest_vector(self) -> float:
        return max(peak.value for peak in self.vector_peak_flop_per_s.values())
