"""Which matmul pipe a contraction may use (bounds.md section 3, precision policy)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sollens.analysis.einsum.lift import Einsum

POLICIES = ("as-written", "tf32", "16bit")

# dtype of the operands -> pipe, where no policy has a say.
_PIPES = {
    "f64": "float64", "c128": "float64", "bf16": "bfloat16", "f16": "float16",
    "f8e4m3": "float8", "f8e5m2": "float8", "f8e4m3fnuz": "float8", "f8e5m2fnuz": "float8", "f4e2m1": "float4",
    "i8": "int8", "u8": "int8", "bool": "int8", "i4": "int4", "u4": "int4",
    "i16": "int16", "u16": "int16", "i32": "int32", "u32": "int32", "i64": "int64", "u64": "int64", "c32": "float16",
}  # fmt: skip

# cuDNN may run these in TF32 by default (torch.backends.cudnn.allow_tf32), and PyTorch's memory-efficient attention
# uses tensor cores for
# float32 as well.
_TF32_BY_DEFAULT = ("conv", "cudnn_conv", "lstm", "gru", "rnn_", "_thnn", "scaled_dot_product")


# What a contraction of JAX asks for, as the part of its operator's name after "jax.dot_general.". Unasked, a GPU uses
# TF32 and a TPU one pass of bfloat16 (jax.lax.Precision); a TPU's HIGH is what its file prices as tf32.
_JAX_FLOAT32 = {"": "tf32", "default": "tf32", "high": "tf32", "highest": "float32"}
_JAX_PRESETS = (("bf16_", "bfloat16"), ("f16_", "float16"), ("tf32_", "tf32"), ("f64_", "float64"), ("f32_", "float32"))


def pipe_policy(policy: str, settings: Mapping[str, Any], vendor: str = "") -> Callable[[Einsum], str]:
    """The function from a contraction to its pipe; `settings` are the trace's framework settings, `vendor` the chip's.

    Raises ValueError for an unknown policy.
    """
    if policy not in POLICIES:
        raise ValueError(f"precision: expected one of {', '.join(POLICIES)}, found {policy!r}")
    matmul = settings.get("float32_matmul_precision", "highest")
    cudnn_tf32 = settings.get("cudnn_allow_tf32", True)
    matmul_tf32 = settings.get("cuda_matmul_allow_tf32", False) or matmul in ("high", "medium", "tensorfloat32")

    def pipe(einsum: Einsum) -> str:
        dtype = einsum.operand_dtype
        if dtype not in ("f32", "c64"):
            return _PIPES.get(dtype, "float32")
        if policy == "tf32":
            return "tf32"
        if policy == "16bit":
            return "bfloat16"
        namespace, _, name = einsum.source.operator.partition(".")
        if namespace == "jax":
            return _jax_pipe(name.partition(".")[2], vendor)
        if any(name.startswith(prefix) or f"_{prefix}" in name for prefix in _TF32_BY_DEFAULT):
            return "tf32" if cudnn_tf32 else "float32"
        if matmul == "medium":
            return "bfloat16"
        return "tf32" if matmul_tf32 else "float32"

    return pipe


def _jax_pipe(asked: str, vendor: str) -> str:
    """Of a float32 contraction of JAX; presets of an algorithm are named by their operands."""
    if asked in ("", "default") and vendor == "Google":
        return "bfloat16"
    if asked in _JAX_FLOAT32:
        return _JAX_FLOAT32[asked]
    return next((pipe for prefix, pipe in _JAX_PRESETS if asked.startswith(prefix)), "tf32")
