# pyright: basic
"""Arrays in raw files: large results travel by file, never through the pipe and never pickled."""

from __future__ import annotations

import os
from typing import Any

_FILE_BYTES = 48 * 2**20


class Files:
    """Appends arrays to `golden-0.bin`, ... of a folder. An entry is {"file", "offset", "dtype", "shape"}."""

    def __init__(self, directory: str, limit_bytes: int, name: str = "golden") -> None:
        self.directory = directory
        self.name = name
        self.left = limit_bytes
        self._number = -1
        self._offset = _FILE_BYTES
        self._file: int | None = None

    def close(self) -> None:
        """Flush to the file system."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def place(self, size: int) -> dict[str, Any]:
        """Where the next `size` bytes go, and their file open for `write`."""
        if self._offset and self._offset + size > _FILE_BYTES:
            self.close()
            self._number += 1
            self._offset = 0
            path = os.path.join(self.directory, f"{self.name}-{self._number}.bin")
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        place = {"file": f"{self.name}-{self._number}.bin", "offset": self._offset}
        self._offset += size
        return place

    def write(self, view: memoryview) -> None:
        """Append bytes to the open file."""
        while view and self._file is not None:
            view = view[os.write(self._file, view[: 1 << 22]) :]
