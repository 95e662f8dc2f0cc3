"""Runs a user's reference function in the user's interpreter, in a process of its own, within limits."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sollens.analysis.trace.host import BOOT

Array = NDArray[Any]
_LOOK_S = 0.05
_MOST_OUTPUTS = 100
# As the agent: offline, no accelerator, few threads.
_ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


class ReferenceFailed(Exception):
    """The function gave nothing that can be used; the text says what was expected and found."""


def run_reference(
    interpreter: str, file: Path, function: str, inputs: Mapping[str, Array], *, deadline_s: float, memory_bytes: int,
    paths: Sequence[str] = (), cancel: threading.Event | None = None,
) -> list[tuple[str, Array]]:  # fmt: skip
    """(name or "", array) of everything that the function returns; raises ReferenceFailed."""
    if not file.is_file():
        raise ReferenceFailed(f"expected a reference function in {file}, found no such file")
    with tempfile.TemporaryDirectory(prefix="sollens-reference-") as folder:
        for number, value in enumerate(inputs.values()):
            np.save(Path(folder) / f"input-{number}.npy", value, allow_pickle=False)
        asked = {"file": str(file), "function": function, "directory": folder, "inputs": list(inputs)}
        request = {"reference": asked, "memory_bytes": memory_bytes, "paths": list(paths)}
        reply = _ask(interpreter, json.dumps(request).encode(), deadline_s, cancel)
        where = f"reference {file.name}:{function}"
        if not reply.get("ok"):
            raise ReferenceFailed(f"{where}: expected it to return arrays, found {reply.get('message')}")
        names = [str(name) for name in reply.get("outputs", ())][:_MOST_OUTPUTS]
        try:
            return [
                (name, np.load(Path(folder) / f"output-{n}.npy", allow_pickle=False)) for n, name in enumerate(names)
            ]
        except (OSError, ValueError) as error:
            raise ReferenceFailed(f"{where}: expected arrays of numbers, found {error}") from None


def _ask(interpreter: str, request: bytes, deadline_s: float, cancel: threading.Event | None) -> Mapping[str, Any]:
    command = [interpreter, "-X", "faulthandler", str(BOOT), "once"]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **_ENVIRONMENT}, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise ReferenceFailed(f"expected a Python at {interpreter}, found: {error.strerror or error}") from None
    data: bytes | None = request
    end = time.monotonic() + deadline_s
    while True:
        try:
            out, told = process.communicate(data, timeout=_LOOK_S)
            break
        except subprocess.TimeoutExpired:
            data = None
            cancelled = cancel is not None and cancel.is_set()
            if cancelled or time.monotonic() > end:
                _kill(process)
                what = "cancelled" if cancelled else f"expected the reference to end within {deadline_s:g} s"
                raise ReferenceFailed(what) from None
    try:
        return json.loads(out)
    except ValueError:
        last = told.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise ReferenceFailed(f"the reference ended its process (status {process.returncode}): {last}") from None
    finally:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it started."""
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()
