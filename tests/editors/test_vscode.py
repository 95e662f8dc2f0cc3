"""A real VS Code in a headless Chromium, with the packaged extension, the real server and the real trace agent."""

from pathlib import Path

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_person_at_work(vscode, shots: Path, theme: str) -> None:
    for old in (shots / theme).glob("*.png"):  # of an earlier run
        old.unlink()
    vscode.run("e2e.mjs", str(shots), theme)
    taken = {path.name for path in (shots / theme).glob("*.png")}
    assert {"1-hints.png", "2-hover.png", "15-actions.png", "7-report.png", "8-hardware.png", "11-graph.png"} <= taken
    assert "fail.png" not in taken


def test_an_untrusted_folder_is_not_run_and_a_missing_server_is_said(vscode, shots: Path) -> None:
    vscode.run("trust.mjs", str(shots))
