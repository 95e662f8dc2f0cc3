"""Kernels on disk: shared by processes, written at once, ignored when damaged, foreign or open to others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sollens.analysis.execute.compiled import disk
from sollens.analysis.execute.compiled.build import Code

PROGRAM = """program p(N=1000)
  input x: f32[N, N]
  a[i:N, j:N]: f32 = exp(x[i, j]) * 2.0 + x[j, i]
  b[i:N]: f32 = sum[j:N] a[i, j]
  c[i:N]: i64 = argmax[j:N] a[i, j]
  output b, c
"""
CHILD = """
import sys
import numpy as np
from sollens.analysis.execute.compiled import executor, kernels, plan
from sollens.analysis.ir.text_parse import parse
plan.COMPILE_S = -1
x = np.arange(10**6, dtype=np.float32).reshape(1000, 1000) % 7
found = executor.run(parse(sys.argv[1])[0], {"x": x})
a = np.exp(x) * 2 + x.T
assert np.allclose(found["b"], a.sum(1)) and (found["c"] == a.argmax(1)).all()
print(kernels.counters.compiled, kernels.counters.loaded, kernels.counters.refused, "numba" in sys.modules)
"""


def start(cache: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "SOLLENS_CACHE_DIR": str(cache)}
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, PROGRAM],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> list[str]:
    out, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    return out.split()


def kernels_in(cache: Path) -> list[Path]:
    return sorted(p for p in (cache / "kernels").rglob("*") if p.is_file())


@pytest.mark.slow
def test_processes_share_what_was_compiled(tmp_path: Path) -> None:
    both = [start(tmp_path), start(tmp_path)]
    results = [finish(p) for p in both]
    assert all(r[2] == "0" for r in results)
    assert len(kernels_in(tmp_path)) == 3, "one file a kernel, no remains"
    assert finish(start(tmp_path)) == ["0", "3", "0", "False"], "a later process reads all, and never imports Numba"
    first, second, third = kernels_in(tmp_path)
    first.write_bytes(first.read_bytes()[:-100])  # cut short
    second.write_bytes(os.urandom(5000))  # something else
    third.write_bytes(b"")
    assert finish(start(tmp_path))[:3] == ["3", "0", "0"]
    assert finish(start(tmp_path))[:3] == ["0", "3", "0"]


def keep(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Path:
    monkeypatch.setenv("SOLLENS_CACHE_DIR", str(cache))
    disk.write("ab12", CODE)
    return cache / "kernels" / "ab" / "ab12"


CODE = Code("symbol", ("expf",), b"object\ncode")


def test_an_entry_reads_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keep(monkeypatch, tmp_path)
    assert disk.read("ab12") == CODE
    assert disk.read("ab13") is None


def test_an_entry_under_another_name_is_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = keep(monkeypatch, tmp_path)
    path.rename(path.with_name("ab99"))
    assert disk.read("ab99") is None


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_what_others_may_write_is_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = keep(monkeypatch, tmp_path)
    assert (tmp_path / "kernels").stat().st_mode & 0o777 == 0o700
    path.chmod(0o666)
    assert disk.read("ab12") is None
    path.chmod(0o600)
    assert disk.read("ab12") == CODE
    (tmp_path / "kernels").chmod(0o777)
    assert disk.read("ab12") is None


def test_a_folder_that_cannot_be_written_keeps_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "kernels").write_text("a file in the way")
    keep(monkeypatch, tmp_path)
    assert disk.read("ab12") is None


def test_keys_depend_on_the_text_the_types_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {disk.key("a", ("f32",)), disk.key("b", ("f32",)), disk.key("a", ("f64",))}
    monkeypatch.setattr(disk, "environment", lambda: "another processor")
    assert len(keys | {disk.key("a", ("f32",))}) == 4
