"""Numbers first, the verdict after: the worker's second message, and the process that works verdicts out."""

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from canned import SOURCE
from verdicts import Judges, failed

from sollens.analysis.cache import Cache
from sollens.analysis.channel import Channel
from sollens.analysis.pipeline import Pipeline, Request
from sollens.analysis.report import VALIDATION_RUNS, Validation
from sollens.analysis.validator import Task, Validator
from sollens.analysis.worker import Worker

FAKE = Path(__file__).with_name("fake_validator.py")
VALIDATED = Validation(status="validated", sizes={"batch": 2, "dim": 24}, max_rel_error=3e-7)
TWO = SOURCE + "\n\n" + SOURCE.split("\n\n\n", 1)[1].replace("Model", "Other")


class Held:
    """Keeps what it is asked for until a test says what the verdict is."""

    def __init__(self) -> None:
        self.tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()

    def submit(self, task: Task) -> None:
        self.tasks.put(task)

    def close(self) -> None:
        return None

    def next(self) -> Task:
        return self.tasks.get(timeout=30)


class Client:
    """Writes requests and reads answers of a worker behind two pipes."""

    def __init__(self, tmp_path: Path, agents: Judges, validator: Any) -> None:
        requests, answers = os.pipe(), os.pipe()
        source, self.sink = os.fdopen(requests[0], "rb"), os.fdopen(requests[1], "wb")
        self.source, sink = os.fdopen(answers[0], "rb"), os.fdopen(answers[1], "wb")
        self.pipeline = Pipeline(Cache(tmp_path / "cache"), agents)
        worker = Worker(Channel(source, sink), self.pipeline, validator=validator)
        self.thread = threading.Thread(target=worker.run)
        self.thread.start()

    def send(self, method: str, number: int | None = None, **params: Any) -> None:
        head = {} if number is None else {"id": number}
        body = json.dumps({**head, "method": method, "params": params}).encode()
        self.sink.write(len(body).to_bytes(4, "big") + body)
        self.sink.flush()

    def read(self) -> dict[str, Any]:
        """The next message that is no progress."""
        while True:
            length = int.from_bytes(self.source.read(4), "big")
            message = json.loads(self.source.read(length))
            if "progress" not in message:
                return message

    def close(self) -> None:
        self.sink.close()
        self.thread.join(30)
        assert not self.thread.is_alive()


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
def client(tmp_path: Path, held: Held) -> Iterator[Client]:
    found = Client(tmp_path, Judges(), held)
    yield found
    found.close()


def params(folder: Path, text: str = SOURCE, name: str = "model.py", *, validate: bool = True) -> dict[str, Any]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return {"path": str(path), "interpreter": sys.executable, "validate": validate}


def validations(report: dict[str, Any]) -> list[str]:
    return [target["validation"]["status"] for target in report["targets"]]


def test_the_numbers_come_first_and_the_verdict_follows(tmp_path: Path, client: Client, held: Held) -> None:
    client.send("analyse", 7, **params(tmp_path))
    first = client.read()
    assert first["id"] == 7
    (target,) = first["result"]["targets"]
    assert target["time_s"]["fused"] > 0
    assert (target["validation"]["status"], target["validation"]["reason"]) == ("not-validated", VALIDATION_RUNS)
    held.next().done(VALIDATED)
    second = client.read()
    assert (second["id"], validations(second["update"])) == (7, ["validated"])
    (updated,) = second["update"]["targets"]
    assert {**updated, "validation": None} == {**target, "validation": None}


def test_a_failed_verdict_brings_its_problem(tmp_path: Path, client: Client, held: Held) -> None:
    asked = params(tmp_path)
    client.send("analyse", 1, **asked)
    assert client.read()["result"]["problems"] == []
    held.next().done(failed(asked["path"]).validation())
    (problem,) = client.read()["update"]["problems"]
    assert (problem["code"], problem["line"]) == ("validation-failed", 11)


def test_each_target_has_an_update_and_the_last_has_them_all(tmp_path: Path, client: Client, held: Held) -> None:
    client.send("analyse", 1, **params(tmp_path, TWO))
    assert validations(client.read()["result"]) == ["not-validated"] * 2
    one, other = held.next(), held.next()
    assert (one.name, other.name) == ("Model", "Other")
    one.done(VALIDATED)
    assert validations(client.read()["update"]) == ["validated", "not-validated"]
    other.done(VALIDATED)
    assert validations(client.read()["update"]) == ["validated"] * 2


def test_a_known_verdict_comes_with_the_numbers(tmp_path: Path, client: Client, held: Held) -> None:
    asked = params(tmp_path)
    client.pipeline.analyse(Request(**asked))
    client.send("analyse", 1, **asked)
    assert validations(client.read()["result"]) == ["validated"]
    client.send("ping", 2)
    assert client.read() == {"id": 2, "result": {}}
    assert held.tasks.empty()


def test_nothing_follows_where_nobody_asked(tmp_path: Path, client: Client, held: Held) -> None:
    client.send("analyse", 1, **params(tmp_path, validate=False))
    assert client.read()["result"]["targets"][0]["validation"]["reason"] != VALIDATION_RUNS
    client.send("ping", 2)
    assert client.read() == {"id": 2, "result": {}}
    assert held.tasks.empty()


def test_a_cancelled_verdict_does_not_follow(tmp_path: Path, client: Client, held: Held) -> None:
    client.send("analyse", 1, **params(tmp_path))
    client.read()
    task = held.next()
    client.send("cancel", id=1)
    assert task.cancel.wait(30)
    task.done(None)
    client.send("ping", 2)
    assert client.read() == {"id": 2, "result": {}}


def test_other_files_have_their_numbers_while_a_verdict_is_worked_out(
    tmp_path: Path, client: Client, held: Held
) -> None:
    client.send("analyse", 1, **params(tmp_path, name="one.py"))
    client.read()
    first = held.next()
    for number in (2, 3, 4):
        client.send("analyse", number, **params(tmp_path, name=f"m{number}.py"))
        answer = client.read()
        assert (answer["id"], validations(answer["result"])) == (number, ["not-validated"])
    first.done(VALIDATED)
    assert client.read()["id"] == 1


def test_the_verdict_is_on_the_text_that_was_analysed(tmp_path: Path, client: Client, held: Held) -> None:
    asked = params(tmp_path)
    client.send("analyse", 1, **asked)
    client.read()
    Path(asked["path"]).write_text("changed since\n")
    assert held.next().request.text == SOURCE


# --- the process ---


class Collected:
    """The verdicts of tasks, in order."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.given: queue.SimpleQueue[tuple[str, Validation | None]] = queue.SimpleQueue()
        self.validator = Validator((sys.executable, str(FAKE), str(self.log)))

    def task(self, name: str, text: str = "") -> Task:
        request = Request(path=f"/{name}.py", interpreter=sys.executable, text=text, validate=True)
        done = lambda verdict: self.given.put((name, verdict))  # noqa: E731
        return Task(request=request, name=name, line=1, cancel=threading.Event(), done=done)

    def next(self) -> tuple[str, Validation | None]:
        return self.given.get(timeout=30)

    def until(self, note: str) -> None:
        """Return once the process has noted this; it writes to a file, so this polls."""
        end = time.monotonic() + 30
        while note not in self.notes():
            assert time.monotonic() < end, self.notes()
            threading.Event().wait(0.01)

    def notes(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def collected(tmp_path: Path) -> Iterator[Collected]:
    found = Collected(tmp_path)
    yield found
    found.validator.close()


def test_verdicts_are_worked_out_one_at_a_time_in_order(collected: Collected) -> None:
    for name in ("A", "B", "C"):
        collected.validator.submit(collected.task(name))
    found = [collected.next() for _ in range(3)]
    assert [(name, verdict.status if verdict else None) for name, verdict in found] == [
        ("A", "validated"), ("B", "validated"), ("C", "validated"),
    ]  # fmt: skip
    assert collected.notes() == ["validate A", "end A", "validate B", "end B", "validate C", "end C"]


def test_a_process_that_dies_is_a_reason_and_the_next_verdict_comes(collected: Collected) -> None:
    collected.validator.submit(collected.task("A", "fake: die"))
    collected.validator.submit(collected.task("B"))
    name, verdict = collected.next()
    assert name == "A" and verdict is not None
    assert verdict.status == "not-validated" and "ended" in verdict.reason
    name, verdict = collected.next()
    assert name == "B" and verdict is not None and verdict.status == "validated"


def test_a_cancelled_task_makes_room_for_the_next(collected: Collected) -> None:
    hanging = collected.task("A", "fake: hang")
    collected.validator.submit(hanging)
    collected.validator.submit(collected.task("B"))
    collected.until("validate A")
    hanging.cancel.set()
    assert collected.next() == ("A", None)
    assert "cancel" in collected.notes()
    name, verdict = collected.next()
    assert name == "B" and verdict is not None and verdict.status == "validated"


def test_a_process_that_cannot_be_started_is_a_reason(tmp_path: Path) -> None:
    given: queue.SimpleQueue[Validation | None] = queue.SimpleQueue()
    validator = Validator((str(tmp_path / "no-such-program"),))
    request = Request(path="/a.py", interpreter=sys.executable, text="", validate=True)
    validator.submit(Task(request=request, name="A", line=1, cancel=threading.Event(), done=given.put))
    verdict = given.get(timeout=30)
    validator.close()
    assert verdict is not None and verdict.status == "not-validated" and verdict.reason
