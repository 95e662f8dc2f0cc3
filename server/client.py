"""What the session asks of an editor, in the editor's terms but without the protocol."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from sollens.server.features.diagnostics import Mark

State = Literal["idle", "tracing", "analysing", "error", "untrusted"]


class Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the status item shows; sent as `sollens/status`."""

    state: State
    text: str
    hardware: str
    hardware_name: str
    interpreter: str | None
    uri: str | None


class Progress(Protocol):
    """A progress display that is shown when work takes a moment."""

    def report(self, message: str) -> None: ...

    def end(self) -> None: ...


class Client(Protocol):
    """An editor."""

    def publish(self, uri: str, version: int | None, marks: Sequence[Mark]) -> None:
        """Show these marks and no others on the document."""
        ...

    def refresh_hints(self) -> None:
        """Ask for the hints again, where the editor can."""
        ...

    def refresh_lenses(self) -> None:
        """Ask for the code lenses again, where the editor can."""
        ...

    def send_status(self, status: Status) -> None: ...

    def warn(self, message: str) -> None:
        """Show a message to the user."""
        ...

    def progress(self, title: str, cancel: Callable[[], object]) -> Progress: ...
