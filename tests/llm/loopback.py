"""A server on the loopback that speaks the chat-completions API, with scripted answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-loopback-0123456789"


@dataclass
class Answer:
    """One scripted answer. `raw` bytes are sent in place of a proper stream; `hold` waits until the server closes."""

    text: str = ""
    status: int = 200
    body: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    finish: str | None = "stop"
    refusal: str = ""
    usage: bool = True
    hold: bool = False
    drop_after: int | None = None  # the connection ends after so many bytes of the stream


Script = list[Answer] | Callable[[dict[str, Any]], Answer]


class Loopback:
    """The server: its address, and every request it got."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.closing = threading.Event()
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with outer.lock:
                    outer.requests.append({"path": self.path, **body})
                    outer.headers.append({k.lower(): v for k, v in self.headers.items()})
                    script = outer.script
                    if callable(script):
                        answer = script(body)
                    else:
                        answer = script.pop(0) if len(script) > 1 else script[0]
                try:
                    outer.answer(self, answer)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def answer(self, handler: BaseHTTPRequestHandler, answer: Answer) -> None:
        if answer.hold:
            handler.send_response(200)
            handler.send_header("content-type", "text/event-stream")
            handler.end_headers()
            handler.wfile.flush()
            self.closing.wait(30)
            handler.close_connection = True
            return
        if answer.status != 200:
            data = json.dumps(answer.body or {"error": {"message": f"status {answer.status}"}}).encode()
            handler.send_response(answer.status)
            handler.send_header("content-type", "application/json")
            handler.send_header("content-length", str(len(data)))
            for name, value in answer.headers.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(data)
            return
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        data = answer.raw if answer.raw is not None else b"".join(events(answer))
        if answer.drop_after is not None:
            data = data[: answer.drop_after]
        for start in range(0, len(data), 1 << 16):
            part = data[start : start + (1 << 16)]
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        handler.wfile.flush()
        if answer.drop_after is not None:
            handler.close_connection = True  # without the last chunk
            handler.connection.close()
            return
        handler.wfile.write(b"0\r\n\r\n")

    def close(self) -> None:
        self.closing.set()
        self.http.shutdown()
        self.http.server_close()


def events(answer: Answer) -> Iterator[bytes]:
    """The server-sent events of an answer, in pieces of a few characters."""
    size = max(7, len(answer.text) // 50)
    for start in range(0, len(answer.text), size):
        yield event({"choices": [{"index": 0, "delta": {"content": answer.text[start : start + size]}}]})
    if answer.refusal:
        yield event({"choices": [{"index": 0, "delta": {"refusal": answer.refusal}}]})
    if answer.finish:
        yield event({"choices": [{"index": 0, "delta": {}, "finish_reason": answer.finish}]})
    if answer.usage:
        yield event({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}})
    yield b"data: [DONE]\n\n"


def event(chunk: dict[str, Any]) -> bytes:
    whole = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "scripted", **chunk}
    return f"data: {json.dumps(whole)}\n\n".encode()


@contextmanager
def loopback(script: Script) -> Iterator[Loopback]:
    """A running server."""
    server = Loopback(script)
    try:
        yield server
    finally:
        server.close()
