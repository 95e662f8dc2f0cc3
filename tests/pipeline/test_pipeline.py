"""The whole flow over a canned trace: results, problems beside them, what is cached and when it is not."""

import sys
import threading
from pathlib import Path

import msgspec
import pytest
from canned import SOURCE, FakeAgents

from sollens.analysis import cache as caches
from sollens.analysis.cache import Cache
from sollens.analysis.pipeline import Cancelled, Pipeline, Request
from sollens.hardware.catalog import UnknownTarget


@pytest.fixture
def agents() -> FakeAgents:
    return FakeAgents()


@pytest.fixture
def pipeline(tmp_path: Path, agents: FakeAgents) -> Pipeline:
    return Pipeline(Cache(tmp_path / "cache"), agents)


def request(path: Path, **changes: object) -> Request:
    return msgspec.structs.replace(Request(path=str(path), interpreter=sys.executable), **changes)


def write(folder: Path, text: str = SOURCE, name: str = "model.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_becomes_a_report_with_stage_timings(tmp_path: Path, pipeline: Pipeline) -> None:
    stages: list[str] = []
    report = pipeline.analyse(request(write(tmp_path)), lambda stage, message: stages.append(stage))
    (target,) = report.targets
    assert not report.problems
    assert (target.name, target.line, target.vector_ops, target.bytes.compulsory) == ("Model", 6, 32, 2 * 4 * 32)
    assert {"source", "trace", "lower", "lift", "bound", "total"} <= set(target.stage_s)
    assert sum(s for name, s in target.stage_s.items() if name != "total") <= target.stage_s["total"]
    assert stages == ["source", "trace", "lower", "bounds"]
    assert [(row.line, row.kind) for row in target.lines if row.kind == "op"] == [(11, "op")]


def test_nothing_is_traced_twice_until_something_changes(
    tmp_path: Path, pipeline: Pipeline, agents: FakeAgents, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = write(tmp_path, "n = 1\n", "other.py")
    path = write(tmp_path, "import other\n" + SOURCE)
    first = pipeline.analyse(request(path))
    again = pipeline.analyse(request(path))
    assert agents.traced == ["Model"]
    assert msgspec.structs.replace(again.targets[0], stage_s={}) == msgspec.structs.replace(
        first.targets[0], stage_s={}
    )
    # Another chip needs no trace; a changed import does, and so do the file's own text and the environment.
    assert pipeline.analyse(request(path, hardware="t4")).targets[0].hardware == "t4"
    assert len(agents.traced) == 1
    other.write_text("n = 2\n")
    pipeline.analyse(request(path))
    assert len(agents.traced) == 2
    pipeline.analyse(request(path, text="import other\n\n" + SOURCE))
    assert len(agents.traced) == 3
    monkeypatch.setattr("sollens.analysis.pipeline.fingerprint", lambda interpreter: "another torch")
    pipeline.analyse(request(path))
    assert len(agents.traced) == 4


def test_reports_of_other_rules_are_not_read_back_but_their_trace_is(
    tmp_path: Path, pipeline: Pipeline, agents: FakeAgents, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path)
    pipeline.analyse(request(path))
    before = caches.rules_version
    monkeypatch.setattr(
        "sollens.analysis.pipeline.rules_version", lambda *parts: before(*parts) if parts else "new rules"
    )
    stages: list[str] = []
    pipeline.analyse(request(path), lambda stage, message: stages.append(stage))
    assert len(agents.traced) == 1
    assert stages == ["source", "lower", "bounds"]


def test_a_failure_is_a_problem_beside_the_results_and_is_not_cached(
    tmp_path: Path, pipeline: Pipeline, agents: FakeAgents
) -> None:
    path = write(tmp_path, SOURCE + "# raise\n")
    for _ in range(2):
        report = pipeline.analyse(request(path))
        assert [(p.code, p.line) for p in report.problems] == [("forward-failed", 6)]
    assert len(agents.traced) == 2


def test_one_bad_target_leaves_the_others(tmp_path: Path, pipeline: Pipeline) -> None:
    text = SOURCE + "\n# sol: y=f32[4]\nclass Other(nn.Module):\n    def forward(self, x): ...\n"
    report = pipeline.analyse(request(write(tmp_path, text)))
    assert [t.name for t in report.targets] == ["Model"]
    assert [p.code for p in report.problems] == ["bad-pragma"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("def f(:\n", "syntax-error"),
        ("import torch\nclass M(torch.nn.Module):\n def forward(self, x): ...\n", "missing-shapes"),
    ],
)
def test_a_file_without_targets_says_why(tmp_path: Path, pipeline: Pipeline, text: str, code: str) -> None:
    report = pipeline.analyse(request(write(tmp_path, text)))
    assert ([p.code for p in report.problems], report.targets) == ([code], [])


def test_a_missing_file_and_a_missing_interpreter_are_problems(tmp_path: Path, pipeline: Pipeline) -> None:
    assert [p.code for p in pipeline.analyse(request(tmp_path / "gone.py")).problems] == ["file-missing"]
    report = pipeline.analyse(request(write(tmp_path), interpreter=str(tmp_path / "no-python")))
    assert [p.code for p in report.problems] == ["interpreter-missing"]


def test_the_pragma_chooses_chip_and_latency_unless_the_caller_insists(tmp_path: Path, pipeline: Pipeline) -> None:
    path = write(tmp_path, SOURCE.replace("# sol: ", "# sol: hw=t4, target=2ms, "))
    (target,) = pipeline.analyse(request(path)).targets
    assert target.hardware == "t4"
    assert target.inverse is not None and target.inverse.target_s == 0.002
    (target,) = pipeline.analyse(request(path, explicit=True, target_s=1.0)).targets
    assert target.hardware == "h100-sxm"
    assert target.inverse is not None and target.inverse.target_s == 1.0


def test_an_unknown_chip_of_a_pragma_is_a_problem_and_of_the_caller_an_error(
    tmp_path: Path, pipeline: Pipeline
) -> None:
    report = pipeline.analyse(request(write(tmp_path, SOURCE.replace("# sol: ", "# sol: hw=h900, "))))
    assert [(p.code, p.line) for p in report.problems] == [("bad-pragma", 6)]
    assert [t.hardware for t in report.targets] == ["h100-sxm"]
    with pytest.raises(UnknownTarget):
        pipeline.analyse(request(write(tmp_path), hardware="h900"))


def test_cancelling_stops_at_the_next_stage(tmp_path: Path, pipeline: Pipeline, agents: FakeAgents) -> None:
    cancel = threading.Event()
    agents.before = lambda event: event.set()
    with pytest.raises(Cancelled):
        pipeline.analyse(request(write(tmp_path)), None, cancel)


def test_excluded_files_are_left_alone(tmp_path: Path, pipeline: Pipeline, agents: FakeAgents) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.sollens]\nexclude = ["*.py"]\n')
    assert [p.code for p in pipeline.analyse(request(write(tmp_path))).problems] == ["excluded"]
    assert not agents.traced


def test_the_program_can_be_printed(tmp_path: Path, pipeline: Pipeline) -> None:
    text, problems = pipeline.ir(request(write(tmp_path)))
    assert "program Model" in text and not problems
    for form in ("text", "dot", "json"):
        assert pipeline.einsum(request(write(tmp_path)), form)[0]
