"""The worker's protocol, over pipes in this process and once as the real process."""

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from canned import SOURCE, FakeAgents

from sollens.analysis.cache import Cache
from sollens.analysis.channel import Channel
from sollens.analysis.pipeline import Pipeline
from sollens.analysis.worker import Worker


class Client:
    """Writes requests and reads answers of a worker behind two streams."""

    def __init__(self, sink: Any, source: Any) -> None:
        self.sink, self.source = sink, source

    def send(self, method: str, request_id: int | None = None, **params: Any) -> None:
        body = json.dumps(
            {"method": method, "params": params, **({"id": request_id} if request_id is not None else {})}
        )
        self.sink.write(len(body.encode()).to_bytes(4, "big") + body.encode())
        self.sink.flush()

    def read(self) -> dict[str, Any]:
        head = self.source.read(4)
        return json.loads(self.source.read(int.from_bytes(head, "big")))

    def answer(self, request_id: int) -> dict[str, Any]:
        """The next answer, of this request; its progress is passed over."""
        while True:
            message = self.read()
            if "progress" not in message:
                assert message["id"] == request_id
                return message


@pytest.fixture
def agents() -> FakeAgents:
    return FakeAgents()


@pytest.fixture
def client(tmp_path: Path, agents: FakeAgents) -> Iterator[Client]:
    requests, answers = os.pipe(), os.pipe()
    streams = [os.fdopen(fd, mode) for fd, mode in zip((*requests, *answers), ("rb", "wb") * 2, strict=True)]
    channel = Channel(streams[0], streams[3])
    worker = Worker(channel, Pipeline(Cache(tmp_path / "cache"), agents))
    thread = threading.Thread(target=worker.run)
    thread.start()
    yield Client(streams[1], streams[2])
    streams[1].close()
    thread.join(30)
    assert not thread.is_alive()


@pytest.fixture
def params(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "model.py"
    path.write_text(SOURCE)
    return {"path": str(path), "text": None, "version": 3, "hardware": "h100-sxm", "interpreter": sys.executable}


def test_an_analysis_reports_progress_then_the_result(client: Client, params: dict[str, Any]) -> None:
    client.send("analyse", 7, **params)
    stages: list[str] = []
    while "progress" in (message := client.read()):
        stages.append(message["progress"]["stage"])
    assert message["id"] == 7
    assert [t["name"] for t in message["result"]["targets"]] == ["Model"]
    assert stages[0] == "source" and "bounds" in stages


def test_a_ping_is_answered_while_an_analysis_runs(client: Client, params: dict[str, Any], agents: FakeAgents) -> None:
    running, go = threading.Event(), threading.Event()
    agents.before = lambda cancel: (running.set(), go.wait(30))
    client.send("analyse", 1, **params)
    assert running.wait(30)
    client.send("ping", 2)
    assert client.answer(2)["result"] == {}
    go.set()
    assert client.answer(1)["result"]["targets"]


def test_cancel_ends_a_request_with_an_error(client: Client, params: dict[str, Any], agents: FakeAgents) -> None:
    running = threading.Event()
    agents.before = lambda cancel: (running.set(), cancel.wait(30))
    client.send("analyse", 1, **params)
    assert running.wait(30)
    client.send("cancel", id=1)
    assert client.answer(1)["error"]["code"] == "cancelled"


def test_cancel_of_a_request_that_has_ended_is_no_error(client: Client) -> None:
    client.send("cancel", id=99)
    client.send("ping", 1)
    assert client.answer(1)["result"] == {}


@pytest.mark.parametrize(
    ("method", "changes", "code"),
    [
        ("analyse", {"path": 3}, "bad-request"),
        ("analyse", {"hardware": "h900"}, "bad-config"),
        ("fly", {}, "bad-request"),
        ("einsum", {"format": "png"}, "bad-request"),
    ],
)
def test_a_bad_request_is_an_error_that_says_what_was_expected(
    client: Client, params: dict[str, Any], method: str, changes: dict[str, Any], code: str
) -> None:
    client.send(method, 1, **{**params, **changes})
    assert client.answer(1)["error"]["code"] == code
    client.send("ping", 2)
    assert client.answer(2)["result"] == {}


def test_a_bug_of_ours_is_an_error_and_the_worker_lives_on(
    client: Client, params: dict[str, Any], agents: FakeAgents
) -> None:
    def crash(cancel: threading.Event) -> None:
        raise ZeroDivisionError("oops")

    agents.before = crash
    client.send("analyse", 1, **params)
    error = client.answer(1)["error"]
    assert error["code"] == "internal-error" and "oops" in error["message"]
    client.send("ping", 2)
    assert client.answer(2)["result"] == {}


def test_the_program_and_the_cache_can_be_asked_for(client: Client, params: dict[str, Any]) -> None:
    client.send("ir", 1, **params)
    assert "program Model" in client.answer(1)["result"]["text"]
    client.send("clear_cache", 2)
    assert client.answer(2)["result"]["entries"] > 0


def test_a_message_that_is_cut_short_ends_the_input() -> None:
    assert Channel(io.BytesIO(b"\0\0\0\x05abc"), io.BytesIO()).read() is None
    assert Channel(io.BytesIO(b"\0"), io.BytesIO()).read() is None
    assert Channel(io.BytesIO(b"\xff\xff\xff\xff"), io.BytesIO()).read() is None


@pytest.mark.parametrize("end", ["shutdown", "eof"])
def test_the_real_process_answers_and_ends(end: str) -> None:
    command = [sys.executable, "-P", "-m", "sollens.analysis.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        client = Client(process.stdin, process.stdout)
        client.send("ping", 1)
        assert client.answer(1) == {"id": 1, "result": {}}
        if end == "shutdown":
            client.send("shutdown")
        else:
            process.stdin.close()
        assert process.wait(30) == 0
