"""Validate a lowered program: run it (or its twin) on golden inputs and compare every tensor that both sides know."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sollens.analysis.execute.compiled.estimate import Stopped
from sollens.analysis.lower.lower import Lowered, lower
from sollens.analysis.stages import Clock
from sollens.analysis.trace.schema import from_json
from sollens.analysis.validate import golden as goldens
from sollens.analysis.validate.agree import How, agreement, statement_text
from sollens.analysis.validate.execute import Executor
from sollens.analysis.validate.form import form_difference
from sollens.analysis.validate.golden import BadGolden, Exact, Golden
from sollens.analysis.validate.verdict import Verdict

if TYPE_CHECKING:
    import threading

    from sollens.analysis.trace.host import AgentHost, TraceRequest

# The search for a twin is limited in CPU time; on a busy machine it takes longer.
_DEADLINE_S = 120.0
# Twins by file and target, so that an edited file need not be searched again. The agent checks that they still hold.
_twins: dict[tuple[str, str], tuple[tuple[int, int], ...]] = {}
_MOST_TWINS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a validation may cost; programs above `full_points` are run as twins of about `target_points`."""

    full_points: int = 3_000_000
    target_points: int = 3_000_000
    points: int = 200_000_000
    elements: int = 2_000_000
    search_s: float = 10.0
    golden_bytes: int = 256 * 2**20
    kernels: bool = True
    executor: Executor = "compiled"

    def options(self, directory: str, seed: int) -> dict[str, Any]:
        """The "golden" part of an agent's request."""
        return {
            "directory": directory, "seed": seed, "full_points": self.full_points, "target_points": self.target_points,
            "points": self.points, "elements": self.elements, "search_s": self.search_s, "bytes": self.golden_bytes,
            "kernels": self.kernels,
        }  # fmt: skip


def validate(
    host: AgentHost, request: TraceRequest, full: Lowered, *, budget: Budget | None = None, seed: int = 0,
    cancel: threading.Event | None = None, complete: Callable[[Lowered], Lowered] | None = None,
) -> Verdict:  # fmt: skip
    """How far `full`, the lowered program of `request`'s trace, agrees with the program that `request` names.

    `complete` does to the twin's lowered program what was done to `full`. Runs the user's code once more, on real
    tensors, in the agent. Never raises on what that code does.
    """
    budget = budget or Budget()
    clock = Clock()
    file = request.path, repr(request.target)
    if full.partial:
        one = full.partial[0]
        return Verdict(status="not-validated", reason=f"{one.operator} (line {one.source.line}): {one.reason}")
    with tempfile.TemporaryDirectory(prefix="sollens-golden-") as folder:
        with clock.stage("golden"):
            options = budget.options(folder, seed)
            request = replace(request, seed=seed, deadline_s=max(request.deadline_s, _DEADLINE_S))
            known = {**options, "known": _twins.get(file, ())}
            reply = host.trace(replace(request, golden=known), cancel=cancel)
        if reply.trace is None or reply.golden is None:
            told = reply.problems[0].message if reply.problems else "the agent gave no golden outputs"
            code = reply.problems[0].code if reply.problems else "agent-lost"
            return Verdict(status="not-validated", reason=told, code=code, stage_s=clock.stage_s)
        how = How(executor=budget.executor, limit_points=4 * budget.points, stop=cancel.is_set if cancel else None)
        try:
            if "no_twin" in reply.golden:
                with clock.stage("kernels"):
                    verdict = _by_kernel(reply.golden, Path(folder), how)
                return replace(verdict, stage_s=clock.stage_s)
            golden = goldens.read(reply.trace, reply.golden, Path(folder))
            _remember(file, golden.again)
            again = replace(request, golden={**options, "again": golden.again, "signed": golden.signed})
            verdict = _whole(golden, full, how, clock, lambda: _exact(host, again, cancel), complete)
        except (BadGolden, OSError) as error:
            verdict = Verdict(status="not-validated", reason=str(error), code="internal-error")
        except Stopped:
            verdict = Verdict(status="not-validated", reason="cancelled: a newer request replaced it", code="cancelled")
        except Exception as error:  # a bug here must not take the numbers down
            reason = f"the validation itself failed: {error!r}"
            verdict = Verdict(status="not-validated", reason=reason, code="internal-error")
        return replace(verdict, stage_s=clock.stage_s)


def forget_twins() -> None:
    """Search every twin anew, as a new process would."""
    _twins.clear()


def _remember(file: tuple[str, str], twin: tuple[tuple[int, int], ...]) -> None:
    if len(_twins) >= _MOST_TWINS:
        _twins.clear()
    _twins[file] = twin


def _whole(
    golden: Golden, full: Lowered, how: How, clock: Clock, exact: Callable[[], Exact | None],
    complete: Callable[[Lowered], Lowered] | None = None,
) -> Verdict:  # fmt: skip
    if golden.diverged:
        reason = f"the program ran other operators on real values than on shapes: {golden.diverged}"
        return Verdict(status="not-validated", reason=reason, sizes=golden.sizes)
    with clock.stage("lower"):
        lowered = lower(golden.trace, full)
        lowered = complete(lowered) if complete is not None else lowered
    if lowered.partial:
        one = lowered.partial[0]
        reason = f"{one.operator} (line {one.source.line}) at the twin's sizes: {one.reason}"
        return Verdict(status="not-validated", reason=reason, sizes=golden.sizes)
    with clock.stage("execute"):
        verdict = agreement(golden, lowered, how, exact)
    if verdict.status == "validated" and not golden.full:
        other = form_difference(full.program, lowered.program)
        if other is not None:
            told = other if isinstance(other, str) else f"{statement_text(other[0])} is {statement_text(other[1])}"
            verdict = replace(verdict, reason=f"the twin's loop program has another form: {told}")
    return replace(verdict, sizes=golden.sizes, points=golden.points)


def _exact(host: AgentHost, request: TraceRequest, cancel: threading.Event | None) -> Exact | None:
    """The original in double precision, or None where it does not run so."""
    reply = host.trace(request, cancel=cancel)
    try:
        return goldens.read_exact(reply.golden) if reply.golden is not None else None
    except (KeyError, TypeError, ValueError):
        return None


def _by_kernel(raw: Mapping[str, Any], folder: Path, how: How) -> Verdict:
    """Every distinct operator alone, on small extents, against the framework's own."""
    without = str(raw["no_twin"])
    kernels, unknown = raw.get("kernels", ()), [str(name) for name in raw.get("kernels_without", ())]
    worst = 0.0
    for kernel in kernels:
        golden = goldens.read(from_json(kernel["trace"]), kernel, folder)
        verdict = agreement(golden, lower(golden.trace), how)
        if verdict.status != "validated":
            target = golden.trace.ops[0].target
            return replace(verdict, reason=f"{target} alone: {verdict.reason}", kernels=len(kernels))
        worst = max(worst, verdict.max_rel_error or 0.0)
    if unknown or not kernels:
        reason = f"{without}; alone could not be run: {', '.join(unknown) or 'any operator'}"
        return Verdict(status="not-validated", reason=reason, kernels=len(kernels), max_rel_error=worst)
    return Verdict(status="by-kernel", reason=without, kernels=len(kernels), max_rel_error=worst)
