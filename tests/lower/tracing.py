"""A small in-process recorder: `record(f, *inputs)` runs f and records every ATen operator as a `schema.Trace`.

`check(f, *inputs)` records, lowers, executes with the reference interpreter and compares every output (and every input
that was
updated in place) with what torch computed.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sollens.analysis.lower.lower import Lowered, lower
from sollens.analysis.trace.schema import CONSTANT, INPUT, INTERMEDIATE, PARAMETER, Op, Tensor, Trace

DTYPES = {
    torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64", torch.complex64: "c64",
    torch.complex128: "c128",
}  # fmt: skip


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """bf16 as float32, as the interpreter holds it."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).resolve_conj().numpy().copy()


@dataclass
class Recording:
    trace: Trace
    arrays: dict[int, np.ndarray]  # contents of external tensors at first sight, by tensor id
    returned: list[torch.Tensor]
    mutated: dict[int, torch.Tensor] = field(default_factory=dict)


class Recorder(TorchDispatchMode):
    """Records into `ops` and `tensors`; external tensors keep their contents in `arrays`."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[Op] = []
        self.tensors: list[Tensor] = []
        self.arrays: dict[int, np.ndarray] = {}
        self.mutated: dict[int, torch.Tensor] = {}
        self._ids: dict[int, int] = {}
        self._alive: list[torch.Tensor] = []
        self._storages: dict[int, int] = {}

    def tensor(self, t: torch.Tensor, kind: str, name: str = "") -> int:
        if id(t) in self._ids:
            return self._ids[id(t)]
        number = self._ids[id(t)] = len(self.tensors)
        self._alive.append(t)
        storage = self._storages.setdefault(t.untyped_storage()._cdata, len(self._storages))
        self.tensors.append(
            Tensor(number, DTYPES[t.dtype], list(t.shape), storage, kind, name, list(t.stride()), t.storage_offset())
        )
        if kind != INTERMEDIATE and not isinstance(t, torch._subclasses.FakeTensor):
            array = self.arrays[number] = to_numpy(t)
            if kind == CONSTANT and t.dtype != torch.bfloat16:
                data = base64.b64encode(array.tobytes()).decode()
                self.tensors[-1].values = {"dtype": DTYPES[t.dtype], "data": data}
        return number

    def encode(self, value: Any, kind: str) -> Any:
        if isinstance(value, torch.Tensor):
            return {"tensor": self.tensor(value, kind)}
        if isinstance(value, torch.dtype):
            return {"dtype": DTYPES[value]}
        if isinstance(value, list | tuple):
            return [self.encode(v, kind) for v in value]
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": str(value)}
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        return {"opaque": repr(value)}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        encoded = [self.encode(a, CONSTANT) for a in args]
        named = {k: self.encode(v, CONSTANT) for k, v in kwargs.items()}
        mutates = []
        for k, a in enumerate(func._schema.arguments):
            if a.alias_info is not None and a.alias_info.is_write:
                t = args[k] if k < len(args) else kwargs.get(a.name)
                for one in t if isinstance(t, list | tuple) else [t]:
                    if one is not None:
                        mutates.append(self.tensor(one, CONSTANT))
                        self.mutated[mutates[-1]] = one
        result = func(*args, **kwargs)
        outputs = self.encode(result, INTERMEDIATE)
        self.ops.append(Op(f"aten.{func._schema.name.split('::')[1]}.{func._overloadname}", encoded, named, outputs,
                           mutates=mutates, view=func.is_view))  # fmt: skip
        return result


def flatten(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [t for v in value for t in flatten(v)]
    return []


def record(f, *inputs: Any, parameters: dict[str, torch.Tensor] | None = None) -> Recording:
    """Run `f(*inputs)` (under no_grad) and record it."""
    recorder = Recorder()
    for k, t in enumerate(inputs):
        if isinstance(t, torch.Tensor):
            recorder.tensor(t, INPUT, f"x{k}")
    for name, t in (parameters or {}).items():
        recorder.tensor(t, PARAMETER, name)
    with torch.no_grad(), recorder:
        result = f(*inputs)
    outputs = recorder.encode(result, CONSTANT)
    trace = Trace("f", "torch", recorder.tensors, recorder.ops, outputs, [], [])
    return Recording(trace, recorder.arrays, flatten(result), recorder.mutated)


def execute(lowered: Lowered, recording: Recording) -> dict[str, np.ndarray]:
    """Every tensor of the program, by the reference interpreter."""
    from sollens.analysis.execute.reference import run_all

    kinds = {t.id: t.kind for t in recording.trace.tensors}
    inputs = {
        lowered.names[number]: array
        for number, array in recording.arrays.items()
        if number in lowered.names and kinds[number] != INTERMEDIATE
    }
    return dict(run_all(lowered.program, inputs))


def check(f, *inputs: Any, partial: bool = False, tolerance: float | None = None) -> Lowered:
    """f, lowered and executed, gives what torch gives."""
    recording = record(f, *inputs)
    lowered = lower(recording.trace)
    if not partial:
        assert not lowered.partial, [(p.operator, p.reason) for p in lowered.partial]
    values = execute(lowered, recording)
    assert len(lowered.returned) == len(recording.returned)
    for name, expected in zip(lowered.returned, recording.returned, strict=True):
        compare(values[name], expected, tolerance)
    return lowered


def compare(found: np.ndarray, expected: torch.Tensor, tolerance: float | None = None) -> None:
    """Equal within the dtype's rounding; integers and bools exactly."""
    wanted = to_numpy(expected)
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(found, wanted)
        return
    epsilon = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 2e-5, torch.float64: 1e-11}.get(
        expected.dtype, 2e-5
    )
    bound = tolerance or epsilon
    np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound)
