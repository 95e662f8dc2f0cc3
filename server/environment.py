"""Finds the Python that has the user's packages. Looks at files and PATH; runs nothing."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """The user's Python, why it was chosen, and what to say when it is not there."""

    path: str
    origin: str
    missing: str = ""


def find_interpreter(
    *,
    setting: str,
    chosen: str,
    root: Path | None,
    variables: Mapping[str, str] | None = None,
    windows: bool = os.name == "nt",
) -> Interpreter:
    """The setting, else what the editor chose, else the active environment, else the root's, else PATH.

    A setting may be relative to the root and begin with `~`. One that names no file is reported, never replaced by
    another Python.
    """
    variables = os.environ if variables is None else variables
    if setting.strip():
        return _named(setting.strip(), root, "the setting sollens.interpreter", variables)
    if chosen.strip():
        return _named(chosen.strip(), root, "the editor", variables)
    program = Path("Scripts", "python.exe") if windows else Path("bin", "python")
    candidates = [(Path(variables["VIRTUAL_ENV"]), "VIRTUAL_ENV")] if variables.get("VIRTUAL_ENV") else []
    if root is not None:
        candidates += [(root / name, f"{name} in the workspace") for name in (".venv", "venv")]
    for folder, origin in candidates:
        if (folder / program).is_file():
            return Interpreter(path=str(folder / program), origin=origin)
    for name in ("python3", "python"):
        found = shutil.which(name, path=variables.get("PATH"))
        if found:
            return Interpreter(path=found, origin="PATH")
    missing = "no python3 or python on PATH, and no virtual environment in the workspace"
    return Interpreter(path="", origin="PATH", missing=missing)


def _named(text: str, root: Path | None, origin: str, variables: Mapping[str, str]) -> Interpreter:
    path = Path(text).expanduser()
    if len(path.parts) == 1:
        found = shutil.which(text, path=variables.get("PATH"))
        if found:
            return Interpreter(path=found, origin=origin)
    if not path.is_absolute() and root is not None:
        path = root / path
    missing = "" if path.is_file() else f"expected a Python in {origin}, found no file {path}"
    return Interpreter(path=str(path), origin=origin, missing=missing)
