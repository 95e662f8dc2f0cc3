"""Decoding the JSON values of a trace: arguments of operators, tensor ids, recorded contents."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from sollens.analysis.lower.builder import Value
from sollens.analysis.trace.schema import Tensor

_NUMPY = {
    "bool": "?", "u8": "u1", "i8": "i1", "u16": "<u2", "i16": "<i2", "u32": "<u4", "i32": "<i4", "u64": "<u8", "i64":
    "<i8",
    "f16": "<f2", "f32": "<f4", "f64": "<f8", "c64": "<c8", "c128": "<c16",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Opaque:
    """An argument that is no tensor, number, dtype or text: a device, a layout, a generator."""

    text: str


def tensor_ids(*values: Any) -> list[int]:
    """Ids of the tensors in JSON values of the trace, in order."""
    found: list[int] = []
    for value in values:
        _collect(value, found)
    return found


def _collect(value: Any, found: list[int]) -> None:
    if isinstance(value, dict):
        mapping = cast(dict[str, Any], value)
        if "tensor" in mapping:
            found.append(mapping["tensor"])
        else:
            for inner in mapping.values():
                _collect(inner, found)
    elif isinstance(value, list):
        for inner in cast(list[Any], value):
            if isinstance(inner, dict | list):
                _collect(inner, found)


def output_slots(value: Any) -> list[int | None]:
    """One entry per output, flat: a tensor id, or None where the operator gave something else."""
    if isinstance(value, list):
        return [slot for inner in cast(list[Any], value) for slot in output_slots(inner)]
    if isinstance(value, dict):
        mapping = cast(dict[str, Any], value)
        if "tensor" in mapping:
            return [mapping["tensor"]]
        if "tuple" in mapping:
            return output_slots(mapping["tuple"])
    return [None]


def decode(value: Any, resolve: Callable[[int], Value]) -> Any:
    """An argument as a rule sees it: tensors as Values, dtypes as short names, numbers, lists, slices."""
    if isinstance(value, list):
        return [decode(v, resolve) for v in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    ((tag, inner),) = cast(dict[str, Any], value).items()
    match tag:
        case "tensor":
            return resolve(inner)
        case "dtype":
            return inner
        case "float":
            return float(inner)
        case "complex":
            return complex(*(decode(v, resolve) for v in inner))
        case "slice":
            return slice(*(decode(v, resolve) for v in inner))
        case "tuple":
            return tuple(decode(v, resolve) for v in inner)
        case "dict":
            return {k: decode(v, resolve) for k, v in inner}
        case _:
            return Opaque(str(inner))


def decode_array(tensor: Tensor) -> np.ndarray[Any, Any] | None:
    """The recorded contents of a tensor, in its shape; bf16 as float32. None when there are none or they do not fit."""
    if tensor.values is None:
        return None
    dtype = tensor.values.get("dtype", tensor.dtype)
    try:
        data = base64.b64decode(tensor.values["data"])
        if dtype == "bf16":
            return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(tensor.shape)
        return np.frombuffer(data, _NUMPY[dtype]).reshape(tensor.shape)
    except (KeyError, ValueError, binascii.Error):
        return None


def is_contiguous(tensor: Tensor) -> bool:
    """The tensor's elements lie row-major from the start of its storage (assumed when strides were not recorded)."""
    if tensor.offset:
        return False
    step = 1
    for extent, stride in zip(reversed(tensor.shape), reversed(tensor.strides or []), strict=False):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True
