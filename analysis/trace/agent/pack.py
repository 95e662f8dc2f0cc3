# pyright: basic
"""Arrays in raw files: large results travel by file, never through the pipe and never pickled."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import torch

from .dtypes import short_name
from .tensors import no_modes

_FILE_BYTES = 48 * 2**20
# What NumPy cannot hold travels wider.
_WIDER = {torch.bfloat16: torch.float32, torch.complex32: torch.complex64} if hasattr(torch, "complex32") else {}


class Pack:
    """Appends arrays to `golden-0.bin`, ... of a folder. An entry is {"file", "offset", "dtype", "shape"}."""

    def __init__(self, directory: str, limit_bytes: int, name: str = "golden") -> None:
        self.directory = directory
        self.name = name
        self.left = limit_bytes
        self.failed: OSError | None = None
        self._number = -1
        self._offset = _FILE_BYTES
        self._file: int | None = None

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
            entry = {**self._place(size), "dtype": short_name(wide), "shape": list(tensor.shape)}
            if size and self._file is not None:
                _write(self._file, flat.data_ptr(), size)
        return entry

    def close(self) -> None:
        """Flush to the file system."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _place(self, size: int) -> dict[str, Any]:
        if self._offset and self._offset + size > _FILE_BYTES:
            self.close()
            self._number += 1
            self._offset = 0
            path = os.path.join(self.directory, f"{self.name}-{self._number}.bin")
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        place = {"file": f"{self.name}-{self._number}.bin", "offset": self._offset}
        self._offset += size
        return place


def _is_small_float(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point and torch.empty((), dtype=dtype).element_size() == 1


def _write(file: int, address: int, size: int) -> None:
    view = memoryview((ctypes.c_char * size).from_address(address)).cast("B")
    while view:
        view = view[os.write(file, view[: 1 << 22]) :]
