"""What the server does with each message of the protocol and each command."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams

from sollens.hardware.catalog import UnknownTarget
from sollens.server import to_lsp
from sollens.server.chips import Chip, all_chips, chip
from sollens.server.features.code_actions import source_actions
from sollens.server.language_server import SollensServer
from sollens.server.session import NotAnalysable
from sollens.server.worker import WorkerDied, WorkerError, WorkerSilent

logger = logging.getLogger(__name__)

_CONTENT_MODIFIED = -32801
_REQUEST_FAILED = -32803


def register(server: SollensServer) -> None:
    """Connect all handlers. They are quick or asynchronous: none blocks the loop."""
    _register_lifecycle(server)
    _register_documents(server)
    _register_features(server)
    _register_commands(server)


def _register_lifecycle(server: SollensServer) -> None:
    session = server.session

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        options = params.initialization_options
        session.folders = to_lsp.folders(params)
        session.encoding = to_lsp.encoding(server.workspace.position_encoding)
        server.client.abilities = to_lsp.abilities(params.capabilities)
        given = to_lsp.mapping_at({"options": options}, "options")
        session.is_trusted = given.get("trusted") is not False
        interpreter = given.get("interpreter")
        session.configuration.interpreter = interpreter if isinstance(interpreter, str) else ""
        session.configuration.update(to_lsp.mapping_at(given, "settings"))

    @server.feature(types.INITIALIZED)
    async def initialized(_: types.InitializedParams) -> None:
        session.announce()
        if of_folder := await _ask_of_folders(server):
            session.configure(session.configuration.table, of_folder)

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def change_configuration(params: types.DidChangeConfigurationParams) -> None:
        table = to_lsp.mapping_at(params.settings, "sollens")
        if not table and server.client.abilities.answers_configuration:
            items = [types.ConfigurationItem(section="sollens")]
            asked = server.workspace_configuration_async(types.ConfigurationParams(items=items))
            answer = await asyncio.shield(asked)
            table = to_lsp.mapping_at({"answer": answer[0] if answer else None}, "answer")
        session.configure(table, await _ask_of_folders(server))

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    async def change_folders(params: types.DidChangeWorkspaceFoldersParams) -> None:
        removed = {to_lsp.path_of(folder.uri) for folder in params.event.removed}
        added = [to_lsp.path_of(folder.uri) for folder in params.event.added]
        kept = [folder for folder in session.folders if folder not in removed]
        session.folders = kept + [folder for folder in added if folder is not None and folder not in kept]
        session.configure(session.configuration.table, await _ask_of_folders(server))

    @server.feature("sollens/trust")
    def trust(params: Any) -> None:
        session.trust(getattr(params, "trusted", False) is True)

    @server.feature(types.WINDOW_WORK_DONE_PROGRESS_CANCEL)
    def cancel_progress(params: types.WorkDoneProgressCancelParams) -> None:
        server.client.cancel_progress(params.token)


def _register_documents(server: SollensServer) -> None:
    session = server.session

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        path = to_lsp.path_of(document.uri)
        session.open(document.uri, path, document.text, document.version, str(document.language_id))

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        session.change(params.text_document.uri, params.text_document.version, to_lsp.edits(params.content_changes))

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE, types.SaveOptions(include_text=False))
    def did_save(params: types.DidSaveTextDocumentParams) -> None:
        session.save(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        session.close(params.text_document.uri)


def _register_features(server: SollensServer) -> None:
    session = server.session

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT, types.InlayHintOptions(resolve_provider=True))
    def inlay_hint(params: types.InlayHintParams) -> list[types.InlayHint]:
        uri = params.text_document.uri
        document = session.document(uri)
        if document is None:
            return []
        found = session.hints(uri, (params.range.start.line, params.range.end.line))
        hints = [to_lsp.inlay_hint(hint, document) for hint in found]
        if not server.client.abilities.resolves_tooltips:
            for hint in hints:
                resolve(hint)
        return hints

    @server.feature(types.INLAY_HINT_RESOLVE)
    def resolve(hint: types.InlayHint) -> types.InlayHint:
        data = to_lsp.hint_data(hint)
        text = session.tooltip(data[0], serial=data[1], row_line=data[2]) if data is not None else None
        if text is not None:
            hint.tooltip = to_lsp.markdown(text)
        return hint

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        document = session.document(params.text_document.uri)
        text = session.hover(params.text_document.uri, params.position.line)
        return to_lsp.hover(text, document, params.position.line) if text is not None and document is not None else None

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    def code_lens(params: types.CodeLensParams) -> list[types.CodeLens]:
        uri = params.text_document.uri
        return [to_lsp.code_lens(lens, uri) for lens in session.lenses(uri)]

    options = types.CodeActionOptions(
        code_action_kinds=[types.CodeActionKind.QuickFix, types.CodeActionKind.Source], resolve_provider=True
    )

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, options)
    def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        uri, context = params.text_document.uri, params.context
        document = session.document(uri)
        if document is None:
            return []
        found: list[types.CodeAction] = []
        if to_lsp.wants(context, "quickfix", unasked=True):
            fixes = session.quick_fixes(uri, (params.range.start.line, params.range.end.line))
            found += [to_lsp.quick_fix(fix, document, server.client.abilities) for fix in fixes]
        offered = [action for action in source_actions(uri) if to_lsp.wants(context, action.kind, unasked=False)]
        return found + [to_lsp.source_action(action) for action in offered]

    @server.feature(types.CODE_ACTION_RESOLVE)
    def resolve_action(action: types.CodeAction) -> types.CodeAction:
        data = to_lsp.insertion_data(action)
        if data is None:
            return action
        uri, insertion = data
        document = session.document(uri)
        if document is None or document.version != insertion.version:
            raise JsonRpcException("the document was edited since this was offered", code=_CONTENT_MODIFIED)
        action.edit = to_lsp.insertion_edit(insertion, uri, server.client.abilities)
        return action


def _register_commands(server: SollensServer) -> None:
    session = server.session

    @server.command("sollens.server.analyse")
    def analyse(*arguments: Any) -> None:
        try:
            session.analyse(_text(arguments, "the address of an open document"))
        except NotAnalysable as reason:
            raise JsonRpcException(str(reason), code=_REQUEST_FAILED) from None

    @server.command("sollens.server.listHardware")
    async def list_hardware(*_: Any) -> list[dict[str, str]]:
        return [_described(each) for each in await asyncio.to_thread(all_chips)]

    @server.command("sollens.server.chooseHardware")
    async def choose_hardware(*arguments: Any) -> str | None:
        chip_id = _text(arguments, "the id of a chip") if arguments else await _ask_for_chip(server)
        if chip_id is None:
            return None
        try:
            chosen = await asyncio.to_thread(chip, chip_id)
        except UnknownTarget as problem:
            raise JsonRpcInvalidParams(str(problem)) from None
        session.choose_hardware(chosen.id)
        return chosen.id

    @server.command("sollens.server.ir")
    async def ir(*arguments: Any) -> str:
        return await _of_document(partial(session.program_text, "ir"), arguments)

    @server.command("sollens.server.einsum")
    async def einsum(*arguments: Any) -> str:
        return await _of_document(partial(session.program_text, "einsum"), arguments)

    @server.command("sollens.server.report")
    async def report(*arguments: Any) -> str:
        return await _of_document(session.report_page, arguments)

    @server.command("sollens.server.graph")
    async def graph(*arguments: Any) -> str:
        return await _of_document(session.graph_page, arguments)

    @server.command("sollens.server.restartAgent")
    async def restart_agent(*_: Any) -> None:
        await session.restart_worker()

    @server.command("sollens.server.clearCache")
    async def clear_cache(*_: Any) -> None:
        try:
            await session.clear_cache()
        except (WorkerDied, WorkerError) as problem:
            raise JsonRpcException(str(problem), code=_REQUEST_FAILED) from None


async def _ask_of_folders(server: SollensServer) -> dict[Path, dict[str, Any]]:
    """The editor's settings for each folder of a workspace with several; empty where it has none of its own to say."""
    folders = tuple(server.session.folders)
    if len(folders) < 2 or not server.client.abilities.answers_configuration:
        return {}
    items = [types.ConfigurationItem(section="sollens", scope_uri=folder.as_uri()) for folder in folders]
    asked = server.workspace_configuration_async(types.ConfigurationParams(items=items))
    answers = await asyncio.shield(asked)
    tables = [to_lsp.mapping_at({"answer": answer}, "answer") for answer in answers]
    return {folder: table for folder, table in zip(folders, tables, strict=False) if table}


async def _of_document(text_of: Callable[[str], Awaitable[str]], arguments: tuple[Any, ...]) -> str:
    """A text about a document, with each way to fail as an answer to the request."""
    uri = _text(arguments, "the address of an open document")
    try:
        return await text_of(uri)
    except (NotAnalysable, WorkerDied, WorkerError) as problem:
        raise JsonRpcException(str(problem), code=_REQUEST_FAILED) from None
    except WorkerSilent:
        raise JsonRpcException("the analysis did not answer in time", code=_REQUEST_FAILED) from None


async def _ask_for_chip(server: SollensServer) -> str | None:
    """Let the user choose in an editor that has no list of its own."""
    chips = await asyncio.to_thread(all_chips)
    names = {f"{each.name} ({each.id})": each.id for each in chips}
    actions = [types.MessageActionItem(title=name) for name in names]
    params = types.ShowMessageRequestParams(
        type=types.MessageType.Info, message="Whose limits should be shown?", actions=actions
    )
    answer = await asyncio.shield(server.window_show_message_request_async(params))
    return names.get(answer.title) if answer is not None else None


def _described(each: Chip) -> dict[str, str]:
    return {"id": each.id, "name": each.name, "description": each.description, "detail": each.detail}


def _text(arguments: tuple[Any, ...], expected: str) -> str:
    if len(arguments) != 1 or not isinstance(arguments[0], str):
        raise JsonRpcInvalidParams(f"expected {expected}, found {cast(object, arguments)!r}")
    return arguments[0]
