"""One warm agent for this folder, and functions that write a file and have it run."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from sollens.analysis.lower.lower import lower
from sollens.analysis.trace.host import AgentHost, TraceReply, TraceRequest
from sollens.analysis.validate import golden as goldens
from sollens.analysis.validate.golden import Golden
from sollens.analysis.validate.validate import Budget, Verdict, validate

PRELUDE = "import math, torch, torch.nn as nn, torch.nn.functional as F\n"
# Small, so that the examples of these tests already need twins.
BUDGET = Budget(full_points=20_000, target_points=200_000, executor="reference")


@pytest.fixture(scope="session")
def host() -> Iterator[AgentHost]:
    with AgentHost(sys.executable) as agent:
        assert agent.start() is None
        yield agent


class Files:
    """Writes a file and asks for its golden run or its verdict."""

    def __init__(self, host: AgentHost, folder: Path) -> None:
        self.host, self.folder = host, folder

    def request(self, text: str, **options: Any) -> TraceRequest:
        path = self.folder / "subject.py"
        path.write_text(PRELUDE + textwrap.dedent(text))
        return TraceRequest(path=str(path), **options)

    def reply(
        self, text: str, *, seed: int = 0, budget: Budget = BUDGET, known: Any = (), **options: Any
    ) -> TraceReply:
        folder = self.folder / f"golden{seed}"
        folder.mkdir(exist_ok=True)
        golden = {**budget.options(str(folder), seed), "known": known}
        return self.host.trace(self.request(text, golden=golden, **options))

    def golden(self, text: str, *, seed: int = 0, budget: Budget = BUDGET, **options: Any) -> Golden:
        reply = self.reply(text, seed=seed, budget=budget, **options)
        assert not reply.problems, reply.problems[0]
        assert reply.trace is not None and reply.golden is not None
        assert "no_twin" not in reply.golden, reply.golden["no_twin"]
        return goldens.read(reply.trace, reply.golden, self.folder / f"golden{seed}")

    def verdict(self, text: str, *, budget: Budget = BUDGET) -> Verdict:
        request = self.request(text)
        trace = self.host.trace(request).trace
        assert trace is not None
        return validate(self.host, request, lower(trace), budget=budget)


@pytest.fixture
def files(host: AgentHost, tmp_path: Path) -> Files:
    return Files(host, tmp_path)
