"""A validating process that runs nothing: what it does stands in the text of the file that it is asked about.

`fake: die` ends it, `fake: hang` waits for a cancellation; anything else is validated. Requests and cancellations are
appended to the file named by its argument, one a line, and so is "end NAME" once a verdict is given.
"""

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

log = Path(sys.argv[1])
lock = threading.Lock()
cancelled: dict[int, threading.Event] = {}


def note(line: str) -> None:
    with lock, log.open("a") as file:
        file.write(line + "\n")


def send(message: dict[str, Any]) -> None:
    body = json.dumps(message).encode()
    with lock:
        sys.stdout.buffer.write(len(body).to_bytes(4, "big") + body)
        sys.stdout.buffer.flush()


def validate(number: int, params: dict[str, Any]) -> None:
    text = params["request"]["text"]
    if "fake: die" in text:
        os._exit(3)
    send({"id": number, "progress": {"stage": "validate", "message": ""}})
    if "fake: hang" in text:
        cancelled[number].wait(60)
        send({"id": number, "error": {"code": "cancelled", "message": "cancelled"}})
        return
    note(f"end {params['name']}")
    send({"id": number, "result": {"status": "validated", "sizes": {"B": 2}, "max_rel_error": 1e-7}})


while len(head := sys.stdin.buffer.read(4)) == 4:
    message = json.loads(sys.stdin.buffer.read(int.from_bytes(head, "big")))
    if message["method"] == "cancel":
        note("cancel")
        cancelled[message["params"]["id"]].set()
    elif message["method"] == "validate":
        note(f"validate {message['params']['name']}")
        cancelled[message["id"]] = threading.Event()
        threading.Thread(target=validate, args=(message["id"], message["params"]), daemon=True).start()
os._exit(0)
