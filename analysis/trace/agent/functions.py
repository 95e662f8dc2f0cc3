# pyright: basic
"""A function mode: some functions are recorded whole, devices are one, `.tolist()` answers from known values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from .autocast import Autocast
from .patches import note
from .recorder import DataDependent, Recorder
from .shapes import by_rule, key_of, recall, remember
from .tensors import META, Info, no_modes
from .training import attention

_SDPA = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
_SDPA_DEFAULTS = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None, "enable_gqa": False}
_ACCELERATORS = ("cuda", "mps", "xpu", "hip", "npu", "hpu", "privateuseone", "xla")
_linear = F.linear
_attention = F.scaled_dot_product_attention
_CPU = torch.device("cpu")
Handler = Callable[[tuple[Any, ...], dict[str, Any]], Any]


class Functions(TorchFunctionMode):
    """Sees every call of torch's Python API."""

    def __init__(self, recorder: Recorder, *, train: bool = False) -> None:
        super().__init__()
        self.recorder = recorder
        self._depth = 0
        _CURRENT[:] = [self]
        _install()
        self._autocast = Autocast()
        t = torch.Tensor
        whole: dict[Any, Handler] = {
            _linear: self._linear,
            torch.matmul: self._matmul,
            t.matmul: self._matmul,
            t.__matmul__: self._matmul,
            t.__rmatmul__: lambda a, k: self._matmul((a[1], a[0]), k),
            torch.einsum: self._einsum,
            _attention: self._attention,
            torch._VF.lstm: lambda a, k: self._recurrent("lstm", torch._VF.lstm, a, k),
            torch._VF.gru: lambda a, k: self._recurrent("gru", torch._VF.gru, a, k),
            torch._VF.rnn_tanh: lambda a, k: self._recurrent("rnn_tanh", torch._VF.rnn_tanh, a, k),
            torch._VF.rnn_relu: lambda a, k: self._recurrent("rnn_relu", torch._VF.rnn_relu, a, k),
        }
        # Autograd must see inside what it differentiates.
        self._whole = {_attention: self._trained_attention} if train else whole
        self.handlers: dict[Any, Handler] = {
            t.to: self._to,
            t.cuda: lambda a, k: self._moved(a[0]),
            t.cpu: lambda a, k: a[0],
            t.pin_memory: lambda a, k: a[0],
            t.device.__get__: lambda a, k: _CPU,
            t.__dict__.get("is_cpu", torch._C.TensorBase.__dict__["is_cpu"]).__get__: lambda a, k: True,
            t.tolist: self._tolist,
            t.numpy: self._numpy,
            t.__array__: lambda a, k: self._numpy(a[:1], {}),
        }

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kwargs and kwargs.get("device") is not None and self._is_accelerator(kwargs["device"]):
            kwargs = {**kwargs, "device": _CPU}
            self._moved(None)
        handler = self._handler(func)
        self._depth += 1
        try:
            if not self.recorder.paused:
                args, kwargs = self._autocast.cast(func, args, kwargs)
            if handler is not None and not self.recorder.paused:
                return handler(args, kwargs)
            return func(*args, **kwargs)
        finally:
            self._depth -= 1

    def _handler(self, func: Any) -> Handler | None:
        handler = self.handlers.get(func)
        if handler is None and torch._C._functorch.peek_interpreter_stack() is None:  # pyright: ignore[reportAttributeAccessIssue]
            handler = self._whole.get(func)
        return handler

    def nested(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A call from inside one of torch's own functions, where the mode is not active."""
        handler = self._handler(func)
        if (
            handler is None
            or self._depth == 0
            or self.recorder.paused
            or any(isinstance(a, torch.Tensor) and not a.is_meta for a in args)
        ):
            return func(*args, **kwargs)
        return handler(*self._autocast.cast(func, args, kwargs))

    def whole(self, name: str, arguments: list[Any], call: Callable[[], Any]) -> Any:
        """Record `fn.name` with its arguments in the function's order; nothing inside it is recorded."""
        recorder = self.recorder
        inputs: list[Info] = []
        encoded = [recorder.encode(a, inputs) for a in arguments]
        key = None if torch.is_grad_enabled() else key_of(name, arguments, None, inputs)
        result = recall(key) if key is not None else None
        fresh = result is None
        if fresh and not torch.is_grad_enabled():
            result = by_rule(f"fn.{name}", arguments)
        if result is None:
            recorder.paused = True
            try:
                result = call()
            finally:
                recorder.paused = False
        outputs: list[Info] = []
        out = recorder._encode_outputs(result, [], outputs)
        if fresh and key is not None:
            remember(key, result, inputs, outputs)
        random = any(i.store.random for i in inputs)
        known = all(i.store.known for i in inputs)
        for info in outputs:
            if not info.store.writers:
                info.store.random, info.store.known = random, known
        recorder.append(f"fn.{name}", encoded, {}, out, inputs, outputs, [])
        return result

    def _linear(self, args: Any, kwargs: Any) -> Any:
        x, weight, bias = _bind(("input", "weight", "bias"), {"bias": None}, args, kwargs)
        return self.whole("linear", [x, weight, bias], lambda: _linear(x, weight, bias))

    def _matmul(self, args: Any, kwargs: Any) -> Any:
        a = args[0] if args else kwargs.get("input", kwargs.get("self"))
        b = args[1] if len(args) > 1 else kwargs.get("other", kwargs.get("tensor2"))
        if kwargs.get("out") is not None or not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
            return torch.matmul(*args, **kwargs)
        return self.whole("matmul", [a, b], lambda: torch.matmul(a, b))

    def _einsum(self, args: Any, kwargs: Any) -> Any:
        equation, *operands = args
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = list(operands[0])
        if not isinstance(equation, str):
            return torch.einsum(*args, **kwargs)
        return self.whole("einsum", [equation, operands], lambda: torch.einsum(equation, *operands))

    def _attention(self, args: Any, kwargs: Any) -> Any:
        q, k, v, *rest = _bind(_SDPA, _SDPA_DEFAULTS, args, kwargs)
        options = dict(zip(_SDPA[3:], rest, strict=False))
        if not options["enable_gqa"]:
            options.pop("enable_gqa")
        return self.whole("scaled_dot_product_attention", [q, k, v, *rest], lambda: _attention(q, k, v, **options))

    def _trained_attention(self, args: Any, kwargs: Any) -> Any:
        return attention(*_bind(_SDPA, _SDPA_DEFAULTS, args, kwargs))

    def _recurrent(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        if kwargs or len(args) != 9:
            return func(*args, **kwargs)
        return self.whole(name, list(args), lambda: _recurrent_result(name, list(args)))

    def _to(self, args: Any, kwargs: Any) -> Any:
        """`Tensor.to` without its device: all tensors are on one."""
        tensor, *rest = args
        kwargs = {k: v for k, v in kwargs.items() if v is not None and k not in ("device", "non_blocking")}
        if isinstance(rest[0] if rest else kwargs.get("other"), torch.Tensor):
            other = rest.pop(0) if rest else kwargs.pop("other")
            rest = [other.dtype, *rest]
        elif rest and isinstance(rest[0], (torch.device, str, int)) and not isinstance(rest[0], bool):
            if self._is_accelerator(rest[0]):
                self._moved(None)
            rest = [v for v in rest[1:2] if v is not None] + ([False, *rest[3:]] if len(rest) > 3 else [])
        if not rest and not kwargs:
            return tensor
        return torch.Tensor.to(tensor, *rest, **kwargs)

    def _moved(self, tensor: Any) -> Any:
        note("accelerator devices are recorded as the CPU")
        return tensor

    def _is_accelerator(self, device: Any) -> bool:
        if isinstance(device, torch.device):
            return device.type in _ACCELERATORS
        if isinstance(device, str):
            return device.split(":")[0] in _ACCELERATORS
        return isinstance(device, int) and not isinstance(device, bool)

    def _values(self, tensor: torch.Tensor, what: str) -> torch.Tensor:
        values = self.recorder.tensors.of(tensor).values
        if values is None:
            raise DataDependent(f"{what} needs the values of a tensor, which a trace does not have")
        return values

    def _tolist(self, args: Any, kwargs: Any) -> Any:
        values = self._values(args[0], "tolist()")
        with no_modes():
            return values.tolist()

    def _numpy(self, args: Any, kwargs: Any) -> Any:
        values = self._values(args[0], "numpy()")
        with no_modes():
            return values.detach().numpy()


_CURRENT: list[Functions] = []
_INSTALLED: list[bool] = []


def _install() -> None:
    """Let torch's own functions (`F.multi_head_attention_forward`) reach the handlers too."""
    if _INSTALLED:
        return
    _INSTALLED.append(True)
    for name in ("linear", "scaled_dot_product_attention"):
        original = getattr(F, name)

        def reached(*args: Any, _original: Any = original, **kwargs: Any) -> Any:
            return _CURRENT[0].nested(_original, args, kwargs)

        setattr(F, name, reached)


def _bind(names: tuple[str, ...], defaults: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    bound = list(args)
    for name in names[len(bound) :]:
        bound.append(kwargs[name] if name in kwargs else defaults[name])
    return bound


def _recurrent_result(name: str, args: list[Any]) -> Any:
    """What torch._VF.lstm and its kin give, in shapes: left alone they fall apart, one operator a time step."""
    packed = isinstance(args[3], (list, tuple))
    data, hx, params = (args[0], args[2], args[3]) if packed else args[:3]
    bidirectional = args[8] if packed else args[7]
    states = list(hx) if name == "lstm" else [hx]
    directions = 2 if bidirectional else 1
    width = states[0].shape[-1]
    if data.shape[-1] != params[0].shape[1]:
        raise RuntimeError(
            f"input.size(-1) must be equal to input_size. Expected {params[0].shape[1]}, got {data.shape[-1]}"
        )
    new = [torch.empty(s.shape, dtype=data.dtype, device=META) for s in states]
    output = torch.empty((*data.shape[:-1], width * directions), dtype=data.dtype, device=META)
    return (output, *new)
