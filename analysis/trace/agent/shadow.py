# pyright: basic
"""Real values beside meta tensors, for those that follow from the source alone: masks, tables, schedules, indices.

They answer `.item()`, `.tolist()`, `bool(tensor)`, `nonzero` and boolean-mask indexing exactly.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from .tensors import META, Info, Tensors, no_modes

_CPU = torch.device("cpu")
_MAX_ELEMENTS = 2**20
_MAX_RANDOM = 4096
_MAX_HEAVY = 2**14
_BUDGET_S = 0.5
_HEAVY = {
    "mm",
    "bmm",
    "addmm",
    "baddbmm",
    "convolution",
    "linalg_solve",
    "linalg_inv_ex",
    "svd",
    "matmul",
    "einsum",
    "linear",
}


class Shadows:
    """Keeps `Info.real` and the flags of its store in step with every operator."""

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors
        self._spent_s = 0.0
        # Control flow took the initial value of a parameter.
        self.used_parameters = False

    def follow(
        self, rule: Any, func: Any, args: Any, kwargs: Any, inputs: list[Info], written: list[Info],
        outputs: list[Info], real: Any, *, setup: bool,
    ) -> None:  # fmt: skip
        """Update the flags of the stores that the call wrote and compute real values where possible."""
        if rule.undefined:
            return
        overwrites = rule.whole_write and _covers_store(inputs[0])
        sources = inputs[1:] if overwrites else inputs
        known = not rule.random
        shadowed = True
        random = rule.random
        for info in sources:
            store = info.store
            known = known and store.known
            random = random or store.random
            shadowed = shadowed and store.shadowed and info.real is not None
        if rule.random:
            shadowed = shadowed and setup and _elements(outputs) <= _MAX_RANDOM
        targets = [o for o in outputs if o not in written]
        if shadowed and real is None:
            if overwrites and inputs[0].values is None:
                self._create(inputs[0])
            real = self._run(rule.name, func, args, kwargs, inputs, outputs)
        found = _flat(real) if real is not None else None
        stores_in = {i.store for i in inputs}
        for info in written:
            if overwrites or not known:
                info.store.known = known
            info.store.random = random if overwrites else info.store.random or random
            info.store.shadowed = found is not None and (overwrites or info.store.shadowed)
        for info in targets:
            if info.store not in stores_in:
                info.store.known = known
                info.store.random = random
                info.store.shadowed = found is not None
        if found is not None:
            for info, value in zip(outputs, found, strict=False):
                if info.real is None or info not in written:
                    info.real = value

    def _create(self, info: Info) -> None:
        if info.strides is None or _elements([info]) > _MAX_ELEMENTS:
            return
        with no_modes():
            info.real = torch.empty_strided(info.shape, info.strides, dtype=info.dtype)
        info.store.shadowed = True

    def _run(self, name: str, func: Any, args: Any, kwargs: Any, inputs: list[Info], outputs: list[Info]) -> Any:
        elements = _elements(outputs)
        if elements > _MAX_ELEMENTS or self._spent_s > _BUDGET_S:
            return None
        if name in _HEAVY and (elements > _MAX_HEAVY or _elements(inputs) > _MAX_HEAVY):
            return None
        start = time.perf_counter()
        try:
            with no_modes():
                return func(*_real(args, self._tensors), **_real(kwargs, self._tensors))
        except Exception:
            return None
        finally:
            self._spent_s += time.perf_counter() - start

    def run(self, func: Any, args: Any, kwargs: Any, tensors: Tensors) -> Any:
        """The operator on real values, or None where one is not known."""
        infos: list[Info] = []
        _collect((args, kwargs), tensors, infos)
        if any(i.values is None for i in infos):
            return None
        self.used_parameters = self.used_parameters or any(not i.store.known and not i.store.random for i in infos)
        with no_modes():
            return func(*_real(args, self._tensors), **_real(kwargs, self._tensors))

    def run_mask_index(self, func: Any, args: Any, tensors: Tensors) -> Any:
        """Indexing of unknown data by a known boolean mask, or None."""
        name = func._schema.name
        if name == "aten::masked_select":
            mask = tensors.of(args[1]).values
            if mask is None:
                return None
            with no_modes():
                count = int(mask.expand(torch.broadcast_shapes(mask.shape, args[0].shape)).sum())
            return torch.empty((count,), dtype=args[0].dtype, device=META)
        if name not in ("aten::index", "aten::index_put", "aten::index_put_"):
            return None
        indices: list[Any] = []
        for index in args[1]:
            if not isinstance(index, torch.Tensor) or index.dtype not in (torch.bool, torch.uint8):
                indices.append(index)
                continue
            mask = tensors.of(index).values
            if mask is None:
                return None
            with no_modes():
                places = mask.nonzero().unbind(1)
            indices.extend(tensors.fresh(p.contiguous()) for p in places)
        return func(args[0], indices, *args[2:])


def _covers_store(info: Info) -> bool:
    tensor = info.tensor
    return (
        tensor.layout is torch.strided
        and tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()
        and tensor.storage_offset() == 0
    )


def _elements(infos: list[Info]) -> int:
    return sum(i.tensor.numel() for i in infos)


def _flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in _flat(v)]
    return []


def _real(value: Any, tensors: Tensors) -> Any:
    if isinstance(value, torch.Tensor):
        real = tensors.of(value).real
        assert real is not None
        return real
    if isinstance(value, (list, tuple)):
        return [_real(v, tensors) for v in value]
    if isinstance(value, dict):
        return {k: _real(v, tensors) for k, v in value.items()}
    if value is META:
        return _CPU
    return value


def _collect(value: Any, tensors: Tensors, infos: list[Info]) -> None:
    if isinstance(value, torch.Tensor):
        infos.append(tensors.of(value))
    elif isinstance(value, (list, tuple)):
        for item in value:
            _collect(item, tensors, infos)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, tensors, infos)
