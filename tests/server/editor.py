"""An editor for tests: a real client over stdio to a real server, with a fake worker unless told otherwise."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from lsprotocol import types as t
from pytest_lsp import LanguageClient, client_capabilities
from pytest_lsp.client import make_test_lsp_client

FAKE_WORKER = Path(__file__).with_name("fake_worker.py")
MODEL = """\
import torch
class Model(torch.nn.Module):  #= 90e-6 memory
    def forward(self, x):
        y = self.a(x)  #= 41.25e-6 memory
        z = torch.relu(y)  #= 5e-6 vector 12
        return z @ z  #= 0 memory
"""


def neovim(*encodings: str) -> t.ClientCapabilities:
    """What Neovim 0.11 says it can do; it prefers UTF-8 unless other encodings are named."""
    capabilities = client_capabilities("neovim@v0.11.0")
    if encodings:
        assert capabilities.general is not None
        capabilities.general.position_encodings = [t.PositionEncodingKind(each) for each in encodings]
    return capabilities


def vscode() -> t.ClientCapabilities:
    """The part of what VS Code 1.100 says that matters here."""
    resolve = t.ClientInlayHintResolveOptions(properties=["tooltip", "textEdits", "label.tooltip", "label.command"])
    edit = t.ClientCodeActionResolveOptions(properties=["edit", "command"])
    return t.ClientCapabilities(
        general=t.GeneralClientCapabilities(position_encodings=[t.PositionEncodingKind.Utf16]),
        window=t.WindowClientCapabilities(work_done_progress=True),
        workspace=t.WorkspaceClientCapabilities(
            configuration=True,
            inlay_hint=t.InlayHintWorkspaceClientCapabilities(refresh_support=True),
            workspace_edit=t.WorkspaceEditClientCapabilities(document_changes=True),
        ),
        text_document=t.TextDocumentClientCapabilities(
            inlay_hint=t.InlayHintClientCapabilities(dynamic_registration=True, resolve_support=resolve),
            code_action=t.CodeActionClientCapabilities(data_support=True, resolve_support=edit),
            publish_diagnostics=t.PublishDiagnosticsClientCapabilities(version_support=True, data_support=True),
        ),
    )


class Editor:
    """Drives one server and keeps what it says. Waits for what it says, never for time to pass."""

    def __init__(self, root: Path, client: LanguageClient, log: Path) -> None:
        self.root = root
        self.client = client
        self.log = log
        self.statuses: list[Any] = []
        self.published: list[t.PublishDiagnosticsParams] = []
        self.refreshes = 0
        self.encoding = "utf-16"
        self.versions: dict[str, int] = {}
        self._news = asyncio.Event()

        @client.feature("sollens/status")
        def on_status(params: Any) -> None:
            self.statuses.append(params)
            self._news.set()

        @client.feature(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def on_publish(params: t.PublishDiagnosticsParams) -> None:
            self.published.append(params)
            self._news.set()

        @client.feature(t.WORKSPACE_INLAY_HINT_REFRESH)
        def on_refresh(_: None) -> None:
            self.refreshes += 1
            self._news.set()

        @client.feature(t.PROGRESS)
        def on_progress(params: t.ProgressParams) -> None:
            client.progress_reports.setdefault(params.token, []).append(params)
            self._news.set()

        @client.feature(t.WINDOW_SHOW_MESSAGE)
        def on_message(params: t.ShowMessageParams) -> None:
            client.messages.append(params)
            self._news.set()

    @classmethod
    async def start(
        cls,
        root: Path,
        *,
        capabilities: t.ClientCapabilities | None = None,
        options: Any = None,
        worker: list[str] | None = None,
        in_workspace: bool = True,
        folders: list[Path] | None = None,
        configuration: dict[Path, dict[str, Any]] | None = None,
        variables: dict[str, str] | None = None,
    ) -> "Editor":
        log = root / "worker.log"
        command = worker or [sys.executable, str(FAKE_WORKER)]
        environment = {
            **os.environ,
            "SOLLENS_WORKER_COMMAND": json.dumps(command),
            "FAKE_WORKER_LOG": str(log),
            **(variables or {}),
        }
        client = make_test_lsp_client()
        # A test's own handlers stand in for pytest-lsp's.
        for name in (t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, t.WINDOW_SHOW_MESSAGE, t.PROGRESS):
            client.protocol.fm.features.pop(name, None)
        editor = cls(root, client, log)
        await client.start_io(sys.executable, "-m", "sollens.server.app", env=environment)
        opened = [t.WorkspaceFolder(uri=folder.as_uri(), name=folder.name) for folder in folders or [root]]
        for folder, settings in (configuration or {}).items():
            client.set_configuration({"sollens": settings}, scope_uri=folder.as_uri())
        answer = await client.initialize_session(
            t.InitializeParams(
                process_id=os.getpid(),
                capabilities=capabilities or neovim(),
                root_uri=root.as_uri() if in_workspace else None,
                workspace_folders=opened if in_workspace else None,
                initialization_options=options,
            )
        )
        encoding = answer.capabilities.position_encoding
        editor.encoding = str(getattr(encoding, "value", encoding) or "utf-16")
        return editor

    @property
    def pid(self) -> int:
        assert self.client._server is not None
        return self.client._server.pid

    async def stop(self) -> None:
        if psutil.pid_exists(self.pid) and psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE:
            await self.client.shutdown_session()
        await self.client.stop()

    async def until(self, condition: Callable[[], Any], what: str = "") -> Any:
        """The condition's value once it holds."""
        try:
            async with asyncio.timeout(20):
                while not (value := condition()):
                    self._news.clear()
                    await self._news.wait()
                return value
        except TimeoutError:
            seen = self.statuses[-3:], self.published[-2:], self.client.messages[-2:]
            raise AssertionError(f"waited in vain{f' for {what}' if what else ''}; last seen: {seen}") from None

    # What a user does

    def write(self, text: str, name: str = "model.py") -> str:
        path = self.root / name
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return path.as_uri()

    def open(self, text: str = MODEL, name: str = "model.py", *, on_disk: bool = True, language: str = "python") -> str:
        uri = self.write(text, name) if on_disk else (self.root / name).as_uri()
        self.open_uri(uri, text, language)
        return uri

    def open_uri(self, uri: str, text: str, language: str = "python") -> None:
        self.versions[uri] = 1
        self.client.text_document_did_open(
            t.DidOpenTextDocumentParams(t.TextDocumentItem(uri=uri, language_id=language, version=1, text=text))
        )

    def edit(self, uri: str, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
        span = t.Range(t.Position(*start), t.Position(*end))
        self._change(uri, t.TextDocumentContentChangePartial(range=span, text=text))

    def replace(self, uri: str, text: str) -> None:
        self._change(uri, t.TextDocumentContentChangeWholeDocument(text=text))

    def _change(self, uri: str, change: t.TextDocumentContentChangeEvent) -> None:
        self.versions[uri] += 1
        identifier = t.VersionedTextDocumentIdentifier(uri=uri, version=self.versions[uri])
        self.client.text_document_did_change(t.DidChangeTextDocumentParams(identifier, [change]))

    def save(self, uri: str, text: str | None = None) -> None:
        if text is not None:
            self.write(text, uri.rsplit("/", 1)[1])
        self.client.text_document_did_save(t.DidSaveTextDocumentParams(t.TextDocumentIdentifier(uri)))

    async def heard(self, uri: str) -> None:
        """Returns once the server has taken in what was sent so far: a request is answered after the notifications
        before it.

        Needed before anything reaches the server by another way (a gate file, the worker), which may overtake the pipe.
        """
        await self.hover(uri, 0)

    def close(self, uri: str) -> None:
        self.client.text_document_did_close(t.DidCloseTextDocumentParams(t.TextDocumentIdentifier(uri)))

    # What a user sees

    async def analysed(self, uri: str, version: int = 1) -> list[t.Diagnostic]:
        """The marks on this version of the document, once it has been analysed."""

        def last() -> list[t.PublishDiagnosticsParams]:
            return [each for each in self.published if each.uri == uri and each.version == version]

        return list((await self.until(last, f"marks on version {version}"))[-1].diagnostics)

    async def state(self, state: str, uri: str | None = None) -> Any:
        """The status, once it is `state`."""

        def last() -> Any:
            found = [each for each in self.statuses if uri is None or each.uri == uri]
            return found[-1] if found and found[-1].state == state else None

        return await self.until(last, f"state {state}")

    async def hints(self, uri: str, first: int = 0, last: int = 10_000) -> list[t.InlayHint]:
        span = t.Range(t.Position(first, 0), t.Position(last, 0))
        params = t.InlayHintParams(t.TextDocumentIdentifier(uri), span)
        return list(await self.client.text_document_inlay_hint_async(params) or [])

    async def labels(self, uri: str) -> dict[int, str]:
        return {hint.position.line: str(hint.label) for hint in await self.hints(uri)}

    async def hover(self, uri: str, line: int) -> str | None:
        params = t.HoverParams(t.TextDocumentIdentifier(uri), t.Position(line, 0))
        found = await self.client.text_document_hover_async(params)
        return None if found is None else found.contents.value

    async def lenses(self, uri: str) -> dict[int, str]:
        params = t.CodeLensParams(t.TextDocumentIdentifier(uri))
        found = await self.client.text_document_code_lens_async(params) or []
        assert all(lens.command.command == "sollens.openReport" for lens in found)
        assert all(list(lens.command.arguments) == [uri] for lens in found)
        return {lens.range.start.line: lens.command.title for lens in found}

    async def actions(self, uri: str, line: int, only: list[str] | None = None) -> list[t.CodeAction]:
        span = t.Range(t.Position(line, 0), t.Position(line, 0))
        context = t.CodeActionContext(diagnostics=[], only=only)
        params = t.CodeActionParams(t.TextDocumentIdentifier(uri), span, context)
        return list(await self.client.text_document_code_action_async(params) or [])

    async def command(self, name: str, *arguments: Any) -> Any:
        params = t.ExecuteCommandParams(command=f"sollens.server.{name}", arguments=list(arguments))
        return await self.client.workspace_execute_command_async(params)

    def requests(self, method: str = "analyse") -> list[dict[str, Any]]:
        """What the fake worker was asked, in order."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [each for each in map(json.loads, lines) if each["method"] == method]

    async def asked(self, method: str = "analyse", count: int = 1) -> list[dict[str, Any]]:
        """The requests of this kind, once the fake worker has so many; it writes them to a file, so this polls."""
        async with asyncio.timeout(20):
            while len(found := self.requests(method)) < count:
                await asyncio.sleep(0.01)
        return found
