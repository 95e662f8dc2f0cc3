"""The settings in force for a root, and what they stand for on this machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sollens.server.chips import Chip, chip
from sollens.server.config import Settings, layered, pyproject_table, without_defaults
from sollens.server.environment import Interpreter, find_interpreter

_ANALYSIS_SETTINGS = ("hardware", "precision", "target", "deadline_s", "memory_limit", "validate_enabled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What an analysis is run with; `warnings` say which values were not taken, and why."""

    settings: Settings
    chip: Chip
    interpreter: Interpreter
    warnings: tuple[str, ...]

    def asks_same_as(self, other: "Surroundings") -> bool:
        """Whether an analysis in these surroundings gives the same report."""
        return self.interpreter == other.interpreter and all(
            getattr(self.settings, name) == getattr(other.settings, name) for name in _ANALYSIS_SETTINGS
        )


@dataclass(slots=True, kw_only=True)
class Configuration:
    """What the editor and the user's commands said; one for all roots."""

    table: Mapping[str, Any] = field(default_factory=dict[str, Any])
    interpreter: str = ""
    hardware: str | None = None

    def update(self, table: Mapping[str, Any]) -> None:
        """Take over the editor's settings. A hardware chosen by command lasts until the editor names another one."""
        if without_defaults(table).get("hardware") != without_defaults(self.table).get("hardware"):
            self.hardware = None
        self.table = table

    def resolve(self, root: Path | None) -> Surroundings:
        """The settings for `root`; reads files, so not on the event loop."""
        in_repository, problem = pyproject_table(root)
        base, warnings = layered(Settings(), in_repository, "pyproject.toml")
        settings, more = layered(base, without_defaults(self.table), "the editor's settings")
        if self.hardware is not None:
            settings = replace(settings, hardware=self.hardware)
        interpreter = find_interpreter(setting=settings.interpreter, chosen=self.interpreter, root=root)
        return Surroundings(
            settings=settings,
            chip=chip(settings.hardware),
            interpreter=interpreter,
            warnings=(*([problem] if problem else []), *warnings, *more),
        )


def root_of(path: Path, folders: list[Path]) -> Path | None:
    """The innermost folder of the workspace that holds `path`, None for a file outside all of them."""
    # Not resolved: a file behind a link belongs to the folder that the user opened.
    holding = [folder for folder in folders if path.is_relative_to(folder)]
    return max(holding, key=lambda folder: len(folder.parts), default=None)
