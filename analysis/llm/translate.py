"""The loop: ask, check, tell the first problem, ask again; within rounds, tokens and seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from sollens.analysis.llm.check import Judgement, judge
from sollens.analysis.llm.config import LlmConfig
from sollens.analysis.llm.endpoint import Endpoint, EndpointFailed, Message
from sollens.analysis.llm.prompt import correction, prompt, version
from sollens.analysis.llm.task import Task
from sollens.hardware.units import format_seconds

Outcome = Literal["validated", "not-validated", "failed", "no-program", "endpoint"]


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One answer: what was said, how far it came, and what the model was told."""

    reply: str
    stage: str
    problem: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """A translation as it went, whole: what was sent to whom, every answer, the best program and the verdict.

    `text` is the best program's; `outcome` is about it. `error` is why the endpoint ended the loop.
    """

    name: str
    path: str
    line: int
    host: str
    model: str
    prompt_version: str
    outcome: Outcome
    reason: str
    text: str = ""
    sizes: dict[str, int] = {}
    golden: str = ""
    max_rel_error: float | None = None
    tensor: str = ""
    statement: str = ""
    index: list[int] = []
    expected: str = ""
    found: str = ""
    error: str = ""
    error_kind: str = ""
    sent: list[Message] = []
    rounds: list[Round] = []
    seconds: float = 0.0

    @property
    def prompt_tokens(self) -> int:
        """Tokens that were sent, all rounds together."""
        return sum(r.prompt_tokens for r in self.rounds)

    @property
    def completion_tokens(self) -> int:
        """Tokens that came back."""
        return sum(r.completion_tokens for r in self.rounds)


def translate(
    task: Task, endpoint: Endpoint, config: LlmConfig, *, cancel: threading.Event | None = None,
    progress: Callable[[str], None] | None = None,
) -> Transcript:  # fmt: skip
    """Ask for the task's program until it agrees or the budget is spent; the best attempt is kept.

    What the endpoint does wrong ends the loop and is in the transcript; only a cancellation is raised, as
    EndpointFailed.
    """
    cancel = cancel or threading.Event()
    started = time.monotonic()
    deadline = started + config.seconds
    opening = prompt(task)
    conversation: list[Message] = list(opening)
    rounds: list[Round] = []
    best: Judgement | None = None
    error, kind, spent = "", "", 0
    for number in range(1, config.rounds + 1):
        if progress is not None:
            progress(f"{task.name}: round {number} of at most {config.rounds} with {config.model}")
        begun = time.monotonic()
        left = min(config.reply_tokens, config.tokens - spent - _estimate(conversation))
        if left < 200 or begun >= deadline:
            what = f"{config.tokens} tokens" if left < 200 else format_seconds(config.seconds)
            error = f"the budget of {what} is spent after {number - 1} rounds"
            kind = "budget"
            break
        try:
            reply = endpoint.complete(conversation, deadline=deadline, max_tokens=left, cancel=cancel)
        except EndpointFailed as failure:
            if failure.kind == "cancelled":
                raise
            error, kind = str(failure), failure.kind
            break
        spent += reply.prompt_tokens + reply.completion_tokens
        judgement = judge(reply.text, task, lambda: cancel.is_set() or time.monotonic() > deadline + 30)
        problem = judgement.problem
        if reply.cut and problem:
            problem = f"Your answer was cut off at {left} tokens: answer with the program alone.\n{problem}"
        rounds.append(
            Round(
                reply=reply.text,
                stage=judgement.stage,
                problem=problem,
                prompt_tokens=reply.prompt_tokens,
                completion_tokens=reply.completion_tokens,
                seconds=time.monotonic() - begun,
            )
        )
        if best is None or judgement.rank > best.rank:
            best = judgement
        if judgement.is_done:
            break
        conversation = [*opening, *correction(reply.text, problem, best.text if best is not judgement else "")]
    return _transcript(task, config, best, rounds, opening, error, kind, time.monotonic() - started)


def _transcript(
    task: Task, config: LlmConfig, best: Judgement | None, rounds: list[Round], sent: Sequence[Message], error: str,
    kind: str, seconds: float,
) -> Transcript:  # fmt: skip
    outcome: Outcome = "endpoint" if best is None else "no-program"
    reason = error or "the model gave no program that can be used"
    if best is not None:
        match best.stage:
            case "agrees":
                outcome, reason = "validated", ""
            case "unchecked":
                outcome = "not-validated"
                reason = f"translated by {config.model}: nothing to compare it with; give golden data in the pragma"
            case "results":
                outcome, reason = "failed", best.problem
            case _:
                reason = best.problem if not error else f"{error}; before: {best.problem}"
    found = best.found if best is not None else None
    return Transcript(
        name=task.name, path=task.path, line=task.line, host=config.host, model=config.model,
        prompt_version=version(), outcome=outcome, reason=reason,
        text=best.text if best is not None else "", sizes=dict((best.sizes if best else None) or {}),
        golden=task.case.about if task.case else "",
        max_rel_error=best.max_rel_error if best is not None and best.stage == "agrees" else None,
        tensor=found.tensor if found else "", statement=found.statement if found else "",
        index=list(found.difference.index) if found else [],
        expected=str(found.difference.expected) if found else "",
        found=str(found.difference.found) if found else "",
        error=error, error_kind=kind, sent=list(sent), rounds=rounds, seconds=seconds,
    )  # fmt: skip


def _estimate(messages: Sequence[Message]) -> int:
    return sum(len(m.content) for m in messages) // 4
