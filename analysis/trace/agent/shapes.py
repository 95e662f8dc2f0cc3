# pyright: basic
"""Shapes of results seen before: an operator on arguments of the same shapes gives the same shapes.

PyTorch computes many meta results in Python, at up to a millisecond each, and models repeat their layers.
"""

from __future__ import annotations

from typing import Any

import torch

from .tensors import META, Info, no_modes

_CACHE: dict[Any, Any] = {}
_SCALARS = (int, float, bool, str, type(None), torch.dtype, complex)


def key_of(name: Any, args: Any, kwargs: Any, inputs: list[Info]) -> Any:
    """What the shapes of a result follow from, or None where it cannot be told cheaply."""
    parts: list[Any] = [name]
    for info in inputs:
        parts.append((info.shape, info.strides, info.dtype))
    if not _fold(args, parts) or (kwargs and not _fold(tuple(kwargs.items()), parts)):
        return None
    return tuple(parts)


def _fold(value: Any, parts: list[Any]) -> bool:
    for item in value:
        if isinstance(item, torch.Tensor):
            parts.append("tensor")
        elif isinstance(item, _SCALARS):
            parts.append(type(item))
            parts.append(item)
        elif isinstance(item, (list, tuple)):
            parts.append(len(item))
            if not _fold(item, parts):
                return False
        elif item is not META:
            return False
    return True


def recall(key: Any) -> Any:
    """A new result as the last one of this key, or None."""
    known = _CACHE.get(key)
    if known is None:
        return None
    with no_modes():
        return _build(known)


def remember(key: Any, result: Any, inputs: list[Info], outputs: list[Info]) -> None:
    """Keep the shapes of a result that shares no memory with its arguments."""
    stores = {i.store for i in inputs}
    if outputs and all(o.store not in stores for o in outputs) and len({id(o.store) for o in outputs}) == len(outputs):
        shape = _shape(result)
        if shape is not None:
            _CACHE[key] = shape


def _shape(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_complex() or value.storage_offset() or not _dense(value):
            return None
        return ("t", tuple(value.shape), value.stride(), value.dtype)
    if isinstance(value, (list, tuple)):
        parts = [_shape(v) for v in value]
        return None if None in parts else ("l" if isinstance(value, list) else "u", parts)
    return None


def _dense(value: torch.Tensor) -> bool:
    return value.untyped_storage().nbytes() == value.numel() * value.element_size()


def _build(known: Any) -> Any:
    if known[0] == "t":
        return torch.empty_strided(known[1], known[2], dtype=known[3], device=META)
    parts = [_build(k) for k in known[1]]
    return parts if known[0] == "l" else tuple(parts)


def in_place_known(key: Any) -> bool:
    """Whether an in-place operator on arguments of these shapes has run before (so that it is known to be legal)."""
    return key in _IN_PLACE


def remember_in_place(key: Any) -> None:
    """Keep that an in-place operator ran on arguments of these shapes and left them as they are."""
    _IN_PLACE.add(key)


_IN_PLACE: set[Any] = set()


def by_rule(target: str, args: Any) -> Any:
    """The result of a few operators whose meta kernels are slow, or None where the plain case does not hold."""
    rule = _RULES.get(target)
    if rule is None:
        return None
    with no_modes():
        return rule(args)


def _batch_norm(args: Any) -> Any:
    x = args[0]
    if args[5] or not isinstance(args[3], torch.Tensor) or x.dim() < 2 or x.shape[1] != args[3].shape[0]:
        return None
    none = torch.empty((0,), dtype=x.dtype, device=META)
    return torch.empty_like(x), none, torch.empty((0,), dtype=x.dtype, device=META)


def _concatenate(args: Any) -> Any:
    tensors = args[0]
    first = tensors[0]
    rank = first.dim()
    axis = args[1] if len(args) > 1 else 0
    if rank == 0 or not -rank <= axis < rank:
        return None
    axis %= rank
    shape = list(first.shape)
    total = 0
    for t in tensors:
        if t.dim() != rank or t.dtype is not first.dtype or not t.is_contiguous():
            return None
        if any(i != axis and t.shape[i] != shape[i] for i in range(rank)):
            return None
        total += t.shape[axis]
    shape[axis] = total
    return torch.empty(shape, dtype=first.dtype, device=META)


def _like(args: Any) -> Any:
    return torch.empty_like(args[0]) if args[0].is_floating_point() else None


def _linear(args: Any) -> Any:
    x, weight, bias = args
    if weight.dim() != 2 or x.dim() < 1 or x.shape[-1] != weight.shape[1] or x.dtype is not weight.dtype:
        return None
    if bias is not None and (bias.shape != weight.shape[:1] or bias.dtype is not x.dtype):
        return None
    return torch.empty((*x.shape[:-1], weight.shape[0]), dtype=x.dtype, device=META)


def _matmul(args: Any) -> Any:
    a, b = args
    if a.dim() < 2 or b.dim() < 2 or a.shape[-1] != b.shape[-2] or a.dtype is not b.dtype:
        return None
    if b.dim() != 2 and a.shape[:-2] != b.shape[:-2]:
        return None
    return torch.empty((*a.shape[:-2], a.shape[-2], b.shape[-1]), dtype=a.dtype, device=META)


_RULES = {
    "fn.linear": _linear,
    "fn.matmul": _matmul,
    "aten.native_batch_norm.default": _batch_norm,
    "aten.cat.default": _concatenate,
    "aten.hardtanh.default": _like,
    "aten.gelu.default": _like,
    "aten.silu.default": _like,
}
