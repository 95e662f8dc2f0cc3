"""The problems of benchmarks/llm as tasks, with hand-made programs: right ones, and wrong ones made from them."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from functools import cache
from pathlib import Path

from sollens.analysis.cache import Cache
from sollens.analysis.llm.task import Task, case_of, random_inputs, small_sizes
from sollens.analysis.source import described
from sollens.analysis.source.discover import discover
from sollens.analysis.source.model import Target
from sollens.analysis.translating import Translator, Where

ROOT = Path(__file__).parent.parent.parent / "benchmarks" / "llm"
PROBLEMS = ROOT / "problems"
NAMES = tuple(sorted(p.stem for p in PROBLEMS.iterdir() if p.is_file() and p.stem != "references"))

# (problem, what is replaced in the right program, by what): one plausible mistake each.
WRONG = (
    ("triton_softmax", "x[r, c] * 0.125", "x[r, c]"),
    ("triton_softmax", "sum[c:C] numerator[r, c]", "max[c:C] numerator[r, c]"),
    ("triton_softmax", "y[r:R, c:C]: f16", "y[r:R, c:C]: f32"),
    ("triton_matmul", "0.01 * biased", "0.1 * biased"),
    ("triton_matmul", "+ bias[n]", ""),
    ("triton_rope", "+ q[b, t, h, d - D//2]", "- q[b, t, h, d - D//2]"),
    ("triton_rope", "cos(angle[t, d - D//2])", "cos(angle[t, D - 1 - d])"),
    ("cuda_stencil", "1 <= j < W - 1", "1 <= j < W - 2"),
    ("cuda_stencil", "u[i, j - 1] + u[i, j + 1]", "u[i, j - 1] + u[i, j - 1]"),
    ("cuda_reduction", "abs(x[256*b + t])", "x[256*b + t]"),
    ("cuda_reduction", "sum[t:256]", "sum[t:255]"),
    ("numpy_einsum", "scan sum[i]", "scan sum[j]"),
    ("numpy_einsum", "(sqrt(var[b, i]) + 1e-6)", "sqrt(var[b, i] + 1e-2)"),
    ("torch_missing_import", "sigmoid(g[b, t, f]) * u", "sigmoid(u[b, t, f]) * u"),
    ("torch_missing_import", "x[b, t, d] + down", "down"),
    ("jax_recurrence", "sqrt(1.0 - gate[b, d] * gate[b, d])", "(1.0 - gate[b, d])"),
    ("jax_recurrence", "inner=h_new", "inner=gate"),
    ("c_loop_nest", "* w[r, s", "* w[s, r"),
    ("c_loop_nest", "6.0", "1.0"),
    ("cpp_conv", "argmax[t:4]", "argmin[t:4]"),
    ("cpp_conv", "2*i + t // 2, 2*j + t % 2", "2*i + t % 2, 2*j + t // 2"),
    ("cpp_upsample", "(1.0 - a[i]) * top", "a[i] * top"),
    ("pseudo_knn", "largest=false", "largest=true"),
    ("pseudo_knn", "sum[f:D]", "sum[f:D - 1]"),
    ("numpy_histogram", "maximum(count[s], 1.0)", "(count[s] + 1.0)"),
    ("numpy_histogram", "index_add(zero,", "index_add(zero2,"),
)


def right(name: str) -> str:
    """The hand-made program of a problem."""
    return (ROOT / "reference_trial" / "first" / f"{name}.ir").read_text(encoding="utf-8")


def wrong(name: str, old: str, new: str) -> str:
    """The program with a mistake."""
    text = right(name)
    assert old in text, (name, old)
    return text.replace(old, new)


def source_file(name: str) -> Path:
    """The problem's source."""
    return next(p for p in PROBLEMS.iterdir() if p.stem == name)


def target_of(path: Path) -> Target:
    """The one target of a problem."""
    text = path.read_text(encoding="utf-8")
    found = discover(text, path) if path.suffix == ".py" else described.discover(text, path)
    assert not found.problems
    (target,) = found.targets
    return target


@cache
def task(name: str) -> Task:
    """The problem as a task, with what its reference gives at small sizes (run here: it is our own code)."""
    path = source_file(name)
    target = target_of(path)
    assert target.shapes is not None
    function = target.shapes.golden.rpartition(":")[2]
    bare = replace(target, shapes=replace(target.shapes, golden="", llm=True))
    where = Where(
        path=path, text=path.read_text(encoding="utf-8"), root=None, interpreter=sys.executable, deadline_s=30.0,
        memory_bytes=2**31,
    )  # fmt: skip
    found = Translator(Cache(enabled=False)).task(bare, (bare,), where, threading.Event())
    inputs = random_inputs(found.arguments, small_sizes(found.symbols), 20)
    given = getattr(_references(), function)(**inputs)
    outputs = given if isinstance(given, tuple) else (given,)
    arrays = {**inputs, **{f"result {k}": value for k, value in enumerate(outputs)}}
    return replace(found, case=case_of(arrays, found.arguments, found.symbols, f"references.py:{function}"))


@cache
def _references() -> object:
    import importlib.util

    spec = importlib.util.spec_from_file_location("references", PROBLEMS / "references.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
