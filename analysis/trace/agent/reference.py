# pyright: basic
"""Run a reference function of the user's on given arrays: what a program in another language should give.

The request has {"reference": {"file", "function", "directory", "inputs": [name, ...]}}; `directory` holds NAME.npy of
every input and gets `output-0.npy`, ... The function takes NumPy arrays by name and returns one array, several, or a
dictionary of them. Needs NumPy and nothing else.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

import numpy as np


def reply_of(request: dict[str, Any]) -> dict[str, Any]:
    """`{"ok": true, "outputs": [name or "", ...]}` or a problem in words."""
    asked = request["reference"]
    try:
        _limit(int(request.get("memory_bytes") or 0))
        function = _load(asked["file"], asked["function"], request.get("paths") or [])
        inputs = {
            name: np.load(os.path.join(asked["directory"], f"input-{n}.npy"), allow_pickle=False)
            for n, name in enumerate(asked["inputs"])
        }
        given = function(**inputs)
        if isinstance(given, dict):
            named = [(str(name), value) for name, value in given.items()]
        else:
            named = [("", value) for value in (given if isinstance(given, (tuple, list)) else [given])]
        for number, (_, value) in enumerate(named):
            array = _array(value)
            if array.dtype.hasobject:
                raise TypeError(f"result {number}: expected numbers, found {type(value).__name__}")
            np.save(os.path.join(asked["directory"], f"output-{number}.npy"), array, allow_pickle=False)
    except BaseException as error:
        detail = "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=-6))[-3000:]
        return {"ok": False, "message": f"{type(error).__name__}: {error}"[:500], "detail": detail}
    return {"ok": True, "outputs": [name for name, _ in named]}


def _array(value: Any) -> Any:
    if hasattr(value, "detach"):  # a torch tensor
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _load(file: str, name: str, roots: list[str]) -> Any:
    import importlib.util

    for root in [*reversed(roots), os.path.dirname(os.path.abspath(file))]:
        sys.path.insert(0, root)
    spec = importlib.util.spec_from_file_location("_reference", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"expected a Python file, found {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["_reference"] = module
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        names = ", ".join(n for n, v in vars(module).items() if callable(v) and not n.startswith("_"))
        raise AttributeError(f"expected a function {name} in {file} (it has {names or 'none'})")
    return function


def _limit(memory_bytes: int) -> None:
    if hasattr(os, "nice"):
        os.nice(10)
    if sys.platform.startswith("linux"):
        from .child import _limit as limit

        limit(memory_bytes)
