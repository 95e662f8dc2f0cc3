"""Messages between processes: a 4-byte big-endian length and JSON."""

from __future__ import annotations

import contextlib
import threading
from typing import IO

import msgspec

_LONGEST_MESSAGE = 2**30


class Channel:
    """Length-prefixed JSON over two binary streams; writes are whole and may come from any thread."""

    def __init__(self, source: IO[bytes], sink: IO[bytes]) -> None:
        self._source = source
        self._sink = sink
        self._lock = threading.Lock()

    def read(self) -> bytes | None:
        """The next message's body, None at the end of the stream or where it is cut short."""
        head = self._source.read(4)
        if len(head) < 4:
            return None
        length = int.from_bytes(head, "big")
        if length > _LONGEST_MESSAGE:
            return None
        body = self._source.read(length)
        return body if len(body) == length else None

    def write(self, message: object) -> None:
        """Send a message; a reader that has gone is no error, the end of our input follows."""
        body = msgspec.json.encode(message)
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._sink.write(len(body).to_bytes(4, "big") + body)
            self._sink.flush()

    def close(self) -> None:
        """Close our end for writing."""
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._sink.close()
