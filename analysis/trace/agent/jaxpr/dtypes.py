# pyright: basic
"""JAX dtypes and their short names in a trace."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import dtypes as jax_dtypes

_NAMES = {
    "bool": "bool", "uint8": "u8", "int8": "i8", "uint16": "u16", "int16": "i16", "uint32": "u32", "int32": "i32",
    "uint64": "u64", "int64": "i64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "complex64": "c64", "complex128": "c128", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
    "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2fnuz": "f8e5m2fnuz", "float8_e8m0fnu": "f8e8m0",
    "float4_e2m1fn": "f4e2m1", "int4": "i4", "uint4": "u4",
}  # fmt: skip
BY_NAME: dict[str, np.dtype[Any]] = {}
for _long, _short in _NAMES.items():
    _type = getattr(jnp, "bool_" if _long == "bool" else _long, None)
    if _type is not None:
        BY_NAME[_short] = BY_NAME[_long] = np.dtype(_type)


def is_key(dtype: Any) -> bool:
    """A typed random key: two words of 32 bits in the default generator."""
    return bool(jnp.issubdtype(dtype, jax_dtypes.prng_key))


def short_name(dtype: Any) -> str:
    """ "f32" for float32; NumPy's own name when it has no short one."""
    if is_key(dtype):
        return "u32"
    if dtype == jax_dtypes.float0:
        return "bool"
    return _NAMES.get(np.dtype(dtype).name, str(dtype))


def spec(aval: Any) -> tuple[str, list[int]]:
    """Short dtype and shape of an abstract value; a typed key is its words."""
    shape = [int(n) for n in aval.shape]
    if is_key(aval.dtype):
        return "u32", [*shape, *getattr(aval.dtype._impl, "key_shape", (2,))]
    return short_name(aval.dtype), shape
