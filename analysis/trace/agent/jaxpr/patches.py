# pyright: basic
"""What is replaced in JAX: rematerialisation changes how a program runs, not what it must compute."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

NOTES: list[str] = []
_INSTALLED: list[bool] = []


def apply(modules: Any) -> None:
    """Install all replacements in this process, once; `modules` learns where modules are made."""
    install()
    NOTES.clear()
    modules.watch()


def install() -> None:
    """Replace what user modules bind when they are imported."""
    if _INSTALLED:
        return
    _INSTALLED.append(True)
    import jax.ad_checkpoint

    for owner in (jax, jax.ad_checkpoint):
        for name in ("checkpoint", "remat"):
            if hasattr(owner, name):
                setattr(owner, name, _as_is)
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src import ad_checkpoint

        ad_checkpoint.checkpoint = ad_checkpoint.remat = _as_is  # type: ignore[assignment]


def _as_is(fun: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`jax.checkpoint` without effect; also as a decorator with options."""
    if fun is None:
        return lambda function: _as_is(function, **options)
    return fun
