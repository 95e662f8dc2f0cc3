"""Code lenses, the pages an editor opens, and measurements of real runs, through the protocol."""

import asyncio
from pathlib import Path

import pytest
from editor import MODEL, Editor, vscode
from lsprotocol import types as t
from pygls.exceptions import JsonRpcException

pytestmark = pytest.mark.asyncio(loop_scope="function")


async def test_a_lens_tells_total_and_headroom_and_opens_the_report(start):
    editor: Editor = await start()
    uri = editor.open()
    await editor.analysed(uri)
    assert await editor.lenses(uri) == {1: "≥ 90.0 µs · 50.0 % headroom by fusing (unfused 180 µs) · report"}
    editor.edit(uri, (0, 0), (0, 0), "import os\n")
    assert list(await editor.lenses(uri)) == [2]
    editor.edit(uri, (2, 6), (2, 11), "Other")
    assert await editor.lenses(uri) == {}


async def test_lenses_are_refreshed_where_they_changed_and_can_be_switched_off(start):
    capabilities = vscode()
    capabilities.workspace.code_lens = t.CodeLensWorkspaceClientCapabilities(refresh_support=True)
    editor: Editor = await start(capabilities=capabilities)
    refreshed = []
    editor.client.feature(t.WORKSPACE_CODE_LENS_REFRESH)(lambda _: refreshed.append(True))
    uri = editor.open()
    await editor.analysed(uri)
    await editor.heard(uri)
    assert len(refreshed) == 1
    editor.save(uri)
    await editor.until(lambda: len(editor.published) == 2)
    await editor.heard(uri)
    assert len(refreshed) == 1
    settings = {"sollens": {"codeLens": {"enabled": False}}}
    editor.client.workspace_did_change_configuration(t.DidChangeConfigurationParams(settings=settings))
    await editor.until(lambda: len(editor.published) == 3)
    assert await editor.lenses(uri) == {}
    await editor.heard(uri)
    assert len(refreshed) == 2


async def test_a_program_that_failed_its_validation_has_no_lens(start):
    editor: Editor = await start()
    uri = editor.open(MODEL + "# fake: failed\n")
    await editor.analysed(uri)
    assert await editor.lenses(uri) == {}


async def test_the_report_and_the_graph_are_pages(start):
    editor: Editor = await start()
    uri = editor.open()
    await editor.analysed(uri)
    report = await editor.command("report", uri)
    assert report.startswith("<!DOCTYPE html>") and "≥ 90.0 µs" in report
    assert "Validated against the original" in report
    graph = await editor.command("graph", uri)
    assert graph.startswith("<!DOCTYPE html>") and "contraction · 6 MAC" in graph


async def test_a_report_of_nothing_says_why(start):
    editor: Editor = await start()
    uri = editor.open("import torch\nx = 1  #! forward-failed no such thing\n")
    await editor.analysed(uri)
    with pytest.raises(JsonRpcException, match="found none: no such thing"):
        await editor.command("report", uri)
    with pytest.raises(JsonRpcException, match="expected an open document"):
        await editor.command("report", "file:///nowhere.py")


async def test_measurements_are_held_against_the_bounds(start, tmp_path):
    (tmp_path / "runs.csv").write_text("name,time,hardware\nModel,400 us,h100-sxm\nModel,1,l4\n")
    editor: Editor = await start(options={"settings": {"measurements": "runs.csv"}})
    uri = editor.open()
    [mark] = await editor.analysed(uri)
    assert (mark.code, mark.range.start.line) == ("measured-headroom", 1)
    assert mark.message == "Model was measured at 400 µs, 4.44× its bound of 90.0 µs: up to 310 µs to gain"
    assert "measured 400 µs, 4.44× the bound" in (await editor.hover(uri, 1) or "")
    assert (await editor.lenses(uri))[1].endswith("(unfused 180 µs) · measured 400 µs, 4.44× the bound · report")
    assert ">400 µs<" in await editor.command("report", uri)


async def test_a_measurement_below_its_bound_is_said_so_and_a_bad_file_is_reported(start, tmp_path):
    (tmp_path / "runs.json").write_text('[{"name": "Model", "time": 80e-6}, {"name": "Model", "time": "soon"}]')
    editor: Editor = await start(options={"settings": {"measurements": "runs.json"}})
    [mark] = await editor.analysed(editor.open())
    assert (mark.code, mark.severity) == ("bound-beaten", t.DiagnosticSeverity.Warning)
    [message] = editor.client.messages
    assert "runs.json: row 2: time of Model: expected seconds, or a duration" in message.message


async def test_each_folder_of_a_workspace_has_its_own_settings(start, tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    editor: Editor = await start(
        capabilities=vscode(),
        folders=folders,
        configuration={folders[0]: {"hardware": "l4"}, folders[1]: {"hardware": "t4", "precision": "tf32"}},
    )
    uris = [editor.open(name=f"{folder.name}/model.py") for folder in folders]

    def asked(folder: Path) -> list[tuple[str, str]]:
        return [
            (each["params"]["hardware"], each["params"]["precision"])
            for each in editor.requests()
            if each["params"]["root"] == str(folder)
        ]

    async with asyncio.timeout(20):
        while asked(folders[0])[-1:] != [("l4", "as-written")] or asked(folders[1])[-1:] != [("t4", "tf32")]:
            await asyncio.sleep(0.01)
    editor.client.set_configuration({"sollens": {"hardware": "a100-sxm"}}, scope_uri=folders[0].as_uri())
    before = len(asked(folders[1]))
    editor.client.workspace_did_change_configuration(t.DidChangeConfigurationParams(settings={"sollens": {}}))
    async with asyncio.timeout(20):
        while asked(folders[0])[-1:] != [("a100-sxm", "as-written")]:
            await asyncio.sleep(0.01)
    await editor.heard(uris[1])
    assert len(asked(folders[1])) == before
