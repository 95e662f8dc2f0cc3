# pyright: basic
"""Operators without a meta kernel, asked of FakeTensorMode: it knows decompositions and value-dependent shapes."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses import fake_tensor

from .tensors import META

_UNKNOWN_SHAPE = tuple(
    getattr(fake_tensor, name)
    for name in ("DynamicOutputShapeException", "DataDependentOutputException")
    if hasattr(fake_tensor, name)
)
_MODE: list[Any] = []


def is_unknown_shape_error(error: Exception) -> bool:
    """Whether an operator's result depends on values that a meta tensor does not have."""
    return isinstance(error, _UNKNOWN_SHAPE) or "meta tensor" in str(error).lower()


def by_fake_tensors(func: Any, args: Any, kwargs: Any) -> Any:
    """The operator's result as meta tensors; in-place updates return the arguments themselves."""
    if not _MODE:
        _MODE.append(fake_tensor.FakeTensorMode(allow_non_fake_inputs=True))
    mode = _MODE[0]
    pairs: dict[int, torch.Tensor] = {}
    with mode:
        fakes, fake_kwargs = _to_fake(mode, args, pairs), _to_fake(mode, kwargs, pairs)
        if "device" in fake_kwargs:
            fake_kwargs["device"] = torch.device("cpu")
        result = func(*fakes, **fake_kwargs)
    return _to_meta(result, pairs)


def _to_fake(mode: Any, value: Any, pairs: dict[int, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        fake = fake_tensor.FakeTensor(mode, value.detach() if value.requires_grad else value, torch.device("cpu"))
        pairs[id(fake)] = value
        return fake
    if isinstance(value, (list, tuple)):
        return type(value)([_to_fake(mode, v, pairs) for v in value])
    if isinstance(value, dict):
        return {k: _to_fake(mode, v, pairs) for k, v in value.items()}
    return value


def _to_meta(value: Any, pairs: dict[int, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        if id(value) in pairs:
            return pairs[id(value)]
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=META)
    if isinstance(value, (list, tuple)):
        return type(value)([_to_meta(v, pairs) for v in value])
    return value
