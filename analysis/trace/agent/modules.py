# pyright: basic
"""Which module is running, and where each was made."""

from __future__ import annotations

from typing import Any

import torch

from .frames import Frames
from .loading import place_of_class
from .recorder import Recorder


class Modules:
    """Patches `nn.Module` for the life of the process: creation lines, and the path of the module being called."""

    def __init__(self, frames: Frames, recorder: Recorder) -> None:
        self.frames = frames
        self.recorder = recorder
        self.table: list[dict[str, Any]] = []
        self._created: dict[int, tuple[str, int]] = {}
        self._kept: list[torch.nn.Module] = []
        self._paths: dict[int, str] = {}
        self._by_path: dict[str, int] = {}
        self._classes: dict[type, tuple[str, int]] = {}

    def watch(self) -> None:
        """Make this the table that calls are counted in."""
        _CURRENT[:] = [self]
        _install()

    def made(self, module: torch.nn.Module) -> None:
        """Remember where the user's code makes a module."""
        place = self.frames.caller(3)
        if place[1]:
            self._created[id(module)] = place
            self._kept.append(module)

    def called(self, module: torch.nn.Module, call: Any, args: Any, kwargs: Any) -> Any:
        """Call a module with its row current."""
        recorder = self.recorder
        if not recorder.in_forward:
            return call(module, *args, **kwargs)
        outer = recorder.module
        recorder.module = self.index(module, outer)
        try:
            return call(module, *args, **kwargs)
        finally:
            recorder.module = outer

    def name_all(self, root: torch.nn.Module) -> None:
        """Take paths from the root's named modules; a shared module keeps its first."""
        for path, module in root.named_modules():
            self._paths[id(module)] = path
            self._kept.append(module)  # the forward may replace it, and another would get its id

    def index(self, module: torch.nn.Module, outer: int) -> int:
        """Row of a module being called; one that the root does not hold counts with its caller."""
        path = self._paths.get(id(module))
        if path is None:
            if outer >= 0:
                return outer
            path = ""
        row = self._by_path.get(path)
        if row is None:
            row = self._add(path, module)
        self.table[row]["calls"] += 1
        return row

    def _add(self, path: str, module: torch.nn.Module) -> int:
        file, line = self.class_place(type(module))
        made_file, made_line = self._created.get(id(module), ("", 0))
        self.table.append({
            "path": path, "type": type(module).__name__, "class_file": file, "class_line": line,
            "created_file": made_file if path else "", "created_line": made_line if path else 0, "calls": 0,
        })  # fmt: skip
        self._by_path[path] = len(self.table) - 1
        return len(self.table) - 1

    def class_place(self, cls: type) -> tuple[str, int]:
        """File and line of a user's `class` statement, else ("", 0)."""
        place = self._classes.get(cls)
        if place is None:
            place = self._classes[cls] = place_of_class(cls, self.frames)
        return place


_CURRENT: list[Modules] = []
_INSTALLED: list[bool] = []


def _install() -> None:
    if _INSTALLED:
        return
    _INSTALLED.append(True)
    call = torch.nn.Module.__call__

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        module = object.__new__(cls)
        _CURRENT[0].made(module)
        return module

    def entered(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        return _CURRENT[0].called(module, call, args, kwargs)

    torch.nn.Module.__new__ = new  # type: ignore[method-assign,assignment]
    torch.nn.Module.__call__ = entered  # type: ignore[method-assign,assignment]
