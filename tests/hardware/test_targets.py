"""The numbers of every chip: complete, sourced, dense, and what units x rate x clock gives."""

import re

import pytest

from sollens.hardware import catalog
from sollens.hardware.target import Peak, Target

CHIPS = [
    "a100-pcie",
    "a100-sxm",
    "a10g",
    "b200",
    "h100-pcie",
    "h100-sxm",
    "h200",
    "jetson-agx-orin",
    "jetson-thor-t5000",
    "l4",
    "l40s",
    "mi300x",
    "mi355x",
    "rtx-4090",
    "rtx-5090",
    "rtx-a6000",
    "t4",
    "tpu-v5e",
    "tpu-v5p",
    "tpu-v6e",
]

# Dense rates in TFLOP/s as the vendors print them, where public tables often hold the sparse one, a MAC rate or a
# rounded one.
PRINTED_DENSE = {
    "a100-sxm": {"float64": 19.5, "float32": 19.5, "tf32": 156, "float16": 312, "int8": 624},
    "b200": {"float32": 75, "tf32": 1100, "float16": 2250, "float8": 4500, "float4": 9000},
    "h100-pcie": {"float32": 51.2, "tf32": 378, "float16": 756, "float8": 1513},
    "h100-sxm": {"float32": 66.9, "tf32": 494.7, "float16": 989.4, "float8": 1978.9},
    "h200": {"float32": 66.9, "tf32": 494.7, "bfloat16": 989.4, "int8": 1978.9},
    "jetson-agx-orin": {"float32": 5.3, "int8": 85},
    "jetson-thor-t5000": {"float16": 258.5, "float8": 517, "float4": 1035},
    "l4": {"float32": 30.3, "float16": 121, "float8": 242.5},
    "l40s": {"float32": 91.6, "tf32": 183, "float16": 362.05, "float8": 733},
    "mi300x": {"float64": 163.4, "tf32": 653.7, "float16": 1307.4, "float8": 2614.9},
    "mi355x": {"float64": 78.6, "float16": 2516.6, "float8": 5033.2, "float4": 10066.3},
    "rtx-4090": {"float32": 82.6, "float16": 330.3, "bfloat16": 165.2, "float8": 660.6},
    "rtx-5090": {"float32": 104.8, "float16": 419, "bfloat16": 209.5, "float4": 1676},
    "rtx-a6000": {"float32": 38.7, "tf32": 77.4, "float16": 154.8, "bfloat16": 154.8, "int8": 309.7},
    "t4": {"float32": 8.1, "float16": 65, "int8": 130},
    "tpu-v5e": {"bfloat16": 197, "int8": 394},
    "tpu-v5p": {"bfloat16": 459, "int8": 918},
    "tpu-v6e": {"bfloat16": 918, "int8": 1836},
}
PRINTED_BANDWIDTH = {
    "a100-pcie": 1.935e12,
    "a100-sxm": 2.039e12,
    "a10g": 600e9,
    "b200": 8e12,
    "h100-pcie": 2e12,
    "h100-sxm": 3.35e12,
    "h200": 4.8e12,
    "jetson-agx-orin": 204.8e9,
    "jetson-thor-t5000": 273e9,
    "l4": 300e9,
    "l40s": 864e9,
    "mi300x": 5.3e12,
    "mi355x": 8e12,
    "rtx-4090": 1008e9,
    "rtx-5090": 1792e9,
    "rtx-a6000": 768e9,
    "t4": 320e9,
    "tpu-v5e": 819e9,
    "tpu-v5p": 2765e9,
    "tpu-v6e": 1600e9,
}
# Where the documented rate per clock of the chip is above what its vendor prints for the product: the note says why.
ABOVE_THE_PRINT = {
    ("a10g", "matmul.tf32"),
    ("a10g", "matmul.float16"),
    ("a10g", "matmul.int8"),
    ("a10g", "matmul.int4"),
    ("l40s", "matmul.int4"),
}

ALL = catalog.load_all()
PEAKS = [
    pytest.param(target, f"{kind}.{pipe}", peak, id=f"{target.id}-{kind}-{pipe}")
    for target in ALL
    for kind, peaks in (("matmul", target.matmul_peak_flop_per_s), ("vector", target.vector_peak_flop_per_s))
    for pipe, peak in peaks.items()
]
each_target = pytest.mark.parametrize("target", ALL, ids=lambda target: target.id)
each_peak = pytest.mark.parametrize(("target", "key", "peak"), PEAKS)


def derived(target: Target, peak: Peak, clock: str) -> float:
    assert peak.flop_per_clock is not None
    return target.compute_units.value * peak.flop_per_clock * target.clocks_hz[clock].value


def test_the_catalog_holds_the_chips_it_promises() -> None:
    assert catalog.ids() == tuple(CHIPS)
    assert [target.id for target in ALL] == CHIPS


@each_peak
def test_a_peak_is_units_times_rate_times_clock(target: Target, key: str, peak: Peak) -> None:
    assert peak.clock is not None, key
    assert peak.value == pytest.approx(derived(target, peak, peak.clock), rel=0.01), key
    # Half a unit in the fourth digit is the coarsest rounding of a print that is kept as the ceiling.
    assert peak.value >= derived(target, peak, peak.clock) * (1 - 5e-4), key


@each_peak
def test_a_ceiling_is_never_below_what_the_vendor_prints(target: Target, key: str, peak: Peak) -> None:
    assert peak.value >= peak.vendor_value, key
    if (target.id, key) not in ABOVE_THE_PRINT:
        assert peak.value <= peak.vendor_value * 1.3, f"{key} looks like a sparse rate"
    else:
        assert peak.note, key


@each_peak
def test_a_print_at_another_clock_is_derived_from_that_clock(target: Target, key: str, peak: Peak) -> None:
    if peak.printed_clock is not None:
        assert peak.printed is not None, key
        assert peak.printed == pytest.approx(derived(target, peak, peak.printed_clock), rel=0.01), key


@pytest.mark.parametrize("target_id", PRINTED_DENSE)
def test_no_peak_is_a_sparse_or_a_mac_rate(target_id: str) -> None:
    peaks = catalog.load(target_id).matmul_peak_flop_per_s
    for pipe, tera in PRINTED_DENSE[target_id].items():
        assert peaks[pipe].vendor_value == pytest.approx(tera * 1e12, rel=0.01), pipe


@each_target
def test_bandwidth_is_bus_width_times_data_rate(target: Target) -> None:
    if target.bus_width_bits is None or target.data_rate_bits_per_s is None:
        assert target.vendor == "Google"
        return
    derived_bandwidth = target.bus_width_bits.value * target.data_rate_bits_per_s.value / 8
    assert target.bandwidth_bytes_per_s.value == pytest.approx(derived_bandwidth, rel=1e-3)


@each_target
def test_bandwidth_is_the_vendors_or_a_little_more(target: Target) -> None:
    assert 1 <= target.bandwidth_bytes_per_s.value / PRINTED_BANDWIDTH[target.id] < 1.03
    if target.printed_bandwidth_bytes_per_s is not None:
        assert target.printed_bandwidth_bytes_per_s == PRINTED_BANDWIDTH[target.id]


@each_target
def test_every_number_names_its_unit_source_and_date(target: Target) -> None:
    quantities = [
        target.compute_units,
        target.bandwidth_bytes_per_s,
        target.capacity_bytes,
        *target.clocks_hz.values(),
        *target.matmul_peak_flop_per_s.values(),
        *target.vector_peak_flop_per_s.values(),
        *(level.bytes for level in target.on_chip),
        *(q for q in (target.bus_width_bits, target.data_rate_bits_per_s, target.tdp_w) if q is not None),
    ]
    for quantity in quantities:
        assert quantity.unit
        assert len(quantity.source) > 10
        assert re.fullmatch(r"20\d\d-[01]\d(-[0-3]\d)?", quantity.date)


@each_target
def test_narrower_formats_are_never_slower(target: Target) -> None:
    peaks = target.matmul_peak_flop_per_s
    order = ("float64", "float32", "tf32", "bfloat16", "float8", "float6", "float4")
    rates = [peaks[pipe].value for pipe in order if pipe in peaks and not (pipe == "float64" and "mi3" in target.id)]
    assert rates == sorted(rates)
    effective = [target.matmul_peak(pipe) for pipe in order[1:]]
    assert effective == sorted(effective)


@each_target
def test_the_ridge_points_are_those_of_a_real_chip(target: Target) -> None:
    bandwidth = target.bandwidth_bytes_per_s.value
    assert 50 < target.matmul_peak("bfloat16") / bandwidth < 1000 or target.id == "t4"
    assert 5 < target.vector_peak("float32") / bandwidth < 150
    assert 5e6 < target.on_chip_bytes < 1e9
    assert target.on_chip_bytes < target.capacity_bytes.value / 50


@each_target
def test_on_chip_levels_are_instances_times_size(target: Target) -> None:
    for level in target.on_chip:
        assert level.bytes.value == level.bytes_each * level.count
    assert target.on_chip_bytes == sum(level.bytes.value for level in target.on_chip)
