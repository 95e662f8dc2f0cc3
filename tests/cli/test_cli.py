"""The command `sollens`: what it prints and how it exits. Traces are canned; test_end_to_end has real ones."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from canned import SOURCE, FakeAgents

from sollens.analysis import cli, pipeline
from sollens.analysis.cache import Cache
from sollens.analysis.commands import show
from sollens.analysis.interpreter import choose
from sollens.analysis.report import Resource, TargetReport, Times, Traffic, Validation
from sollens.hardware import catalog


@pytest.fixture(autouse=True)
def canned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pipeline, "Agents", FakeAgents)
    monkeypatch.setenv("SOLLENS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str = SOURCE) -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = cli.main(arguments)
    output = capsys.readouterr()
    return status, output.out, output.err


CONTRACT = {
    "name",
    "line",
    "frontend",
    "macs",
    "macs_by_pipe",
    "vector_ops",
    "flop",
    "bytes",
    "time_s",
    "limit",
    "confidence",
    "partial",
    "validation",
    "inverse",
    "modules",
    "lines",
    "findings",
    "stage_s",
}


def test_json_keeps_its_contract(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert cli.main(["check", "--format", "json", "--hw", "h100-pcie", write("a.py"), write("b.py")]) == 0
    report = json.loads(capfdbinary.readouterr().out)
    assert set(report) == {"version", "hardware", "precision", "files"}
    assert (report["hardware"], report["precision"]) == ("h100-pcie", "as-written")
    assert [file["path"] for file in report["files"]] == ["a.py", "b.py"]
    for file in report["files"]:
        assert set(file) == {"path", "problems", "targets"}
        (target,) = file["targets"]
        assert set(target) >= CONTRACT
        assert set(target["bytes"]) >= {"compulsory", "cache_aware", "unfused", "plan"}
        assert set(target["time_s"]) >= {"fused", "cache_aware", "unfused", "plan"}


def test_a_table_names_bound_limit_chip_and_lines(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "check", write("a.py"))
    assert status == 0
    assert "Model  ≥ " in out and "HBM on NVIDIA H100" in out
    assert "return torch.relu(x)" in out


def test_times_beside_a_bound_are_rounded_down_as_it_is() -> None:
    report = TargetReport(
        name="Model", line=1, frontend="torch", macs=0, macs_by_pipe={}, vector_ops=0, flop=0, limit="memory",
        bytes=Traffic(compulsory=1, cache_aware=None, unfused=1), confidence="high", partial=[], inverse=None,
        time_s=Times(fused=962.9e-6, cache_aware=None, unfused=962.9e-6), validation=Validation(), modules=[], lines=[],
        findings=[], stage_s={}, hardware="l4",
        resources=[Resource(name="memory", amount=1, unit="byte", peak_per_s=1, time_s=962.9e-6)],
    )  # fmt: skip
    bounds, resources = show.grids(report, [])
    assert [row[1] for row in bounds.rows] == ["≥ 962 µs", "962 µs"]
    assert [row[3] for row in resources.rows] == ["962 µs"]


def test_html_is_one_page_of_all_files(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "check", "--format", "html", write("a.py"), write("b.py"))
    assert status == 0
    assert out.startswith("<!DOCTYPE html>") and out.count("<html") == 1
    assert "a.py</h2>" in out and "b.py</h2>" in out and out.count('<svg class="roofline"') == 2


def test_markdown_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "check", "--format", "markdown", write("a_b.py"))
    assert status == 0
    assert out.startswith("## a\\_b.py") and "| --- | ---: |" in out


@pytest.mark.parametrize(
    ("text", "code"), [("def f(:\n", "syntax-error"), (SOURCE + "# raise", "forward-failed"), (None, "file-missing")]
)
def test_unusable_input_exits_with_2_and_still_prints_json(
    capfdbinary: pytest.CaptureFixture[bytes], text: str | None, code: str
) -> None:
    name = "bad.py" if text is None else write("bad.py", text)
    assert cli.main(["check", "--format", "json", name, write("good.py")]) == 2
    bad, good = json.loads(capfdbinary.readouterr().out)["files"]
    assert [problem["code"] for problem in bad["problems"]] == [code]
    assert good["targets"]


def test_a_folder_stands_for_its_python_files(capsys: pytest.CaptureFixture[str]) -> None:
    Path("pkg/.hidden").mkdir(parents=True)
    write("pkg/one.py"), write("pkg/.hidden/two.py"), write("pkg/notes.txt")
    status, out, _ = run(capsys, "check", "pkg")
    assert status == 0
    assert "pkg/one.py" in out and "two.py" not in out


def test_nothing_to_analyse_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty").mkdir()
    assert run(capsys, "check", "empty")[0] == 2
    assert run(capsys, "check", write("plain.py", "x = 1\n"))[0] == 2


@pytest.mark.parametrize(
    ("limit", "status"),
    [("time=1s", 0), ("time=1ps", 1), ("problems=0", 0), ("headroom=99%", 0), ("saves=1s", 0)],
)
def test_fail_over_exits_with_1_over_the_limit(capsys: pytest.CaptureFixture[str], limit: str, status: int) -> None:
    assert run(capsys, "check", "--fail-over", limit, write("a.py"))[0] == status


@pytest.mark.parametrize(
    "arguments",
    [
        ["--hw", "h900"],
        ["--target", "fast"],
        ["--target", "0s"],
        ["--fail-over", "luck=1"],
        ["--fail-over", "headroom=x"],
        ["--precision", "fp7"],
        ["--memory", "much"],
    ],
)
def test_a_bad_option_exits_with_2_and_says_what_was_expected(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["check", "a.py", *arguments])
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert "expected" in err or "choose from" in err


def test_the_project_gives_defaults_and_the_command_line_wins(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    Path("pyproject.toml").write_text('[tool.sollens]\nhardware = "t4"\nprecision = "tf32"\n')
    cli.main(["check", "--format", "json", write("a.py")])
    report = json.loads(capfdbinary.readouterr().out)
    assert (report["hardware"], report["precision"]) == ("t4", "tf32")
    cli.main(["check", "--format", "json", "--hw", "l4", "--precision", "as-written", "a.py"])
    report = json.loads(capfdbinary.readouterr().out)
    assert (report["hardware"], report["precision"]) == ("l4", "as-written")


def test_hw_lists_every_chip_and_the_sources_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "hw")
    assert all(chip in out for chip in catalog.ids())
    _, out, _ = run(capsys, "hw", "t4")
    assert "http" in out and "memory bandwidth" in out


def test_ir_and_einsum_print_programs_and_problems_apart(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "ir", write("a.py"))
    assert (status, err) == (0, "") and "program Model" in out
    status, out, _ = run(capsys, "einsum", "--format", "json", "a.py")
    assert status == 0 and json.loads(out)
    status, out, err = run(capsys, "ir", write("bad.py", "def f(:\n"))
    assert (status, out) == (2, "") and "bad.py:1: syntax-error" in err


def test_cache_info_and_clear(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "check", write("a.py"))
    assert "4 entries" in run(capsys, "cache", "info")[1]
    assert "removed 4 entries" in run(capsys, "cache", "clear")[1]
    assert Cache().info().entries == 0
    run(capsys, "check", "--no-cache", "a.py")
    assert Cache().info().entries == 0


def test_an_interrupt_exits_with_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline.Pipeline, "analyse", interrupt)
    assert run(capsys, "check", write("a.py"))[0] == 130


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m sollens.analysis.cli hw | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stderr == ""


def test_the_interpreter_is_the_one_wanted_then_the_active_then_the_nearest(tmp_path: Path) -> None:
    def python(folder: str) -> Path:
        path = tmp_path / folder / "bin" / "python"
        path.parent.mkdir(parents=True)
        path.touch(mode=0o755)
        return path

    active, near = python("active"), python("project/.venv")
    deep = tmp_path / "project" / "pkg"
    variables = {"VIRTUAL_ENV": str(tmp_path / "active"), "PATH": ""}
    assert choose("/some/python", [deep], variables) == "/some/python"
    assert choose(None, [deep], variables) == str(active)
    assert choose(None, [deep], {"PATH": ""}) == str(near)
    assert choose(None, [tmp_path], {"PATH": ""}) == sys.executable


@pytest.mark.parametrize("options", [[], ["--stdio"], ["--stdio", "--log-level", "error"]])
def test_the_server_takes_its_own_options(options: list[str]) -> None:
    command = [sys.executable, "-m", "sollens.analysis.cli", "serve", *options]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"")


def test_other_commands_refuse_unknown_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(capsys, "version", "--stdio")
    assert stopped.value.code == 2
