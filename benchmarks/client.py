"""A language client over stdio, as an editor is one: raw JSON-RPC, a reader thread, the server's requests answered."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CAPABILITIES = {
    "workspace": {
        "inlayHint": {"refreshSupport": True},
        "configuration": True,
        "didChangeConfiguration": {"dynamicRegistration": False},
        "workspaceFolders": True,
    },
    "textDocument": {
        "synchronization": {"didSave": True},
        "inlayHint": {"dynamicRegistration": False, "resolveSupport": {"properties": ["tooltip"]}},
        "publishDiagnostics": {"versionSupport": True},
        "hover": {"contentFormat": ["markdown"]},
    },
    "window": {"workDoneProgress": True},
}


class Timeout(Exception):
    """The server did not answer in time."""


class LspClient:
    """One server process and what it said. Every message is kept with the time it arrived."""

    def __init__(self, root: Path, settings: dict[str, Any], command: list[str] | None = None) -> None:
        self.settings = settings
        self.messages: list[tuple[float, dict[str, Any]]] = []
        self._changed = threading.Condition()
        self._ids = itertools.count(1)
        self._write_lock = threading.Lock()
        self.process = subprocess.Popen(
            command or [sys.executable, "-m", "sollens.analysis.cli", "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        threading.Thread(target=self._read, daemon=True).start()
        uri = root.absolute().as_uri()
        initialize = {
            "processId": None,
            "rootUri": uri,
            "workspaceFolders": [{"uri": uri, "name": root.name}],
            "capabilities": CAPABILITIES,
            "initializationOptions": settings,
        }
        self.capabilities = self.request("initialize", initialize)["capabilities"]
        self.notify("initialized", {})

    def request(self, method: str, params: Any, timeout_s: float = 120.0) -> Any:
        """Send a request and wait for its result."""
        request_id = next(self._ids)
        start = len(self.messages)
        self._send({"id": request_id, "method": method, "params": params})
        _, answer = self.wait(lambda m: m.get("id") == request_id and "method" not in m, start, timeout_s)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def wait(
        self, wanted: Callable[[dict[str, Any]], bool], start: int = 0, timeout_s: float = 120.0
    ) -> tuple[float, dict[str, Any]]:
        """The first message from position `start` on that is wanted, with its time of arrival."""
        deadline = time.perf_counter() + timeout_s
        with self._changed:
            while True:
                for at, message in self.messages[start:]:
                    if wanted(message):
                        return at, message
                start = len(self.messages)
                left = deadline - time.perf_counter()
                if left <= 0 or not self._changed.wait(left):
                    raise Timeout(f"nothing within {timeout_s} s")

    def close(self) -> None:
        """Shut the server down as the protocol says."""
        self.request("shutdown", None)
        self.notify("exit", None)
        self.process.wait(20)

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        with self._write_lock:
            self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            self.process.stdin.flush()

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while True:
            length = 0
            while (line := stream.readline().strip()) or not length:
                if not line and not length:
                    return
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            message = json.loads(stream.read(length))
            arrived = time.perf_counter()
            if "method" in message and "id" in message:
                self._answer(message)
            with self._changed:
                self.messages.append((arrived, message))
                self._changed.notify_all()

    def _answer(self, message: dict[str, Any]) -> None:
        result: Any = None
        if message["method"] == "workspace/configuration":
            result = [self.settings for _ in message["params"]["items"]]
        self._send({"id": message["id"], "result": result})
