# pyright: basic
"""Which module an equation belongs to: every module call opens a named scope that its equations carry.

The scope survives every transformation: the equations of a gradient belong to the module of their forward pass.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax

from ..frames import Frames
from ..loading import place_of_class

MARK = "sollens="
# Scopes that libraries open in their own layers.
_LIBRARY_SCOPES = ("eqx.", "jit(", "jax.")


class Modules:
    """Rows of the trace's module table, by path."""

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self.table: list[dict[str, Any]] = []
        self.active = False
        self._rows: dict[str, int] = {}
        self._by_stack: dict[tuple[Any, int], int] = {}
        self._paths: dict[int, str] = {}
        self._kept: list[Any] = []
        self._created: dict[int, tuple[str, int]] = {}
        self._created_at: dict[str, tuple[str, int]] = {}
        self._classes: dict[type, tuple[str, int]] = {}

    def watch(self) -> None:
        """Make this the table that calls are counted in."""
        _CURRENT[:] = [self]
        _watch_linen()

    # --- paths ---

    def made(self, module: Any) -> None:
        """Remember where the user's code makes a module."""
        place = self.frames.innermost_caller()
        if place[1]:
            self._created[id(module)] = place
            self._kept.append(module)

    def built(self, paths: dict[str, Any]) -> None:
        """The modules of a model as its constructor made them: where, by path."""
        for path, module in paths.items():
            place = self._created.get(id(module))
            if place is not None:
                self._created_at[path] = place

    def name_all(self, paths: dict[str, Any]) -> None:
        """The modules of a model as it is traced; their classes are watched. A shared one keeps its first path."""
        self._paths.clear()
        for path, module in paths.items():
            self._paths.setdefault(id(module), path)
            self._kept.append(module)
            watch_calls(type(module))

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Calls count while the program is traced."""
        self.active = True
        try:
            yield
        finally:
            self.active = False

    @contextlib.contextmanager
    def within(self, path: str | None, module: Any) -> Iterator[None]:
        """A call of a module."""
        if path is None or not self.active:
            yield
            return
        self.table[self._row(path, type(module), module)]["calls"] += 1
        with jax.named_scope(MARK + path):
            yield

    def called(self, module: Any, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a module that `name_all` may know."""
        with self.within(self._paths.get(id(module)), module):
            return call(*args, **kwargs)

    # --- rows ---

    def row(self, stack: Any, outer: int) -> int:
        """The row of an equation by its name stack; `outer` is that of the function it stands in."""
        key = (stack, outer)
        number = self._by_stack.get(key)
        if number is None:
            number = self._by_stack[key] = self._find(stack, outer)
        return number

    def _find(self, stack: Any, outer: int) -> int:
        path = None
        for scope in getattr(stack, "stack", ()):
            name = str(scope.name)
            if type(scope).__name__ != "Scope":
                continue
            if name.startswith(MARK):
                path = name[len(MARK) :]
            elif not name.startswith(_LIBRARY_SCOPES):
                base = path if path is not None else self.table[outer]["path"] if outer >= 0 else ""
                path = f"{base}.{name}" if base else name
        return outer if path is None else self._row(path, None, None)

    def _row(self, path: str, cls: type | None, module: Any) -> int:
        number = self._rows.get(path)
        if number is None:
            file, line = self._place(cls) if cls is not None else ("", 0)
            made = self._created_at.get(path) or self._created.get(id(module), ("", 0))
            self.table.append({
                "path": path, "type": cls.__name__ if cls is not None else "scope", "class_file": file,
                "class_line": line, "created_file": made[0] if path else "", "created_line": made[1] if path else 0,
                "calls": 0 if cls is not None else 1,
            })  # fmt: skip
            number = self._rows[path] = len(self.table) - 1
        return number

    def _place(self, cls: type) -> tuple[str, int]:
        if cls not in self._classes:
            self._classes[cls] = place_of_class(cls, self.frames)
        return self._classes[cls]


_CURRENT: list[Modules] = []
_WATCHED: set[type] = set()
_LINEN: list[bool] = []


def watch_calls(cls: type) -> None:
    """Open a scope around the calls of a class's instances, once a process."""
    if cls in _WATCHED or all("__call__" not in c.__dict__ for c in cls.__mro__):
        return
    _WATCHED.add(cls)
    original = next((c.__dict__["__call__"] for c in cls.__mro__ if "__call__" in c.__dict__), None)
    if original is None or not hasattr(original, "__get__"):
        return

    def entered(module: Any, *args: Any, **kwargs: Any) -> Any:
        return _CURRENT[0].called(module, original.__get__(module, type(module)), args, kwargs)

    with contextlib.suppress(AttributeError, TypeError):
        type.__setattr__(cls, "__call__", entered)


def watch_making(metaclass: Any) -> None:
    """Note where instances of a metaclass's classes are made."""
    if metaclass in _WATCHED:
        return
    _WATCHED.add(metaclass)
    original = metaclass.__call__

    def make(cls: Any, *args: Any, **kwargs: Any) -> Any:
        module = original(cls, *args, **kwargs)
        if _CURRENT:
            _CURRENT[0].made(module)
        return module

    with contextlib.suppress(AttributeError, TypeError):
        metaclass.__call__ = make


def _watch_linen() -> None:
    linen = sys.modules.get("flax.linen")
    if linen is None or _LINEN:
        return
    _LINEN.append(True)
    with contextlib.suppress(Exception):
        sys.modules["flax"].config.update("flax_profile", False)
    original = linen.Module.__post_init__

    def post_init(module: Any) -> None:
        original(module)
        if _CURRENT:
            _CURRENT[0].made(module)

    linen.Module.__post_init__ = post_init


@contextlib.contextmanager
def linen_scopes() -> Iterator[None]:
    """Every `__call__` of a linen module opens a scope of its path."""
    linen = sys.modules["flax.linen"]

    def intercept(call: Any, args: Any, kwargs: Any, context: Any) -> Any:
        if context.method_name != "__call__" or not _CURRENT:
            return call(*args, **kwargs)
        module = context.module
        with _CURRENT[0].within(".".join(module.path), module):
            return call(*args, **kwargs)

    with linen.intercept_methods(intercept):
        yield
