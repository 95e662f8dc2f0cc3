# pyright: basic
"""What every framework's side of one trace request shares: its subject, its stages and their times, its reply."""

from __future__ import annotations

import os
import time
from typing import Any

from .frames import Frames
from .problems import problem_of


class RequestRun:
    """One request in this process (which is thrown away after it)."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.path = os.path.abspath(request["path"])
        self.target: dict[str, Any] = request.get("target") or {"kind": "kernelbench"}
        self.train = self.target.get("mode") == "train"
        self.frames = Frames(self.path)
        self.max_operators: int = request.get("max_operators") or 200_000
        self.stage = "import"
        self.stage_s: dict[str, float] = {}
        self._since = time.perf_counter()
        self.line = 0
        self.forward_line = 0

    def reply(self) -> dict[str, Any]:
        """`{"ok": true, "trace": ...}` or `{"ok": false, "problems": [...]}`."""
        try:
            trace = self.trace_target()
        except BaseException as error:
            return self.failed(error)
        return {"ok": True, "trace": trace, "stage_s": self.stage_s}

    def failed(self, error: BaseException) -> dict[str, Any]:
        """The reply when tracing ended with an exception."""
        return {"ok": False, "problems": [problem_of(error, self.stage, self.frames)], "stage_s": self.stage_s}

    def trace_target(self) -> dict[str, Any]:
        """The trace, as the schema has it."""
        raise NotImplementedError

    def enter(self, stage: str) -> None:
        """The time until now belongs to the stage before."""
        now = time.perf_counter()
        self.stage_s[self.stage] = self.stage_s.get(self.stage, 0.0) + now - self._since
        self._since, self.stage = now, stage
