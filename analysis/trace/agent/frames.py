# pyright: basic
"""Which frame of the Python stack is the user's, and the source range of the call it is in."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import CodeType, FrameType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_MAX_STACK = 24


def _library_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    roots = {os.path.realpath(paths[key]) for key in ("stdlib", "platstdlib", "purelib", "platlib") if paths.get(key)}
    return tuple(sorted(root + os.sep for root in roots))


class Frames:
    """Finds user frames; spans and modules' creation lines come from here."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.spans: list[dict[str, Any]] = []
        self._libraries = _library_roots()
        self._user: dict[CodeType, bool] = {}
        self._positions: dict[CodeType, list[Any]] = {}
        self._by_key: dict[tuple[Any, ...], int] = {}
        self._lengths: dict[str, list[str]] = {}

    def is_user(self, code: CodeType) -> bool:
        """Whether the code is the user's: neither torch, nor another installed package, nor ours."""
        known = self._user.get(code)
        if known is None:
            known = self._user[code] = self.is_user_file(code.co_filename)
        return known

    def is_user_file(self, name: str) -> bool:
        """As `is_user`, by file name."""
        if name == self.path:
            return True
        if not name or name.startswith("<") or not os.path.isabs(name):
            return False
        name = os.path.realpath(name)
        if (
            name.startswith(_HERE + os.sep)
            or f"{os.sep}site-packages{os.sep}" in name
            or f"{os.sep}dist-packages{os.sep}" in name
        ):
            return False
        return not any(name.startswith(root) for root in self._libraries)

    def span(self, below: CodeType | None = None) -> int:
        """Index of the span of the innermost user frame above the caller; -1 if none, or none under `below`."""
        frame: FrameType | None = sys._getframe(2)
        key: list[Any] = []
        found: list[tuple[CodeType, int]] = []
        user = self._user
        while frame is not None:
            code = frame.f_code
            known = user.get(code)
            if known is None:
                known = self.is_user(code)
            if known:
                key.append(code)
                key.append(frame.f_lasti)
                found.append((code, frame.f_lasti))
            elif code is below and not found:
                return -1
            frame = frame.f_back
        if not found:
            return -1
        index = self._by_key.get(tuple(key))
        if index is None:
            index = self._by_key[tuple(key)] = self.add(found)
        return index

    def add(self, found: list[tuple[CodeType, int]]) -> int:
        """A new span at the first of these frames, the others as its stack."""
        code, lasti = found[0]
        line, end_line, column, end_column = self.position(code, lasti)
        self.spans.append({
            "file": code.co_filename, "line": line, "column": column, "end_line": end_line, "end_column": end_column,
            "function": code.co_name,
            "stack": [[c.co_filename, self.position(c, i)[0], c.co_name] for c, i in found[1:_MAX_STACK]],
        })  # fmt: skip
        return len(self.spans) - 1

    def position(self, code: CodeType, lasti: int) -> tuple[int, int, int, int]:
        """(line, end line, column, end column) of an instruction; columns 0 where the interpreter has none."""
        table = self._positions.get(code)
        if table is None:
            get = getattr(code, "co_positions", None)
            table = self._positions[code] = list(get()) if get else []
        if table and 0 <= lasti // 2 < len(table):
            line, end_line, column, end_column = table[lasti // 2]
            if line is not None:
                return line, end_line or line, column or 0, end_column or 0
        line = _line_of(code, lasti)
        return line, line, 0, 0

    def innermost(self, traceback: Any) -> tuple[str, int, int]:
        """File, line and column of the innermost user frame of a traceback, or ("", 0, 0)."""
        place = ("", 0, 0)
        while traceback is not None:
            code = traceback.tb_frame.f_code
            if self.is_user(code):
                line, _, column, _ = self.position(code, traceback.tb_lasti)
                place = (code.co_filename, line or traceback.tb_lineno, column)
            traceback = traceback.tb_next
        return place

    def caller(self, depth: int = 2) -> tuple[str, int]:
        """File and line of the frame at `depth` when it is the user's (comprehensions included), else ("", 0)."""
        frame: FrameType | None = sys._getframe(depth)
        if frame is None or not self.is_user(frame.f_code):
            return "", 0
        return frame.f_code.co_filename, self.position(frame.f_code, frame.f_lasti)[0]

    def innermost_caller(self) -> tuple[str, int]:
        """File and line of the innermost user frame that is running, or ("", 0)."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if self.is_user(frame.f_code):
                return frame.f_code.co_filename, self.position(frame.f_code, frame.f_lasti)[0]
            frame = frame.f_back
        return "", 0


def _line_of(code: CodeType, lasti: int) -> int:
    line = code.co_firstlineno
    for start, _, number in code.co_lines():
        if start > lasti:
            break
        line = number or line
    return line
