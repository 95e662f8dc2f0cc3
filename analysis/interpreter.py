"""The user's Python: which one the command line takes, and a fingerprint of what is installed in it.

The fingerprint lists the folders on the interpreter's path with their change times: installing, upgrading or removing
a package changes it. Asking costs one start of the interpreter (about 20 ms); afterwards only folders are looked at.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from sollens.analysis.report import Problem

_ASK = """
import json, sys
print(json.dumps({"version": sys.version, "path": [p for p in sys.path if p], "prefix": sys.prefix}))
"""
_ASK_TIMEOUT_S = 20.0


class Description(msgspec.Struct, frozen=True):
    """What an interpreter says of itself."""

    version: str
    path: list[str]
    prefix: str


class BadInterpreter(Exception):
    """A Python that is not there or does not start; carries the problem to show."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


_descriptions: dict[tuple[str, int], Description] = {}
_lock = threading.Lock()


def choose(wanted: str | None, folders: Iterable[Path], variables: Mapping[str, str] | None = None) -> str:
    """The interpreter to trace with: the one wanted, else VIRTUAL_ENV, else a `.venv` in or above the folders, or ours.

    Ours is taken when it has torch or jax; else the one on PATH.
    """
    variables = os.environ if variables is None else variables
    if wanted:
        return shutil.which(wanted) or str(Path(wanted).expanduser())
    program = Path("Scripts", "python.exe") if os.name == "nt" else Path("bin", "python")
    if variables.get("VIRTUAL_ENV"):
        active = Path(variables["VIRTUAL_ENV"]) / program
        if active.is_file():
            return str(active)
    for folder in folders:
        for parent in (folder, *folder.absolute().parents):
            if (parent / ".venv" / program).is_file():
                return str(parent / ".venv" / program)
    if any(importlib.util.find_spec(name) for name in ("torch", "jax")):
        return sys.executable
    found = shutil.which("python3", path=variables.get("PATH")) or shutil.which("python", path=variables.get("PATH"))
    return found or sys.executable


def describe(interpreter: str) -> Description:
    """Ask an interpreter for its version and path, once while its file stays the same; raises BadInterpreter."""
    try:
        changed = Path(interpreter).stat().st_mtime_ns
    except OSError:
        raise _bad(interpreter, "there is no such file") from None
    with _lock:
        known = _descriptions.get((interpreter, changed))
        if known is None:
            known = _descriptions[interpreter, changed] = _ask(interpreter)
        return known


def fingerprint(interpreter: str) -> str:
    """A text that changes when another interpreter or another set of packages would run; raises BadInterpreter."""
    about = describe(interpreter)
    parts = [str(Path(interpreter).resolve()), about.version]
    for folder in about.path:
        try:
            stat = Path(folder).stat()
            parts.append(f"{folder} {stat.st_mtime_ns}")
        except OSError:
            continue
    return "\n".join(parts)


def version_of(interpreter: str, package: str) -> str | None:
    """The installed version of a package, read off its metadata folder; None where it is not installed."""
    for folder in describe(interpreter).path:
        path = Path(folder)
        if path.is_dir():
            for metadata in path.glob(f"{package}-*.dist-info"):
                return metadata.name.removeprefix(f"{package}-").removesuffix(".dist-info")
    return None


def _ask(interpreter: str) -> Description:
    try:
        run = subprocess.run(
            [interpreter, "-c", _ASK], capture_output=True, timeout=_ASK_TIMEOUT_S, check=True, stdin=subprocess.DEVNULL
        )
        return msgspec.json.decode(run.stdout.strip().split(b"\n")[-1], type=Description)
    except subprocess.CalledProcessError as error:
        raise _bad(interpreter, f"it failed: {error.stderr.decode(errors='replace').strip()[-300:]}") from None
    except (OSError, subprocess.TimeoutExpired, msgspec.MsgspecError) as error:
        raise _bad(interpreter, str(error)) from None


def _bad(interpreter: str, found: str) -> BadInterpreter:
    message = f"expected a Python interpreter at {interpreter}, found that {found}: choose another one"
    return BadInterpreter(Problem(code="interpreter-missing", line=1, message=message, severity="error"))
