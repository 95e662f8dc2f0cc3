# pyright: basic
"""Importing the user's file, and where its classes and functions stand."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import linecache
import os
import sys
import types
from typing import Any

from .frames import Frames
from .problems import Unusable


def load(path: str, text: str | None, roots: list[str], tree: Any = None) -> types.ModuleType:
    """Import the file under its own name (its package's, when it is in one) from `text` or from disk.

    `tree` is run in place of the text's own syntax tree: a twin's, with other sizes.
    """
    if text is None:
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except FileNotFoundError:
            raise Unusable("file-missing", f"{path} is not on disk any more; save it again.") from None
        except (OSError, UnicodeDecodeError) as error:
            raise Unusable("file-missing", f"{path} cannot be read as UTF-8 text: {error}") from None
    folder, stem = os.path.dirname(path), os.path.splitext(os.path.basename(path))[0]
    package: list[str] = []
    top = folder
    while os.path.isfile(os.path.join(top, "__init__.py")) and os.path.basename(top).isidentifier():
        package.insert(0, os.path.basename(top))
        top = os.path.dirname(top)
    for root in reversed([folder if not package else top, *roots]):
        if root in sys.path:
            sys.path.remove(root)
        sys.path.insert(0, root)
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    code = compile(text if tree is None else tree, path, "exec", dont_inherit=True)
    name = ".".join([*package, stem])
    if not package and (name in sys.modules or name in sys.builtin_module_names):
        name = f"_target_{stem}"
    if package:
        importlib.import_module(".".join(package))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    exec(code, module.__dict__)
    return module


_LINES: dict[str, dict[str, int]] = {}


def class_lines(file: str) -> dict[str, int]:
    """Lines of a file's `class` and `def` keywords (not of their decorators) by qualified name."""
    found = _LINES.get(file)
    if found is None:
        found = _LINES[file] = {}
        try:
            tree = ast.parse("".join(linecache.getlines(file)))
        except SyntaxError:
            return found
        _collect(tree, "", found)
    return found


def _collect(node: Any, prefix: str, found: dict[str, int]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            found[prefix + child.name] = child.lineno
            _collect(child, f"{prefix}{child.name}.", found)
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found[prefix + child.name] = child.lineno
            _collect(child, f"{prefix}{child.name}.<locals>.", found)
        else:
            _collect(child, prefix, found)


def place_of_class(cls: type, frames: Frames) -> tuple[str, int]:
    """File and line of a user's `class` statement, else ("", 0)."""
    line = cls.__dict__.get("__firstlineno__")
    file = ""
    for value in cls.__dict__.values():
        code = getattr(inspect.unwrap(value) if callable(value) else value, "__code__", None)
        if code is not None and getattr(code, "co_qualname", cls.__qualname__).startswith(cls.__qualname__):
            file = code.co_filename
            break
    if not file or not frames.is_user_file(file):
        return "", 0
    if line is None:
        line = class_lines(file).get(cls.__qualname__, 0)
    return file, line
