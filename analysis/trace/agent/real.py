# pyright: basic
"""Modes that follow a program on real tensors, operator by operator beside its trace, and keep what each computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .functions import Functions
from .origins import Backward
from .pack import Pack
from .recorder import Rule
from .tensors import no_modes

_INITIALISERS = {f"aten.{name}.default" for name in ("uniform_", "normal_", "zero_", "fill_")}


class Marks:
    """Takes the place of the trace's tensor table while the target is built: who is called what."""

    def __init__(self) -> None:
        self.named: dict[tuple[str, str], torch.Tensor] = {}
        self._seen: dict[int, torch.Tensor] = {}

    def mark(self, tensor: torch.Tensor, kind: str, name: str) -> None:
        """A parameter, buffer or input; the first mark counts."""
        if id(tensor) not in self._seen:
            self._seen[id(tensor)] = tensor
            self.named[kind, name] = tensor


class Follower(TorchDispatchMode):
    """Runs operators as they are and matches them with the trace's.

    `externals` and `ops` hold pack entries by trace tensor id; an external tensor is written at first sight, so before
    the program changes it. From the first operator that differs from the trace on nothing more is kept.
    """

    def __init__(self, trace: dict[str, Any], pack: Pack) -> None:
        super().__init__()
        self.trace = trace
        self.pack = pack
        self.tensors = Marks()
        self.in_forward = False
        self.paused = False
        self.module = -1
        self.position = 0
        self.diverged = ""
        self.externals: dict[int, Any] = {}
        self.ops: dict[int, dict[int, Any]] = {}
        self._made: set[int] = set()
        self._table = {t["id"]: t for t in trace["tensors"]}
        self._rules: dict[Any, Rule] = {}
        self.backward: Backward | None = None

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Nothing here is compiled."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def begin_forward(self) -> None:
        """What follows is the program: keep the tensors that are known by name."""
        self.in_forward = True
        for entry in self.trace["tensors"]:
            tensor = self.tensors.named.get((entry["kind"], entry.get("name", "")))
            if tensor is not None:
                self._keep_external(entry["id"], tensor)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        rule = self._rules.get(func)
        if rule is None:
            rule = self._rules[func] = Rule(func)
        if not self.in_forward:
            result = func(*args, **kwargs)
            if rule.undefined and result.is_floating_point():
                result.fill_(float("nan"))  # so that memory that nobody initialises is seen
            return result
        if self.paused:
            return func(*args, **kwargs)
        if self.backward is not None:
            stored, copied = self.backward.stored(rule.name, args)
            if stored is not None:
                return stored
            if copied:
                clone = torch.ops.aten.clone.default
                return self.follow("aten.clone.default", args[:1], {}, lambda: clone(args[0]))
        if rule.transparent and any(True for _ in real_tensors((args, kwargs))):
            return args[0] if rule.lifts else func(*args, **kwargs)
        return self.follow(rule.target, args, kwargs, lambda: func(*args, **kwargs), bool(rule.writes))

    def follow(self, target: str, args: Any, kwargs: Any, call: Callable[[], Any], writes: bool = False) -> Any:
        """Run one operator that the trace records."""
        op = None
        if not self.diverged and self.position < len(self.trace["ops"]):
            op = self.trace["ops"][self.position]
            if op["target"] == target:
                for number, tensor in pairs((op["args"], op["kwargs"]), (args, kwargs)):
                    self._keep_external(number, tensor)
        result = call()
        if not writes and not any(True for _ in real_tensors(result)):
            return result
        if self.diverged:
            return result
        if op is None or op["target"] != target:
            if target in _INITIALISERS and args and isinstance(args[0], torch.nn.Parameter):
                return result  # of a module that the forward makes: the trace skips it
            self.diverged = f"operator {self.position} is {target}, the trace has {op['target'] if op else 'none'}"
            return result
        if not op.get("view"):
            if not writes:
                result = self._laid_out(op["outputs"], result)
            kept: dict[int, Any] = {}
            for number, tensor in pairs(op["outputs"], result):
                kept[number] = tensor
            changed = set(op.get("mutates", ()))
            for number, tensor in pairs((op["args"], op["kwargs"]), (args, kwargs)):
                if number in changed:
                    kept[number] = tensor
            entries = {number: self.pack.put(tensor) for number, tensor in kept.items()}
            self.ops[self.position] = {number: entry for number, entry in entries.items() if entry is not None}
        self._made.update(number for number, _ in pairs(op["outputs"], result))
        self.position += 1
        return result

    def _laid_out(self, encoded: Any, result: Any) -> Any:
        """The result in the memory layout that the trace has, on which later operators may depend."""
        if isinstance(result, torch.Tensor):
            strides = (
                self._table[encoded["tensor"]].get("strides")
                if isinstance(encoded, dict) and "tensor" in encoded
                else None
            )
            if (
                strides is None
                or result.layout is not torch.strided
                or list(result.stride()) == strides
                or not result.numel()
            ):
                return result
            if list(result.shape) != self._table[encoded["tensor"]]["shape"]:
                return result
            with no_modes():
                return torch.empty_strided(result.shape, strides, dtype=result.dtype).copy_(result)
        if isinstance(result, (list, tuple)) and isinstance(encoded, list):
            return type(result)([self._laid_out(e, r) for e, r in zip(encoded, result, strict=False)])
        return result

    def _keep_external(self, number: int, tensor: torch.Tensor) -> None:
        if number in self.externals or number in self._made:
            return
        entry = self.pack.put(tensor, needed=True)
        if entry is not None:
            self.externals[number] = entry

    def returned(self, value: Any) -> None:
        """Keep external tensors that the program returns untouched."""
        for number, tensor in pairs(self.trace["outputs"], value):
            self._keep_external(number, tensor)


class RealFunctions(Functions):
    """The trace's function mode on real tensors."""

    def __init__(self, follower: Follower, *, train: bool = False) -> None:
        super().__init__(follower, train=train)  # pyright: ignore[reportArgumentType]
        self.follower = follower

    def nested(self, func: Any, args: Any, kwargs: Any) -> Any:
        """As the trace's, of real tensors too."""
        handler = self._handler(func)
        if handler is None or self._depth == 0 or self.follower.paused:
            return func(*args, **kwargs)
        return handler(*self._autocast.cast(func, args, kwargs))

    def whole(self, name: str, arguments: list[Any], call: Callable[[], Any]) -> Any:
        """Run a function whole."""
        follower = self.follower
        recurrent = getattr(torch._VF, name, None) if name in ("lstm", "gru", "rnn_tanh", "rnn_relu") else None

        def run() -> Any:
            follower.paused = True
            try:
                return recurrent(*arguments) if recurrent is not None else call()
            finally:
                follower.paused = False

        if not follower.in_forward:
            return run()
        return follower.follow(f"fn.{name}", arguments, {}, run)

    def _tolist(self, args: Any, kwargs: Any) -> Any:
        with no_modes():
            return args[0].tolist()

    def _numpy(self, args: Any, kwargs: Any) -> Any:
        with no_modes():
            return args[0].detach().numpy()


def pairs(encoded: Any, value: Any) -> Iterator[tuple[int, torch.Tensor]]:
    """(tensor id, tensor) of encoded values and the values themselves, in order."""
    if isinstance(value, torch.Tensor):
        if isinstance(encoded, dict) and "tensor" in encoded:
            yield encoded["tensor"], value
        return
    if isinstance(encoded, dict) and "tuple" in encoded:
        encoded = encoded["tuple"]
    if isinstance(encoded, (list, tuple)) and isinstance(value, (list, tuple)):
        for one, other in zip(encoded, value, strict=False):
            yield from pairs(one, other)
    elif isinstance(encoded, dict) and isinstance(encoded.get("dict"), list):
        for key, one in encoded["dict"]:
            found = value.get(key) if isinstance(value, dict) else getattr(value, str(key), None)
            yield from pairs(one, found)
    elif isinstance(encoded, dict) and isinstance(value, dict):
        for key, one in encoded.items():
            yield from pairs(one, value.get(key))


def real_tensors(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor of a nest."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from real_tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from real_tensors(item)
