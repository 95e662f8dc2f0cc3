"""Hints, hovers, marks and actions, as VS Code and Neovim ask for them."""

import pytest
from editor import MODEL, Editor, neovim, vscode
from lsprotocol import types as t
from pygls.exceptions import JsonRpcException

from sollens.server.codes import documentation

pytestmark = pytest.mark.asyncio(loop_scope="function")
EDITORS = pytest.mark.parametrize("capabilities", [neovim, vscode], ids=["neovim", "vscode"])
NO_SHAPES = (
    "import torch\n\n\n@torch.compile\n@torch.no_grad()\ndef f(x):  #! missing-shapes f has no shapes\n    return x\n"
)


def units(text: str, encoding: str) -> int:
    size = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    return len(text.encode(f"{encoding}-le" if size > 1 else encoding)) // size


@EDITORS
async def test_a_saved_file_shows_its_bounds_at_the_ends_of_lines(start, capabilities):
    editor: Editor = await start(capabilities=capabilities())
    uri = editor.open()
    assert await editor.analysed(uri) == []
    hints = await editor.hints(uri)
    lines = MODEL.split("\n")
    assert {hint.position.line: hint.label for hint in hints} == {
        1: "≥ 90.0 µs · HBM",
        3: "≥ 41.2 µs · HBM",
        4: "≥ 5.00 µs · vector ×12",
        5: "free",
    }
    assert all(hint.position.character == len(lines[hint.position.line]) for hint in hints)
    await editor.until(lambda: editor.refreshes == 1, "a refresh of the hints")


@EDITORS
async def test_a_tooltip_comes_with_the_resolved_hint(start, capabilities):
    editor: Editor = await start(capabilities=capabilities())
    uri = editor.open()
    await editor.analysed(uri)
    hint = (await editor.hints(uri))[1]
    resolved = await editor.client.inlay_hint_resolve_async(hint)
    text = resolved.tooltip.value
    assert "This line: **≥ 41.2 µs** on NVIDIA H100 SXM5 80GB, limited by HBM." in text
    assert "HBM       2.00 kB  3.00 TB/s     41.2 µs" in text
    assert "`mm`" in text
    assert "Validated" in text


async def test_hints_are_asked_for_by_range(start):
    editor: Editor = await start()
    uri = editor.open()
    await editor.analysed(uri)
    assert [hint.position.line for hint in await editor.hints(uri, 2, 4)] == [3, 4]


async def test_a_hover_tells_everything_known_about_a_line(start):
    editor: Editor = await start(options={"settings": {"target": "50us"}})
    uri = editor.open()
    await editor.analysed(uri)
    total = await editor.hover(uri, 1)
    assert total.startswith("`Model`: **≥ 90.0 µs**")
    assert "cache-aware  ≥ 90.0 µs  2.00 kB" in total
    assert "unfused      180 µs     4.00 kB" in total
    assert total.index("\nHBM ") < total.index("\nvector ")
    assert "For **50.0 µs**" in total
    assert "Met by: `h200`" in total
    assert "- x is float32" in total
    assert "Interpreter" in total
    assert "for each of 12 runs" in await editor.hover(uri, 4)
    assert await editor.hover(uri, 2) is None


@EDITORS
async def test_a_finding_is_a_mark_with_code_page_and_severity(start, capabilities):
    editor: Editor = await start(capabilities=capabilities())
    uri = editor.open(
        MODEL + "    pass  #? fusion-headroom 0.5 half of it goes by fusing\n    pass #? precision 0.01 little\n"
    )
    [mark] = await editor.analysed(uri)
    assert (mark.code, mark.source, mark.severity) == ("fusion-headroom", "sollens", t.DiagnosticSeverity.Information)
    assert mark.message == "half of it goes by fusing"
    assert mark.code_description.href == documentation("fusion-headroom")
    assert (mark.range.start.line, mark.range.start.character) == (6, 4)


@EDITORS
async def test_missing_shapes_offer_to_insert_a_pragma_above_the_decorators(start, capabilities):
    editor: Editor = await start(capabilities=capabilities())
    uri = editor.open(NO_SHAPES)
    [mark] = await editor.analysed(uri)
    assert mark.data["fix"]["text"] == "# sol: x=f32[...]"
    [action] = await editor.actions(uri, 5)
    assert action.kind == t.CodeActionKind.QuickFix
    assert list(action.diagnostics) == [mark]
    if action.edit is None:
        action = await editor.client.code_action_resolve_async(action)
    if capabilities is vscode:
        [change] = action.edit.document_changes
        assert change.text_document.version == 1
        [edit] = change.edits
    else:
        [edit] = action.edit.changes[uri]
    assert (edit.new_text, edit.range.start) == ("# sol: x=f32[...]\n", t.Position(3, 0))


async def test_the_pragma_keeps_indentation_and_line_ends(start):
    editor: Editor = await start(capabilities=vscode())
    uri = editor.open("import torch\r\nif 1:\r\n\tdef f(x): pass #! missing-shapes none\r\n")
    await editor.analysed(uri)
    [action] = await editor.actions(uri, 2)
    action = await editor.client.code_action_resolve_async(action)
    assert action.edit.document_changes[0].edits[0].new_text == "\t# sol: x=f32[...]\r\n"


async def test_a_fix_for_an_older_version_is_refused(start):
    editor: Editor = await start(capabilities=vscode())
    uri = editor.open(NO_SHAPES)
    await editor.analysed(uri)
    [action] = await editor.actions(uri, 5)
    editor.edit(uri, (0, 0), (0, 0), "\n")
    with pytest.raises(JsonRpcException, match="edited"):
        await editor.client.code_action_resolve_async(action)


async def test_source_actions_are_offered_when_asked_for(start):
    editor: Editor = await start()
    uri = editor.open()
    await editor.analysed(uri)
    assert await editor.actions(uri, 1) == []
    offered = await editor.actions(uri, 1, only=["source"])
    assert [action.title for action in offered] == [
        "sollens: choose hardware",
        "sollens: analyse this file",
        "sollens: restart analysis",
    ]


async def test_a_failed_validation_shows_no_number_but_a_mark(start):
    editor: Editor = await start()
    uri = editor.open(MODEL + "# fake: failed\n")
    [mark] = await editor.analysed(uri)
    assert (mark.code, mark.severity, mark.range.start.line) == ("validation-failed", 1, 3)
    assert "o[0] differs" in mark.message
    assert await editor.hints(uri) == []


async def test_commands_list_and_choose_hardware_and_print_the_program(start):
    editor: Editor = await start()
    uri = editor.open()
    await editor.analysed(uri)
    chips = await editor.command("listHardware")
    [t4] = [chip for chip in chips if chip["id"] == "t4"]
    assert t4["name"] and t4["description"] and "320 GB/s" in t4["detail"]
    assert await editor.command("ir", uri) == "ir of model.py"
    assert await editor.command("einsum", uri) == "einsum of model.py"
    assert await editor.command("chooseHardware", "t4") == "t4"
    await editor.until(lambda: len(editor.published) == 2)
    assert editor.requests()[-1]["params"]["hardware"] == "t4"
    assert (await editor.labels(uri))[3] == "≥ 41.2 µs · DRAM"
    with pytest.raises(JsonRpcException, match="did you mean"):
        await editor.command("chooseHardware", "h10")
    await editor.command("clearCache")
    assert len(editor.requests("clear_cache")) == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_positions_are_in_the_negotiated_encoding(start, encoding):
    editor: Editor = await start(capabilities=neovim(encoding))
    text = MODEL.replace("y = self.a(x)", 'y = self.a("😋é\x0c\u2028", x)')
    uri = editor.open(text)
    await editor.analysed(uri)
    line = text.split("\n")[3]
    assert (await editor.hints(uri))[1].position == t.Position(3, units(line, encoding))
    # An edit behind the astral characters lands where the editor means it, or the hint would be gone.
    before = units(line[: line.index(", x")], encoding)
    editor.edit(uri, (3, before), (3, before + 3), ", z")
    assert 3 not in await editor.labels(uri)
    editor.edit(uri, (3, before), (3, before + 3), ", x")
    assert (await editor.hints(uri))[1].position == t.Position(3, units(line, encoding))
