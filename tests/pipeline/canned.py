"""A tiny file with its trace, and agents that hand it out without starting a process."""

import threading
from pathlib import Path
from typing import Any

from sollens.analysis.report import Problem
from sollens.analysis.source.model import Target
from sollens.analysis.trace.schema import Module, Op, Span, Tensor, Trace
from sollens.analysis.tracing import Agents, Traced, TraceFailed
from sollens.analysis.validate.verdict import Verdict

SOURCE = """\
import torch
from torch import nn


# sol: x=f32[B=4, 8]
class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return torch.relu(x)
"""


def trace_of(path: Path, target: Target) -> Trace:
    """The trace of SOURCE."""
    return Trace(
        name=target.name, frontend="torch", line=target.line, forward_line=target.line + 4, outputs={"tensor": 1},
        tensors=[
            Tensor(id=0, dtype="f32", shape=[4, 8], storage=0, kind="input", name="x", strides=[8, 1], random=True),
            Tensor(id=1, dtype="f32", shape=[4, 8], storage=1, strides=[8, 1]),
        ],
        ops=[Op(target="aten.relu.default", args=[{"tensor": 0}], kwargs={}, outputs={"tensor": 1}, span=0, module=0)],
        spans=[Span(file=str(path), line=target.line + 5, column=15, end_line=target.line + 5, end_column=28)],
        modules=[Module(path="", type="Model", calls=1)],
    )  # fmt: skip


class FakeAgents(Agents):
    """Counts traces; `before` runs inside each; code that contains "raise" fails."""

    def __init__(self) -> None:
        super().__init__()
        self.traced: list[str] = []
        self.before: Any = None

    def trace(self, *, path: Path, text: str, target: Target, cancel: threading.Event, **_: Any) -> Traced:
        self.traced.append(target.name)
        if self.before is not None:
            self.before(cancel)
        if "raise" in text:
            raise TraceFailed([Problem(code="forward-failed", line=0, message="it raised", severity="error")])
        return Traced(trace_of(path, target))

    def validate(self, *, target: Target, cancel: threading.Event, **_: Any) -> Verdict:
        return Verdict(status="validated", sizes={"batch": 2, "dim": 24}, max_rel_error=3e-7)
