"""A worker that speaks the protocol and computes nothing, for tests of the server.

What it answers stands in the analysed text. A line with `#= 41.2e-6 memory 12` gets a row (seconds, limit, count); a
class line with such a mark is a target. `#! code message` is a problem there, `#? code share message` a finding.
Anywhere: `fake: die`, `fake: garbage`, `fake: hang` (until cancelled), `fake: wait FILE` (until the file is there),
`fake: failed` (validation), `fake: unable` (no verdict). `fake: later FILE` sends the numbers at once and the verdict
as an update when the file is there, or dies then with `fake: late death`. Methods and cancellations are appended to
$FAKE_WORKER_LOG, one JSON object a line, and "no verdict" where an update was cancelled.
"""

import json
import os
import re
import sys
import threading
import time
from pathlib import Path

_ROW = re.compile(r"#= (\d+(?:\.\d+)?(?:e-\d{1,2})?) (memory|vector|matmul:\w+)(?: (\d{1,4}))?")
_PROBLEM = re.compile(r"#! (\S+) (.*)")
_FINDING = re.compile(r"#\? (\S+) (\S+) (.*)")
_WAIT = re.compile(r"fake: wait (\S+)")
_LATER = re.compile(r"fake: later (\S+)")

_out = sys.stdout.buffer
_lock = threading.Lock()
_cancelled: set[int] = set()


def send(message: dict) -> None:
    body = json.dumps(message).encode()
    with _lock:
        _out.write(len(body).to_bytes(4, "big") + body)
        _out.flush()


def log(entry: dict) -> None:
    if path := os.environ.get("FAKE_WORKER_LOG"):
        with _lock, Path(path).open("a") as file:
            file.write(json.dumps(entry) + "\n")


def report(params: dict, text: str, *, pending: bool = False) -> dict:
    status = "failed" if "fake: failed" in text else "not-validated" if "fake: unable" in text else "validated"
    reason = "" if status == "validated" else "no twin was found" if status == "not-validated" else "o[0] differs"
    checked = {"status": status, "sizes": {"B": 2}, "max_rel_error": 1e-7, "reason": reason}
    if pending:
        checked = {"status": "not-validated", "reason": "validation is running"}
    problems, targets, current = [], [], None
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        if found := _ROW.search(line):
            row = {
                "line": number,
                "time_s": float(found[1]),
                "limit": found[2],
                "share": 0.5,
                "count": int(found[3] or 1),
            }
            row |= {
                "macs": 1000,
                "bytes": 2000,
                "vector_ops": 10,
                "unfused_s": 2 * row["time_s"],
                "operators": ["aten.mm"],
            }
            row["resources"] = [
                {"name": "vector", "amount": 10, "unit": "FLOP", "peak_per_s": 1e12, "time_s": 1e-11},
                {"name": "memory", "amount": 2000, "unit": "byte", "peak_per_s": 3e12, "time_s": row["time_s"]},
            ]
            if line.lstrip().startswith("class "):
                current = target(line, number, row, params, checked)
                targets.append(current)
                if checked["status"] == "failed":
                    message = f"{current['name']}: no number is shown: o[0] differs, expected 0.25, found -0.25"
                    problem = {"code": "validation-failed", "line": number + 2, "message": message}
                    problems.append({**problem, "severity": "error"})
            elif current is not None:
                current["lines"].append({**row, "kind": "op"})
        if found := _PROBLEM.search(line):
            pragma = "# sol: x=f32[...]" if found[1] == "missing-shapes" else None
            problems.append(
                {"code": found[1], "line": number, "message": found[2], "severity": "warning", "pragma": pragma}
            )
        if (found := _FINDING.search(line)) and current is not None:
            share = float(found[2])
            finding = {"code": found[1], "line": number, "message": found[3], "saves_s": share * 1e-4, "share": share}
            current["findings"].append(finding)
    return {"path": params["path"], "problems": problems, "targets": targets}


def target(line: str, number: int, row: dict, params: dict, checked: dict) -> dict:
    name = line.split("class ")[1].split("(")[0].split(":")[0]
    need = {"resource": "memory", "needed_per_s": 2e12, "available_per_s": 3e12, "ratio": 0.67, "unit": "byte/s"}
    inverse = {"target_s": params["target_s"], "meets": ["h200"], "reachable": True, "rows": [need]}
    seconds = row["time_s"]
    return {
        "name": name,
        "line": number,
        "frontend": "torch",
        "macs": 1000,
        "macs_by_pipe": {"tf32": 1000},
        "vector_ops": 10,
        "flop": 2010,
        "bytes": {"compulsory": 2000, "cache_aware": 2000, "unfused": 4000},
        "time_s": {"fused": seconds, "cache_aware": seconds, "unfused": 2 * seconds},
        "limit": row["limit"],
        "confidence": "high",
        "partial": [],
        "validation": checked,
        "inverse": inverse if params["target_s"] else None,
        "modules": [],
        "lines": [],
        "findings": [],
        "stage_s": {},
        "hardware": params["hardware"],
        "precision": params["precision"],
        "assumptions": ["x is float32[8, 512]."],
        "resources": row["resources"],
    }


def answer(message: dict) -> None:
    request, params = message["id"], message.get("params", {})
    if message["method"] in ("ir", "einsum"):
        text = f"{message['method']} of {Path(params['path']).name}"
        if params["format"] == "json":
            einsum = {"name": "y", "kind": "contraction", "equation": "y[i:2] = sum[k:3] x[i,k]", "line": 4, "macs": 6}
            tensor = {"name": "x", "dtype": "f32", "shape": [2, 3], "role": "input", "demanded_bytes": 24}
            edge = {"tensor": "x", "to": "y", "bytes": 24}
            graph = {"name": "Model", "einsums": [einsum], "tensors": [tensor], "edges": [edge]}
            text = json.dumps(graph, indent=1)
        send({"id": request, "result": {"text": text}})
        return
    if message["method"] != "analyse":
        send({"id": request, "result": None})
        return
    send({"id": request, "progress": {"stage": "trace", "message": "tracing"}})
    text = message["text"]
    if "fake: die" in text:
        os._exit(9)
    if "fake: garbage" in text:
        with _lock:
            _out.write(b"hello, world, this is no message\n")
            _out.flush()
        return
    waits = _WAIT.search(text)
    while ("fake: hang" in text or (waits and not Path(waits[1]).exists())) and request not in _cancelled:
        time.sleep(0.005)
    if request in _cancelled:
        send({"id": request, "error": {"code": "cancelled", "message": ""}})
    elif found := re.search(r"fake: error (\S+)", text):
        send({"id": request, "error": {"code": found[1], "message": "as asked"}})
    else:
        send({"id": request, "progress": {"stage": "bound", "message": "bounding"}})
        later = _LATER.search(text)
        send({"id": request, "result": report(params, text, pending=later is not None)})
        if later:
            give_verdict(request, params, text, Path(later[1]))


def give_verdict(request: int, params: dict, text: str, gate: Path) -> None:
    while not gate.exists() and request not in _cancelled:
        time.sleep(0.005)
    if request in _cancelled:
        log({"method": "no verdict", "id": request})
        return
    if "fake: late death" in text:
        os._exit(9)
    send({"id": request, "update": report(params, text)})


def main() -> None:
    while len(head := sys.stdin.buffer.read(4)) == 4:
        message = json.loads(sys.stdin.buffer.read(int.from_bytes(head, "big")))
        # Read before the request is logged: a test changes the file as soon as it is.
        if message["method"] == "analyse":
            params = message["params"]
            text = params["text"]
            message["text"] = text if text is not None else Path(params["path"]).read_bytes().decode()
        log({**message, "text": None})
        if message["method"] == "cancel":
            _cancelled.add(message["params"]["id"])
        elif message["method"] == "shutdown":
            break
        else:
            threading.Thread(target=answer, args=(message,), daemon=True).start()
    os._exit(0)


main()
