"""`[tool.sollens]` of the nearest pyproject.toml: targets, default hardware and precision, excluded files.

[tool.sollens]
hardware = "h100-sxm"
precision = "tf32"
exclude = ["legacy/**"]
targets = [{ file = "model/block.py", name = "Block", inputs = "x=f32[8, 512, 768], init(768, heads=12)" }]
"""

from __future__ import annotations

import fnmatch
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sollens.analysis.report import Problem

PRECISIONS = ("as-written", "tf32", "16bit")


@dataclass(frozen=True, slots=True)
class ConfiguredTarget:
    """An entry of `targets`; `inputs` is the text of a pragma, without `# sol:`."""

    file: str
    name: str
    inputs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Settings of a folder; `root` is where its pyproject.toml lies."""

    root: Path | None = None
    hardware: str | None = None
    precision: str | None = None
    exclude: tuple[str, ...] = ()
    targets: tuple[ConfiguredTarget, ...] = ()
    problems: tuple[Problem, ...] = ()

    def targets_of(self, path: Path) -> tuple[ConfiguredTarget, ...]:
        """The entries that are about this file."""
        return tuple(t for t in self.targets if self.root is not None and _same(self.root / t.file, path))

    def excludes(self, path: Path) -> bool:
        """Whether a pattern of `exclude` (relative to the root) matches the file."""
        if self.root is None:
            return False
        try:
            relative = path.resolve().relative_to(self.root.resolve()).as_posix()
        except ValueError:
            return False
        patterns = [*self.exclude, *(f"{pattern.rstrip('/')}/*" for pattern in self.exclude)]
        return any(fnmatch.fnmatch(relative, pattern) for pattern in patterns)


def find(path: Path, stop: Path | None = None) -> Project:
    """Settings for a file: the nearest [tool.sollens] in a pyproject.toml at or above its folder, not above `stop`."""
    for folder in path.absolute().parents:
        file = folder / "pyproject.toml"
        if file.is_file():
            project = load(file)
            if project is not None:
                return project
        if stop is not None and folder == stop.absolute():
            break
    return Project()


def load(file: Path) -> Project | None:
    """The settings in a pyproject.toml; None where it has no [tool.sollens]. Mistakes are problems; the rest counts."""
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return Project(root=file.parent, problems=(_problem(file, "valid TOML", str(error)),))
    tool = data.get("tool")
    table = cast("dict[str, Any]", tool).get("sollens") if isinstance(tool, dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        return Project(root=file.parent, problems=(_problem(file, "a table [tool.sollens]", repr(table)),))
    return _Reader(file, cast("dict[str, Any]", table)).project()


class _Reader:
    def __init__(self, file: Path, table: dict[str, Any]) -> None:
        self.file = file
        self.table = table
        self.problems: list[Problem] = []

    def project(self) -> Project:
        precision = self.text("precision")
        if precision is not None and precision not in PRECISIONS:
            self.wrong("precision", f"one of {', '.join(PRECISIONS)}", precision)
            precision = None
        exclude, entries = self.list("exclude"), self.list("targets")
        for pattern in exclude:
            if not isinstance(pattern, str):
                self.wrong("exclude", "a list of strings", pattern)
        targets = [self.target(entry) for entry in entries]
        return Project(
            root=self.file.parent,
            hardware=self.text("hardware"),
            precision=precision,
            exclude=tuple(p for p in exclude if isinstance(p, str)),
            targets=tuple(t for t in targets if t is not None),
            problems=tuple(self.problems),
        )

    def wrong(self, key: str, expected: str, found: object) -> None:
        self.problems.append(_problem(self.file, f"tool.sollens.{key}: {expected}", repr(found)))

    def text(self, key: str) -> str | None:
        value = self.table.get(key)
        if value is None or isinstance(value, str):
            return value
        self.wrong(key, "a string", value)
        return None

    def list(self, key: str) -> list[Any]:
        value = self.table.get(key, [])
        if isinstance(value, list):
            return cast("list[Any]", value)
        self.wrong(key, "a list", value)
        return []

    def target(self, entry: object) -> ConfiguredTarget | None:
        if isinstance(entry, dict):
            fields = cast("dict[str, Any]", entry)
            values = [fields.get(key) for key in ("file", "name", "inputs")]
            if all(isinstance(value, str) for value in values):
                return ConfiguredTarget(*cast("list[str]", values))
        self.wrong(
            "targets", 'tables like { file = "m.py", name = "Block", inputs = "x=f32[8, 512]" }', cast("object", entry)
        )
        return None


def _problem(file: Path, expected: str, found: str) -> Problem:
    return Problem(code="bad-config", line=1, message=f"{file}: expected {expected}, found {found}")


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()
