"""Files of the workspace that a file imports, directly or not, read off their syntax: a trace depends on them too."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from sollens.analysis.source.text import UnreadableSource, decode, normalise

_MOST_FILES = 2000


def closure(text: str, path: Path, roots: Iterable[Path]) -> tuple[Path, ...]:
    """Every file below the roots, or beside `path`, that importing the text may run; without `path`, sorted."""
    folders = list(dict.fromkeys([path.parent, *roots]))
    seen: set[Path] = {path}
    queue: list[tuple[str, Path]] = [(text, path)]
    while queue and len(seen) < _MOST_FILES:
        source, at = queue.pop()
        for found in _imported(source, at, folders):
            if found not in seen:
                seen.add(found)
                try:
                    queue.append((decode(found.read_bytes()), found))
                except (OSError, UnreadableSource):
                    continue
    return tuple(sorted(seen - {path}))


def _imported(source: str, path: Path, folders: list[Path]) -> Iterator[Path]:
    try:
        tree = ast.parse(normalise(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield from _files(alias.name.split("."), folders)
            case ast.ImportFrom(module=module, names=names, level=0) if module:
                for alias in names:
                    yield from _files([*module.split("."), alias.name], folders)
            case ast.ImportFrom(module=module, names=names, level=level) if level:
                folder = path.parent
                for _ in range(level - 1):
                    folder = folder.parent
                stem = module.split(".") if module else []
                for alias in names:
                    yield from _files([*stem, alias.name], [folder])
            case _:
                pass


def _files(parts: list[str], folders: list[Path]) -> Iterator[Path]:
    """The files that importing a dotted name runs: each package's `__init__.py` on the way, then the module."""
    for folder in folders:
        at = folder
        found = False
        for part in parts:
            module, package = at / f"{part}.py", at / part / "__init__.py"
            if package.is_file():
                found = True
                yield package
            elif module.is_file():
                yield module
                return
            at = at / part
        if found:
            return
