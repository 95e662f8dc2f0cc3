"""Bad input gets a clear answer with a place; nothing the user's code does hurts the agent."""

from __future__ import annotations

import os
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sollens.analysis.trace.host import AgentHost, TraceRequest

Failing = Callable[..., Any]
FORWARD = """
class Model(nn.Module):
    def forward(self, x):
{body}
        return x
def get_inputs():
    return [torch.rand(2, 3)]
"""


def forward(body: str) -> str:
    return FORWARD.format(body=textwrap.indent(textwrap.dedent(body).strip(), " " * 8))


FIRST = 5  # line of the body's first statement


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("raise ValueError('odd width')", "forward-failed", "odd width"),
        ("x @ torch.rand(7, 7)", "forward-failed", "[7, 7]"),
        ("x.sum().item()", "data-dependent", "(where)"),
        ("torch.nonzero(x)", "data-dependent", "nonzero"),
        ("x[x > 0]", "data-dependent", "(where)"),
        ("if x.sum() > 0: x = x + 1", "data-dependent", ""),
        ("x.tolist()", "data-dependent", "tolist"),
        ("import sys; sys.exit(3)", "process-exit", "SystemExit"),
        ("raise RuntimeError('Found no NVIDIA driver on your system')", "needs-gpu", "accelerator"),
        ("bytearray(100 << 30)", "memory-limit", "memory"),
    ],
)  # fmt: skip
def test_a_forward_that_cannot_be_traced_says_where_and_why(problem: Failing, body: str, code: str, words: str) -> None:
    found = problem(forward(body))
    assert found.code == code, found
    assert words in found.message
    assert found.line == FIRST
    assert found.file.endswith("subject.py")


def test_os_exit_and_crashes_are_reported(problem: Failing) -> None:
    assert problem(forward("import os; os._exit(3)")).code == "process-exit"
    crash = problem(forward("import ctypes; ctypes.string_at(0)"))
    assert crash.code == "process-crash"
    assert crash.line == FIRST and "SIGSEGV" in crash.message


def test_a_loop_without_end_meets_the_deadline_and_is_located(problem: Failing) -> None:
    started = time.monotonic()
    found = problem(forward("while True:\n    pass"), deadline_s=1.0)
    assert time.monotonic() - started < 15
    assert found.code == "deadline"
    assert found.line in (FIRST, FIRST + 1)
    assert "forward" in found.message


def test_prints_stay_away_from_the_protocol_and_show_in_problems(trace: Callable[..., Any]) -> None:
    text = forward("""
    import os, sys
    print('{"id": 1}' * 1000)
    os.write(1, b"x" * 100000)
    print("told so", file=sys.stderr, flush=True)
    """)
    assert trace(text).trace is not None
    failed = trace(text.replace("return x", "raise KeyError('k')"))
    assert "told so" in failed.problems[0].detail


def test_forks_are_ended_with_their_request(trace: Callable[..., Any], tmp_path: Path) -> None:
    note = tmp_path / "pids"
    text = forward(f"""
    import os, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            open({str(note)!r}, "a").write(str(os.getpid()) + "\\n")
            time.sleep(600)
        os._exit(0)
    while not os.path.exists({str(note)!r}) or not open({str(note)!r}).read().endswith("\\n"):
        time.sleep(0.01)
    """)
    assert trace(text).trace is not None
    pid = int(note.read_text())
    until = time.monotonic() + 10
    while _alive(pid) and time.monotonic() < until:
        threading.Event().wait(0.02)
    assert not _alive(pid)


def test_a_fork_that_comes_back_does_not_answer_twice(trace: Callable[..., Any]) -> None:
    assert trace(forward("import os; os.fork()")).trace is not None
    assert trace(forward("pass")).trace is not None


def test_fake_memory_is_free(trace: Callable[..., Any]) -> None:
    assert trace(forward("x = x + torch.empty(100, 1 << 30, 1, 1)[0, 0]")).trace is not None


def test_syntax_error_has_its_place(problem: Failing) -> None:
    found = problem("def f(:\n    pass\n")
    assert (found.code, found.line) == ("syntax-error", 2)


def test_import_errors_name_the_module(problem: Failing) -> None:
    found = problem("import torch\nimport no_such_module_here\n")
    assert (found.code, found.line) == ("import-error", 3)
    assert "no_such_module_here" in found.message
    assert problem("1 / 0\n").code == "import-error"


def test_constructor_and_inputs_are_told_apart(problem: Failing) -> None:
    text = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            raise ValueError("no")
    def get_inputs(): return []
    """
    assert problem(text).code == "constructor-failed"
    assert (
        problem(text.replace('raise ValueError("no")', "").replace("return []", "return [1 / 0]")).code
        == "inputs-failed"
    )


def test_no_shapes(problem: Failing) -> None:
    found = problem("class Model(nn.Module):\n    pass\n")
    assert (found.code, found.line) == ("no-shapes", 2)
    assert "# sol:" in found.message
    assert (
        problem("class A(nn.Module): pass\nclass B(nn.Module): pass\ndef get_inputs(): return []\n").code == "no-shapes"
    )


def test_too_many_operators(problem: Failing) -> None:
    assert problem(forward("for _ in range(99): x = x + 1"), max_operators=50).code == "too-many-operators"


def test_a_file_that_is_gone(host: AgentHost, tmp_path: Path) -> None:
    reply = host.trace(TraceRequest(path=str(tmp_path / "gone.py")))
    assert reply.problems[0].code == "file-missing"


def test_unsaved_text_is_what_counts(host: AgentHost, tmp_path: Path) -> None:
    path = tmp_path / "draft.py"
    path.write_text("raise RuntimeError\n")
    text = "import torch\ndef f(x):\n    return x + 1\n"
    target = {"kind": "function", "name": "f", "inputs": [{"name": "x", "dtype": "f32", "shape": [2]}]}
    assert host.trace(TraceRequest(path=str(path), text=text, target=target)).trace is not None


def test_sibling_modules_and_packages_import(host: AgentHost, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("SIZE = 3\n")
    (tmp_path / "main.py").write_text("import torch\nfrom server import SIZE\ndef f(x): return x + SIZE\n")
    package = tmp_path / "pack" / "sub"
    package.mkdir(parents=True)
    (tmp_path / "pack" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("SIZE = 4\n")
    (package / "main.py").write_text("from .part import SIZE\ndef f(x): return x * SIZE\n")
    target = {"kind": "function", "name": "f", "inputs": [{"name": "x", "dtype": "f32", "shape": [2]}]}
    for path in (tmp_path / "main.py", package / "main.py"):
        reply = host.trace(TraceRequest(path=str(path), target=target))
        assert reply.trace is not None, reply.problems


def test_cancel_ends_a_run_at_once(host: AgentHost, tmp_path: Path) -> None:
    path = tmp_path / "slow.py"
    mark = tmp_path / "running"
    path.write_text(f"import pathlib, time\npathlib.Path({str(mark)!r}).touch()\ntime.sleep(600)\n")
    cancel = threading.Event()
    replies: list[Any] = []
    thread = threading.Thread(target=lambda: replies.append(host.trace(TraceRequest(path=str(path)), cancel=cancel)))
    thread.start()
    until = time.monotonic() + 20
    while not mark.exists() and time.monotonic() < until:
        threading.Event().wait(0.01)
    cancel.set()
    thread.join(10)
    assert replies[0].problems[0].code == "cancelled"


def test_two_requests_run_side_by_side(host: AgentHost, tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.py").write_text(
            f"import pathlib, time\nhere = pathlib.Path({str(tmp_path)!r})\n(here / '{name}').touch()\n"
            f"while not (here / '{other}').exists(): time.sleep(0.01)\ndef f(x): return x\n"
        )
    target = {"kind": "function", "name": "f", "inputs": [{"name": "x", "dtype": "f32", "shape": [2]}]}
    replies: list[Any] = []
    threads = [
        threading.Thread(
            target=lambda n=n: replies.append(host.trace(TraceRequest(path=str(tmp_path / n), target=target)))
        )
        for n in ("a.py", "b.py")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [r.problems for r in replies] == [(), ()]


def test_interpreters_that_cannot_serve(tmp_path: Path) -> None:
    assert (
        AgentHost(str(tmp_path / "nothing")).trace(TraceRequest(path="x.py")).problems[0].code == "interpreter-missing"
    )
    with AgentHost("/bin/false") as agent:
        assert agent.trace(TraceRequest(path="x.py")).problems[0].code == "agent-start"
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} -I -S "$@"\n')  # no site-packages
    bare.chmod(0o755)
    with AgentHost(str(bare)) as agent:
        found = agent.trace(TraceRequest(path="x.py")).problems[0]
    assert found.code == "framework-missing"
    assert "pip install torch" in found.message


def test_a_lost_agent_starts_again(tmp_path: Path) -> None:
    path = tmp_path / "f.py"
    path.write_text("def f(x): return x\n")
    target = {"kind": "function", "name": "f", "inputs": [{"name": "x", "dtype": "f32", "shape": [2]}]}
    with AgentHost(sys.executable) as agent:
        assert agent.trace(TraceRequest(path=str(path), target=target)).trace is not None
        process = agent._process
        assert process is not None
        process.kill()
        process.wait()
        assert agent.trace(TraceRequest(path=str(path), target=target)).trace is not None
        after = agent._process
        assert after is not None
    assert after.poll() is not None
    assert not _alive(after.pid)


def test_a_fresh_process_per_request_where_there_is_no_fork(tmp_path: Path) -> None:
    path = tmp_path / "f.py"
    path.write_text("print('noise')\ndef f(x): return x + 1\n")
    target = {"kind": "function", "name": "f", "inputs": [{"name": "x", "dtype": "f32", "shape": [2]}]}
    agent = AgentHost(sys.executable, warm=False)
    assert agent.trace(TraceRequest(path=str(path), target=target)).trace is not None
    path.write_text("import os\nos._exit(4)\n")
    assert agent.trace(TraceRequest(path=str(path), target=target)).problems[0].code == "process-exit"


def test_a_small_model_is_traced_in_a_blink(trace: Callable[..., Any]) -> None:
    text = forward("for _ in range(20): x = torch.relu(x + 1)")
    trace(text)
    assert min(trace(text).spent_s for _ in range(5)) < 0.5


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
