# pyright: basic
"""Which framework's side of the agent answers a request."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

_PACKAGES = {"torch": "PyTorch", "jax": "JAX"}


def framework_of(request: dict[str, Any]) -> str:
    """ "jax" or "torch"."""
    return "jax" if (request.get("target") or {}).get("frontend") == "jax" else "torch"


def reply_of(request: dict[str, Any]) -> dict[str, Any]:
    """The reply to a request: a trace, or a trace and golden outputs."""
    framework = framework_of(request)
    if importlib.util.find_spec(framework) is None:
        return {"ok": False, "problems": [missing(framework, request.get("path", ""))], "stage_s": {}}
    if framework == "jax":
        from .jaxpr import golden as side
    else:
        from . import golden as side
    return side.reply_of(request)


def missing(framework: str, path: str = "") -> dict[str, Any]:
    """The problem of an interpreter without the framework."""
    name = _PACKAGES[framework]
    message = (
        f"{sys.executable} has no {name}: run `{sys.executable} -m pip install {framework}`, "
        "or choose another interpreter."
    )
    return {"code": "framework-missing", "message": message, "file": path, "line": 0, "column": 0, "detail": ""}
