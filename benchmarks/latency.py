#!/usr/bin/env python3
"""From didSave to the refreshed hints, as an editor sees it, over every KernelBench problem; see results/latency.md.

    python benchmarks/latency.py --root /path/to/KernelBench/KernelBench [--levels 1 2 3] [--hw h100-sxm]

Each file is opened as if it were just begun (one import), filled with the problem's text, and saved: the trace is new
and nothing comes from the cache, while agent and worker are warm. The clock runs from the didSave message until the
answer to the textDocument/inlayHint request that follows workspace/inlayHint/refresh. Meanwhile hovers are asked for
every 20 ms: the longest tells how long the server made an editor wait. Nothing of a problem's text is written.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
from client import LspClient, Timeout
from kernelbench import RESULTS, machine, spread

from sollens.analysis.cli import version
from sollens.hardware.units import format_bytes, format_seconds


def main() -> int:
    """Run; 1 when a file got no hints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="the folder that holds level1, level2, ...")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--hw", default="h100-sxm")
    parser.add_argument("--interpreter", default=sys.executable)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SOLLENS_CACHE_DIR"] = str(Path(folder) / "cache")
        document = measure(options, Path(folder) / "work")
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "latency.json").write_text(json.dumps(document, indent=1) + "\n")
    (options.output / "latency.md").write_text(markdown(document))
    print(markdown(document))
    return 0 if all(row["seconds"] is not None for row in document["files"]) else 1


def measure(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Open, save and time every file, copied to a workspace of their own."""
    files: list[tuple[int, Path]] = []
    for level in options.levels:
        (work / f"level{level}").mkdir(parents=True)
        for path in sorted((options.root / f"level{level}").glob("*.py"), key=lambda p: int(p.stem.split("_")[0])):
            files.append((level, Path(shutil.copy(path, work / f"level{level}"))))
    client = LspClient(work, {"hardware": options.hw, "interpreter": options.interpreter})
    server = psutil.Process(client.process.pid)
    rows: list[dict[str, Any]] = []
    try:
        timed(client, files[0][1])  # starts the worker and the agent
        client.request("workspace/executeCommand", {"command": "sollens.server.clearCache", "arguments": []})
        for number, (level, path) in enumerate(files):
            rows.append({"level": level, "name": path.stem, **timed(client, path)})
            if number % 25 == 24:
                print(f"{number + 1}/{len(files)}", file=sys.stderr, flush=True)
        rss = server.memory_info().rss
    finally:
        client.close()
    done = [row["seconds"] for row in rows if row["seconds"] is not None]
    return {
        "sollens": version(),
        "hardware": options.hw,
        "machine": machine(),
        "save_to_hints_s": spread(done),
        "by_level": {
            level: spread([r["seconds"] for r in rows if r["level"] == level and r["seconds"] is not None])
            for level in options.levels
        },
        "hover_s": spread([row["slowest_hover_s"] for row in rows]),
        "server_rss_bytes": rss,
        "files": rows,
    }


def timed(client: LspClient, path: Path) -> dict[str, Any]:
    """Open an empty file, wait until it is settled, then save the whole one and time the way to its hints."""
    uri, text = path.as_uri(), path.read_text(encoding="utf-8")
    document = {"uri": uri}
    begun = {"uri": uri, "languageId": "python", "version": 1, "text": "import torch\n"}
    start = len(client.messages)
    client.notify("textDocument/didOpen", {"textDocument": begun})
    hovers: Hovers | None = None
    try:
        client.wait(lambda message: is_settled(message, uri), start)
        change = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": text}]}
        client.notify("textDocument/didChange", change)
        hovers = Hovers(client, uri)
        start = len(client.messages)
        began = time.perf_counter()
        client.notify("textDocument/didSave", {"textDocument": document})
        client.wait(is_refresh, start)
        lines = text.count("\n") + 1
        whole = {"start": {"line": 0, "character": 0}, "end": {"line": lines, "character": 0}}
        hints = client.request("textDocument/inlayHint", {"textDocument": document, "range": whole})
        seconds = time.perf_counter() - began
        return {"seconds": seconds if hints else None, "hints": len(hints or []), "slowest_hover_s": hovers.stop()}
    except Timeout as error:
        return {"seconds": None, "hints": 0, "slowest_hover_s": 0.0, "error": str(error)}
    finally:
        if hovers is not None:
            hovers.stop()
        client.notify("textDocument/didClose", {"textDocument": document})


def is_settled(message: dict[str, Any], uri: str) -> bool:
    """Whether the server says that it has nothing left to do for a document."""
    params = message.get("params")
    return (
        message.get("method") == "sollens/status"
        and params["uri"] == uri
        and params["state"] not in ("tracing", "analysing")
    )


def is_refresh(message: dict[str, Any]) -> bool:
    """Whether the server asks for hints to be fetched anew."""
    return message.get("method") == "workspace/inlayHint/refresh"


class Hovers:
    """Asks for hovers until stopped, and remembers the slowest."""

    def __init__(self, client: LspClient, uri: str) -> None:
        self._client, self._uri = client, uri
        self._stop = threading.Event()
        self._slowest_s = 0.0
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def stop(self) -> float:
        self._stop.set()
        self._thread.join()
        return self._slowest_s

    def _ask(self) -> None:
        params = {"textDocument": {"uri": self._uri}, "position": {"line": 0, "character": 0}}
        while not self._stop.is_set():
            start = time.perf_counter()
            self._client.request("textDocument/hover", params)
            self._slowest_s = max(self._slowest_s, time.perf_counter() - start)
            self._stop.wait(0.02)


def markdown(document: dict[str, Any]) -> str:
    """The document's summary."""
    lines = [
        f"sollens {document['sollens']}, {document['hardware']}, {document['machine']['cores']} cores; from didSave to "
        "the answer of the inlayHint request that follows the refresh, over stdio, warm, nothing cached.",
        "",
        "| | median | p95 | slowest |",
        "|---|---:|---:|---:|",
        row("all", document["save_to_hints_s"]),
        *(row(f"level {level}", times) for level, times in document["by_level"].items()),
        row("slowest hover during an analysis", document["hover_s"]),
        "",
        f"Server process: {format_bytes(document['server_rss_bytes'])} resident at the end.",
    ]
    without = [f"level {r['level']} {r['name']}" for r in document["files"] if r["seconds"] is None]
    if without:
        lines += ["", f"No hints: {', '.join(without)}"]
    return "\n".join(lines) + "\n"


def row(name: str, times: dict[str, float]) -> str:
    """A row of the table."""
    return f"| {name} | {' | '.join(format_seconds(times[key]) for key in ('median', 'p95', 'max'))} |"


if __name__ == "__main__":
    sys.exit(main())
