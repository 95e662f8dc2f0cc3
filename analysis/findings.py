"""The catalogue of codes, and the findings that follow from a target's report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from sollens.analysis.report import FileReport, Finding, Problem, TargetReport, Validation
from sollens.analysis.trace.schema import Problem as TraceProblem
from sollens.hardware.units import format_percent, format_ratio, format_seconds

# A finding that saves less than this share of the program's time is not worth a mark in the editor.
SMALLEST_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Code:
    """A code of docs/diagnostics.md: whether it is a problem of the analysis or headroom of the program."""

    name: str
    kind: Literal["problem", "finding"]
    says: str


CODES = {
    code.name: code
    for code in (
        Code("syntax-error", "problem", "the file is no Python"),
        Code("missing-shapes", "problem", "no example shapes for a class or function"),
        Code("bad-pragma", "problem", "a `# sol:` line that cannot be read"),
        Code("bad-config", "problem", "a mistake in [tool.sollens]"),
        Code("excluded", "problem", "the file is excluded in [tool.sollens]"),
        Code("file-missing", "problem", "the file is not there or not readable"),
        Code("interpreter-missing", "problem", "the chosen Python is not there or does not start"),
        Code("framework-missing", "problem", "torch or jax is not installed in the chosen Python"),
        Code("import-error", "problem", "importing the file failed"),
        Code("config-missing", "problem", "a pretrained model's configuration is not on disk"),
        Code("constructor-failed", "problem", "building the module failed"),
        Code("inputs-failed", "problem", "building the example inputs failed"),
        Code("forward-failed", "problem", "running on the example inputs failed"),
        Code("data-dependent", "problem", "control flow or a shape depends on values"),
        Code("deadline", "problem", "the trace took longer than allowed"),
        Code("memory-limit", "problem", "the trace needed more memory than allowed"),
        Code("process-exit", "problem", "the file's code ended the process"),
        Code("process-crash", "problem", "the file's code crashed the process"),
        Code("needs-gpu", "problem", "the file's code needs an accelerator"),
        Code("too-many-operators", "problem", "the program is longer than the limit"),
        Code("partial", "problem", "an operator whose work is not known"),
        Code("validation-failed", "problem", "the lowered program did not reproduce the original"),
        Code("llm-off", "problem", "a model has to translate the source, and none is configured"),
        Code("llm-consent", "problem", "nobody agreed to send this workspace's sources to the model"),
        Code("llm-failed", "problem", "the model gave no program that can be used"),
        Code("bad-golden", "problem", "golden data or a reference function that cannot be used"),
        Code("worker-died", "problem", "the analysis process ended"),
        Code("internal-error", "problem", "a bug of ours"),
        Code("fusion-headroom", "finding", "one fused kernel would be faster"),
        Code("precision", "finding", "a lower precision would be faster"),
        Code("measured-headroom", "finding", "a real run took longer than the bound"),
        Code("bound-beaten", "finding", "a real run was faster than the bound"),
        Code("target-out-of-reach", "finding", "the target latency is below the bound"),
    )
}


def complete(report: TargetReport, lowering_problems: Sequence[TraceProblem] = ()) -> TargetReport:
    """The report with the findings that its own numbers imply, where the bounds did not state them already."""
    found = list(report.findings)
    stated = {finding.code for finding in found}
    if "fusion-headroom" not in stated:
        found += _fusion(report)
    if "target-out-of-reach" not in stated:
        found += _out_of_reach(report)
    reasons = [problem.message for problem in lowering_problems if problem.message not in report.partial]
    return msgspec.structs.replace(report, findings=found, partial=[*report.partial, *reasons])


def validated(report: FileReport, number: int, validation: Validation) -> FileReport:
    """The file's report with the verdict on one of its targets, and with the problem that a failed one is."""
    targets = list(report.targets)
    targets[number] = msgspec.structs.replace(targets[number], validation=validation)
    problem = disproved(targets[number])
    return msgspec.structs.replace(report, targets=targets, problems=report.problems + ([problem] if problem else []))


def disproved(report: TargetReport) -> Problem | None:
    """What is said in place of the numbers of a target whose loop program is not the original's."""
    verdict = report.validation
    if verdict.status != "failed":
        return None
    what, detail, column = verdict.reason, "", 0
    if verdict.mismatch is not None:
        found = verdict.mismatch
        element = f"{found.tensor}[{', '.join(map(str, found.index))}]"
        elsewhere = f" in {found.file}:{found.line}" if not verdict.line and found.line else ""
        what = f"{found.operator or 'the loop program'}{elsewhere}: expected {element} = {found.expected}, "
        what += f"found {found.found}"
        detail = f"loop program: {found.statement}"
        column = found.column if verdict.line else 0
    message = f"{report.name}: no number is shown, the analysed program is not the original: {what}"
    line = verdict.line or report.line
    return Problem(
        code="validation-failed", line=line, column=column, message=message, detail=detail, severity="error"
    )  # fmt: skip


def _fusion(report: TargetReport) -> list[Finding]:
    fused, unfused = report.time_s.fused, report.time_s.unfused
    if unfused <= 0 or (share := (unfused - fused) / unfused) < SMALLEST_SHARE:
        return []
    message = (
        f"{format_percent(share, 'down')} of {report.name}'s time can go by fusing: operator by operator it needs at "
        f"least {format_seconds(unfused, 'down')}, one fused kernel at least {format_seconds(fused, 'down')} "
        f"({format_ratio(unfused / fused) if fused else 'all of it is traffic'})"
    )
    return [Finding(code="fusion-headroom", line=report.line, message=message, saves_s=unfused - fused, share=share)]


def _out_of_reach(report: TargetReport) -> list[Finding]:
    if report.inverse is None or report.inverse.target_s >= report.time_s.fused:
        return []
    goal = report.inverse
    chips = f"chips that meet it: {', '.join(goal.meets)}" if goal.meets else "no known chip reaches it"
    message = (
        f"{report.name}: expected {format_seconds(goal.target_s)}, the bound here is "
        f"{format_seconds(report.time_s.fused, 'down')}; {chips}"
    )
    return [Finding(code="target-out-of-reach", line=report.line, message=message, saves_s=None, severity="warning")]
