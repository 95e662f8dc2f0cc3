"""From a lowered program to a target's report: totals, bounds at every fidelity, modules and lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from sollens.analysis.bounds.inverse import inverse
from sollens.analysis.bounds.precision import pipe_policy
from sollens.analysis.bounds.roofline import Roofline, roofline
from sollens.analysis.bounds.rows import line_rows, module_rows, resources
from sollens.analysis.einsum.lift import EinsumGraph, lift
from sollens.analysis.einsum.scopes import Scopes
from sollens.analysis.lower.lower import Lowered
from sollens.analysis.report import (
    VALIDATION_OFF,
    Confidence,
    Finding,
    TargetReport,
    Times,
    Traffic,
    Validation,
)
from sollens.analysis.trace.schema import Trace
from sollens.hardware.target import Target
from sollens.hardware.units import format_ratio, format_seconds

# A program has to gain this much from another precision before the finding is worth a line.
PRECISION_GAIN = 1.05


def assess(
    trace: Trace,
    lowered: Lowered,
    target: Target,
    precision: str = "as-written",
    target_s: float | None = None,
    stage: Callable[[str, float], None] | None = None,
    path: str = "",
) -> TargetReport:
    """The report of one target on one chip. `path` is the file whose lines are wanted (default: every file's)."""
    start = time.perf_counter()
    graph = lift(lowered.program, lowered.values)
    middle = time.perf_counter()
    report = report_of(trace, lowered, graph, target, precision, target_s, path)
    if stage is not None:
        stage("lift", middle - start)
        stage("bound", time.perf_counter() - middle)
    return report


def report_of(
    trace: Trace,
    lowered: Lowered,
    graph: EinsumGraph,
    target: Target,
    precision: str,
    target_s: float | None,
    path: str = "",
) -> TargetReport:
    """The report of a target whose einsum DAG is known."""
    scopes = Scopes(graph, pipe_policy(precision, trace.settings, target.vendor))
    whole = scopes.whole()
    fused = roofline(whole, target)
    unfused = Unfused(scopes, target)
    unfused_s, unfused_bytes = unfused.of(range(len(graph.einsums)))
    unfused_s, unfused_bytes = max(unfused_s, fused.time_s), max(unfused_bytes, whole.bytes)
    partial = [f"{p.operator}: {p.reason}" for p in lowered.partial]
    if graph.unknown_trips:
        partial.append("a loop's trip count depends on data: counted once")
    confidence: Confidence = "low" if graph.low or partial else "medium" if graph.from_inputs else "high"
    traffic = Traffic(compulsory=whole.bytes, cache_aware=whole.bytes, unfused=unfused_bytes)
    goal = None
    if target_s is not None:
        named = {"compulsory": whole.bytes, "cache_aware": whole.bytes, "unfused": unfused_bytes}
        goal = inverse(whole, named, target, target_s)
    return TargetReport(
        name=trace.name,
        line=trace.line,
        frontend="jax" if trace.frontend == "jax" else "llm" if trace.frontend == "llm" else "torch",
        macs=whole.total_macs,
        macs_by_pipe=dict(sorted(whole.macs.items())),
        vector_ops=whole.total_vector_ops,
        flop=2 * whole.total_macs + whole.total_vector_ops,
        bytes=traffic,
        time_s=Times(fused=fused.time_s, cache_aware=fused.time_s, unfused=unfused_s),
        limit=fused.limit,
        confidence=confidence,
        partial=partial,
        validation=Validation(reason=VALIDATION_OFF),
        inverse=goal,
        modules=module_rows(trace, scopes, target, unfused.of),
        lines=line_rows(trace, scopes, target, unfused.of, path),
        findings=precision_findings(trace, scopes, fused, target, precision),
        stage_s={},
        hardware=target.id,
        precision=precision,
        forward_line=trace.forward_line,
        resources=resources(fused),
        assumptions=[*trace.assumptions, *shapes(trace), *(f"lower bound only: {reason}" for reason in graph.low)],
        operators=len(trace.ops),
    )


class Unfused:
    """Operator by operator: each source-level operator reads its operands from memory and writes its results there."""

    def __init__(self, scopes: Scopes, target: Target) -> None:
        # An einsum of no known operator is one by itself.
        self.op_of = [e.source.op if e.source.op >= 0 else -1 - k for k, e in enumerate(scopes.graph.einsums)]
        members: dict[int, list[int]] = {}
        for k, op in enumerate(self.op_of):
            members.setdefault(op, []).append(k)
        self.by_op: dict[int, tuple[float, int]] = {}
        for op, einsums in members.items():
            scope = scopes.of(einsums)
            self.by_op[op] = (roofline(scope, target).time_s, scope.bytes)

    def of(self, members: Iterable[int]) -> tuple[float, int]:
        """(seconds, bytes) of these einsums' operators, one after the other."""
        ops = {self.op_of[k] for k in members}
        return sum(self.by_op[o][0] for o in ops), sum(self.by_op[o][1] for o in ops)


def shapes(trace: Trace) -> list[str]:
    """One sentence on the example inputs that the numbers stand on."""
    inputs = [t for t in trace.tensors if t.kind == "input"]
    if not inputs:
        return []
    named = ", ".join(f"{t.name or 'input'}: {t.dtype}{t.shape}" for t in inputs)
    return [f"inputs {named}"]


def precision_findings(
    trace: Trace, scopes: Scopes, fused: Roofline, target: Target, precision: str
) -> list[Finding]:
    """What TF32 and 16-bit matmuls would give, when the written precision limits the program."""
    if precision != "as-written" or fused.time_s <= 0:
        return []
    findings: list[Finding] = []
    best = fused.time_s
    for policy, says in (("tf32", "allowing TF32"), ("16bit", "using 16-bit matmuls")):
        other = roofline(scopes.whole_on(pipe_policy(policy, trace.settings, target.vendor)), target)
        if other.time_s * PRECISION_GAIN < best:
            message = (
                f"{trace.name}: {says} lowers the bound from {format_seconds(fused.time_s, 'down')} to "
                f"{format_seconds(other.time_s, 'down')} ({format_ratio(fused.time_s / other.time_s)})"
            )
            saves = fused.time_s - other.time_s
            findings.append(
                Finding(
                    code="precision",
                    line=trace.line,
                    message=message,
                    saves_s=saves,
                    share=saves / fused.time_s,
                    severity="hint",
                )
            )
            best = other.time_s
    return findings
