# pyright: basic
"""One request for a JAX program: load the file, build the target on abstract values, trace it, hand back its trace."""

from __future__ import annotations

import platform
import random
import types
from typing import Any

import jax
import numpy as np

from ..loading import class_lines, load
from ..problems import Unusable
from ..request_run import RequestRun
from . import patches
from .dtypes import BY_NAME
from .finish import finish, pruned
from .gradients import differentiated
from .modules import Modules
from .places import Context, Places
from .record import Recorder
from .subjects import Subject, subject_of


class Run(RequestRun):
    """One request in this process (which is thrown away after it)."""

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__(request)
        self.modules = Modules(self.frames)
        self.recorder = Recorder(Places(self.frames), self.max_operators, self.modules.row)
        self.assumptions: list[str] = []
        self.subject: Subject | None = None
        self.jaxpr: Any = None
        # Of the program's own level: (operator, its equation, its arguments as recorded).
        self.equations: list[tuple[dict[str, Any], Any, list[Any]]] = []

    def trace_target(self) -> dict[str, Any]:
        """The target traced as a jaxpr, every equation recorded."""
        subject = self.build()
        self.enter("forward")
        with self.modules.counting():
            self.jaxpr = self.traced(subject)
        self.enter("assemble")
        trace = self._record(subject)
        self.enter("done")
        return trace

    def traced(self, subject: Subject) -> Any:
        """The jaxpr of the subject's call."""
        return jax.make_jaxpr(subject.call)(*[e.value for e in subject.externals])

    def build(self) -> Subject:
        """The target as a function of its external arrays."""
        seed = self.request.get("seed") or 0
        random.seed(seed)
        np.random.seed(seed)
        patches.apply(self.modules)
        module = load(self.path, self.request.get("text"), self.request.get("paths") or [], self.request.get("tree"))
        found = self._find(module)
        subject = subject_of(self, found, module)
        if self.train:
            self.enter("forward")
            subject = differentiated(subject, self.line)
        self.subject = subject
        return subject

    def _find(self, module: types.ModuleType) -> Any:
        lines = class_lines(self.path)
        name = self.target.get("name") or "Model"
        found: Any = module
        for part in name.split("."):
            found = getattr(found, part, None)
            if found is None:
                message = f"{name!r} is not defined in {self.path} after importing it."
                raise Unusable("import-error", message, self.target.get("line", 0))
        self.line = self.target.get("line") or lines.get(name, 0)
        self.forward_line = lines.get(name, 0)
        if isinstance(found, type):
            method = found.__dict__.get("__call__")
            self.forward_line = lines.get(getattr(method, "__qualname__", ""), 0) or self.forward_line
        return found

    def _record(self, subject: Subject) -> dict[str, Any]:
        recorder = self.recorder
        args = [recorder.of_aval(e.value, e.kind, e.name) for e in subject.externals]
        ops: list[dict[str, Any]] = []
        context = Context()
        outs = recorder.walk(self.jaxpr, args, ops, context)
        outs = recorder.returned(outs, self.jaxpr.jaxpr.outvars, ops)
        ops = pruned(ops, outs)
        self.equations = [(op, op["_eqn"], op["_given"]) for op in ops]
        finish(ops)
        return {
            "name": self.target.get("name") or "Model",
            "frontend": "jax",
            "tensors": recorder.tensors,
            "ops": ops,
            "outputs": {"tuple": outs},
            "spans": self.frames.spans,
            "modules": self.modules.table,
            "setup": [],
            "line": self.line,
            "forward_line": self.forward_line,
            "settings": settings(),
            "assumptions": [*self.assumptions, *patches.NOTES],
            "versions": {"jax": jax.__version__, "python": platform.python_version()},
            "schema": 1,
        }

    # --- values that the request gives ---

    def value(self, spec: Any) -> Any:
        """An argument: arrays are abstract."""
        if isinstance(spec, dict) and "shape" in spec and "dtype" in spec:
            dtype = BY_NAME.get(spec["dtype"])
            if dtype is None:
                raise Unusable(
                    "inputs-failed", f"dtype {spec['dtype']!r} of {spec.get('name') or 'an input'} is not known to JAX."
                )
            held = jax.dtypes.canonicalize_dtype(dtype)
            if held != dtype:
                self.note(f"{dtype} inputs are {held}: jax_enable_x64 is off")
            return jax.ShapeDtypeStruct(tuple(spec["shape"]), held)
        if isinstance(spec, dict) and "value" in spec:
            return self.value(spec["value"])
        if isinstance(spec, dict) and "tuple" in spec and len(spec) == 1:
            return tuple(self.value(v) for v in spec["tuple"])
        if isinstance(spec, dict) and "dict" in spec and len(spec) == 1:
            return {k: self.value(v) for k, v in spec["dict"]}
        if isinstance(spec, list):
            return [self.value(v) for v in spec]
        return spec

    def note(self, text: str) -> None:
        """An assumption of this run."""
        if text not in self.assumptions:
            self.assumptions.append(text)


def settings() -> dict[str, Any]:
    """Settings that change a number, as the program left them."""
    config: Any = jax.config
    return {
        "jax_default_matmul_precision": str(config.jax_default_matmul_precision or "default"),
        "jax_enable_x64": bool(config.jax_enable_x64),
    }
