# pyright: basic
"""A dispatch mode that runs every operator on meta tensors and records it as the trace's schema has it.

Meta tensors cost a tenth of what fake ones do; an operator without a meta kernel is asked of FakeTensorMode instead.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .dtypes import SHORT, short_name
from .fallback import by_fake_tensors, is_unknown_shape_error
from .frames import Frames
from .origins import Backward
from .problems import DataDependent, TooManyOperators
from .shadow import Shadows
from .shapes import by_rule, in_place_known, key_of, recall, remember, remember_in_place
from .tensors import META, Info, Tensors

_TRANSPARENT = {"detach", "alias", "lift_fresh", "lift", "detach_"}
_RESHAPING = {
    "squeeze_",
    "unsqueeze_",
    "t_",
    "transpose_",
    "resize_",
    "resize_as_",
    "set_",
    "as_strided_",
    "swapaxes_",
    "swapdims_",
}
_UNDEFINED = {"empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "empty_permuted"}
_DROPPED_KEYWORDS = {"device", "layout", "memory_format", "pin_memory", "generator"}
_DROPPED = (torch.device, torch.layout, torch.memory_format, torch.Generator)


class Rule:
    """What the schema of an operator says, looked up once."""

    __slots__ = (
        "by_fake",
        "has_device",
        "in_place",
        "lifts",
        "name",
        "random",
        "target",
        "transparent",
        "undefined",
        "whole_write",
        "writes",
        "writes_kw",
    )

    def __init__(self, func: Any) -> None:
        schema = func._schema
        namespace, name = schema.name.split("::")
        self.name = name
        self.target = f"{namespace}.{name}.{schema.overload_name or 'default'}"
        tags = getattr(func, "tags", ())
        self.random = torch.Tag.nondeterministic_seeded in tags
        self.lifts = name.startswith("lift")
        self.transparent = name in _TRANSPARENT
        self.by_fake = False
        self.undefined = name in _UNDEFINED
        self.whole_write = name in ("fill_", "zero_", "copy_")
        written = [
            (i, a.name) for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write
        ]
        self.has_device = any(a.name == "device" for a in schema.arguments)
        self.writes = [i for i, _ in written]
        # Writes its first argument and nothing else, and keeps its shape.
        self.in_place = self.writes == [0] and name.endswith("_") and name not in _RESHAPING
        self.writes_kw = [n for _, n in written]


class Recorder(TorchDispatchMode):
    """Records into `setup` until `begin_forward`, then into `ops`."""

    def __init__(self, frames: Frames, limit: int = 200_000) -> None:
        super().__init__()
        self.frames = frames
        self.limit = limit
        self.tensors = Tensors()
        self.shadows = Shadows(self.tensors)
        self.setup: list[dict[str, Any]] = []
        self.ops: list[dict[str, Any]] = []
        self.current = self.setup
        self.in_forward = False
        self.paused = False
        self.module = -1
        self.outputs: list[Info] = []
        self._rules: dict[Any, Rule] = {}
        # Set where gradients are recorded (`mode=train`).
        self.backward: Backward | None = None

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
        kwargs = kwargs or {}
        rule = self._rule(func)
        if self.paused:
            return self._execute(rule, func, args, self._on_meta(rule, kwargs, bool(args)))
        if self.backward is not None:
            stored, copied = self.backward.stored(rule.name, args)
            if stored is not None:
                return stored
            if copied:
                func, args, kwargs = torch.ops.aten.clone.default, args[:1], {}
                rule = self._rule(func)
        return self._call(rule, func, args, kwargs)

    def _rule(self, func: Any) -> Rule:
        rule = self._rules.get(func)
        if rule is None:
            rule = self._rules[func] = Rule(func)
        return rule

    def _call(self, rule: Rule, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if rule.undefined and not self.in_forward:
            result = self._execute(rule, func, self.tensors.as_meta(args), self._on_meta(rule, kwargs, False))
            self.tensors.of(result)
            return result
        inputs: list[Info] = []
        encoded = [self.encode(a, inputs) for a in args]
        encoded_kw = {
            k: self.encode(v, inputs) for k, v in kwargs.items() if v is not None and k not in _DROPPED_KEYWORDS
        }
        if self.tensors.met_real:
            args, kwargs = self.tensors.as_meta(args), self.tensors.as_meta(kwargs)
            self.tensors.met_real = False
        if rule.transparent and inputs:
            result = args[0] if rule.lifts else func(*args, **kwargs)
            self.tensors.alias(result, inputs[0])
            return result
        written = self._written(rule, args, kwargs) if rule.writes else []
        real = None
        kwargs = self._on_meta(rule, kwargs, bool(inputs))
        key = key_of(func, args, kwargs, inputs) if not rule.writes or rule.in_place else None
        if key is None:
            result = None
        elif rule.in_place:
            result = args[0] if in_place_known(key) else None
        else:
            result = recall(key)
        fresh = result is None
        try:
            if fresh:
                result = by_rule(rule.target, args)
            if result is None:
                result = self._execute(rule, func, args, kwargs)
        except Exception as error:
            if not is_unknown_shape_error(error):
                raise
            key = None
            result, real = self._from_values(rule, func, args, kwargs, inputs, error)
        outputs: list[Info] = []
        encoded_out = self._encode_outputs(result, written, outputs)
        if fresh and key is not None and real is None:
            if not rule.in_place:
                remember(key, result, inputs, outputs)
            elif outputs and outputs[0] in written:
                remember_in_place(key)
        self.shadows.follow(rule, func, args, kwargs, inputs, written, outputs, real, setup=not self.in_forward)
        self.append(rule.target, encoded, encoded_kw, encoded_out, inputs, outputs, written)
        return result

    def _on_meta(self, rule: Rule, kwargs: dict[str, Any], has_inputs: bool) -> dict[str, Any]:
        if rule.has_device and ("device" in kwargs or not has_inputs):
            kwargs = {k: v for k, v in kwargs.items() if k not in ("pin_memory", "generator", "device")}
            kwargs["device"] = META
        elif "generator" in kwargs:
            kwargs = {k: v for k, v in kwargs.items() if k != "generator"}
        return kwargs

    def _execute(self, rule: Rule, func: Any, args: Any, kwargs: Any) -> Any:
        if rule.by_fake:
            return by_fake_tensors(func, args, kwargs)
        try:
            return func(*args, **kwargs)
        except NotImplementedError:
            result = by_fake_tensors(func, args, kwargs)
            rule.by_fake = True
            return result

    def append(
        self,
        target: str,
        args: list[Any],
        kwargs: dict[str, Any],
        out: Any,
        inputs: list[Info],
        outputs: list[Info],
        written: list[Info],
    ) -> None:
        """Record one call."""
        if not outputs and not written:
            return
        if not self.in_forward and not any(i.store.known for i in (*outputs, *written)):
            return  # construction matters only where it makes known values
        record: dict[str, Any] = {"target": target, "args": args, "kwargs": kwargs, "outputs": out}
        if self.in_forward:
            origins = None if self.backward is None else self.backward.origins
            node = None if origins is None else torch._C._current_autograd_node()
            if origins is None or node is None:
                record["span"], record["module"] = self.frames.span(), self.module
            else:
                record["span"], record["module"] = origins.place(node, self.frames, self.module)
                record["backward"] = True
            if origins is not None:
                origins.made((record["span"], record["module"]))
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

    def _from_values(
        self, rule: Rule, func: Any, args: Any, kwargs: Any, inputs: list[Info], error: Exception
    ) -> tuple[Any, Any]:
        """The result of an operator whose shape depends on values, from the values when they are known."""
        found = self.shadows.run(func, args, kwargs, self.tensors)
        if found is None:
            found = self.shadows.run_mask_index(func, args, self.tensors)
            if found is not None:
                return found, None
            raise DataDependent(
                f"{rule.target} depends on the values of a tensor, which a trace does not have"
            ) from error
        if isinstance(found, torch.Tensor):
            return self.tensors.fresh(found), found
        if isinstance(found, (tuple, list)):
            return type(found)(self.tensors.fresh(f) if isinstance(f, torch.Tensor) else f for f in found), found
        return found, found

    def _written(self, rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Info]:
        found: list[Info] = []
        for position, name in zip(rule.writes, rule.writes_kw, strict=False):
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
            return {
                "dict": [[k if isinstance(k, (str, int)) else str(k), self.encode_tree(v)] for k, v in value.items()]
            }
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
