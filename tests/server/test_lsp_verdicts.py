"""Numbers come first and the verdict follows: marks, hovers and hints change with it, and with nothing else."""

import asyncio

import pytest
from editor import MODEL, Editor, neovim, vscode
from lsprotocol import types as t

pytestmark = pytest.mark.asyncio(loop_scope="function")
EDITORS = pytest.mark.parametrize("capabilities", [neovim, vscode], ids=["neovim", "vscode"])
TOTAL = 1


def later(gate, *more: str) -> str:
    return MODEL + "".join(f"# fake: {each}\n" for each in (f"later {gate}", *more))


async def open_and_wait(editor: Editor, text: str) -> str:
    """The document, once its numbers are there."""
    uri = editor.open(text)
    await editor.analysed(uri)
    return uri


async def until_hover(editor: Editor, uri: str, text: str, line: int = TOTAL) -> str:
    """The hover of a line, once it says this; an update that changes no hint and no mark is not announced."""
    async with asyncio.timeout(20):
        while text not in (found := await editor.hover(uri, line) or ""):
            await asyncio.sleep(0.01)
    return found


@EDITORS
async def test_the_numbers_are_shown_while_the_verdict_is_worked_out(start, tmp_path, capabilities):
    editor: Editor = await start(capabilities=capabilities())
    gate = tmp_path / "gate"
    uri = await open_and_wait(editor, later(gate))
    labels = await editor.labels(uri)
    assert labels[TOTAL].endswith("?") and "90.0 µs" in labels[TOTAL]
    assert "validation is running" in await editor.hover(uri, TOTAL)
    refreshes = editor.refreshes
    gate.touch()
    await editor.until(lambda: editor.refreshes == refreshes + 1, "a refresh with the verdict")
    after = await editor.labels(uri)
    assert set(after) == set(labels)
    assert not any("?" in label for label in after.values())
    hover = await editor.hover(uri, TOTAL)
    assert "alidated" in hover and "B=2" in hover and "1e-7" in hover
    assert "running" not in hover


async def test_a_failed_verdict_takes_the_numbers_away_and_marks_the_line(start, tmp_path):
    editor: Editor = await start()
    gate = tmp_path / "gate"
    uri = await open_and_wait(editor, later(gate, "failed"))
    assert await editor.labels(uri)
    gate.touch()
    await editor.until(lambda: editor.published[-1].diagnostics, "a mark")
    [mark] = editor.published[-1].diagnostics
    assert (mark.code, mark.severity, mark.range.start.line) == ("validation-failed", 1, 3)
    assert "0.25" in mark.message and "-0.25" in mark.message
    assert await editor.labels(uri) == {}
    assert await editor.hover(uri, 3) is None


async def test_an_update_that_changes_nothing_shown_refreshes_nothing(start, tmp_path):
    editor: Editor = await start()
    gate = tmp_path / "gate"
    uri = await open_and_wait(editor, later(gate, "unable"))
    refreshes, published = editor.refreshes, len(editor.published)
    gate.touch()
    await until_hover(editor, uri, "no twin was found")
    assert (editor.refreshes, len(editor.published)) == (refreshes, published)


async def test_a_new_save_gives_up_the_verdict_on_the_old_text(start, tmp_path):
    editor: Editor = await start()
    gate = tmp_path / "gate"
    uri = await open_and_wait(editor, later(gate, "failed"))
    editor.replace(uri, MODEL)
    editor.save(uri, MODEL)
    await editor.analysed(uri, version=2)
    [first, _] = editor.requests()
    assert [each["params"]["id"] for each in await editor.asked("cancel")] == [first["id"]]
    await editor.asked("no verdict")
    gate.touch()
    assert all("?" not in label for label in (await editor.labels(uri)).values())
    assert all(not each.diagnostics for each in editor.published)


async def test_closing_gives_up_the_verdict(start, tmp_path):
    editor: Editor = await start()
    uri = await open_and_wait(editor, later(tmp_path / "gate"))
    editor.close(uri)
    await editor.asked("no verdict")


async def test_a_verdict_lands_where_its_lines_are_by_then(start, tmp_path):
    editor: Editor = await start()
    gate = tmp_path / "gate"
    uri = await open_and_wait(editor, later(gate, "failed"))
    editor.edit(uri, (0, 0), (0, 0), "# one\n# two\n")
    await editor.heard(uri)
    gate.touch()
    await editor.until(lambda: editor.published[-1].diagnostics, "a mark")
    assert (editor.published[-1].version, editor.published[-1].diagnostics[0].range.start.line) == (2, 5)


async def test_other_files_have_their_numbers_meanwhile(start, tmp_path):
    editor: Editor = await start()
    gate = tmp_path / "gate"
    first = await open_and_wait(editor, later(gate))
    for name in ("b.py", "c.py", "d.py", "e.py"):
        other = editor.open(MODEL, name)
        await editor.analysed(other)
        assert "?" not in (await editor.labels(other))[TOTAL]
    assert (await editor.labels(first))[TOTAL].endswith("?")
    gate.touch()
    await until_hover(editor, first, "B=2")


async def test_settings_that_change_meanwhile_do_not_lose_the_verdict(start, tmp_path):
    editor: Editor = await start()
    gate = tmp_path / "gate"
    uri = await open_and_wait(editor, later(gate))
    settings = {"sollens": {"inlayHints": {"lines": "totals"}}}
    editor.client.workspace_did_change_configuration(t.DidChangeConfigurationParams(settings=settings))
    await editor.until(lambda: editor.refreshes >= 2, "a refresh with fewer hints")
    assert set(await editor.labels(uri)) == {TOTAL}
    gate.touch()
    await until_hover(editor, uri, "B=2")
    assert set(await editor.labels(uri)) == {TOTAL}
    assert len(editor.requests()) == 1


async def test_a_worker_that_dies_meanwhile_is_said_and_leaves_the_numbers(start, tmp_path):
    editor: Editor = await start()
    gate = tmp_path / "gate"
    uri = await open_and_wait(editor, later(gate, "late death"))
    gate.touch()
    async with asyncio.timeout(20):
        while "running" in (hover := await editor.hover(uri, TOTAL)):
            await asyncio.sleep(0.01)
    assert "Not validated" in hover and "90.0 µs" in hover


async def test_the_setting_decides_whether_to_validate(start):
    editor: Editor = await start(options={"settings": {"validate": {"enabled": False}}})
    await open_and_wait(editor, MODEL)
    assert [each["params"]["validate"] for each in editor.requests()] == [False]
