"""The loop over real HTTP, and what the pipeline and the command line make of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sollens.analysis import findings
from sollens.analysis.cache import Cache
from sollens.analysis.llm import endpoint as endpoints
from sollens.analysis.llm.config import LlmConfig
from sollens.analysis.llm.consent import Consents
from sollens.analysis.llm.endpoint import EndpointFailed, OpenAIEndpoint
from sollens.analysis.llm.recording import Player, Recorder
from sollens.analysis.llm.translate import Transcript, translate
from sollens.analysis.pipeline import Pipeline, Request
from sollens.analysis.report import FileReport
from sollens.analysis.translating import Translator
from tests.llm.loopback import KEY, Answer, Loopback, Script, loopback
from tests.llm.problems import right, source_file, task, wrong


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "_FIRST_WAIT_S", 0.0)


def fenced(text: str) -> Answer:
    return Answer(f"Here is the program:\n\n```ir\n{text}```\n")


def run(script: Script, name: str = "triton_softmax", **options: Any) -> tuple[Transcript, Loopback]:
    with loopback(script) as server:
        config = LlmConfig(base_url=server.url, model="scripted", **options)
        client = OpenAIEndpoint(config, KEY)
        try:
            return translate(task(name), client, config), server
        finally:
            client.close()


WRONG_SOFTMAX = wrong("triton_softmax", "sum[c:C] numerator[r, c]", "max[c:C] numerator[r, c]")


def test_wrong_then_right_is_validated_after_being_told() -> None:
    found, server = run([fenced(WRONG_SOFTMAX), fenced(right("triton_softmax"))])
    assert found.outcome == "validated" and found.text == right("triton_softmax")
    assert [r.stage for r in found.rounds] == ["results", "agrees"]
    assert found.max_rel_error is not None and found.max_rel_error < 1e-3 and found.sizes == {"R": 32, "C": 64}
    told = server.requests[1]["messages"]
    assert [m["role"] for m in told] == ["system", "user", "assistant", "user"]
    assert "first differing element: y[0, 0]" in told[-1]["content"] and WRONG_SOFTMAX in told[-2]["content"]
    assert found.prompt_tokens == 200 and found.completion_tokens == 20


def test_never_right_keeps_the_best_attempt_and_says_how_it_fails() -> None:
    found, server = run([Answer("No."), fenced(WRONG_SOFTMAX), fenced("program p(")], rounds=3)
    assert found.outcome == "failed" and found.text == WRONG_SOFTMAX and len(found.rounds) == 3
    assert found.tensor == "y" and "numerator" in found.statement and found.expected and found.found
    assert server.requests[2]["messages"][0] == server.requests[0]["messages"][0]


def test_an_earlier_and_better_attempt_is_shown_again() -> None:
    _, server = run([fenced(WRONG_SOFTMAX), Answer("I give up."), Answer("Really.")], rounds=3)
    last = server.requests[2]["messages"][-1]["content"]
    assert "An earlier answer of yours came further" in last and WRONG_SOFTMAX in last


def test_no_program_at_all_is_no_result() -> None:
    found, _ = run([Answer("```python\nimport os\n```")], rounds=2)
    assert found.outcome == "no-program" and len(found.rounds) == 2 and not found.max_rel_error


def test_the_budget_of_tokens_ends_the_loop() -> None:
    found, server = run([fenced(WRONG_SOFTMAX)], rounds=20, tokens=6_500)
    assert 1 <= len(server.requests) < 20
    assert found.error_kind == "budget" and "tokens" in found.error and found.outcome == "failed"


def test_the_budget_of_time_ends_the_loop() -> None:
    found, _ = run([Answer(hold=True)], seconds=1)
    assert found.outcome == "endpoint" and found.error_kind == "timeout"


def test_an_answer_that_was_cut_is_told_so() -> None:
    cut = Answer("```ir\n" + right("triton_softmax")[:150], finish="length")
    _, server = run([cut, fenced(right("triton_softmax"))])
    assert "cut off" in server.requests[1]["messages"][-1]["content"]


def test_a_refusal_ends_the_loop_with_its_words() -> None:
    found, _ = run([Answer(refusal="I will not.")])
    assert found.outcome == "endpoint" and "I will not." in found.reason


def test_the_key_is_in_no_transcript(tmp_path: Path) -> None:
    found, server = run([Answer(status=401, body={"error": {"message": f"no such key {KEY}"}})])
    assert KEY not in repr(found) and server.headers[0]["authorization"].endswith(KEY)


def test_a_recording_plays_back_exactly_and_has_no_key(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    with loopback([fenced(WRONG_SOFTMAX), fenced(right("triton_softmax"))]) as server:
        config = LlmConfig(base_url=server.url, model="scripted")
        live = translate(task("triton_softmax"), Recorder(OpenAIEndpoint(config, KEY), file, config.model), config)
    assert KEY not in file.read_text()
    played = translate(task("triton_softmax"), Player(file, "scripted"), config)
    assert (played.outcome, played.text, [r.reply for r in played.rounds]) == (
        live.outcome, live.text, [r.reply for r in live.rounds],
    )  # fmt: skip
    other = translate(task("cuda_stencil"), Player(file, "scripted"), config)
    assert other.error_kind == "not-recorded"


def test_failures_are_recorded_too(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    with loopback([Answer(refusal="No.")]) as server:
        config = LlmConfig(base_url=server.url, model="scripted")
        translate(task("triton_softmax"), Recorder(OpenAIEndpoint(config, KEY), file, config.model), config)
    assert "No." in translate(task("triton_softmax"), Player(file, "scripted"), config).reason
    file.write_text("{}\n")
    with pytest.raises(ValueError, match=r"session\.jsonl:1"):
        Player(file, "scripted")


def test_a_cancellation_ends_the_loop() -> None:
    cancel = threading.Event()
    with loopback([Answer(hold=True)]) as server:
        config = LlmConfig(base_url=server.url, model="scripted")
        threading.Timer(0.2, cancel.set).start()
        with pytest.raises(EndpointFailed):
            translate(task("triton_softmax"), OpenAIEndpoint(config, KEY), config, cancel=cancel)


# --- the pipeline ---


class Desk:
    """A workspace with a pipeline whose model is the loopback server."""

    def __init__(self, folder: Path, server: Loopback) -> None:
        self.folder, self.server = folder, server
        self.cache = Cache(folder / "cache")
        self.consents = Consents(folder / "state" / "consent.json")
        self.config = LlmConfig(base_url=server.url, model="scripted")
        self.pipeline = Pipeline(self.cache, translator=Translator(self.cache, consents=self.consents))
        self.root = folder / "work"
        self.root.mkdir()

    def agree(self) -> None:
        self.consents.give(self.root, self.config.host)

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.write_text(text, encoding="utf-8")
        return path

    def check(self, path: Path, *, on: bool = True, **options: Any) -> FileReport:
        request = Request(
            path=str(path), interpreter=sys.executable, root=str(self.root), llm=self.config if on else None, **options
        )
        return self.pipeline.analyse(request)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with loopback([fenced(right("cuda_stencil"))]) as server:
        made = Desk(tmp_path, server)
        yield made
        made.pipeline.close()


SIZES = {"H": 9, "W": 12}


def stencil(desk: Desk, golden: str = "golden=case.npz") -> Path:
    """The CUDA stencil with golden data in an archive."""
    u = np.random.default_rng(1).normal(size=(9, 12)).astype(np.float32)
    v = u.copy()
    v[1:-1, 1:-1] += np.float32(0.1) * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
    np.savez(desk.root / "case.npz", u=u, v=v)
    source = source_file("cuda_stencil").read_text().replace("golden=references.py:heat_step", golden)
    return desk.write("step.cu", source.replace(", \n", "\n"))


def test_a_cuda_file_gets_a_validated_bound(desk: Desk) -> None:
    desk.agree()
    (report,) = desk.check(stencil(desk)).targets
    assert report.frontend == "llm" and report.validation.status == "validated" and report.validation.sizes == SIZES
    assert report.bytes.compulsory == 2 * 4 * 4096 * 4096 and report.limit == "memory"
    assert report.line == 3 and report.confidence == "medium"
    assert any("translated by scripted" in told for told in report.assumptions)


def test_the_second_time_nothing_is_sent(desk: Desk) -> None:
    desk.agree()
    path = stencil(desk)
    first = desk.check(path)
    sent = len(desk.server.requests)
    again = desk.check(path)
    assert sent == 1 and len(desk.server.requests) == 1
    assert again.targets[0].bytes == first.targets[0].bytes
    path.write_text(path.read_text().replace("0.1f", "0.2f"))
    desk.check(path)
    assert len(desk.server.requests) > sent  # another source is another question


def test_lines_of_the_source_get_the_work_that_the_model_says_is_theirs(desk: Desk) -> None:
    desk.agree()
    desk.server.script = [fenced(right("cuda_stencil").replace("\n  output v", " @ op=12\n  output v"))]
    (report,) = desk.check(stencil(desk)).targets
    assert [row.line for row in report.lines if row.kind == "op"] == [12]


def test_nothing_is_sent_without_consent_or_configuration(desk: Desk) -> None:
    path = stencil(desk)
    without = desk.check(path)
    assert [p.code for p in without.problems] == ["llm-consent"] and not without.targets
    assert desk.config.host in without.problems[0].message and "shapes and dtypes" in without.problems[0].message
    assert [p.code for p in desk.check(path, on=False).problems] == ["llm-off"]
    assert not desk.server.requests
    desk.agree()
    assert desk.check(path).targets
    assert desk.consents.revoke(desk.root) == 1
    assert [p.code for p in desk.check(path).problems] == ["llm-consent"]


def test_consent_is_for_one_host_and_one_workspace(desk: Desk, tmp_path: Path) -> None:
    desk.agree()
    assert desk.consents.has(desk.root, desk.config.host)
    assert not desk.consents.has(desk.root, "other.example")
    assert not desk.consents.has(tmp_path, desk.config.host)
    assert not desk.consents.file.is_relative_to(desk.root)
    desk.consents.file.write_text("not json")
    assert not desk.consents.has(desk.root, desk.config.host)


def test_without_golden_data_everything_says_not_validated(desk: Desk) -> None:
    from sollens.analysis.commands import show

    desk.agree()
    (report,) = desk.check(stencil(desk, "llm=true")).targets
    assert report.validation.status == "not-validated" and report.confidence == "low"
    assert "nothing to compare it with" in report.validation.reason
    assert any("not validated" in note for note in show.notes(report))


def test_a_program_that_is_wrong_shows_no_number(desk: Desk) -> None:
    desk.agree()
    desk.server.script = [fenced(wrong("cuda_stencil", "0.1 *", "0.2 *"))]
    found = desk.check(stencil(desk))
    assert found.targets[0].validation.status == "failed"
    (problem,) = [p for p in found.problems if p.code == "validation-failed"]
    assert "v[1, 1]" in problem.message and findings.disproved(found.targets[0]) == problem


def test_an_endpoint_that_fails_is_a_problem_and_is_asked_again_next_time(desk: Desk) -> None:
    desk.agree()
    desk.server.script = [Answer(status=401)]
    (problem,) = desk.check(stencil(desk)).problems
    assert problem.code == "llm-failed" and "SOLLENS_LLM_KEY" in problem.message
    desk.server.script = [fenced(right("cuda_stencil"))]
    assert desk.check(desk.root / "step.cu").targets


def test_a_reference_function_runs_in_the_user_s_interpreter(desk: Desk) -> None:
    desk.agree()
    reference = """
import os, numpy as np
def step(u):
    v = u.copy()
    v[1:-1, 1:-1] += np.float32(0.1) * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
    return {"v": v}
def ends(u):
    os._exit(3)
def sleeps(u):
    import time
    time.sleep(600)
def objects(u):
    return np.array([object()])
"""
    desk.write("ref.py", reference)
    (report,) = desk.check(stencil(desk, "golden=ref.py:step")).targets
    assert report.validation.status == "validated" and report.validation.sizes == {"H": 32, "W": 64}
    for function, told in (("ends", "status 3"), ("objects", "numbers"), ("gone", "expected a function gone")):
        (problem,) = desk.check(stencil(desk, f"golden=ref.py:{function}")).problems
        assert problem.code == "bad-golden" and told in problem.message
    (problem,) = desk.check(stencil(desk, "golden=ref.py:sleeps"), deadline_s=1.0).problems
    assert problem.code == "bad-golden" and "within 1 s" in problem.message


def test_an_archive_that_holds_pickles_is_refused(desk: Desk) -> None:
    desk.agree()
    path = stencil(desk)

    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {desk.folder}/exploded",)

    np.savez(desk.root / "case.npz", u=np.array([Bomb()], dtype=object), v=np.ones(3))
    (problem,) = desk.check(path).problems
    assert problem.code == "bad-golden" and not (desk.folder / "exploded").exists()
    (desk.root / "case.npz").write_bytes(b"PK\x03\x04 not a zip")
    assert [p.code for p in desk.check(path).problems] == ["bad-golden"]
    (desk.root / "case.npz").unlink()
    assert "no such file" in desk.check(path).problems[0].message
    assert not desk.server.requests


def test_python_that_cannot_be_imported_is_translated_in_its_place(desk: Desk) -> None:
    desk.agree()
    desk.server.script = [fenced(NORM)]
    path = desk.write(
        "norm.py",
        "import torch\nfrom nowhere_to_be_found import fused_norm\n\n\n# sol: x=f32[R=64, C=512]\n"
        "def norm(x):\n    return fused_norm(x)\n",
    )
    found = desk.check(path)
    (report,) = found.targets
    assert report.frontend == "llm" and report.validation.status == "not-validated"
    assert [(p.code, p.severity) for p in found.problems] == [("import-error", "information")]
    assert [p.code for p in desk.check(path, on=False).problems] == ["import-error"]


NORM = """program norm(R=64, C=512)
  input x: f32[R, C]
  s[r:R]: f32 = sum[c:C] x[r, c] * x[r, c] @ op=7
  y[r:R, c:C]: f32 = x[r, c] * rsqrt(s[r] / C) @ op=7
  output y
"""


def test_several_targets_of_a_file_are_translated_apart(desk: Desk) -> None:
    desk.agree()
    path = desk.write(
        "two.c",
        "#define SCALE 2\n// sol: x=f32[N=100], llm=true\nvoid twice(float* x) { }\n\n"
        "/* sol: x=f32[N=50], llm=true */\nvoid thrice(float* x) { }\n",
    )

    def answer(body: dict[str, Any]) -> Answer:
        asked = body["messages"][1]["content"]
        factor, size = (2, 100) if "source: twice" in asked else (3, 50)
        assert ("thrice" in asked) != ("void twice" in asked)
        return fenced(f"program p(N={size})\n  input x: f32[N]\n  y[i:N]: f32 = x[i] * {factor}.0\n  output y\n")

    desk.server.script = answer
    found = desk.check(path)
    assert [(t.name, t.line, t.vector_ops) for t in found.targets] == [("twice", 3, 100), ("thrice", 6, 50)]


def test_a_bad_pragma_of_another_language_is_told_at_its_place(desk: Desk) -> None:
    path = desk.write("bad.cu", "int a;\n// sol: x=f33[4]\nvoid f() {}\n")
    (problem,) = desk.check(path).problems
    assert problem.code == "bad-pragma" and problem.line == 2 and problem.column == 10


# --- the command line ---


def sollens(desk: Desk, *arguments: str, on: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ, "SOLLENS_CACHE_DIR": str(desk.folder / "cache"), "SOLLENS_STATE_DIR": str(desk.folder / "state"),
        "SOLLENS_CONFIG_DIR": str(desk.folder / "config"), "SOLLENS_LLM_KEY": KEY,
    }  # fmt: skip
    if on:
        environment |= {"SOLLENS_LLM_URL": desk.config.base_url, "SOLLENS_LLM_MODEL": "scripted"}
    return subprocess.run(
        [sys.executable, "-m", "sollens.analysis.cli", *arguments], env=environment, cwd=desk.root, text=True,
        capture_output=True, timeout=100,
    )  # fmt: skip


def test_the_command_line_from_consent_to_the_transcript(desk: Desk) -> None:
    path = stencil(desk)
    off = sollens(desk, "check", str(path), on=False)
    assert off.returncode == 0 or "llm-off" in off.stdout
    asked = sollens(desk, "llm", "consent")
    assert asked.returncode == 2 and desk.config.host in asked.stdout
    assert sollens(desk, "llm", "consent", "--yes").stdout.endswith("agreed\n")
    checked = sollens(desk, "check", str(path), "--format", "json")
    report = json.loads(checked.stdout)["files"][0]["targets"][0]
    assert report["frontend"] == "llm" and report["validation"]["status"] == "validated"
    shown = sollens(desk, "llm", "show", str(path))
    assert "heat_step" in shown.stdout and "verdict: validated at H=9, W=12" in shown.stdout
    assert "--- answer 1" in shown.stdout and "__global__" in shown.stdout and KEY not in shown.stdout
    assert sollens(desk, "llm", "show", str(path), "--format", "ir").stdout.startswith("program heat_step")
    status = sollens(desk, "llm", "status").stdout
    assert desk.config.base_url in status and KEY not in status and str(desk.root) in status
    assert "1 agreement taken back" in sollens(desk, "llm", "revoke").stdout


def test_the_benchmark_plays_a_recorded_run(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    names = ["triton_softmax", "cuda_stencil"]
    with loopback([fenced(WRONG_SOFTMAX), fenced(right("triton_softmax")), fenced(right("cuda_stencil"))]) as server:
        config = LlmConfig(base_url=server.url, model="scripted")
        recorder = Recorder(OpenAIEndpoint(config, KEY), file, config.model)
        for name in names:
            translate(task(name), recorder, config)
    command = [sys.executable, "benchmarks/llm.py", *names, "--play", str(file), "--model", "scripted"]
    root = Path(__file__).parent.parent.parent
    played = subprocess.run(
        [*command, "--json", str(tmp_path / "rows.json")], cwd=root, text=True, capture_output=True, timeout=100
    )
    assert "1 of 2 at once, 2 in the end" in played.stdout, played.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [(r["problem"], r["outcome"], r["rounds"], r["prompt_tokens"]) for r in rows] == [
        ("triton_softmax", "validated", 2, 200),
        ("cuda_stencil", "validated", 1, 100),
    ]
