"""A real Neovim with the snippet of docs/editors.md, the real server and the real trace agent."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SCRIPT = Path(__file__).parent / "nvim" / "test.lua"
BARE = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.up = nn.Linear(dim, 4 * dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(x).relu()
"""

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def snippet() -> str:
    """The init.lua that docs/editors.md gives."""
    text = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")
    match = re.search(r"^## Neovim.*?^```lua\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert match is not None, "docs/editors.md: expected a block of Lua under Neovim"
    assert "/path/to/sollens" in match[1]
    return match[1].replace("/path/to/sollens", ROOT.as_posix())


def test_the_documented_snippet_in_a_real_neovim(neovim: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text("")
    shutil.copy(ROOT / "examples" / "attention.py", project)
    (project / "bare.py").write_text(BARE, encoding="utf-8")
    init = tmp_path / "init.lua"
    init.write_text(snippet(), encoding="utf-8")
    # The environment of a user who has activated the one that sollens is in.
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "SOLLENS_CACHE_DIR": str(tmp_path / "cache"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    command = [neovim, "--headless", "--clean", "-u", str(init), "-c", f"luafile {SCRIPT}"]
    done = subprocess.run(
        command, cwd=project, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL" not in done.stdout
    assert "Error" not in done.stderr
