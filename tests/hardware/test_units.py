"""Numbers are shown with three significant digits, the right prefix, and never a bound rounded up."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sollens.hardware import units

TIMES = st.floats(min_value=1e-12, max_value=1e5)
AMOUNTS = st.floats(min_value=1e-3, max_value=1e20)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "free"),
        (41.2e-6, "41.2 µs"),
        (1.03e-3, "1.03 ms"),
        (999.96e-6, "1.00 ms"),
        (999.4e-6, "999 µs"),
        (1.0, "1.00 s"),
        (12345.0, "12300 s"),
        (2.5e-13, "0.250 ps"),
        (-41.2e-6, "-41.2 µs"),
        (math.inf, "∞ s"),
        (math.nan, "? s"),
    ],
)
def test_a_time_has_three_digits_and_the_prefix_that_fits(seconds: float, shown: str) -> None:
    assert units.format_seconds(seconds) == shown


def test_a_bound_is_rounded_down_and_free_work_is_said_to_be_free() -> None:
    assert units.format_bound_seconds(41.29e-6) == "≥ 41.2 µs"
    assert units.format_bound_seconds(999.96e-6) == "≥ 999 µs"
    assert units.format_bound_seconds(0.0) == "free"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (units.format_bytes(7.449e9), "7.45 GB"),
        (units.format_bytes(512), "512 B"),
        (units.format_bytes(0), "0 B"),
        (units.format_flop(2.048e12), "2.05 TFLOP"),
        (units.format_macs(1.024e9), "1.02 GMAC"),
        (units.format_count(1_024_000_000), "1.02 G"),
        (units.format_count(17), "17"),
        (units.format_count(0), "0"),
        (units.format_rate(989.4e12, "FLOP/s"), "989 TFLOP/s"),
        (units.format_rate(3.3524e12, "byte/s"), "3.35 TB/s"),
        (units.format_rate(1.98e9, "Hz"), "1.98 GHz"),
        (units.format_ratio(2.04), "2.04×"),
        (units.format_ratio(12.34), "12.3×"),
        (units.format_ratio(5000), "5.00k×"),
        (units.format_percent(0.1234), "12.3 %"),
        (units.format_percent(1), "100 %"),
        (units.format_percent(math.nan), "? %"),
        (units.format_intensity(295.13), "295 FLOP/B"),
        (units.format_decade(1e11, "FLOP/s"), "100 GFLOP/s"),
        (units.format_decade(1e15, "FLOP/s"), "1 PFLOP/s"),
        (units.format_decade(1e4), "10000"),
        (units.format_decade(0.01), "0.01"),
        (units.format_intensity(1086.4), "1090 FLOP/B"),
        (units.format_intensity(0.0833), "0.0833 FLOP/B"),
    ],
)
def test_each_kind_of_number_has_its_unit(shown: str, expected: str) -> None:
    assert shown == expected


@pytest.mark.parametrize(
    ("prefix", "factor"), [("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15), ("E", 1e18)]
)
def test_every_large_prefix_is_a_thousand_times_the_one_before(prefix: str, factor: float) -> None:
    assert units.parse_quantity(f"1 {prefix}FLOP/s") == (factor, "FLOP/s")
    assert units.format_rate(factor, "FLOP/s") == f"1.00 {prefix}FLOP/s"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2ms", 2e-3),
        ("2 ms", 2e-3),
        ("41.2µs", 41.2e-6),
        ("41.2us", 41.2e-6),
        ("5 ns", 5e-9),
        ("1.5s", 1.5),
        ("1e-3 s", 1e-3),
        ("2 min", 120.0),
        ("0s", 0.0),
    ],
)
def test_durations_parse(text: str, value: float) -> None:
    assert units.parse_seconds(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "2", "ms", "2 parsecs", "2 GB", "-2ms", "2mms", "1e999 s", "two ms"])
def test_what_is_no_duration_is_refused_with_what_was_found(text: str) -> None:
    with pytest.raises(units.UnitError) as refused:
        units.parse_seconds(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3.35 TB/s", (3.35e12, "byte/s")),
        ("900 GB/s", (9e11, "byte/s")),
        ("6.4 Gbit/s", (6.4e9, "bit/s")),
        ("228 KiB", (228 * 1024.0, "byte")),
        ("50 MiB", (50 * 1024.0**2, "byte")),
        ("80 GB", (8e10, "byte")),
        ("989.4 TFLOPS", (989.4e12, "FLOP/s")),
        ("4 GMAC", (4e9, "MAC")),
        ("1980 MHz", (1.98e9, "Hz")),
    ],
)
def test_quantities_parse_to_base_units(text: str, value: tuple[float, str]) -> None:
    number, unit = units.parse_quantity(text)
    assert unit == value[1]
    assert number == pytest.approx(value[0])


@given(TIMES)
def test_a_shown_time_is_within_half_a_percent(seconds: float) -> None:
    assert units.parse_seconds(units.format_seconds(seconds)) == pytest.approx(seconds, rel=0.005)


@given(TIMES)
def test_a_shown_bound_is_never_above_the_bound(seconds: float) -> None:
    shown = units.parse_seconds(units.format_bound_seconds(seconds).removeprefix("≥ "))
    assert shown <= seconds * (1 + 1e-12)
    assert shown == pytest.approx(seconds, rel=0.01)


@pytest.mark.parametrize(
    ("error", "shown"),
    [(0.0, "0"), (3e-7, "3e-7"), (3.2e-7, "4e-7"), (9.5e-8, "1e-7"), (0.02, "2e-2"), (math.inf, "∞")],
)
def test_a_relative_error_is_shown_with_one_digit_rounded_up(error: float, shown: str) -> None:
    assert units.format_error(error) == shown


@given(TIMES, TIMES)
def test_a_longer_time_is_never_shown_as_shorter(first: float, second: float) -> None:
    low, high = sorted((first, second))
    shown = [units.parse_seconds(units.format_seconds(seconds)) for seconds in (low, high)]
    assert shown[0] <= shown[1] * (1 + 1e-12)


@given(AMOUNTS)
def test_shown_bytes_and_rates_parse_back(amount: float) -> None:
    for shown in (units.format_bytes(amount), units.format_rate(amount, "FLOP/s"), units.format_macs(amount)):
        assert units.parse_quantity(shown)[0] == pytest.approx(amount, rel=0.005)


@given(TIMES)
def test_formatting_what_was_parsed_changes_nothing(seconds: float) -> None:
    shown = units.format_seconds(seconds)
    assert units.format_seconds(units.parse_seconds(shown)) == shown
