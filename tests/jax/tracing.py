"""`check(f, *arrays)`: record `f` as the agent does, lower it, run the interpreter, compare with what JAX gives."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sollens.analysis.execute.reference import run_all
from sollens.analysis.lower.lower import Lowered, lower
from sollens.analysis.trace.schema import Trace, from_json

BOOT = Path(__file__).parents[2] / "analysis" / "trace" / "agent" / "boot.py"


def agent(module: str) -> Any:
    """A module of the trace agent, in this process."""
    if "_sollens_trace" not in sys.modules:
        spec = importlib.util.spec_from_file_location("_sollens_boot", BOOT)
        assert spec is not None and spec.loader is not None
        boot = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(boot)
        boot.load_package()
    return importlib.import_module(f"_sollens_trace.{module}")


def record(f: Any, *arrays: Any) -> Trace:
    """The trace of a function of arrays."""
    recording, places, modules = agent("jaxpr.record"), agent("jaxpr.places"), agent("jaxpr.modules")
    frames = agent("frames").Frames(__file__)
    table = modules.Modules(frames)
    recorder = recording.Recorder(places.Places(frames), 10_000, table.row)
    structs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays]
    jaxpr = jax.make_jaxpr(lambda *xs: jax.tree_util.tree_leaves(f(*xs)))(*structs)
    args = [recorder.of_aval(s, "input", f"x{k}") for k, s in enumerate(structs)]
    ops: list[Any] = []
    outs = recorder.walk(jaxpr, args, ops, places.Context())
    outs = recorder.returned(outs, jaxpr.jaxpr.outvars, ops)
    ops = agent("jaxpr.finish").pruned(ops, outs)
    agent("jaxpr.finish").finish(ops)
    return from_json({
        "name": "f", "frontend": "jax", "tensors": recorder.tensors, "ops": ops, "outputs": {"tuple": outs},
        "spans": frames.spans, "modules": table.table, "schema": 1,
    })  # fmt: skip


def wide(value: Any) -> np.ndarray[Any, Any]:
    """As the interpreter holds it: small floats as float32; a key is its words."""
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.kind == "V" or array.dtype.name == "bfloat16" else array


def execute(lowered: Lowered, trace: Trace, arrays: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Every tensor of the program."""
    inputs = {lowered.names[k]: wide(a) for k, a in enumerate(arrays) if k in lowered.names}
    inputs |= dict(lowered.values)
    return dict(run_all(lowered.program, inputs))


def check(f: Any, *arrays: Any, partial: bool = False, tolerance: float | None = None) -> Lowered:
    """f, recorded, lowered and run, gives what JAX gives."""
    trace = record(f, *arrays)
    lowered = lower(trace)
    if not partial:
        assert not lowered.partial, [(p.operator, p.reason) for p in lowered.partial]
    values = execute(lowered, trace, arrays)
    expected = jax.tree_util.tree_leaves(f(*arrays))
    assert len(expected) == len(lowered.returned)
    for name, value in zip(lowered.returned, expected, strict=True):
        compare(values[name], wide(jnp.asarray(value)), tolerance, str(jnp.asarray(value).dtype))
    return lowered


def compare(found: Any, expected: Any, tolerance: float | None, dtype: str) -> None:
    """Equal within the dtype's rounding; integers and bools exactly."""
    assert found.shape == expected.shape, (found.shape, expected.shape)
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected)
        return
    bound = tolerance or {"float16": 4e-3, "bfloat16": 3e-2}.get(dtype, 3e-5)
    np.testing.assert_allclose(found, expected, rtol=bound, atol=bound)


def floats(*shape: int, seed: int = 0, dtype: Any = np.float32) -> jax.Array:
    """Normal values."""
    return jnp.asarray(np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)).astype(dtype)


def integers(*shape: int, high: int, low: int = 0, seed: int = 0) -> jax.Array:
    """Integers in [low, high)."""
    return jnp.asarray(np.random.default_rng(seed + sum(shape)).integers(low, high, shape).astype(np.int32))
