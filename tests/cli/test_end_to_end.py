"""Real traces through the whole pipeline, and what is said of files that cannot be traced. One warm agent for all."""

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sollens.analysis.cache import Cache
from sollens.analysis.pipeline import Cancelled, Pipeline, Request
from sollens.analysis.report import FileReport

pytestmark = pytest.mark.torch
EXAMPLES = Path(__file__).parent.parent.parent / "examples"

MODULE = """\
import os, sys, time
import torch
from torch import nn

{top}

# sol: x=f32[4, 8]
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        {body}
        return self.fc(x)
"""
FORWARD = 14  # line of {body}


@pytest.fixture(scope="module")
def pipeline() -> Iterator[Pipeline]:
    pytest.importorskip("torch")
    pipeline = Pipeline(Cache(enabled=False))
    yield pipeline
    pipeline.close()


def analyse(pipeline: Pipeline, path: Path, **settings: float) -> FileReport:
    return pipeline.analyse(Request(path=str(path), interpreter=sys.executable, **settings))


def module(folder: Path, body: str = "pass", top: str = "") -> Path:
    path = folder / "model.py"
    path.write_text(MODULE.format(body=body, top=top))
    return path


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_every_example_is_analysed_wholly(pipeline: Pipeline, name: str) -> None:
    report = analyse(pipeline, EXAMPLES / name)
    assert not report.problems
    (target,) = report.targets
    assert not target.partial and target.confidence == "high"
    assert 0 < target.time_s.fused <= target.time_s.unfused
    assert target.modules and any(row.kind == "op" for row in target.lines)


def test_the_traced_module_has_exact_counts(pipeline: Pipeline, tmp_path: Path) -> None:
    (target,) = analyse(pipeline, module(tmp_path)).targets
    assert (target.macs, target.vector_ops) == (4 * 8 * 8, 4 * 8)
    assert target.bytes.compulsory == 4 * (4 * 8 + 8 * 8 + 8 + 4 * 8)
    assert [row.line for row in target.lines if row.kind == "op"] == [FORWARD + 1]


@pytest.mark.parametrize(
    ("body", "top", "code"),
    [
        ("raise ValueError('no')", "", "forward-failed"),
        ("pass", "import a_module_that_is_nowhere", "import-error"),
        ("sys.exit(3)", "", "process-exit"),
        ("os._exit(3)", "", "process-exit"),
        ("x = x.cuda() if x.sum().item() > 0 else x", "", "data-dependent"),
        ("x = torch.empty(10**9, 100).numpy()", "", None),
        ("os.kill(os.getpid(), 11)", "", "process-crash"),
    ],
)
def test_a_file_that_fails_is_a_problem_with_its_line(
    pipeline: Pipeline, tmp_path: Path, body: str, top: str, code: str | None
) -> None:
    report = analyse(pipeline, module(tmp_path, body, top))
    assert not report.targets
    (problem,) = report.problems
    if code is not None:
        assert problem.code == code
    assert problem.message and problem.severity == "error"
    if code in ("forward-failed", "data-dependent"):
        assert problem.line == FORWARD


@pytest.mark.parametrize(
    "body",
    [
        "print('noise on stdout'); os.write(1, b'noise')",
        "pid = os.fork()\n        if not pid: time.sleep(1000)",
        "bytearray(10**6)",
    ],
)
def test_what_a_file_prints_or_forks_hurts_nothing(pipeline: Pipeline, tmp_path: Path, body: str) -> None:
    assert analyse(pipeline, module(tmp_path, body)).targets


def test_an_endless_forward_ends_at_its_deadline_and_the_next_file_works(pipeline: Pipeline, tmp_path: Path) -> None:
    start = time.perf_counter()
    report = analyse(pipeline, module(tmp_path, "while True: pass"), deadline_s=1.0)
    assert [p.code for p in report.problems] == ["deadline"]
    assert time.perf_counter() - start < 20
    assert analyse(pipeline, module(tmp_path)).targets


def test_memory_beyond_the_limit_is_a_problem(pipeline: Pipeline, tmp_path: Path) -> None:
    report = analyse(pipeline, module(tmp_path, "hog = bytearray(100 * 10**9)"), memory_bytes=2**30)
    assert [p.code for p in report.problems] == ["memory-limit"]


def test_a_cancelled_trace_ends_at_once(pipeline: Pipeline, tmp_path: Path) -> None:
    cancel = threading.Event()
    path = module(tmp_path, "while True: pass")

    def progress(stage: str, message: str) -> None:
        if stage == "trace":
            threading.Timer(0.2, cancel.set).start()

    start = time.perf_counter()
    with pytest.raises(Cancelled):
        pipeline.analyse(Request(path=str(path), interpreter=sys.executable), progress, cancel)
    assert time.perf_counter() - start < 20


def test_elements_of_nothing_are_free(pipeline: Pipeline, tmp_path: Path) -> None:
    path = module(tmp_path)
    path.write_text(path.read_text().replace("f32[4, 8]", "f32[0, 8]"))
    (target,) = analyse(pipeline, path).targets
    assert (target.macs, target.bytes.compulsory, target.time_s.fused) == (0, 0, 0.0)


def test_an_interpreter_without_torch_is_a_problem(pipeline: Pipeline, tmp_path: Path) -> None:
    import venv

    venv.create(tmp_path / "bare", symlinks=True)
    python = tmp_path / "bare" / "bin" / "python"
    report = pipeline.analyse(Request(path=str(module(tmp_path)), interpreter=str(python)))
    assert [p.code for p in report.problems] == ["framework-missing"]
    assert "torch" in report.problems[0].message


def test_a_function_and_two_targets_of_one_file(pipeline: Pipeline, tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text(
        "import torch\n\n# sol: a=f32[M=4, K=8], b=f32[K, 16]\ndef product(a, b):\n    return a @ b\n\n\n"
        "# sol: x=bf16[32], scale=2.0\ndef scaled(x, scale, shift=None):\n    return x * scale\n"
    )
    report = analyse(pipeline, path)
    assert not report.problems
    assert [(t.name, t.line, t.macs, t.vector_ops) for t in report.targets] == [
        ("product", 4, 4 * 8 * 16, 0), ("scaled", 9, 0, 32),
    ]  # fmt: skip


def test_modules_beside_the_file_are_found_and_a_changed_one_is_seen(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "parts.py").write_text("def act(x):\n    return x + 1\n")
    path = tmp_path / "main.py"
    path.write_text("import torch\nfrom pkg.parts import act\n\n# sol: x=f32[8]\ndef f(x):\n    return act(x)\n")
    pipeline = Pipeline(Cache(tmp_path / "cache"))
    try:
        assert [t.vector_ops for t in analyse(pipeline, path).targets] == [8]
        (tmp_path / "pkg" / "parts.py").write_text("def act(x):\n    return (x + 1) * x\n")
        assert [t.vector_ops for t in analyse(pipeline, path).targets] == [16]
    finally:
        pipeline.close()
