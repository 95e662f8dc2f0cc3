# ruff: noqa: TID252
"""A dispatch mode over FakeTensorMode that records every operator as the trace's schema has it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from .dtypes import SHORT, short_name
from .frames import Frames
from .shadow import Shadows, is_unknown_shape_error
from .tensors import Info, Tensors

_TRANSPARENT = {"detach", "alias", "lift_fresh", "lift", "detach_"}
_UNDEFINED = {"empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "empty_permuted"}
_DROPPED_KEYWORDS = {"device", "layout", "memory_format", "pin_memory", "generator"}
_DROPPED = (torch.device, torch.layout, torch.memory_format, torch.Generator)


class TooManyOperators(RuntimeError):
    """The trace is longer than the limit."""


class DataDependent(RuntimeError):
    """Control flow or a shape depends on the values of tensors that are not known."""


class Rule:
    """What the schema of an operator says, looked up once."""

    __slots__ = ("name", "random", "target", "transparent", "undefined", "whole_write", "writes", "writes_kw")

    def __init__(self, func: Any) -> None:
        schema = func._schema
        namespace, name = schema.name.split("::")
        self.name = name
        self.target = f"{namespace}.{name}.{schema.overload_name or 'default'}"
        tags = getattr(func, "tags", ())
        self.random = torch.Tag.nondeterministic_seeded in tags
        self.transparent = name in _TRANSPARENT
        self.undefined = name in _UNDEFINED
        self.whole_write = name in ("fill_", "zero_", "copy_")
        written = [(i, a.name) for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write]
        self.writes = [i for i, _ in written]
        self.writes_kw = [n for _, n in written]


class Recorder(TorchDispatchMode):
    """Records into `setup` until `begin_forward`, then into `ops`."""

    def __init__(self, fake: FakeTensorMode, frames: Frames, limit: int = 200_000) -> None:
        super().__init__()
        self.fake = fake
        self.frames = frames
        self.limit = limit
        self.tensors = Tensors(fake)
        self.shadows = Shadows(self.tensors)
        self.setup: list[dict[str, Any]] = []
        self.ops: list[dict[str, Any]] = []
        self.current = self.setup
        self.in_forward = False
        self.paused = False
        self.module = -1
        self.outputs: list[Info] = []
        self._rules: dict[Any, Rule] = {}
        self._device = torch.ops.prim.device.default

    def begin_forward(self) -> None:
        """What follows is the program."""
        self.current = self.ops
        self.in_forward = True
        self.tensors.begin_forward()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Nothing here is compiled."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # True wraps each call in a check by the compiler, which it also imports.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is self._device and isinstance(args[0], FakeTensor):
            return args[0].fake_device
        kwargs = kwargs or {}
        if self.paused:
            return func(*args, **kwargs)
        rule = self._rules.get(func)
        if rule is None:
            rule = self._rules[func] = Rule(func)
        return self._call(rule, func, args, kwargs)

    def _call(self, rule: Rule, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        inputs: list[Info] = []
        encoded = [self.encode(a, inputs) for a in args]
        encoded_kw = {k: self.encode(v, inputs) for k, v in kwargs.items() if v is not None and k not in _DROPPED_KEYWORDS}
        if self.tensors.met_real:
            args, kwargs = self.tensors.faked((args, kwargs))
        if rule.transparent and inputs:
            result = args[0] if rule.name.startswith("lift") else func(*args, **kwargs)
            self.tensors.alias(result, inputs[0])
            return result
        written = self._written(rule, args, kwargs) if rule.writes else []
        real = None
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            if not is_unknown_shape_error(error):
                raise
            result, real = self._from_values(rule, func, args, kwargs, inputs, error)
        outputs: list[Info] = []
        encoded_out = self._encode_outputs(result, written, outputs)
        self.shadows.follow(rule, func, args, kwargs, inputs, written, result, outputs, real, setup=not self.in_forward)
        self.append(rule.target, encoded, encoded_kw, encoded_out, inputs, outputs, written)
        return result

    def append(
        self, target: str, args: list[Any], kwargs: dict[str, Any], out: Any, inputs: list[Info], outputs: list[Info], written: list[Info]
    ) -> None:
        """Record one call."""
        if not outputs and not written:
            return
        record: dict[str, Any] = {"target": target, "args": args, "kwargs": kwargs, "outputs": out}
        if self.in_forward:
            record["span"] = self.frames.span()
            record["module"] = self.module
            if not written and outputs:
                storages = {i.store for i in inputs}
                if all(o.store in storages for o in outputs):
                    record["view"] = True
        record["_in"] = inputs
        record["_out"] = outputs
        record["_written"] = written
        for info in written:
            info.store.rewritten = info.store.rewritten or self.in_forward
            info.store.writers.append(record)
        for info in outputs:
            if not info.store.writers or info.store.writers[-1] is not record:
                info.store.writers.append(record)
        self.current.append(record)
        if len(self.current) > self.limit:
            raise TooManyOperators(f"more than {self.limit} operators")

    def _from_values(self, rule: Rule, func: Any, args: Any, kwargs: Any, inputs: list[Info], error: Exception) -> tuple[Any, Any]:
        """The result of an operator whose shape depends on values, from the values when they are known."""
        found = self.shadows.run(func, args, kwargs, self.tensors)
        if found is None:
            found = self.shadows.run_mask_index(func, args, self.tensors)
            if found is not None:
                return found, None
            raise DataDependent(f"{rule.target} depends on the values of a tensor, which a trace does not have") from error
        if isinstance(found, torch.Tensor):
            return self.tensors.fresh(found), found
        if isinstance(found, (tuple, list)):
            return type(found)(self.tensors.fresh(f) if isinstance(f, torch.Tensor) else f for f in found), found
        return found, found

    def _written(self, rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Info]:
        found: list[Info] = []
        for position, name in zip(rule.writes, rule.writes_kw):
            value = args[position] if position < len(args) else kwargs.get(name)
            for item in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(item, torch.Tensor):
                    found.append(self.tensors.of(item))
        return found

    def encode(self, value: Any, inputs: list[Info]) -> Any:
        """An argument as the schema has it; tensors met are appended to `inputs`."""
        kind = type(value)
        if kind is int or kind is bool or kind is str or value is None:
            return value
        if isinstance(value, torch.Tensor):
            info = self.tensors.of(value)
            inputs.append(info)
            return info.ref
        if kind is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, (list, tuple)):
            return [self.encode(v, inputs) for v in value]
        return encode_plain(value)

    def _encode_outputs(self, value: Any, written: list[Info], outputs: list[Info]) -> Any:
        if isinstance(value, torch.Tensor):
            info = self.tensors.result(value, written)
            outputs.append(info)
            return info.ref
        if isinstance(value, (list, tuple)):
            return [self._encode_outputs(v, written, outputs) for v in value]
        return self.encode(value, [])

    def encode_tree(self, value: Any) -> Any:
        """Any nest of the user's values (a forward's inputs or outputs)."""
        if isinstance(value, tuple):
            return {"tuple": [self.encode_tree(v) for v in value]}
        if isinstance(value, list):
            return [self.encode_tree(v) for v in value]
        if isinstance(value, dict):
            return {"dict": [[k if isinstance(k, (str, int)) else str(k), self.encode_tree(v)] for k, v in value.items()]}
        fields = getattr(type(value), "__dataclass_fields__", None)
        if fields is not None:
            return {"dict": [[k, self.encode_tree(getattr(value, k, None))] for k in fields]}
        if isinstance(value, torch.Tensor):
            self.outputs.append(self.tensors.of(value))
        return self.encode(value, [])


def encode_plain(value: Any) -> Any:
    """Scalars and torch's own plain objects."""
    if isinstance(value, torch.dtype):
        return {"dtype": SHORT.get(value) or short_name(value)}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if isinstance(value, bool):
        return bool(value)
    if isinstance(value, (int, torch.SymInt)):
        return int(value)
    if isinstance(value, float):
        return encode_float(float(value))
    if isinstance(value, _DROPPED):
        return None
    return {"opaque": repr(value)[:200]}


def encode_float(value: float) -> Any:
    """A float, tagged where JSON has none."""
    return value if math.isfinite(value) else {"float": str(value)}

