"""Verdicts in reports: asked for after the numbers, kept by content, and a failed one takes the numbers' place."""

import json
import pickle
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from canned import SOURCE
from verdicts import Judges, failed

from sollens.analysis import cache as caches
from sollens.analysis.cache import Cache
from sollens.analysis.pipeline import Cancelled, Pipeline, Request
from sollens.analysis.report import decode_file, encode
from sollens.analysis.validate.verdict import Verdict

TWO = SOURCE + "\n\n" + SOURCE.split("\n\n\n", 1)[1].replace("Model", "Other")


@pytest.fixture
def agents() -> Judges:
    return Judges()


@pytest.fixture
def pipeline(tmp_path: Path, agents: Judges) -> Pipeline:
    return Pipeline(Cache(tmp_path / "cache"), agents)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "model.py"
    found.write_text(SOURCE, encoding="utf-8")
    return found


def request(path: Path, **changes: object) -> Request:
    return msgspec.structs.replace(Request(path=str(path), interpreter=sys.executable, validate=True), **changes)


def test_a_verdict_comes_with_the_numbers_and_its_time(pipeline: Pipeline, path: Path) -> None:
    stages: list[str] = []
    report = pipeline.analyse(request(path), lambda stage, message: stages.append(stage))
    (target,) = report.targets
    assert (target.validation.status, target.validation.sizes) == ("validated", {"batch": 2, "dim": 24})
    assert target.validation.max_rel_error == 3e-7
    assert "validate" in target.stage_s
    assert stages.index("bounds") < stages.index("validate")


def test_without_being_asked_nothing_is_run_again(pipeline: Pipeline, agents: Judges, path: Path) -> None:
    (target,) = pipeline.analyse(request(path, validate=False)).targets
    assert agents.judged == []
    assert target.validation.status == "not-validated" and target.validation.reason
    assert not target.validation.is_pending


def test_a_verdict_is_given_once_for_each_content(
    tmp_path: Path, pipeline: Pipeline, agents: Judges, path: Path
) -> None:
    first = pipeline.analyse(request(path)).targets[0].validation
    assert pipeline.analyse(request(path)).targets[0].validation == first
    # What is asked about the same program on another chip, and by another process, has the same verdict.
    assert pipeline.analyse(request(path, hardware="t4")).targets[0].validation == first
    assert Pipeline(Cache(tmp_path / "cache"), agents).analyse(request(path)).targets[0].validation == first
    assert agents.judged == ["Model"]
    pipeline.analyse(request(path, text=SOURCE.replace("B=4", "B=5")))
    assert agents.judged == ["Model", "Model"]


def test_numbers_that_were_known_before_get_their_verdict_later(pipeline: Pipeline, agents: Judges, path: Path) -> None:
    pipeline.analyse(request(path, validate=False))
    (target,) = pipeline.analyse(request(path)).targets
    assert target.validation.status == "validated"
    assert (agents.traced, agents.judged) == (["Model"], ["Model"])


def test_other_rules_judge_anew(
    pipeline: Pipeline, agents: Judges, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.analyse(request(path))
    before = caches.rules_version
    monkeypatch.setattr(
        "sollens.analysis.pipeline.rules_version",
        lambda *parts: before(*parts) + ("other lowering" if "lower" in parts else ""),
    )
    pipeline.analyse(request(path))
    assert agents.judged == ["Model", "Model"]


@pytest.mark.parametrize("code", ["deadline", "memory-limit", "process-crash", "process-exit", "agent-lost"])
def test_what_another_attempt_may_not_meet_is_not_kept(
    pipeline: Pipeline, agents: Judges, path: Path, code: str
) -> None:
    agents.given = Verdict(status="not-validated", reason="still running", code=code)
    for _ in range(2):
        (target,) = pipeline.analyse(request(path)).targets
        assert (target.validation.status, target.validation.reason) == ("not-validated", "still running")
    assert len(agents.judged) == 2


@pytest.mark.parametrize("content", [b"", b"{", pickle.dumps({"status": "validated"}), b'{"status": "sure"}'])
def test_a_kept_verdict_of_another_shape_counts_as_missing(
    tmp_path: Path, pipeline: Pipeline, agents: Judges, path: Path, content: bytes
) -> None:
    pipeline.analyse(request(path))
    store = Cache(tmp_path / "cache")
    (entry,) = (tmp_path / "cache").rglob("verdict-*")
    store.put(entry.name.removesuffix("".join(entry.suffixes)), content)
    assert pipeline.analyse(request(path)).targets[0].validation.status == "validated"
    assert len(agents.judged) == 2


def test_a_failed_verdict_is_an_error_at_the_line_with_both_values(
    pipeline: Pipeline, agents: Judges, path: Path
) -> None:
    agents.given = failed(path)
    for _ in range(2):  # anew, then from the cache
        report = pipeline.analyse(request(path))
        (problem,) = report.problems
        assert (problem.code, problem.severity, problem.line) == ("validation-failed", "error", 11)
        assert "0.25" in problem.message and "-0.25" in problem.message and "aten.relu.default" in problem.message
        (target,) = report.targets
        assert (target.validation.status, target.validation.line) == ("failed", 11)
        assert (target.vector_ops, target.time_s.fused > 0) == (32, True)
    assert len(agents.judged) == 1
    row = json.loads(encode(report))["targets"][0]["validation"]["mismatch"]
    assert (row["index"], row["expected"], row["found"]) == ([0, 3], 0.25, -0.25)
    assert row["statement"].startswith("relu[") and row["line"] == 11
    assert decode_file(encode(report)) == report


def test_a_fault_in_another_file_stands_at_the_target_and_names_the_place(
    pipeline: Pipeline, agents: Judges, path: Path
) -> None:
    agents.given = failed("/elsewhere/layers.py", line=77)
    (problem,) = pipeline.analyse(request(path)).problems
    assert problem.line == 6 and "/elsewhere/layers.py:77" in problem.message


def test_every_target_has_its_own_verdict(pipeline: Pipeline, agents: Judges, path: Path) -> None:
    report = pipeline.analyse(request(path, text=TWO))
    assert [t.validation.status for t in report.targets] == ["validated"] * 2
    assert agents.judged == ["Model", "Other"]


def test_a_cancelled_verdict_ends_the_analysis_and_is_not_kept(pipeline: Pipeline, agents: Judges, path: Path) -> None:
    cancel = threading.Event()
    agents.during = lambda event: event.set()
    agents.given = Verdict(status="not-validated", reason="cancelled", code="cancelled")
    with pytest.raises(Cancelled):
        pipeline.analyse(request(path), None, cancel)
    agents.during, agents.given = None, Judges().given
    assert pipeline.analyse(request(path)).targets[0].validation.status == "validated"


def test_a_bug_in_the_validation_leaves_the_numbers(pipeline: Pipeline, agents: Judges, path: Path) -> None:
    def crash(cancel: threading.Event) -> None:
        raise ZeroDivisionError("oops")

    agents.during = crash
    report = pipeline.analyse(request(path))
    (target,) = report.targets
    assert target.time_s.fused > 0
    assert target.validation.status == "not-validated" and "oops" in target.validation.reason
