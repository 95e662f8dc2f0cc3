"""Saves, edits, settings, trust and everything that goes wrong, through the protocol."""

import asyncio
import json
import os
import sys
import time

import psutil
import pytest
from editor import MODEL, Editor, neovim, vscode
from lsprotocol import types as t

from sollens.server.codes import documentation

pytestmark = pytest.mark.asyncio(loop_scope="function")


async def test_a_new_save_cancels_the_run_in_flight(start, tmp_path):
    editor: Editor = await start()
    uri = editor.open(MODEL + "# fake: hang\n")
    await editor.asked()
    editor.edit(uri, (6, 0), (7, 0), "")
    editor.save(uri, MODEL)
    assert await editor.analysed(uri, version=2) == []
    [first, second] = editor.requests()
    assert [each["params"]["id"] for each in await editor.asked("cancel")] == [first["id"]]
    assert (second["params"]["version"], second["params"]["text"]) == (2, None)
    assert [each.version for each in editor.published] == [2]


async def test_a_buffer_that_differs_from_the_disk_is_sent_as_text(start):
    editor: Editor = await start()
    uri = editor.open()
    await editor.analysed(uri)
    editor.edit(uri, (0, 0), (0, 0), "# é\n")
    await editor.command("analyse", uri)
    await editor.analysed(uri, version=2)
    assert [each["params"]["text"] for each in editor.requests()] == [None, "# é\n" + MODEL]
    assert (await editor.labels(uri))[2] == "≥ 90.0 µs · HBM"


async def test_results_of_an_older_text_land_where_its_lines_are_now(start, tmp_path):
    editor: Editor = await start()
    gate = tmp_path / "gate"
    uri = editor.open(f"{MODEL}# fake: wait {gate}\n")
    await editor.asked()
    editor.edit(uri, (0, 0), (0, 0), "import os\n\n")
    editor.edit(uri, (5, 8), (5, 9), "renamed")
    await editor.heard(uri)
    gate.touch()
    await editor.until(lambda: editor.refreshes == 1)
    assert await editor.labels(uri) == {3: "≥ 90.0 µs · HBM", 6: "≥ 5.00 µs · vector ×12", 7: "free"}


async def test_an_edited_line_loses_its_hint_and_mark_and_undo_brings_them_back(start):
    editor: Editor = await start()
    uri = editor.open(MODEL + "    pass  #? fusion-headroom 0.5 fuse\n")
    [mark] = await editor.analysed(uri)
    editor.edit(uri, (6, 4), (6, 8), "...")
    assert await editor.analysed(uri, version=2) == []
    editor.edit(uri, (3, 8), (3, 8), "x")
    assert 3 not in await editor.labels(uri)
    editor.edit(uri, (3, 8), (3, 9), "")
    assert (await editor.labels(uri))[3] == "≥ 41.2 µs · HBM"
    editor.edit(uri, (6, 4), (6, 7), "pass")
    assert await editor.analysed(uri, version=5) == [mark]
    assert editor.refreshes == 1


async def test_an_unchanged_result_refreshes_nothing(start):
    editor: Editor = await start()
    uri = editor.open()
    await editor.analysed(uri)
    editor.save(uri)
    await editor.until(lambda: len(editor.published) == 2)
    await editor.state("idle", uri)
    assert editor.refreshes == 1


async def test_closing_clears_the_marks_and_reopening_brings_them(start):
    editor: Editor = await start()
    uri = editor.open(MODEL + "x = 1  #! partial unknown operator\n")
    assert len(await editor.analysed(uri)) == 1
    editor.close(uri)
    assert await editor.analysed(uri, version=None) == []
    assert await editor.hints(uri) == []
    editor.open_uri(uri, MODEL)
    assert await editor.analysed(uri) is not None


async def test_two_editors_on_one_file_both_show_it(start):
    one: Editor = await start(capabilities=neovim())
    two: Editor = await start(capabilities=vscode())
    uri = one.open()
    two.open_uri(uri, MODEL)
    await one.analysed(uri)
    await two.analysed(uri)
    assert await one.labels(uri) == await two.labels(uri) != {}


async def test_a_file_outside_any_workspace_works(start):
    editor: Editor = await start(in_workspace=False)
    uri = editor.open()
    await editor.analysed(uri)
    assert len(await editor.labels(uri)) == 4
    assert editor.requests()[0]["params"]["root"] is None


CODES = [
    "syntax-error",
    "import-error",
    "framework-missing",
    "constructor-failed",
    "inputs-failed",
    "forward-failed",
    "deadline",
    "memory-limit",
    "process-exit",
    "process-crash",
    "needs-gpu",
    "data-dependent",
    "too-many-operators",
    "config-missing",
    "partial",
]


@pytest.mark.parametrize("code", CODES)
async def test_each_kind_of_bad_input_is_a_mark_on_its_line(start, code):
    editor: Editor = await start()
    uri = editor.open(f"import torch\nx = 1  #! {code} what and why\n")
    [mark] = await editor.analysed(uri)
    assert (mark.code, mark.message, mark.range.start.line) == (code, "what and why", 1)
    assert mark.code_description.href == documentation(code)


async def test_a_worker_that_dies_is_a_mark_and_the_next_save_works(start):
    editor: Editor = await start()
    uri = editor.open("import torch  # fake: die\n")
    [mark] = await editor.analysed(uri)
    assert (mark.code, mark.severity) == ("worker-died", t.DiagnosticSeverity.Error)
    assert (await editor.state("error")).text == mark.message
    editor.replace(uri, MODEL)
    editor.save(uri, MODEL)
    await editor.state("idle", uri)
    assert len(await editor.labels(uri)) == 4


async def test_a_worker_that_talks_nonsense_counts_as_dead(start):
    editor: Editor = await start()
    uri = editor.open("import torch  # fake: garbage\n")
    [mark] = await editor.analysed(uri)
    assert mark.code == "worker-died"


async def test_a_worker_that_cannot_start_is_a_mark(start):
    editor: Editor = await start(worker=["/nowhere/python"])
    [mark] = await editor.analysed(editor.open())
    assert mark.code == "worker-died"
    assert "/nowhere/python" in mark.message


async def test_an_unknown_error_of_the_worker_is_an_internal_error(start):
    editor: Editor = await start()
    [mark] = await editor.analysed(editor.open("import torch  # fake: error surprise\n"))
    assert (mark.code, mark.message) == ("internal-error", "as asked")


async def test_a_file_deleted_before_the_run_is_said_so(start, tmp_path):
    editor: Editor = await start()
    uri = editor.open()
    await editor.analysed(uri)
    (tmp_path / "model.py").unlink()
    editor.save(uri)
    await editor.until(lambda: editor.published[-1].diagnostics)
    assert [mark.code for mark in editor.published[-1].diagnostics] == ["file-missing"]
    assert await editor.hints(uri) == []


async def test_a_missing_interpreter_is_named_and_nothing_is_run(start):
    editor: Editor = await start(options={"interpreter": "/nowhere/bin/python"})
    [mark] = await editor.analysed(editor.open())
    assert mark.code == "interpreter-missing"
    assert "/nowhere/bin/python" in mark.message
    assert editor.requests() == []


async def test_an_untrusted_workspace_runs_nothing_until_it_is_trusted(start):
    editor: Editor = await start(options={"trusted": False})
    uri = editor.open()
    assert "not trusted" in (await editor.state("untrusted", uri)).text
    assert await editor.hints(uri) == []
    assert not editor.log.exists()
    editor.client.protocol.notify("sollens/trust", {"trusted": True})
    await editor.analysed(uri)
    assert len(await editor.labels(uri)) == 4


@pytest.mark.parametrize(
    ("uri", "text", "language", "reason"),
    [
        ("untitled:Untitled-1", MODEL, "python", "save it"),
        ("vscode-notebook-cell:/a/b.ipynb#W0sZ", MODEL, "python", "Notebooks"),
        ("file:///a/b.py", "print(1)\n", "python", "Nothing to analyse"),
        ("file:///a/b.txt", MODEL, "plaintext", "no Python"),
    ],
)
async def test_what_is_not_analysed_stays_silent_but_says_why_in_the_status(start, uri, text, language, reason):
    editor: Editor = await start()
    editor.open_uri(uri, text, language)
    assert reason in (await editor.state("idle", uri)).text
    assert await editor.hints(uri) == []
    assert editor.published == []
    assert not editor.log.exists()


async def test_settings_of_the_editor_win_over_pyproject_and_bad_ones_are_reported(start, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.sollens]\nhardware = "t4"\nprecision = "tf32"\n')
    editor: Editor = await start(
        options={"settings": {"precision": "16bit", "hardware": "h100-sxm", "deadline": "soon"}}
    )
    uri = editor.open()
    await editor.analysed(uri)
    params = editor.requests()[0]["params"]
    assert (params["hardware"], params["precision"], params["deadline_s"]) == ("t4", "16bit", 20.0)
    [message] = editor.client.messages
    assert message.message == (
        "sollens.deadline in the editor's settings: expected a number from 0.1 to 3600, found 'soon'; 20.0 is used"
    )


async def test_changed_settings_take_effect_without_a_new_run_where_none_is_needed(start):
    editor: Editor = await start()
    uri = editor.open()
    await editor.analysed(uri)
    settings = {"sollens": {"inlayHints": {"lines": "totals"}}}
    editor.client.workspace_did_change_configuration(t.DidChangeConfigurationParams(settings=settings))
    await editor.until(lambda: editor.refreshes == 2)
    assert await editor.labels(uri) == {1: "≥ 90.0 µs · HBM"}
    assert len(editor.requests()) == 1
    settings = {"sollens": {"precision": "tf32", "inlayHints": {"enabled": False}}}
    editor.client.workspace_did_change_configuration(t.DidChangeConfigurationParams(settings=settings))
    await editor.until(lambda: editor.refreshes == 3)
    assert await editor.labels(uri) == {}
    assert editor.requests()[-1]["params"]["precision"] == "tf32"


async def test_other_requests_are_answered_at_once_while_an_analysis_runs(start):
    editor: Editor = await start()
    busy = editor.open(MODEL + "# fake: hang\n", name="busy.py")
    await editor.asked()
    other = editor.open(name="other.py")
    await editor.analysed(other)
    await editor.labels(other)
    slowest = 0.0
    for _ in range(50):
        begin = time.perf_counter()
        await editor.hints(other)
        await editor.hover(other, 3)
        slowest = max(slowest, time.perf_counter() - begin)
    assert len(await editor.hints(busy)) == 0
    # Two requests and this client's own work; the promise is 50 ms for each, on a machine that does nothing else.
    assert slowest < 0.3


async def test_progress_is_shown_for_a_run_that_lasts_and_cancel_ends_it(start):
    editor: Editor = await start(capabilities=vscode())
    uri = editor.open(MODEL + "# fake: hang\n")
    reports = editor.client.progress_reports
    await editor.until(lambda: any(reports.values()), "progress")
    [token] = [token for token, each in reports.items() if each]
    assert reports[token][0].value["kind"] == "begin"
    editor.client.window_work_done_progress_cancel(t.WorkDoneProgressCancelParams(token=token))
    await editor.until(lambda: reports[token][-1].value["kind"] == "end", "the end")
    assert (await editor.state("idle", uri)).text == "Cancelled."
    await editor.asked("cancel")


async def test_the_status_follows_a_run(start):
    editor: Editor = await start()
    uri = editor.open()
    done = await editor.state("idle", uri)
    assert [each.state for each in editor.statuses if each.uri == uri] == ["tracing", "tracing", "analysing", "idle"]
    assert (done.text, done.hardware, done.hardwareName) == ("Analysed Model.", "h100-sxm", "NVIDIA H100 SXM5 80GB")


async def test_restarting_gives_a_new_worker_and_new_results(start):
    editor: Editor = await start()
    uri = editor.open()
    await editor.analysed(uri)
    [old] = psutil.Process(editor.pid).children()
    await editor.command("restartAgent")
    await editor.until(lambda: len(editor.published) == 2)
    [new] = psutil.Process(editor.pid).children()
    assert old.pid != new.pid
    assert uri in {each.uri for each in editor.published}


async def test_many_files_opened_at_once_run_two_at_a_time(start, tmp_path):
    editor: Editor = await start()
    gate = tmp_path / "gate"
    uris = [editor.open(f"{MODEL}# fake: wait {gate}\n", name=f"m{index}.py") for index in range(6)]
    await editor.asked(count=2)
    gate.touch()
    for uri in uris:
        await editor.analysed(uri)
    assert len(editor.requests()) == 6


async def test_the_server_stays_small_and_its_worker_ends_with_it(start):
    editor: Editor = await start()
    uri = editor.open()
    await editor.analysed(uri)
    process = psutil.Process(editor.pid)
    [worker] = process.children()
    assert process.memory_info().rss < 120e6
    process.kill()
    _, alive = psutil.wait_procs([worker], timeout=10)
    assert alive == []


async def test_the_server_ends_when_the_editor_is_gone_without_a_word(tmp_path):
    """The editor's end of stdin stays open here: only the watch can notice."""
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE)
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"processId": parent.pid, "capabilities": {}}}
    ).encode()
    server = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "sollens.server.app",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=tmp_path,
        env=os.environ,
    )
    server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    await server.stdout.readuntil(b"positionEncoding")
    parent.kill()
    await parent.wait()
    assert await asyncio.wait_for(server.wait(), 15) == 1
