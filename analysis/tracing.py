"""Traces on demand: from a warm agent per interpreter, or from the cache."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sollens.analysis.cache import Cache
from sollens.analysis.report import Problem
from sollens.analysis.source.model import DictSpec, ListSpec, Shapes, Spec, Target, TensorSpec, TupleSpec
from sollens.analysis.trace.schema import Problem as TraceProblem
from sollens.analysis.trace.schema import Trace, from_json

if TYPE_CHECKING:
    from sollens.analysis.execute.storage import Array
    from sollens.analysis.lower.lower import Lowered
    from sollens.analysis.trace.host import AgentHost, TraceRequest
    from sollens.analysis.validate.golden import Golden
    from sollens.analysis.validate.verdict import Verdict


class TraceFailed(Exception):
    """No trace: the problems say why."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Traced:
    """A trace, and the cache entry it is kept in (None before it was kept)."""

    trace: Trace
    entry: str | None = None

    def kept(self, cache: Cache, entry: str) -> Traced:
        """The same trace after it was put into the cache."""
        if cache.enabled:
            cache.put(entry, self.trace.to_json().encode())
        return Traced(self.trace, entry)

    @staticmethod
    def read(cache: Cache, entry: str | None) -> Traced | None:
        """The trace of a cache entry; one that does not read is removed and counts as missing."""
        data = cache.get(entry) if entry is not None else None
        if data is None or entry is None:
            return None
        try:
            return Traced(from_json(data), entry)
        except (ValueError, TypeError, KeyError):
            cache.discard(entry)
            return None


@dataclass(frozen=True, slots=True)
class Recorded:
    """The tensors that one operator took, each once, and those that it gave or wrote."""

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]


class Agents:
    """One host of warm agents per interpreter, started when first asked."""

    def __init__(self) -> None:
        self._hosts: dict[str, AgentHost] = {}
        self._lock = threading.Lock()

    def host(self, interpreter: str) -> AgentHost:
        """The host of an interpreter."""
        from sollens.analysis.trace.host import AgentHost

        with self._lock:
            if interpreter not in self._hosts:
                self._hosts[interpreter] = AgentHost(interpreter)
            return self._hosts[interpreter]

    def warm(self, interpreter: str) -> None:
        """Start the agent of an interpreter, so that the first trace does not wait for its imports."""
        self.host(interpreter).start()

    def close(self) -> None:
        """End every agent."""
        with self._lock:
            for host in self._hosts.values():
                host.close()
            self._hosts.clear()

    def trace(
        self, *, interpreter: str, path: Path, text: str, target: Target, root: Path | None, deadline_s: float,
        memory_bytes: int, cancel: threading.Event,
    ) -> Traced:  # fmt: skip
        """Record a target's trace; raises TraceFailed."""
        request = _request(path, text, target, root, deadline_s, memory_bytes)
        reply = self.host(interpreter).trace(request, cancel=cancel)
        if reply.trace is None:
            raise TraceFailed([in_file(problem, path, target) for problem in reply.problems])
        return Traced(reply.trace)

    def validate(
        self, *, interpreter: str, path: Path, text: str, target: Target, root: Path | None, deadline_s: float,
        memory_bytes: int, lowered: Lowered, cancel: threading.Event,
        complete: Callable[[Lowered], Lowered] | None = None,
    ) -> Verdict:  # fmt: skip
        """Run the lowered program of a target, or its twin, against the original."""
        from sollens.analysis.validate.validate import validate

        request = _request(path, text, target, root, deadline_s, memory_bytes)
        return validate(self.host(interpreter), request, lowered, cancel=cancel, complete=complete)

    def recorded(
        self, *, interpreter: str, path: Path, text: str, target: Target, root: Path | None, deadline_s: float,
        memory_bytes: int, operators: Collection[int], cancel: threading.Event,
    ) -> dict[int, Recorded]:  # fmt: skip
        """What these operators (positions in the trace) took and gave on a twin; without those that are not known."""
        from sollens.analysis.validate import golden as goldens
        from sollens.analysis.validate.validate import Budget

        # An operator that nobody knows ties no extents together, so a twin may not fit it: then at the full size.
        twin, full = Budget(kernels=False), Budget(kernels=False, full_points=10**9, elements=5 * 10**6)
        for budget in (twin, full):
            with tempfile.TemporaryDirectory(prefix="sollens-recorded-") as folder:
                request = _request(path, text, target, root, deadline_s, memory_bytes)
                request = replace(request, golden=budget.options(folder, 0))
                reply = self.host(interpreter).trace(request, cancel=cancel)
                if cancel.is_set():
                    return {}
                if reply.trace is None or reply.golden is None or "no_twin" in reply.golden:
                    continue
                try:
                    return dict(_recorded(goldens.read(reply.trace, reply.golden, Path(folder)), operators))
                except (goldens.BadGolden, OSError):
                    continue
        return {}


def _recorded(golden: Golden, operators: Collection[int]) -> Iterator[tuple[int, Recorded]]:
    from sollens.analysis.lower.decoding import output_slots, tensor_ids

    now = dict(golden.externals)
    for position, op in enumerate(golden.trace.ops):
        given = golden.ops.get(position, {})
        if position in operators:
            ids = list(dict.fromkeys(tensor_ids(op.args, op.kwargs)))
            fresh = [s for s in output_slots(op.outputs) if s is not None and s not in op.mutates and s not in ids]
            outputs = [*fresh, *op.mutates]
            if all(n in now for n in ids) and all(n in given for n in outputs) and outputs:
                taken = tuple(golden.array(now[n]).copy() for n in ids)
                yield position, Recorded(taken, tuple(golden.array(given[n]).copy() for n in outputs))
        now.update(given)


def _request(
    path: Path, text: str, target: Target, root: Path | None, deadline_s: float, memory_bytes: int
) -> TraceRequest:
    from sollens.analysis.trace.host import TraceRequest

    return TraceRequest(
        path=str(path), text=text, target=agent_target(target), paths=[str(root)] if root else [],
        deadline_s=deadline_s, memory_bytes=memory_bytes,
    )  # fmt: skip


def in_file(problem: TraceProblem, path: Path, target: Target) -> Problem:
    """An agent's problem as one of this file: where it lies elsewhere, it stands at the target and names the place."""
    message, line, column = problem.message, problem.line, problem.column
    if problem.file and Path(problem.file) != path:
        message = f"{message} (in {problem.file}:{problem.line})"
        line, column = target.line, 0
    return Problem(
        code=problem.code,
        line=line or target.line,
        column=column,
        message=message,
        detail=problem.detail,
        severity="error",
    )


def agent_target(target: Target) -> dict[str, Any]:
    """The target as the agent's request has it."""
    shapes = target.shapes
    common: dict[str, Any] = {
        "name": target.name,
        "line": target.line,
        "frontend": target.frontend,
        "mode": target.mode,
    }
    if shapes is None or target.convention == "kernelbench":
        return {"kind": "kernelbench", **common}
    return {"kind": target.kind, **common, **_values(shapes)}


def _values(shapes: Shapes) -> dict[str, Any]:
    return {
        "inputs": [{"name": name, **_named(spec)} for name, spec in shapes.inputs],
        "init": [_value(spec) for spec in shapes.init_args],
        "init_kwargs": {name: _value(spec) for name, spec in shapes.init_kwargs},
    }


def _named(spec: Spec) -> dict[str, Any]:
    return _value(spec) if isinstance(spec, TensorSpec) else {"value": _value(spec)}


def _value(spec: Spec) -> Any:
    match spec:
        case TensorSpec():
            return {"dtype": spec.dtype, "shape": list(spec.shape)}
        case ListSpec():
            return [_value(item) for item in spec.items]
        case TupleSpec():
            return {"tuple": [_value(item) for item in spec.items]}
        case DictSpec():
            return {"dict": [[name, _value(item)] for name, item in spec.items]}
        case _:
            return spec
