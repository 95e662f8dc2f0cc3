# pyright: basic
"""The tensors a trace met: identity, storage, kind, and how they become entries of the trace's table."""

from __future__ import annotations

import base64
import ctypes
from typing import Any

import torch

from .dtypes import is_integral, short_name

_INTEGER_VALUES = 65536
_FLOAT_VALUES = 4096


META = torch.device("meta")


class Store:
    """One block of memory."""

    __slots__ = ("known", "known_at_start", "random", "rewritten", "shadowed", "writers")

    def __init__(self) -> None:
        # Follows from the source alone: no random number, parameter, input data or undefined memory reaches it.
        self.known = False
        self.random = False
        # The real values held beside it are right.
        self.shadowed = False
        # `known` when the program began, and whether the program wrote into it.
        self.known_at_start = False
        self.rewritten = False
        self.writers: list[dict[str, Any]] = []


class Info:
    """One tensor value."""

    __slots__ = (
        "dtype",
        "key",
        "kind",
        "name",
        "offset",
        "real",
        "ref",
        "shape",
        "start",
        "store",
        "strides",
        "tensor",
    )

    def __init__(self, tensor: torch.Tensor, store: Store) -> None:
        self.tensor = tensor
        self.store = store
        self.key = storage_key(tensor)
        self.ref: dict[str, int] = {"tensor": -1}
        self.kind = "intermediate"
        self.name = ""
        self.real: torch.Tensor | None = None
        self.start: torch.Tensor | None = None
        self.dtype = tensor.dtype
        self.shape = tuple(tensor.shape)
        self.strides = tensor.stride() if tensor.layout is torch.strided else None
        self.offset = tensor.storage_offset() if tensor.layout is torch.strided else 0

    @property
    def values(self) -> torch.Tensor | None:
        """The real values where they are known and current."""
        return self.real if self.store.shadowed else None

    @property
    def known_at_start(self) -> bool:
        """Whether its value at the program's start follows from the source alone."""
        return self.store.known_at_start

    @property
    def at_start(self) -> torch.Tensor | None:
        """Its known values at the program's start (or, made by the program and not written again, at any time)."""
        if self.start is not None:
            return self.start
        if self.store.known and self.store.shadowed and not self.store.rewritten:
            return self.real
        return None


class Tensors:
    """Table of all tensors met. Holds a reference to each, so that `id` stays unique.

    The program runs on meta tensors: they have shapes and no memory.
    """

    def __init__(self) -> None:
        self.in_forward = False
        self.met_real = False
        self.marked: list[Info] = []
        self._by_id: dict[int, Info] = {}
        self._by_view: dict[Any, Info] = {}
        self._stores: dict[int, Store] = {}
        self._metas: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._kept: list[torch.Tensor] = []

    def mark(self, tensor: torch.Tensor, kind: str, name: str) -> None:
        """A parameter, buffer or input of the program; the first mark counts."""
        info = self.of(tensor)
        if info.name:
            return
        info.kind, info.name = kind, name
        self.marked.append(info)
        if kind == "parameter":
            info.store.known = False

    def begin_forward(self) -> None:
        """What is known now is known at the program's start; example values of random tensors are forgotten."""
        self.in_forward = True
        for store in self._stores.values():
            store.known_at_start = store.known
            if store.random:
                store.shadowed = False
        with no_modes():
            for info in self.marked:
                if (
                    info.store.known
                    and info.values is not None
                    and info.real is not None
                    and info.real.numel() <= _INTEGER_VALUES
                ):
                    info.start = info.real.clone()

    def of(self, tensor: torch.Tensor) -> Info:
        """The entry of a tensor; a real one (made outside the trace) is a constant with known values."""
        info = self._by_id.get(id(tensor))
        if info is not None:
            if id(tensor) in self._metas:
                self.met_real = True
            elif info.dtype is not tensor.dtype or info.shape != tensor.shape or info.key != storage_key(tensor):
                return self._replace(tensor, info)
            return info
        if not tensor.is_meta:
            return self._adopt_real(tensor)
        # Autograd wraps the result of a view in another object.
        same = self._by_view.get(_view_key(tensor))
        if same is not None:
            self.alias(tensor, same)
            return same
        return self._new(tensor)

    def result(self, tensor: torch.Tensor, written: list[Info]) -> Info:
        """The entry of an operator's output: that of the argument it was written into, else a new one."""
        known = self._by_id.get(id(tensor))
        if known is not None and (known in written or known.tensor is tensor):
            if known.shape == tensor.shape and known.dtype is tensor.dtype and known.strides == _strides(tensor):
                return known
            return self._replace(tensor, known)
        if written:
            same = self._by_view.get(_view_key(tensor))
            if same in written:
                self.alias(tensor, same)
                return same
        return self._new(tensor)

    def alias(self, tensor: Any, info: Info) -> None:
        """`tensor` is the same value as `info`'s under another Python object."""
        if isinstance(tensor, torch.Tensor) and id(tensor) not in self._by_id:
            self._by_id[id(tensor)] = info
            self._kept.append(tensor)

    def fresh(self, real: torch.Tensor) -> torch.Tensor:
        """A meta tensor with the shape of a real one."""
        return torch.empty_strided(real.shape, real.stride(), dtype=real.dtype, device=META)

    def as_meta(self, tree: Any) -> Any:
        """Arguments with real tensors replaced by their metas."""
        if isinstance(tree, torch.Tensor):
            return self.meta_of(tree)
        if isinstance(tree, (list, tuple)):
            return type(tree)([self.as_meta(v) for v in tree])
        if isinstance(tree, dict):
            return {k: self.as_meta(v) for k, v in tree.items()}
        return tree

    def meta_of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The meta of a real tensor; a meta is its own."""
        if tensor.is_meta:
            return tensor
        if id(tensor) not in self._metas:
            self._adopt_real(tensor)
        self.met_real = False
        return self._metas[id(tensor)][1]

    def _adopt_real(self, tensor: torch.Tensor) -> Info:
        self.met_real = True
        with no_modes():
            meta = self.fresh(tensor) if tensor.layout is torch.strided else tensor.to(META)
            real = tensor.detach()
        info = self._new(meta)
        info.kind = "constant"
        if not isinstance(tensor, torch.nn.Parameter):
            info.real = real
            info.store.shadowed = info.store.known = info.store.known_at_start = True
        self._metas[id(tensor)] = (tensor, meta)
        self._by_id[id(tensor)] = info
        return info

    def _new(self, tensor: torch.Tensor) -> Info:
        info = Info(tensor, self._store(tensor))
        self._register(tensor, info)
        return info

    def _register(self, tensor: torch.Tensor, info: Info) -> None:
        self._by_id[id(tensor)] = info
        self._by_view[_view_key(tensor)] = info
        self._kept.append(tensor)

    def _replace(self, tensor: torch.Tensor, old: Info) -> Info:
        """Another shape, type or memory under the same object (`squeeze_`, `.data = ...`)."""
        info = Info(tensor, self._store(tensor))
        if not self.in_forward:
            info.kind, info.name = old.kind, old.name
        self._register(tensor, info)
        return info

    def _store(self, tensor: torch.Tensor) -> Store:
        key = storage_key(tensor)
        if not key:
            return Store()
        store = self._stores.get(key)
        if store is None:
            store = self._stores[key] = Store()
        return store


def storage_key(tensor: torch.Tensor) -> int:
    """Identity of the memory; 0 where a layout has none."""
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else 0


def _view_key(tensor: torch.Tensor) -> Any:
    if tensor.layout is not torch.strided:
        return id(tensor)
    return (tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)


def _strides(tensor: torch.Tensor) -> Any:
    return tensor.stride() if tensor.layout is torch.strided else None


class no_modes:
    """Real arithmetic inside: no dispatch or function mode is active."""

    def __enter__(self) -> None:
        self._dispatch = torch._C._DisableTorchDispatch()
        self._functions = torch._C.DisableTorchFunction()

    def __exit__(self, *exc: Any) -> None:
        del self._functions, self._dispatch


def table_entry(info: Info, number: int, storage: int) -> dict[str, Any]:
    """The tensor as `schema.Tensor` has it."""
    entry: dict[str, Any] = {
        "id": number, "dtype": short_name(info.dtype), "shape": list(info.shape), "storage": storage, "kind": info.kind,
    }  # fmt: skip
    if info.name:
        entry["name"] = info.name
    if info.strides is not None:
        entry["strides"] = list(info.strides)
    if info.offset:
        entry["offset"] = info.offset
    if info.store.random and info.kind != "intermediate":
        entry["random"] = True
    return entry


def values_fit(info: Info) -> bool:
    """Whether a tensor is small enough for its values to be sent."""
    count = info.tensor.numel()
    return count <= (_INTEGER_VALUES if is_integral(info.dtype) else _FLOAT_VALUES)


def encode_values(real: torch.Tensor, *, brief: bool = False) -> dict[str, str] | None:
    """Row-major values as base64 of little-endian bytes, or None when they are many. Call without modes."""
    count = real.numel()
    if real.layout is not torch.strided or real.is_quantized:
        return None
    if count > (_INTEGER_VALUES if is_integral(real.dtype) and not brief else _FLOAT_VALUES):
        return None
    flat = real.detach().contiguous()
    data = ctypes.string_at(flat.data_ptr(), count * flat.element_size()) if count else b""
    return {"dtype": short_name(real.dtype), "data": base64.b64encode(data).decode("ascii")}
