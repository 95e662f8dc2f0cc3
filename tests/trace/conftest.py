"""One warm agent for all tests of this folder, and `trace`, which writes a file and traces it."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sollens.analysis.trace.host import AgentHost, TraceReply, TraceRequest

pytest.importorskip("torch")

PRELUDE = "import torch, torch.nn as nn, torch.nn.functional as F\n"
Tracer = Callable[..., TraceReply]


@pytest.fixture(scope="session")
def host() -> Iterator[AgentHost]:
    with AgentHost(sys.executable) as agent:
        assert agent.start() is None
        yield agent


@pytest.fixture
def trace(host: AgentHost, tmp_path: Path) -> Tracer:
    def run(text: str, **options: Any) -> TraceReply:
        path = tmp_path / options.pop("name", "subject.py")
        path.write_text(PRELUDE + textwrap.dedent(text))
        cancel = options.pop("cancel", None)
        return host.trace(TraceRequest(path=str(path), **options), cancel=cancel)

    return run


@pytest.fixture
def ok(trace: Tracer) -> Callable[..., Any]:
    def run(text: str, **options: Any) -> Any:
        reply = trace(text, **options)
        assert not reply.problems, reply.problems[0]
        return reply.trace

    return run


@pytest.fixture
def problem(trace: Tracer) -> Callable[..., Any]:
    def run(text: str, **options: Any) -> Any:
        reply = trace(text, **options)
        assert reply.trace is None and len(reply.problems) == 1, reply
        return reply.problems[0]

    return run
