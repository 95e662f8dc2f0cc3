# pyright: basic
"""One request for golden outputs, whichever the framework: trace it, find a twin where it is too large, really run it.

A request has {"golden": {"directory": ..., "seed": 0, ...}}; see `Limits`. The reply has the trace of exactly this run
and, under "golden", where each array is.
"""

from __future__ import annotations

import ast
import time
from typing import Any

from .limits import Limits
from .request_run import RequestRun
from .shrink import Search, Twin
from .sites import assign


class GoldenRequest:
    """Trace, twin, real run; a framework says how by `run_type`, `search_type` and the methods that raise here."""

    run_type: type[RequestRun]
    search_type: type[Search] = Search

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = dict(request)
        options = dict(self.request.pop("golden"))
        self.directory = options.pop("directory")
        self.seed = int(options.pop("seed", 0))
        self.kernels = bool(options.pop("kernels", False))
        # Of an earlier reply: the twin to run again, now in double precision.
        self.signed = bool(options.pop("signed", True))
        self.again: list[Any] | None = options.pop("again", None)
        # The twin of an earlier request, tried before others.
        self.known = {int(n): int(v) for n, v in options.pop("known", None) or ()}
        self.request["seed"] = self.seed
        self.limits = Limits(**options)

    def reply(self) -> dict[str, Any]:
        """`{"ok": true, "trace": ..., "golden": ...}` or problems."""
        run, limits = self.run_type(self.request), self.limits
        reply = run.reply()
        if not reply["ok"]:
            return reply
        trace, stage_s = reply["trace"], reply["stage_s"]
        if self.again is not None:
            return self.run_again(run, trace, stage_s)
        points, elements = self.search_type.cost_of(trace)
        golden: dict[str, Any] = {
            "full": True, "sizes": {}, "tries": 0, "full_points": points, "full_elements": elements,
        }  # fmt: skip
        if points > limits.full_points or elements > limits.elements:
            start = time.perf_counter()
            search = self.search(run, trace, (points, elements))
            twin = search.run(self.known)
            golden.update(full=False, tries=search.tries, search_s=time.perf_counter() - start)
            if twin is None:
                reason = f"no smaller program with the same operators was found within {search.tries} tries"
                golden.update(no_twin=reason, **self.by_kernel(trace))
                return {"ok": True, "trace": trace, "golden": golden, "stage_s": stage_s}
            golden.update(sizes=twin.sizes, again=twin.again)
            self.request["tree"], self.request["target"] = twin.tree, twin.target
            points, elements = twin.cost
            run, reply = self.of_twin(run, twin)
            if not reply["ok"]:
                return reply
            trace = reply["trace"]
        golden.update(points=points, elements=elements)
        start = time.perf_counter()
        found = self.run(run, trace)
        if "problem" in found:
            return {"ok": False, "problems": [found["problem"]], "stage_s": stage_s}
        golden.update(found, run_s=time.perf_counter() - start)
        return {"ok": True, "trace": trace, "golden": golden, "stage_s": stage_s}

    def search(self, run: RequestRun, trace: dict[str, Any], cost: tuple[int, int]) -> Search:
        """The search for a twin of this request's file."""
        text = self.request.get("text")
        if text is None:
            with open(run.path, encoding="utf-8") as file:
                text = file.read()
        return self.search_type(self.request, ast.parse(text, filename=run.path), trace, cost, self.limits)

    def take_twin_of(self, again: list[Any], run: RequestRun, trace: dict[str, Any]) -> None:
        """From here on the request is for the twin that an earlier reply called `again`."""
        search = self.search(run, trace, (0, 0))
        self.request["target"] = assign(search.sites, {int(n): int(v) for n, v in again}, search.target)
        self.request["tree"] = search.tree

    def of_twin(self, run: RequestRun, twin: Twin) -> tuple[RequestRun, dict[str, Any]]:
        """What runs a twin, and the reply with its trace."""
        return run, {"ok": True, "trace": twin.trace}

    def by_kernel(self, trace: dict[str, Any]) -> dict[str, Any]:
        """Entries on each distinct operator run alone, where there is no twin."""
        raise NotImplementedError

    def run(self, run: RequestRun, trace: dict[str, Any]) -> dict[str, Any]:
        """Entries of a real run, or {"problem": ...}."""
        raise NotImplementedError

    def run_again(self, run: RequestRun, trace: dict[str, Any], stage_s: dict[str, float]) -> dict[str, Any]:
        """The reply of the same program in double precision: how far its own results are from exact ones."""
        raise NotImplementedError
