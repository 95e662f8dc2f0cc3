"""How a dtype is held and rounded in NumPy, and in which type scalar bodies compute.

bf16, f8, f4 and e8m0 are float32 arrays whose values are representable in the narrow type; f16 is float16; 4-bit
integers sit in bytes. Bodies compute in bool, i64, f32, f64, c64 or c128 (docs/ir.md, "Scalar types").
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

# mantissa bits, smallest normal exponent, largest finite value, what is beyond it ("inf", "nan" or "max")
_NARROW: dict[str, tuple[int, int, float, str]] = {
    "f8e4m3": (3, -6, 448.0, "nan"), "f8e5m2": (2, -14, 57344.0, "inf"), "f8e4m3fnuz": (3, -7, 240.0, "nan"),
    "f8e5m2fnuz": (2, -15, 57344.0, "nan"), "f4e2m1": (1, 0, 6.0, "max"),
}  # fmt: skip

_STORED: dict[str, Any] = {
    "bool": np.bool_, "u8": np.uint8, "i8": np.int8, "u16": np.uint16, "i16": np.int16, "u32": np.uint32,
    "i32": np.int32, "u64": np.uint64, "i64": np.int64, "f16": np.float16, "bf16": np.float32, "f32": np.float32,
    "f64": np.float64, "c32": np.complex64, "c64": np.complex64, "c128": np.complex128, "f8e8m0": np.float32,
    "i4": np.int8, "u4": np.uint8, **dict.fromkeys(_NARROW, np.float32),
}  # fmt: skip


def stored_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy dtype of arrays of this IR dtype."""
    return np.dtype(_STORED[dtype])


def compute_dtype(dtype: str) -> np.dtype[Any]:
    """The type in which a body computes with values of this IR dtype."""
    return compute_type_of(stored_dtype(dtype))


def compute_type_of(stored: np.dtype[Any]) -> np.dtype[Any]:
    """The type in which a body computes with arrays of this NumPy dtype."""
    match stored.kind:
        case "b":
            return stored
        case "i" | "u":
            return np.dtype(np.int64)
        case "f":
            return np.dtype(np.float64 if stored.itemsize > 4 else np.float32)
        case _:
            return np.dtype(np.complex128 if stored.itemsize > 8 else np.complex64)


def store(value: Array, dtype: str) -> Array:
    """The values converted and rounded to `dtype`: integers wrap, floats truncate to integers, to bool is `!= 0`."""
    target = stored_dtype(dtype)
    with np.errstate(all="ignore"):
        if dtype == "bool":
            return value != 0
        if value.dtype.kind == "c" and target.kind != "c":
            value = np.real(value)
        if target.kind in "iu":
            if value.dtype.kind == "f":
                value = np.nan_to_num(np.trunc(value), nan=0.0, posinf=2.0**63 - 1024, neginf=-(2.0**63))
            wrapped = value.astype(np.int64) if value.dtype != np.uint64 else value
            if dtype == "i4":
                return (((wrapped + 8) & 15) - 8).astype(target)
            return (wrapped & 15).astype(target) if dtype == "u4" else wrapped.astype(target)
        if dtype == "bf16":
            return _round_bf16(value.astype(np.float32))
        if dtype in _NARROW:
            return _round_narrow(value.astype(np.float64), *_NARROW[dtype]).astype(np.float32)
        if dtype == "f8e8m0":
            return np.exp2(np.clip(np.rint(np.log2(np.abs(value.astype(np.float64)))), -127, 127)).astype(np.float32)
        return value.astype(target)


def _round_bf16(value: Array) -> Array:
    """Round to nearest, ties to even, on the bits of a float32."""
    bits = np.ascontiguousarray(value).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(value), value, rounded.view(np.float32).reshape(value.shape))


def _round_narrow(value: Array, mantissa: int, smallest: int, largest: float, beyond: str) -> Array:
    _, exponent = np.frexp(value)
    quantum = np.ldexp(1.0, np.maximum(exponent - 1, smallest) - mantissa)
    rounded = np.rint(value / quantum) * quantum
    rounded = np.where(np.isfinite(value), rounded, value)
    over = np.abs(rounded) > largest
    limit = {"inf": np.inf, "nan": np.nan, "max": largest}[beyond]
    return np.where(over, np.copysign(limit, value), rounded)
