"""`sollens check` says how far the program behind its numbers was checked; a wrong one has no numbers in tables."""

import json
import sys
from pathlib import Path

import pytest
from canned import SOURCE
from verdicts import Judges, failed

from sollens.analysis import cli, pipeline
from sollens.analysis.lower import elementwise
from sollens.analysis.validate.verdict import Verdict


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOLLENS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(SOURCE, encoding="utf-8")


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch) -> Judges:
    agents = Judges()
    monkeypatch.setattr(pipeline, "Agents", lambda: agents)
    return agents


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = cli.main(["check", *arguments])
    return status, capsys.readouterr().out


def test_a_check_validates_unless_told_not_to(capsys: pytest.CaptureFixture[str], judges: Judges) -> None:
    status, out = check(capsys, "--no-validate", "model.py")
    assert (status, judges.judged) == (0, [])
    assert "validation: not validated" in out
    status, out = check(capsys, "model.py")
    assert (status, judges.judged) == (0, ["Model"])
    assert "validation: validated on twin batch=2, dim=24 (error 3e-7)" in out
    check(capsys, "model.py")
    assert judges.judged == ["Model"]


def test_sizes_without_a_name_are_told_by_their_line(capsys: pytest.CaptureFixture[str], judges: Judges) -> None:
    judges.given = Verdict(status="validated", sizes={"8:31": 4, "dim": 24, "8:37": 32}, max_rel_error=3e-7)
    assert "validated on twin dim=24; 4, 32 on line 8 (error 3e-7)" in check(capsys, "model.py")[1]


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        (Verdict(status="validated", max_rel_error=0.0), "validation: validated"),
        (Verdict(status="by-kernel", reason="no twin is small enough", max_rel_error=1e-6, kernels=3), "kernel"),
        (Verdict(status="not-validated", reason="no rule for aten.foo"), "not validated: no rule for aten.foo"),
    ],
)
def test_each_verdict_is_told_with_its_reason(
    capsys: pytest.CaptureFixture[str], judges: Judges, verdict: Verdict, says: str
) -> None:
    judges.given = verdict
    status, out = check(capsys, "model.py")
    assert status == 0
    assert says in out and verdict.reason in out


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_a_failed_program_has_no_numbers_in_tables(
    capsys: pytest.CaptureFixture[str], judges: Judges, form: str
) -> None:
    judges.given = failed(Path("model.py").absolute())
    status, out = check(capsys, "--format", form, "model.py")
    assert status == 2
    assert "≥" not in out and "MAC" not in out and "FLOP" not in out
    assert "validation-failed" in out and "0.25" in out
    assert ("model.py:11: " if form == "table" else "line 11, ") in out


def test_a_failed_program_keeps_its_keys_in_json(capfdbinary: pytest.CaptureFixture[bytes], judges: Judges) -> None:
    assert cli.main(["check", "--format", "json", "model.py"]) == 0
    right = json.loads(capfdbinary.readouterr().out)["files"][0]["targets"][0]
    judges.given = failed(Path("model.py").absolute())
    assert cli.main(["check", "--format", "json", "--no-cache", "model.py"]) == 2
    (file,) = json.loads(capfdbinary.readouterr().out)["files"]
    (wrong,) = file["targets"]
    assert set(wrong) == set(right)
    assert wrong["validation"]["status"] == "failed"
    assert [(p["code"], p["severity"], p["line"]) for p in file["problems"]] == [("validation-failed", "error", 11)]


MODEL = """\
import torch
from torch import nn


# sol: x=f32[6, 8]
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        y = self.fc(x)
        return torch.relu(y)
"""


@pytest.mark.torch
def test_a_wrong_rule_is_caught_and_its_line_named(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    Path("model.py").write_text(MODEL, encoding="utf-8")
    options = ("--interpreter", sys.executable, "model.py")
    assert cli.main(["check", "--format", "json", *options]) == 0
    (file,) = json.loads(capfd.readouterr().out)["files"]
    assert file["targets"][0]["validation"]["status"] == "validated", file["targets"][0]["validation"]

    monkeypatch.setitem(elementwise._UNARY, "relu", elementwise.unary_op("neg"))
    assert cli.main(["check", "--format", "json", "--no-cache", *options]) == 2
    (file,) = json.loads(capfd.readouterr().out)["files"]
    (problem,) = file["problems"]
    line = MODEL.splitlines().index("        return torch.relu(y)") + 1
    assert (problem["code"], problem["severity"], problem["line"]) == ("validation-failed", "error", line)
    row = file["targets"][0]["validation"]
    assert (row["status"], row["line"], row["mismatch"]["line"]) == ("failed", line, line)
    assert row["mismatch"]["operator"] == "aten.relu.default"
    assert row["mismatch"]["expected"] == pytest.approx(max(0.0, -row["mismatch"]["found"]))
    assert "-" in row["mismatch"]["statement"]

    assert cli.main(["check", "--no-cache", *options]) == 2
    out = capfd.readouterr().out
    assert f"model.py:{line}: validation-failed: " in out
    assert "≥" not in out
    for value in ("expected", "found"):
        assert str(row["mismatch"][value]) in out
