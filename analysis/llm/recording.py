"""Conversations recorded to a file and played back, so that a run with a model can be repeated exactly without one.

A file of JSON lines, one exchange each: a digest of the messages, the messages, and the reply or how it failed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from sollens.analysis.llm.endpoint import Endpoint, EndpointFailed, Kind, Message, Reply


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a recording."""

    digest: str
    model: str
    messages: list[Message]
    reply: Reply | None = None
    failed: Kind | None = None
    message: str = ""


def digest(model: str, messages: Sequence[Message]) -> str:
    """The name of a question."""
    return sha256(msgspec.json.encode([model, list(messages)])).hexdigest()[:32]


class Recorder:
    """An endpoint that writes down what another one answers."""

    def __init__(self, endpoint: Endpoint, file: Path, model: str) -> None:
        self.endpoint, self.file, self.model = endpoint, file, model
        self._lock = threading.Lock()

    def complete(
        self, messages: Sequence[Message], *, deadline: float, max_tokens: int, cancel: threading.Event
    ) -> Reply:
        """The other one's answer."""
        asked = list(messages)
        name = digest(self.model, asked)
        try:
            reply = self.endpoint.complete(asked, deadline=deadline, max_tokens=max_tokens, cancel=cancel)
        except EndpointFailed as failure:
            if failure.kind != "cancelled":
                self._write(
                    Exchange(digest=name, model=self.model, messages=asked, failed=failure.kind, message=str(failure))
                )
            raise
        self._write(Exchange(digest=name, model=self.model, messages=asked, reply=reply))
        return reply

    def _write(self, exchange: Exchange) -> None:
        with self._lock, self.file.open("ab") as file:
            file.write(msgspec.json.encode(exchange) + b"\n")


class Player:
    """An endpoint that answers from a recording; the same question again gets the next answer recorded for it.

    Raises ValueError for a file that is no recording.
    """

    def __init__(self, file: Path, model: str) -> None:
        self.model = model
        self._exchanges: dict[str, list[Exchange]] = {}
        for number, line in enumerate(file.read_bytes().splitlines(), 1):
            try:
                exchange = msgspec.json.decode(line, type=Exchange)
            except msgspec.MsgspecError as error:
                raise ValueError(f"{file}:{number}: expected a recorded exchange, found {error}") from None
            self._exchanges.setdefault(exchange.digest, []).append(exchange)

    def complete(
        self, messages: Sequence[Message], *, deadline: float, max_tokens: int, cancel: threading.Event
    ) -> Reply:
        """The recorded answer; EndpointFailed "not-recorded" where there is none."""
        known = self._exchanges.get(digest(self.model, messages))
        if not known:
            raise EndpointFailed("not-recorded", "this conversation is not in the recording: record it anew")
        exchange = known.pop(0) if len(known) > 1 else known[0]
        if exchange.reply is None:
            raise EndpointFailed(exchange.failed or "malformed", exchange.message)
        return exchange.reply
