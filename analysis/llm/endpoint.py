"""Chat completions from an OpenAI-compatible endpoint, streamed, within budgets; every failure is an EndpointFailed.

The stream is read in a thread of its own, so that a cancellation or the deadline ends a call at once, whatever the
other side does. The key is in the request's header and nowhere else: no message and no record has it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, cast

import msgspec

from sollens.analysis.llm.config import LlmConfig

Kind = Literal[
    "unauthorized", "rate-limited", "unavailable", "timeout", "interrupted", "malformed", "refused", "rejected",
    "too-long", "cancelled", "not-recorded",
]  # fmt: skip
_AGAIN = frozenset(("rate-limited", "unavailable", "interrupted", "malformed"))
_ATTEMPTS = 3
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 20.0
_LOOK_S = 0.05
_MOST_CHARACTERS = 400_000
_STALL_S = 60.0


class Message(msgspec.Struct, frozen=True):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What the model said, and what it cost. `cut`: it ran into the limit of tokens."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cut: bool = False


class EndpointFailed(Exception):
    """No reply; the text says what was expected and what to do."""

    def __init__(self, kind: Kind, message: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.wait_s = wait_s


class Endpoint(Protocol):
    """Something that answers a conversation."""

    def complete(
        self, messages: Sequence[Message], *, deadline: float, max_tokens: int, cancel: threading.Event
    ) -> Reply:
        """The answer; raises EndpointFailed. `deadline` is a time of time.monotonic()."""
        ...


class OpenAIEndpoint:
    """An endpoint over HTTP, by the `openai` package."""

    def __init__(self, config: LlmConfig, key: str | None = None) -> None:
        import openai

        self.config = config
        self._key = config.key() if key is None else key
        # A redirect could carry the source to another host than the one that the user agreed to.
        http = openai.DefaultHttpxClient(follow_redirects=False, timeout=openai.Timeout(_STALL_S, connect=15.0))
        self._client = openai.OpenAI(
            base_url=config.base_url, api_key=self._key or "none", max_retries=0, http_client=http
        )
        # The package fills these from the environment; nobody asked to send them here.
        self._client.organization = self._client.project = None
        self._dropped: set[str] = set()
        self._limit_name = "max_tokens"

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def complete(
        self, messages: Sequence[Message], *, deadline: float, max_tokens: int, cancel: threading.Event
    ) -> Reply:
        """The answer; tried again after failures that may pass, within the deadline."""
        attempt, wait_s = 0, _FIRST_WAIT_S
        while True:
            try:
                return self._once(messages, deadline, max_tokens, cancel)
            except EndpointFailed as failure:
                if failure.kind == "rejected" and self._adapts(str(failure)):
                    continue
                attempt += 1
                pause_s = min(failure.wait_s if failure.wait_s is not None else wait_s, _LONGEST_WAIT_S)
                if failure.kind not in _AGAIN or attempt >= _ATTEMPTS or time.monotonic() + pause_s >= deadline:
                    raise
                if cancel.wait(pause_s):
                    raise EndpointFailed("cancelled", "cancelled") from None
                wait_s *= 4

    def _once(self, messages: Sequence[Message], deadline: float, max_tokens: int, cancel: threading.Event) -> Reply:
        said: queue.SimpleQueue[Reply | EndpointFailed] = queue.SimpleQueue()
        given_up = threading.Event()
        thread = threading.Thread(
            target=self._read, args=(list(messages), max_tokens, said, given_up), daemon=True, name="llm-stream"
        )
        thread.start()
        try:
            while True:
                try:
                    answer = said.get(timeout=_LOOK_S)
                except queue.Empty:
                    if cancel.is_set():
                        raise EndpointFailed("cancelled", "cancelled") from None
                    if time.monotonic() > deadline:
                        what = f"expected a reply of {self.config.host} within the time budget, found none"
                        raise EndpointFailed("timeout", f"{what}: raise llm seconds") from None
                    continue
                if isinstance(answer, EndpointFailed):
                    raise answer
                return answer
        finally:
            given_up.set()

    def _read(
        self, messages: list[Message], max_tokens: int, said: queue.SimpleQueue[Reply | EndpointFailed],
        given_up: threading.Event,
    ) -> None:  # fmt: skip
        try:
            said.put(self._streamed(messages, max_tokens, given_up))
        except EndpointFailed as failure:
            said.put(failure)
        except Exception as error:
            said.put(self._failure(error))

    def _streamed(self, messages: list[Message], max_tokens: int, given_up: threading.Event) -> Reply:
        options: dict[str, Any] = {
            "temperature": self.config.temperature,
            "stream_options": {"include_usage": True},
            self._limit_name: max_tokens,
        }
        create: Callable[..., Any] = self._client.chat.completions.create
        stream = create(
            model=self.config.model, messages=msgspec.to_builtins(messages), stream=True,
            **{name: value for name, value in options.items() if name not in self._dropped},
        )  # fmt: skip
        gathered = _Gathered()
        with stream:
            for chunk in stream:
                if given_up.is_set():
                    raise EndpointFailed("cancelled", "given up")
                gathered.add(chunk)
        return gathered.reply(messages)

    def _adapts(self, message: str) -> bool:
        """Whether the request can do without what the endpoint refuses: not all know every option."""
        if "max_tokens" in message and self._limit_name == "max_tokens":
            self._limit_name = "max_completion_tokens"
            return True
        for name in ("temperature", "stream_options", self._limit_name):
            if name in message and name not in self._dropped:
                self._dropped.add(name)
                return True
        return False

    def _failure(self, error: Exception) -> EndpointFailed:
        """What went wrong, in our words and without the key."""
        import openai

        host = self.config.host
        told = self._redacted(str(error))[:300]
        match error:
            case openai.AuthenticationError() | openai.PermissionDeniedError():
                what = f"expected {host} to take the key of {self.config.key_variable}, found status"
                return EndpointFailed("unauthorized", f"{what} {error.status_code}: set that variable to a valid key")
            case openai.RateLimitError():
                return EndpointFailed("rate-limited", f"{host} is rate limited or out of quota: {told}", _wait(error))
            case openai.APIStatusError() if error.status_code >= 500:
                return EndpointFailed("unavailable", f"{host} failed: {told}", _wait(error))
            case openai.APIStatusError():
                return EndpointFailed("rejected", f"{host} refused the request: {told}")
            case openai.APITimeoutError():
                return EndpointFailed("timeout", f"{host} said nothing for {_STALL_S:.0f} seconds")
            case openai.APIConnectionError():
                return EndpointFailed("unavailable", f"expected an endpoint at {host}, found none: {told}")
            case _ if type(error).__module__.startswith("http"):  # of the HTTP library below, in the middle of a reply
                return EndpointFailed("interrupted", f"{host} ended the reply early: {told}")
            case _:
                return EndpointFailed("malformed", f"{host} sent what is no chat completion: {told}")

    def _redacted(self, text: str) -> str:
        return text.replace(self._key, "(key)") if self._key else text


class _Gathered:
    """The chunks of one reply. The other side may send anything: what is no text is refused, and so is too much."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.refusals: list[str] = []
        self.characters = 0
        self.finish = ""
        self.usage: Any = None

    def add(self, chunk: Any) -> None:
        self.usage = getattr(chunk, "usage", None) or self.usage
        choices: Any = getattr(chunk, "choices", None) or ()
        if not isinstance(choices, (list, tuple)):
            raise EndpointFailed("malformed", "expected a list of choices in a chunk of the reply")
        for choice in cast(list[Any], choices)[:1]:
            delta = getattr(choice, "delta", None)
            for into, name in ((self.parts, "content"), (self.refusals, "refusal")):
                text = getattr(delta, name, None)
                if text is None:
                    continue
                if not isinstance(text, str):
                    raise EndpointFailed("malformed", f"expected text in a chunk of the reply, found {type(text)}")
                self.characters += len(text)
                into.append(text)
            self.finish = getattr(choice, "finish_reason", None) or self.finish
        if self.characters > _MOST_CHARACTERS:
            raise EndpointFailed("too-long", f"expected a reply of at most {_MOST_CHARACTERS} characters, found more")

    def reply(self, messages: list[Message]) -> Reply:
        if self.refusals or self.finish == "content_filter":
            said = "".join(self.refusals)[:200] or "its content filter"
            raise EndpointFailed("refused", f"the model refused: {said}")
        if not self.finish:
            raise EndpointFailed("interrupted", "the reply ended before its end was said")
        text = "".join(self.parts)
        return Reply(
            text=text, cut=self.finish == "length",
            prompt_tokens=_count(self.usage, "prompt_tokens", sum(len(m.content) for m in messages)),
            completion_tokens=_count(self.usage, "completion_tokens", len(text)),
        )  # fmt: skip


def _count(usage: Any, name: str, characters: int) -> int:
    """Tokens as the endpoint counted them; where it does not say, about one for three characters."""
    value = getattr(usage, name, None)
    return value if isinstance(value, int) and value > 0 else characters // 3


def _wait(error: Any) -> float | None:
    try:
        return max(0.0, float(error.response.headers["retry-after"]))
    except (AttributeError, KeyError, ValueError):
        return None
