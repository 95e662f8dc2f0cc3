# pyright: basic
"""Load the user's file, build the target and its inputs, run it, and hand back its trace."""

from __future__ import annotations

import contextlib
import inspect
import random
import sys
import types
from typing import Any

import torch

from . import patches
from .assemble import assemble
from .configurations import SMALLER
from .dtypes import BY_NAME
from .functions import Functions
from .gradients import NeedsInputGradients, call_and_differentiate
from .loading import class_lines, load
from .modules import Modules
from .origins import Backward
from .pretrained import watch_imports
from .problems import Unusable
from .recorder import Recorder
from .request_run import RequestRun
from .tensors import META, no_modes


class Run(RequestRun):
    """One request in this process (which is thrown away after it)."""

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__(request)
        self.recorder = Recorder(self.frames, self.max_operators)
        self.assumptions = patches.NOTES
        self.modules = Modules(self.frames, self.recorder)
        # (kind, name, tensor) of parameters and inputs.
        self.named: list[tuple[str, str, torch.Tensor]] = []
        # Which of them require a gradient: known from a trace, else found.
        self.gradients_of: list[str] | None = None
        self.by_inputs = self.target.get("gradients_of") == "inputs"

    def failed(self, error: BaseException) -> dict[str, Any]:
        """A function that differentiates by its arguments is traced anew, with these requiring a gradient."""
        if isinstance(error, NeedsInputGradients):
            return type(self)({**self.request, "target": {**self.target, "gradients_of": "inputs"}}).reply()
        return super().failed(error)

    def _seed(self) -> None:
        seed = self.request.get("seed") or 0
        random.seed(seed)
        torch.manual_seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed)
        patches.apply()
        watch_imports()
        SMALLER.clear()
        SMALLER.update(self.target.get("configurations") or {})
        self.modules.watch()

    def trace_target(self) -> dict[str, Any]:
        """The target called on meta tensors, every operator recorded."""
        self._seed()
        with torch.no_grad(), contextlib.ExitStack() as stack:
            stack.enter_context(self.recorder)
            stack.enter_context(Functions(self.recorder, train=self.train))
            module = load(
                self.path, self.request.get("text"), self.request.get("paths") or [], self.request.get("tree")
            )
            call, model, args, kwargs = self._build(module)
            self._name(model, call, args, kwargs)
            self.enter("forward")
            self.recorder.begin_forward()
            outputs = self._called(call, model, args, kwargs)
            encoded = self.recorder.encode_tree(outputs)
        self.enter("assemble")
        trace = assemble(self, encoded)
        self.enter("done")
        return trace

    def _called(self, call: Any, model: torch.nn.Module | None, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not self.train:
            return call(*args, **kwargs)
        backward = self.recorder.backward = Backward()
        return call_and_differentiate(self, backward, call, model, args, kwargs)

    def upstream(self, output: torch.Tensor, name: str) -> torch.Tensor:
        """The gradient that comes to an output from outside: an input of the program."""
        with no_modes():
            tensor = torch.empty(output.shape, dtype=output.dtype, device=META)
        self.recorder.tensors.mark(tensor, "input", name)
        return tensor

    def _build(self, module: types.ModuleType) -> tuple[Any, torch.nn.Module | None, list[Any], dict[str, Any]]:
        kind = self.target.get("kind", "kernelbench")
        if kind == "kernelbench":
            return self._kernelbench(module)
        name = self.target.get("name") or ""
        found: Any = module
        for part in name.split("."):
            found = getattr(found, part, None)
            if found is None:
                raise Unusable(
                    "import-error",
                    f"{name!r} is not defined in {self.path} after importing it.",
                    self.target.get("line", 0),
                )
        lines = class_lines(self.path)
        self.line = self.target.get("line") or lines.get(name, 0)
        model = None
        call = found
        self.forward_line = lines.get(name, 0)
        if isinstance(found, type):
            self.enter("constructor")
            init = [self._value(v) for v in self.target.get("init") or []]
            init_kwargs = {k: self._value(v) for k, v in (self.target.get("init_kwargs") or {}).items()}
            call = found(*init, **init_kwargs)
            if isinstance(call, torch.nn.Module):
                model = self._ready(call)
            self.forward_line = _forward_line(found)
        self.enter("inputs")
        args, kwargs = self._inputs(call, model)
        return call, model, args, kwargs

    def _kernelbench(self, module: types.ModuleType) -> tuple[Any, torch.nn.Module, list[Any], dict[str, Any]]:
        cls = self._model_class(module)
        self.line = class_lines(self.path).get(cls.__qualname__, 0)
        self.forward_line = _forward_line(cls)
        if not hasattr(module, "get_inputs"):
            raise Unusable(
                "no-shapes",
                f"{cls.__name__} has no get_inputs() and no pragma: add `# sol: x=f32[8, 512]` above it.",
                self.line,
            )
        self.enter("inputs")
        given = module.get_init_inputs() if hasattr(module, "get_init_inputs") else []
        init, init_kwargs = _arguments(given)
        self.enter("constructor")
        model = self._ready(cls(*init, **init_kwargs))
        self.enter("inputs")
        args, kwargs = _arguments(module.get_inputs())
        return model, model, args, kwargs

    def _model_class(self, module: types.ModuleType) -> type[torch.nn.Module]:
        own = [
            v for v in vars(module).values()
            if isinstance(v, type) and issubclass(v, torch.nn.Module) and v.__module__ == module.__name__
        ]  # fmt: skip
        wanted = self.target.get("name") or "Model"
        for cls in own:
            if cls.__name__ == wanted:
                return cls
        if len(own) == 1:
            return own[0]
        names = ", ".join(c.__name__ for c in own) or "none"
        raise Unusable(
            "no-shapes", f"expected a class {wanted} (or just one nn.Module) beside get_inputs(), found: {names}."
        )

    def _ready(self, model: torch.nn.Module) -> torch.nn.Module:
        return model.train() if self.train else model.eval()

    def _inputs(self, call: Any, model: torch.nn.Module | None) -> tuple[list[Any], dict[str, Any]]:
        specs = self.target.get("inputs") or []
        parameters = _parameters(model if model is not None else call)
        values = [(s.get("name") or "" if isinstance(s, dict) else "", self._value(s)) for s in specs]
        by_name = {n: p for n, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        if values and all(n in by_name and by_name[n].kind is not inspect.Parameter.POSITIONAL_ONLY for n, _ in values):
            return [], dict(values)
        return [v for _, v in values], {}

    def _value(self, spec: Any) -> Any:
        if isinstance(spec, dict) and "shape" in spec and "dtype" in spec:
            dtype = BY_NAME.get(spec["dtype"])
            if dtype is None:
                raise Unusable(
                    "inputs-failed", f"dtype {spec['dtype']!r} of {spec.get('name') or 'an input'} is not known."
                )
            tensor = torch.empty(tuple(spec["shape"]), dtype=dtype)
            self.recorder.tensors.of(tensor).store.random = True
            return tensor
        if isinstance(spec, dict) and "value" in spec:
            return self._value(spec["value"])
        if isinstance(spec, list):
            return [self._value(v) for v in spec]
        if isinstance(spec, dict) and "tuple" in spec and len(spec) == 1:
            return tuple(self._value(v) for v in spec["tuple"])
        return spec

    def _name(self, model: torch.nn.Module | None, call: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        tensors = self.recorder.tensors
        self.named.clear()
        if model is not None:
            self.modules.name_all(model)
            for name, parameter in model.named_parameters():
                tensors.mark(parameter, "parameter", name)
                self.named.append(("parameter", name, parameter))
            for name, buffer in model.named_buffers():
                tensors.mark(buffer, "buffer", name)
        names = list(_parameters(model if model is not None else call).items())
        for position, value in enumerate(args):
            name, p = names[position] if position < len(names) else (names[-1] if names else ("", None))
            if p is not None and p.kind is inspect.Parameter.VAR_POSITIONAL:
                first = [n for n, _ in names].index(name)
                name = f"{name}[{position - first}]"
            self._mark_inputs(value, name or f"input{position}")
        for name, value in kwargs.items():
            self._mark_inputs(value, name)

    def _mark_inputs(self, value: Any, name: str) -> None:
        if isinstance(value, torch.Tensor):
            self.recorder.tensors.mark(value, "input", name)
            if not any(value is one for _, _, one in self.named):
                self.named.append(("input", name, value))
        elif isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                self._mark_inputs(item, f"{name}[{i}]")
        elif isinstance(value, dict):
            for key, item in value.items():
                self._mark_inputs(item, f"{name}[{key!r}]")


def _arguments(given: Any) -> tuple[list[Any], dict[str, Any]]:
    if isinstance(given, dict):
        return [], given
    if isinstance(given, torch.Tensor):
        return [given], {}
    items = list(given)
    if (
        len(items) == 2
        and isinstance(items[0], (list, tuple))
        and isinstance(items[1], dict)
        and all(isinstance(k, str) for k in items[1])
    ):
        return list(items[0]), items[1]
    return items, {}


def _parameters(call: Any) -> dict[str, inspect.Parameter]:
    target = call.forward if isinstance(call, torch.nn.Module) else call
    try:
        return dict(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        return {}


def _forward_line(cls: type) -> int:
    method = getattr(cls, "forward", None) or cls.__dict__.get("__call__")
    code = getattr(inspect.unwrap(method), "__code__", None) if method is not None else None
    if code is None:
        return 0
    return class_lines(code.co_filename).get(getattr(method, "__qualname__", "")) or int(code.co_firstlineno)
