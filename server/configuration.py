"""The settings in force for a root, and what they stand for on this machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sollens.server.chips import Chip, chip
from sollens.server.config import Settings, layered, pyproject_table, without_defaults
from sollens.server.environment import Interpreter, find_interpreter
from sollens.server.measurements import Measurements, load

_ANALYSIS_SETTINGS = (
    "hardware", "precision", "target", "deadline_s", "memory_limit", "validate_enabled", "llm_base_url", "llm_model",
    "llm_key_variable", "llm_temperature", "llm_rounds", "llm_tokens", "llm_seconds",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What an analysis is run with; `warnings` say which values were not taken, and why."""

    settings: Settings
    chip: Chip
    interpreter: Interpreter
    measurements: Measurements
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
    # Of a workspace with several folders: what the editor says of each.
    of_folder: Mapping[Path, Mapping[str, Any]] = field(default_factory=dict[Path, Mapping[str, Any]])
    interpreter: str = ""
    hardware: str | None = None

    def update(self, table: Mapping[str, Any], of_folder: Mapping[Path, Mapping[str, Any]] | None = None) -> None:
        """Take over the editor's settings. A hardware chosen by command lasts until the editor names another one."""
        if without_defaults(table).get("hardware") != without_defaults(self.table).get("hardware"):
            self.hardware = None
        self.table = table
        self.of_folder = of_folder or {}

    def resolve(self, root: Path | None) -> Surroundings:
        """The settings for `root`; reads files, so not on the event loop."""
        in_repository, problem = pyproject_table(root)
        base, warnings = layered(Settings(), in_repository, "pyproject.toml", in_repository=True)
        table = self.table if root is None else self.of_folder.get(root, self.table)
        settings, more = layered(base, without_defaults(table), "the editor's settings")
        if self.hardware is not None:
            settings = replace(settings, hardware=self.hardware)
        interpreter = find_interpreter(setting=settings.interpreter, chosen=self.interpreter, root=root)
        measurements, bad_rows = _measurements(settings, root)
        return Surroundings(
            settings=settings,
            measurements=measurements,
            chip=chip(settings.hardware),
            interpreter=interpreter,
            warnings=(*([problem] if problem else []), *warnings, *more, *bad_rows),
        )


def _measurements(settings: Settings, root: Path | None) -> tuple[Measurements, list[str]]:
    if not settings.measurements.strip():
        return Measurements(), []
    path = Path(settings.measurements.strip()).expanduser()
    if not path.is_absolute():
        if root is None:
            expected = "expected a full path where no folder is open"
            return Measurements(), [f"sollens.measurements: {expected}, found {settings.measurements!r}"]
        path = root / path
    return load(path)


def root_of(path: Path, folders: list[Path]) -> Path | None:
    """The innermost folder of the workspace that holds `path`, None for a file outside all of them."""
    # Not resolved: a file behind a link belongs to the folder that the user opened.
    holding = [folder for folder in folders if path.is_relative_to(folder)]
    return max(holding, key=lambda folder: len(folder.parts), default=None)
