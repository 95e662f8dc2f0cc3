"""Between plain data and the protocol's types: the one place that knows how the protocol spells things."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.uris import to_fs_path

from sollens.server.document import Document, Edit
from sollens.server.features.code_actions import Insertion, QuickFix, SourceAction
from sollens.server.features.code_lens import Lens
from sollens.server.features.diagnostics import Mark
from sollens.server.features.inlay_hints import Hint
from sollens.server.positions import Encoding, to_client

_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "information": types.DiagnosticSeverity.Information,
    "hint": types.DiagnosticSeverity.Hint,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What the editor said it can do."""

    refreshes_hints: bool
    refreshes_lenses: bool
    resolves_tooltips: bool
    resolves_edits: bool
    versioned_edits: bool
    shows_progress: bool
    answers_configuration: bool


def abilities(capabilities: types.ClientCapabilities) -> Abilities:
    def can(name: str) -> bool:
        return bool(get_capability(capabilities, name, False))

    def resolves(name: str, wanted: str) -> bool:
        return wanted in cast(
            Sequence[str], get_capability(capabilities, f"{name}.resolve_support.properties", None) or ()
        )

    return Abilities(
        refreshes_hints=can("workspace.inlay_hint.refresh_support"),
        refreshes_lenses=can("workspace.code_lens.refresh_support"),
        resolves_tooltips=resolves("text_document.inlay_hint", "tooltip"),
        resolves_edits=resolves("text_document.code_action", "edit") and can("text_document.code_action.data_support"),
        versioned_edits=can("workspace.workspace_edit.document_changes"),
        shows_progress=can("window.work_done_progress"),
        answers_configuration=can("workspace.configuration"),
    )


def encoding(name: object) -> Encoding:
    """The negotiated position encoding; UTF-16 where the editor named none."""
    match getattr(name, "value", name):
        case "utf-8":
            return "utf-8"
        case "utf-32":
            return "utf-32"
        case _:
            return "utf-16"


def path_of(uri: str) -> Path | None:
    """The file of an address, None for a document that is no file."""
    if not uri.startswith("file:") or "#" in uri:
        return None
    path = to_fs_path(uri)
    return Path(path) if path else None


def folders(params: types.InitializeParams) -> list[Path]:
    """The folders of the workspace, from whichever of the three ways the editor names them."""
    if params.workspace_folders:
        found = [path_of(folder.uri) for folder in params.workspace_folders]
    elif params.root_uri:
        found = [path_of(params.root_uri)]
    else:
        found = [Path(params.root_path)] if params.root_path else []
    return [folder for folder in found if folder is not None]


def edits(changes: Sequence[types.TextDocumentContentChangeEvent]) -> list[Edit]:
    return [
        Edit(
            text=change.text,
            start=(change.range.start.line, change.range.start.character),
            end=(change.range.end.line, change.range.end.character),
        )
        if isinstance(change, types.TextDocumentContentChangePartial)
        else Edit(text=change.text)
        for change in changes
    ]


def inlay_hint(hint: Hint, document: Document) -> types.InlayHint:
    return types.InlayHint(
        position=_position(document, (hint.line, hint.column)),
        label=hint.label,
        padding_left=True,
        data={"uri": document.uri, "serial": hint.serial, "line": hint.row_line},
    )


def code_lens(lens: Lens, uri: str) -> types.CodeLens:
    """A lens whose command the editor carries out: it opens the report."""
    at = types.Position(line=lens.line, character=0)
    command = types.Command(title=lens.title, command="sollens.openReport", arguments=[uri])
    return types.CodeLens(range=types.Range(start=at, end=at), command=command)


def hint_data(hint: types.InlayHint) -> tuple[str, int, int] | None:
    """Address, serial and line that `inlay_hint` put into a hint; None for a hint that is not ours."""
    data = _mapping(hint.data)
    uri, serial, line = data.get("uri"), data.get("serial"), data.get("line")
    return (uri, serial, line) if isinstance(uri, str) and isinstance(serial, int) and isinstance(line, int) else None


def markdown(text: str) -> types.MarkupContent:
    return types.MarkupContent(kind=types.MarkupKind.Markdown, value=text)


def hover(text: str, document: Document, line: int) -> types.Hover:
    content = document.line(line)
    start = len(content) - len(content.lstrip())
    return types.Hover(contents=markdown(text), range=_range(document, (line, start), (line, len(content))))


def diagnostic(mark: Mark, document: Document) -> types.Diagnostic:
    data: dict[str, Any] = {"key": mark.key}
    if mark.fix is not None:
        data["fix"] = {"title": mark.fix.title, "text": mark.fix.text}
    return types.Diagnostic(
        range=_range(document, mark.start, mark.end),
        message=mark.message,
        severity=_SEVERITIES[mark.severity],
        code=mark.code,
        code_description=types.CodeDescription(href=mark.href) if mark.href is not None else None,
        source="sollens",
        data=data,
    )


def quick_fix(fix: QuickFix, document: Document, can: Abilities) -> types.CodeAction:
    """The action with its edit, or with what `insertion_data` needs to make the edit when it is chosen."""
    action = types.CodeAction(
        title=fix.title,
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[diagnostic(fix.mark, document)],
        is_preferred=True,
    )
    if can.resolves_edits:
        where = fix.insertion
        action.data = {"uri": document.uri, "version": where.version, "line": where.line, "text": where.text}
    else:
        action.edit = insertion_edit(fix.insertion, document.uri, can)
    return action


def insertion_data(action: types.CodeAction) -> tuple[str, Insertion] | None:
    """What `quick_fix` left for later; None for another action."""
    data = _mapping(action.data)
    uri, version, line, text = (data.get(name) for name in ("uri", "version", "line", "text"))
    if isinstance(uri, str) and isinstance(version, int) and isinstance(line, int) and isinstance(text, str):
        return uri, Insertion(line=line, text=text, version=version)
    return None


def insertion_edit(insertion: Insertion, uri: str, can: Abilities) -> types.WorkspaceEdit:
    at = types.Position(line=insertion.line, character=0)
    edit = types.TextEdit(range=types.Range(start=at, end=at), new_text=insertion.text)
    if not can.versioned_edits:
        return types.WorkspaceEdit(changes={uri: [edit]})
    document = types.OptionalVersionedTextDocumentIdentifier(uri=uri, version=insertion.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(text_document=document, edits=[edit])])


def source_action(action: SourceAction) -> types.CodeAction:
    command = types.Command(title=action.title, command=action.command, arguments=list(action.arguments))
    return types.CodeAction(title=action.title, kind=action.kind, command=command)


def wants(context: types.CodeActionContext, kind: str, *, unasked: bool) -> bool:
    """Whether the editor asked for actions of `kind`; `unasked` is the answer when it named no kinds."""
    if not context.only:
        return unasked
    names = [str(getattr(name, "value", name)) for name in context.only]
    return any(name == "" or kind == name or kind.startswith(f"{name}.") for name in names)


def mapping_at(value: object, key: str) -> dict[str, Any]:
    """The table at `key`, empty for anything else."""
    return _mapping(_mapping(value).get(key))


def _mapping(value: object) -> dict[str, Any]:
    return dict(cast(Mapping[str, Any], value)) if isinstance(value, Mapping) else {}


def _range(document: Document, start: tuple[int, int], end: tuple[int, int]) -> types.Range:
    return types.Range(start=_position(document, start), end=_position(document, end))


def _position(document: Document, position: tuple[int, int]) -> types.Position:
    line, column = position
    return types.Position(line=line, character=to_client(document.line(line), column, document.encoding))
