"""The one place that formats and parses numbers with units.

Shown numbers have three significant digits and an SI prefix; bytes are decimal (1 GB = 10^9 byte), as vendors print
memory bandwidth. Inside the product everything is in base units: s, byte, FLOP, MAC, FLOP/s, byte/s, Hz, bit, W.
"""

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Literal

Rounding = Literal["nearest", "down", "up"]

_ROUNDINGS = {"nearest": ROUND_HALF_EVEN, "down": ROUND_FLOOR, "up": ROUND_CEILING}
_LARGE_PREFIXES = ((18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k"), (0, ""))
_SMALL_PREFIXES = ((-3, "m"), (-6, "µ"), (-9, "n"), (-12, "p"))
_SECOND_PREFIXES = ((0, ""), *_SMALL_PREFIXES)

_PREFIX_FACTORS = {
    "": 1.0,
    "p": 1e-12,
    "n": 1e-9,
    "µ": 1e-6,
    "u": 1e-6,
    "m": 1e-3,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}
# Longest spelling first, so that "FLOP/s" is not read as "FLOP" and "byte/s" not as "byte".
_BASE_UNITS = {
    "FLOP/s": ("FLOP/s", 1.0),
    "FLOPS": ("FLOP/s", 1.0),
    "OP/s": ("FLOP/s", 1.0),
    "OPS": ("FLOP/s", 1.0),
    "byte/s": ("byte/s", 1.0),
    "B/s": ("byte/s", 1.0),
    "bit/s": ("bit/s", 1.0),
    "b/s": ("bit/s", 1.0),
    "FLOP": ("FLOP", 1.0),
    "MAC": ("MAC", 1.0),
    "byte": ("byte", 1.0),
    "bit": ("bit", 1.0),
    "Hz": ("Hz", 1.0),
    "min": ("s", 60.0),
    "B": ("byte", 1.0),
    "W": ("W", 1.0),
    "s": ("s", 1.0),
}
_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S*)\s*")


class UnitError(ValueError):
    """A text or unit that cannot be read as the quantity that was expected."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"expected {expected}, found {found!r}")
        self.expected = expected
        self.found = found


def to_base_unit(value: float, unit: str) -> tuple[float, str]:
    """Return `value` in the base unit of `unit`, and that base unit.

    >>> to_base_unit(3.35, "TB/s")
    (3350000000000.0, 'byte/s')
    """
    for spelling, (base, factor) in _BASE_UNITS.items():
        if unit.endswith(spelling):
            prefix = unit[: -len(spelling)]
            if prefix in _PREFIX_FACTORS:
                return value * _PREFIX_FACTORS[prefix] * factor, base
    raise UnitError("a number's unit such as TFLOP/s, GB/s, MiB, MHz or ms", unit)


def parse_quantity(text: str, base_unit: str | None = None) -> tuple[float, str]:
    """Read "3.35 TB/s" as (3.35e12, "byte/s"); with `base_unit`, refuse any other kind of quantity."""
    expected = f"a number with a unit of {base_unit}" if base_unit else "a number with a unit"
    match = _NUMBER.fullmatch(text)
    if match is None or not match[2]:
        raise UnitError(expected, text)
    try:
        value, base = to_base_unit(float(match[1].replace("_", "")), match[2])
    except UnitError:
        raise UnitError(expected, text) from None
    if base_unit is not None and base != base_unit:
        raise UnitError(expected, text)
    return value, base


def parse_seconds(text: str) -> float:
    """Read a duration such as "2ms", "41.2 µs" or "1.5 s" as seconds; it must be finite and not negative.

    >>> parse_seconds("2ms")
    0.002
    """
    value, _ = parse_quantity(text, "s")
    if not math.isfinite(value) or value < 0:
        raise UnitError("a duration such as 2ms, 41.2 µs or 1.5 s", text)
    return value


def format_seconds(seconds: float, rounding: Rounding = "nearest") -> str:
    """Show a time: "41.2 µs", "1.03 ms", and "free" for exactly 0."""
    if seconds == 0:
        return "free"
    return _with_prefix(seconds, "s", _SECOND_PREFIXES, rounding)


def format_bound_seconds(seconds: float) -> str:
    """Show a lower bound on time: "≥ 41.2 µs", rounded down so that the shown statement is true too."""
    text = format_seconds(seconds, "down")
    return text if text == "free" else f"≥ {text}"


def format_bytes(count: float, rounding: Rounding = "nearest") -> str:
    """Show a number of bytes in decimal units: "7.45 GB"."""
    return _whole_or_prefixed(count, "B", rounding)


def format_flop(count: float, rounding: Rounding = "nearest") -> str:
    """Show a number of floating-point operations: "2.05 TFLOP"."""
    return _whole_or_prefixed(count, "FLOP", rounding)


def format_macs(count: float, rounding: Rounding = "nearest") -> str:
    """Show a number of multiply-accumulates: "1.02 GMAC"."""
    return _whole_or_prefixed(count, "MAC", rounding)


def format_count(count: float, rounding: Rounding = "nearest") -> str:
    """Show a bare count: "1.02 G", "17"."""
    return _whole_or_prefixed(count, "", rounding)


def format_rate(per_second: float, unit: str, rounding: Rounding = "nearest") -> str:
    """Show a rate in base unit `unit` ("FLOP/s", "byte/s", "Hz"): "989 TFLOP/s", "3.35 TB/s"."""
    return _with_prefix(per_second, "B/s" if unit == "byte/s" else unit, _LARGE_PREFIXES, rounding)


def format_intensity(flop_per_byte: float, rounding: Rounding = "nearest") -> str:
    """Show an arithmetic intensity: "295 FLOP/B"; without a prefix, as it is compared with others: "1090 FLOP/B"."""
    return _with_prefix(flop_per_byte, "FLOP/B", ((0, ""),), rounding)


def format_decade(value: float, unit: str = "") -> str:
    """Show a power of ten for the label of an axis: "100 GFLOP/s"; without a unit, or below one, no prefix: "0.1"."""
    exponent = round(math.log10(value))
    if not unit or exponent < 0:
        return f"{Decimal(10) ** exponent:f} {unit}".rstrip()
    power, prefix = next(entry for entry in _LARGE_PREFIXES if exponent >= entry[0])
    return f"{10 ** (exponent - power)} {prefix}{unit}"


def format_load(amount: float, unit: str, peak_per_s: float, time_s: float) -> tuple[str, str, str]:
    """A resource's work ("byte" or "FLOP"), peak and least time, which is rounded down as a bound is."""
    work = format_bytes(amount) if unit == "byte" else format_flop(amount)
    return work, format_rate(peak_per_s, f"{unit}/s"), format_seconds(time_s, "down")


def format_ratio(ratio: float, rounding: Rounding = "nearest") -> str:
    """Show a factor: "2.04×"."""
    return _with_prefix(ratio, "", _LARGE_PREFIXES, rounding).replace(" ", "") + "×"


def format_percent(share: float, rounding: Rounding = "nearest") -> str:
    """Show a share of one as a percentage: 0.1234 is "12.3 %"."""
    if not math.isfinite(share):
        return f"{_non_finite(share)} %"
    return f"{_digits(_significant(_exact(share) * 100, rounding))} %"


def format_error(relative: float) -> str:
    """Show a relative error to one digit, rounded up: "3e-7", "0"."""
    if relative == 0 or not math.isfinite(relative):
        return "0" if relative == 0 else _non_finite(relative)
    exponent = math.floor(math.log10(abs(relative)))
    digit = math.ceil(round(relative / 10.0**exponent, 6))
    return f"1e{exponent + 1}" if digit == 10 else f"{digit}e{exponent}"


def _whole_or_prefixed(count: float, unit: str, rounding: Rounding) -> str:
    """Counts below a thousand are whole numbers when they are whole: "17 B", not "17.0 B"."""
    if abs(count) < 1000 and count == int(count):
        return f"{int(count)} {unit}".rstrip()
    return _with_prefix(count, unit, _LARGE_PREFIXES, rounding)


def _exact(value: float) -> Decimal:
    """Return the shortest decimal that reads as this float; rounding it is exact, so 999.96 rolls over to 1000."""
    return Decimal(repr(float(value)))


def _with_prefix(value: float, unit: str, prefixes: tuple[tuple[int, str], ...], rounding: Rounding) -> str:
    if not math.isfinite(value):
        return f"{_non_finite(value)} {unit}".rstrip()
    shown = _significant(_exact(value), rounding)
    if shown == 0:
        return f"0 {unit}".rstrip()
    fitting = (entry for entry in prefixes if abs(shown) >= Decimal(1).scaleb(entry[0]))
    exponent, prefix = next(fitting, prefixes[-1])
    return f"{_digits(shown.scaleb(-exponent))} {prefix}{unit}".rstrip()


def _significant(value: Decimal, rounding: Rounding) -> Decimal:
    if value == 0:
        return Decimal(0)
    return value.quantize(Decimal(1).scaleb(value.adjusted() - 2), rounding=_ROUNDINGS[rounding])


def _digits(value: Decimal) -> str:
    """Write out a number that was already rounded to three significant digits."""
    if value == 0:
        return "0"
    if not -4 <= value.adjusted() < 6:
        return f"{value:.2e}"
    return f"{value:.{max(0, 2 - value.adjusted())}f}"


def _non_finite(value: float) -> str:
    if math.isnan(value):
        return "?"
    return "∞" if value > 0 else "-∞"
