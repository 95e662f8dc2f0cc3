"""The editor at the other end of the protocol, as the session's Client."""

import asyncio
import uuid
from collections.abc import Callable, Sequence

import msgspec
from lsprotocol import types
from pygls.protocol import LanguageServerProtocol

from sollens.server import to_lsp
from sollens.server.client import Progress, Status
from sollens.server.features.diagnostics import Mark
from sollens.server.session import Session

# An analysis that is done sooner shows no progress: it would only flicker.
_PROGRESS_AFTER_S = 0.4


class LspClient:
    """Sends what the session wants shown. Requests to the editor are never awaited by an analysis: it may not
    answer."""

    def __init__(self, protocol: LanguageServerProtocol) -> None:
        self._protocol = protocol
        self._last_status: Status | None = None
        self._progresses: dict[str, _Progress] = {}
        self.abilities = to_lsp.abilities(types.ClientCapabilities())
        self.session: Session | None = None

    def publish(self, uri: str, version: int | None, marks: Sequence[Mark]) -> None:
        document = self.session.document(uri) if self.session is not None else None
        shown = [to_lsp.diagnostic(mark, document) for mark in marks] if document is not None else []
        params = types.PublishDiagnosticsParams(uri=uri, version=version, diagnostics=shown)
        self._protocol.notify(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, params)

    def refresh_hints(self) -> None:
        if self.abilities.refreshes_hints:
            self._protocol.send_request(types.WORKSPACE_INLAY_HINT_REFRESH, None)

    def refresh_lenses(self) -> None:
        if self.abilities.refreshes_lenses:
            self._protocol.send_request(types.WORKSPACE_CODE_LENS_REFRESH, None)

    def send_status(self, status: Status) -> None:
        if status != self._last_status:
            self._last_status = status
            self._protocol.notify("sollens/status", msgspec.to_builtins(status))

    def warn(self, message: str) -> None:
        self._show(types.MessageType.Warning, message)

    def error(self, message: str) -> None:
        self._show(types.MessageType.Error, message)

    def progress(self, title: str, cancel: Callable[[], object]) -> Progress:
        if not self.abilities.shows_progress:
            return _NoProgress()
        progress = _Progress(self._protocol, title, cancel, self._progresses)
        progress.start()
        return progress

    def cancel_progress(self, token: object) -> None:
        """The user pressed cancel on a progress display."""
        progress = self._progresses.get(str(token))
        if progress is not None:
            progress.cancel()

    def _show(self, kind: types.MessageType, message: str) -> None:
        params = types.ShowMessageParams(type=kind, message=message)
        self._protocol.notify(types.WINDOW_SHOW_MESSAGE, params)


class _NoProgress:
    def report(self, message: str) -> None:
        pass

    def end(self) -> None:
        pass


class _Progress:
    """A progress display: created when work lasts, and ended only when it was begun."""

    def __init__(
        self,
        protocol: LanguageServerProtocol,
        title: str,
        cancel: Callable[[], object],
        live: "dict[str, _Progress]",
    ) -> None:
        self._protocol = protocol
        self._title = title
        self._message = ""
        self._live = live
        self._token = str(uuid.uuid4())
        self._is_begun = False
        self._showing: asyncio.Task[None] | None = None
        self.cancel = cancel

    def start(self) -> None:
        self._live[self._token] = self
        self._showing = asyncio.create_task(self._show())

    def report(self, message: str) -> None:
        self._message = message
        if self._is_begun:
            self._send(types.WorkDoneProgressReport(message=message))

    def end(self) -> None:
        self._live.pop(self._token, None)
        if self._showing is not None:
            self._showing.cancel()
        if self._is_begun:
            self._is_begun = False
            self._send(types.WorkDoneProgressEnd())

    async def _show(self) -> None:
        await asyncio.sleep(_PROGRESS_AFTER_S)
        params = types.WorkDoneProgressCreateParams(token=self._token)
        # Shielded: a cancelled future would break pygls when the editor's answer comes.
        try:
            await asyncio.shield(self._protocol.send_request_async(types.WINDOW_WORK_DONE_PROGRESS_CREATE, params))
        except Exception:
            return
        self._is_begun = True
        self._send(types.WorkDoneProgressBegin(title=self._title, message=self._message or None, cancellable=True))

    def _send(
        self, value: types.WorkDoneProgressBegin | types.WorkDoneProgressReport | types.WorkDoneProgressEnd
    ) -> None:
        params = types.ProgressParams(token=self._token, value=value)
        self._protocol.notify(types.PROGRESS, params)
