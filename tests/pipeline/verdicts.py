"""Agents that hand out canned traces and canned verdicts."""

import threading
from typing import Any

from canned import FakeAgents

from sollens.analysis.source.model import Target
from sollens.analysis.validate.compare import Difference
from sollens.analysis.validate.verdict import Mismatch, Verdict

VALIDATED = Verdict(status="validated", sizes={"batch": 2, "dim": 24}, max_rel_error=3e-7, tensors=1)


def failed(path: object, line: int = 11) -> Verdict:
    """The verdict on SOURCE under a rule that takes relu for a negation."""
    mismatch = Mismatch(
        tensor="relu", difference=Difference((0, 3), 0.25, -0.25), statement="relu[i:4, j:8]: f32 = -x[i, j]",
        operator="aten.relu.default", file=str(path), line=line, column=15, output=True,
    )  # fmt: skip
    return Verdict(status="failed", reason=str(mismatch), max_rel_error=0.5, mismatch=mismatch, tensors=1)


class Judges(FakeAgents):
    """Counts verdicts; `during` runs inside each, and `most` is how many were under way at once."""

    def __init__(self, verdict: Verdict = VALIDATED) -> None:
        super().__init__()
        self.given = verdict
        self.judged: list[str] = []
        self.during: Any = None
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()

    def validate(self, *, target: Target, cancel: threading.Event, **_: Any) -> Verdict:
        with self._lock:
            self.judged.append(target.name)
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            if self.during is not None:
                self.during(cancel)
            return self.given
        finally:
            with self._lock:
                self._now -= 1
