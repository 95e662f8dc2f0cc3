# pyright: basic
"""Where in the user's source an equation comes from, and which equations are one call of a library."""

from __future__ import annotations

import os
from types import CodeType
from typing import Any

import jax

from ..frames import Frames

_JAX = os.path.dirname(os.path.abspath(jax.__file__)) + os.sep
Frame = tuple[CodeType, int]
_MAX_STACK = 24


class Context:
    """The traced function whose equations are looked at: its first line, and the frames of who calls it.

    Tracing a jitted function is cached: the frames beyond it are those of its first caller, not of this one.
    """

    __slots__ = ("callers", "file", "key", "line", "module", "name")

    def __init__(
        self, info: str = "", callers: tuple[Frame, ...] = (), key: tuple[Any, ...] = (), module: int = -1
    ) -> None:
        name, _, place = info.partition(" at ")
        file, _, line = place.rpartition(":")
        self.name, self.file = name.rpartition(".")[2], file
        self.line = int(line) if line.isdigit() else 0
        self.callers = callers
        self.key = key
        self.module = module


class Places:
    """Spans of equations, through the frames that JAX keeps with each."""

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self._by_frames: dict[tuple[Frame, ...], int] = {}

    def locate(self, traceback: Any, context: Context) -> tuple[tuple[Frame, ...], tuple[Any, ...], tuple[Any, ...]]:
        """(user frames innermost first, key of the library call, key of the very equation)."""
        own: list[Frame] = []
        caller: list[Frame] = []
        exact: list[Frame] = []
        if traceback is not None:
            codes, lastis = traceback.raw_frames()
            entry = context.callers[0] if context.callers else None
            for code, lasti in zip(codes, lastis, strict=True):
                frame = (code, lasti)
                if frame == entry:
                    break
                exact.append(frame)
                if self.frames.is_user(code):
                    own.append(frame)
                if not code.co_filename.startswith(_JAX):
                    caller.append(frame)
                if code.co_firstlineno == context.line and code.co_filename == context.file:
                    break
        return (*own, *context.callers), (*caller, *context.key), (*exact, *context.key)

    def span(self, frames: tuple[Frame, ...]) -> int:
        """Index of the span of the innermost user frame, or -1."""
        if not frames:
            return -1
        number = self._by_frames.get(frames)
        if number is None:
            number = self._by_frames[frames] = self.frames.add(list(frames))
        return number


def info_of(jaxpr: Any) -> str:
    """ "name at file:line" of the function that a jaxpr was traced from."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    return str(getattr(getattr(inner, "debug_info", None), "func_src_info", "") or "")
