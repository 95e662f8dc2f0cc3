# pyright: basic
"""Tensors in raw files."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from .dtypes import short_name
from .files import Files
from .tensors import no_modes

# What NumPy cannot hold travels wider.
_WIDER = {torch.bfloat16: torch.float32, torch.complex32: torch.complex64} if hasattr(torch, "complex32") else {}


class Pack(Files):
    """Appends tensors."""

    def put(self, tensor: torch.Tensor, *, needed: bool = False) -> dict[str, Any] | None:
        """Write a tensor's values in row-major order; None where they are too many and not needed."""
        if tensor.layout is not torch.strided or tensor.is_meta or tensor.is_quantized:
            return None
        with no_modes():
            count = tensor.numel()
            wide = _WIDER.get(tensor.dtype, torch.float32 if _is_small_float(tensor.dtype) else tensor.dtype)
            size = count * torch.empty((), dtype=wide).element_size()
            if size > self.left and not needed:
                return None
            self.left -= size
            flat = tensor.detach().resolve_conj().resolve_neg().to(wide).contiguous()
            entry = {**self.place(size), "dtype": short_name(wide), "shape": list(tensor.shape)}
            if size:
                self.write(memoryview((ctypes.c_char * size).from_address(flat.data_ptr())).cast("B"))
        return entry


def _is_small_float(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point and torch.empty((), dtype=dtype).element_size() == 1
