# pyright: basic
"""What is replaced in torch: costly initialisation, compilers, and calls that need an accelerator."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch._dynamo  # before anything is replaced: it builds tables of torch's functions

_RANDOM_INITS = (
    "uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_",
    "orthogonal_", "sparse_", "dirac_", "eye_", "zeros_", "ones_", "constant_",
)  # fmt: skip


NOTES: list[str] = []
_INSTALLED: list[bool] = []


def note(text: str) -> None:
    """An assumption of the run in this process."""
    if text not in NOTES:
        NOTES.append(text)


def apply() -> None:
    """Install all replacements in this process, once."""
    NOTES.clear()
    if _INSTALLED:
        return
    _INSTALLED.append(True)
    _skip_initialisation()
    _keep_eager()
    _without_accelerator()
    torch.distributions.Distribution.set_default_validate_args(False)
    with contextlib.suppress(AttributeError):
        torch.backends.mha.set_fastpath_enabled(False)


def _skip_initialisation() -> None:
    init = torch.nn.init
    for name in _RANDOM_INITS:
        original = getattr(init, name, None)
        if original is None:
            continue

        def skipped(tensor: Any, *args: Any, _original: Any = original, **kwargs: Any) -> Any:
            if isinstance(tensor, torch.nn.Parameter) and tensor.is_meta:
                return tensor
            return _original(tensor, *args, **kwargs)

        setattr(init, name, skipped)


def _keep_eager() -> None:
    def as_is(model: Any = None, *args: Any, **kwargs: Any) -> Any:
        return model if model is not None else (lambda function: function)

    torch.compile = as_is  # type: ignore[assignment]
    with contextlib.suppress(Exception):
        torch.jit._state.disable()  # type: ignore[attr-defined]


class _Nothing:
    """Stands for streams, events, graphs and handles: every call does nothing and gives itself."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: Any) -> None: ...

    def elapsed_time(self, other: Any) -> float:
        return 0.0


def _without_accelerator() -> None:
    def nothing(*args: Any, **kwargs: Any) -> None: ...

    cuda: Any = torch.cuda
    for name in (
        "synchronize",
        "empty_cache",
        "reset_peak_memory_stats",
        "manual_seed",
        "manual_seed_all",
        "set_device",
        "init",
    ):
        setattr(cuda, name, nothing)
    for name in ("Stream", "Event", "stream", "current_stream", "default_stream", "device"):
        setattr(cuda, name, _Nothing)
    cuda.current_device = lambda: 0
    default = torch.set_default_device

    def set_default_device(device: Any) -> None:
        if str(device).split(":")[0] == "cpu" or device is None:
            default(device)

    torch.set_default_device = set_default_device  # type: ignore[assignment]
    tensor_type = torch.set_default_tensor_type

    def set_default_tensor_type(kind: Any) -> None:
        tensor_type(kind.replace("torch.cuda.", "torch.") if isinstance(kind, str) else kind)

    torch.set_default_tensor_type = set_default_tensor_type  # type: ignore[assignment]
    autocast = torch.amp.autocast_mode.autocast
    start = autocast.__init__

    def init(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if device_type != "cpu":
            note(f"autocast for {device_type} is recorded as autocast for the CPU")
            dtype = dtype or torch.float16
        start(self, "cpu", dtype, *args, **kwargs)

    autocast.__init__ = init  # type: ignore[method-assign]
