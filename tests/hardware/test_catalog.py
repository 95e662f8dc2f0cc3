"""Chips are found by id and alias; a wrong id or file says what was expected and what was found."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from sollens.hardware import catalog
from sollens.hardware.target import UnknownPipe

H100 = (catalog.TARGETS_DIRECTORY / "h100-sxm.toml").read_text(encoding="utf-8")


def test_an_alias_names_the_same_chip_in_any_case() -> None:
    assert catalog.load("H100") == catalog.load("h100-sxm")
    assert set(catalog.ALIASES.values()) <= set(catalog.ids())
    assert not set(catalog.ALIASES) & set(catalog.ids())


def test_an_unknown_chip_is_answered_with_the_nearest_and_all_valid_ids() -> None:
    with pytest.raises(catalog.UnknownTarget) as refused:
        catalog.load("h100-smx")
    message = str(refused.value)
    assert "'h100-smx'" in message
    assert "did you mean 'h100-sxm'?" in message
    assert all(target_id in message for target_id in catalog.ids())


def test_an_id_never_reaches_the_file_system() -> None:
    with pytest.raises(catalog.UnknownTarget):
        catalog.load("../targets/t4")


def test_loading_a_chip_takes_less_than_five_milliseconds() -> None:
    timings: list[float] = []
    for _ in range(5):
        start = time.perf_counter()
        catalog.load_file(catalog.TARGETS_DIRECTORY / "b200.toml")
        timings.append(time.perf_counter() - start)
    assert min(timings) < 5e-3


def test_the_catalog_imports_only_the_standard_library() -> None:
    script = (
        "import sys; before = set(sys.modules); import sollens.hardware.catalog; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before} - {'sollens'}; "
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_file_of_the_users_own_loads(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(H100.replace('id = "h100-sxm"', 'id = "mine"'), encoding="utf-8")
    mine = catalog.load_file(path)
    assert mine.id == "mine"
    assert mine.matmul_peak("float16") == pytest.approx(989.4e12)


@pytest.mark.parametrize(
    ("old", "new", "key", "found"),
    [
        ('vendor = "NVIDIA"', "", "vendor", "nothing"),
        ("value = 66.9", "value = -66.9", "matmul.float64.value", "-66.9"),
        ("value = 66.9", 'value = "66.9"', "matmul.float64.value", "'66.9'"),
        ('unit = "TFLOP/s"', 'unit = "TB/s"', "matmul.float64.unit", "'TB/s'"),
        ('unit = "TFLOP/s"', 'unit = "teraflops"', "matmul.float64.unit", "'teraflops'"),
        ('per_clock = 256, clock = "boost"', 'clock = "turbo"', "matmul.float64.clock", "'turbo'"),
        ("[vector]\nfloat64", "[vector]\nfp64", "vector.fp64", "'fp64'"),
        ("[memory]\n", "[memori]\n", "memory", "nothing"),
        ('source = "h100ds", printed', 'source = "wiki", printed', "memory.bandwidth.source", "'wiki'"),
        ("count = 132", "count = 1.5", "on_chip[0].count", "1.5"),
        ('date = "2022-03"', "", "sources.hopper.date", "nothing"),
        ("notes = [", "notes = 3\nothers = [", "notes", "3"),
        ('id = "h100-sxm"', "id = ", "file", "Invalid value"),
    ],
)
def test_a_wrong_file_says_which_key_and_what_was_found(
    tmp_path: Path, old: str, new: str, key: str, found: str
) -> None:
    assert old in H100
    path = tmp_path / "wrong.toml"
    path.write_text(H100.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(catalog.TargetFileError) as refused:
        catalog.load_file(path)
    assert refused.value.key == key
    assert str(refused.value).startswith(f"{path}: {key}: expected ")
    assert found in str(refused.value)


def test_a_missing_file_is_a_target_file_error(tmp_path: Path) -> None:
    with pytest.raises(catalog.TargetFileError):
        catalog.load_file(tmp_path / "absent.toml")


def test_a_missing_pipe_falls_back_to_the_fastest_exact_one() -> None:
    t4, a100, h100 = (catalog.load(target_id) for target_id in ("t4", "a100", "h100"))
    assert t4.matmul_peak("bfloat16") == t4.matmul_peak_flop_per_s["float32"].value
    assert t4.matmul_peak("tf32") == t4.matmul_peak_flop_per_s["float32"].value
    assert t4.matmul_peak("float64") == t4.vector_peak_flop_per_s["float64"].value
    assert a100.matmul_peak("float8") == a100.matmul_peak_flop_per_s["float16"].value
    assert h100.matmul_peak("float4") == h100.matmul_peak_flop_per_s["float8"].value
    assert catalog.load("tpu-v5e").matmul_peak("float8") == catalog.load("tpu-v5e").matmul_peak("bfloat16")


def test_float32_sums_cost_extra_only_where_the_chip_lists_it() -> None:
    geforce, h100 = catalog.load("rtx-4090"), catalog.load("h100")
    assert geforce.matmul_peak("float16_acc32") == geforce.matmul_peak("float16") / 2
    assert h100.matmul_peak("float16_acc32") == h100.matmul_peak("float16")


def test_an_unknown_pipe_lists_the_valid_ones() -> None:
    with pytest.raises(UnknownPipe, match="float16_acc32"):
        catalog.load("t4").matmul_peak("fp16")


def test_vector_work_runs_at_the_rate_of_its_format_or_a_wider_one() -> None:
    h100 = catalog.load("h100")
    assert h100.vector_peak("float16") == pytest.approx(133.8e12)
    assert h100.vector_peak("float32") == pytest.approx(66.9e12)
    assert h100.vector_peak("float64") == pytest.approx(33.5e12)
    assert h100.vector_peak("complex64") == pytest.approx(133.8e12)
    assert h100.vector_peak("bool") == 4 * h100.vector_peak("int32")
    assert catalog.load("tpu-v6e").vector_peak("float16") == catalog.load("tpu-v6e").vector_peak("float32")
