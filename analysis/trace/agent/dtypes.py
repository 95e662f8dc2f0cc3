# pyright: basic
"""torch dtypes and their short names in a trace."""

from __future__ import annotations

import torch

_NAMES = {
    "bool": "bool", "uint8": "u8", "int8": "i8", "uint16": "u16", "int16": "i16", "uint32": "u32", "int32": "i32",
    "uint64": "u64", "int64": "i64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "complex32": "c32", "complex64": "c64", "complex128": "c128", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
    "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2fnuz": "f8e5m2fnuz", "float8_e8m0fnu": "f8e8m0",
    "float4_e2m1fn_x2": "f4e2m1", "int4": "i4", "uint4": "u4",
}  # fmt: skip

SHORT: dict[torch.dtype, str] = {getattr(torch, long): short for long, short in _NAMES.items() if hasattr(torch, long)}
BY_NAME: dict[str, torch.dtype] = {short: dtype for dtype, short in SHORT.items()}
BY_NAME.update({long: getattr(torch, long) for long in _NAMES if hasattr(torch, long)})


def short_name(dtype: torch.dtype) -> str:
    """ "f32" for torch.float32; torch's own name when it has no short one."""
    return SHORT.get(dtype) or str(dtype).removeprefix("torch.")


def is_integral(dtype: torch.dtype) -> bool:
    """Integers and bool."""
    return not (dtype.is_floating_point or dtype.is_complex)
