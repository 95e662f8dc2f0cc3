# pyright: basic
"""Golden outputs of a PyTorch program: really run on seeded values, with what every operator gave."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from .calibrate import calibrate
from .dtypes import BY_NAME
from .golden_request import GoldenRequest
from .loading import load
from .modules import Modules
from .pack import Pack
from .problems import problem_of
from .real import Follower, Marks, RealFunctions, pairs
from .target import Run
from .tensors import no_modes
from .values import Values, index_bounds


def reply_of(request: dict[str, Any]) -> dict[str, Any]:
    """The reply to a request: a trace, or a trace and golden outputs."""
    return Golden(request).reply() if request.get("golden") else Run(request).reply()


class Golden(GoldenRequest):
    """One request: trace, twin, real run."""

    run_type = Run

    def run_again(self, run: Any, trace: dict[str, Any], stage_s: dict[str, float]) -> dict[str, Any]:
        """The same program in double precision: how far its own results are from exact ones."""
        if self.again:
            self.take_twin_of(self.again, run, trace)
            trace = Run(self.request).reply()["trace"]
        pack = Pack(self.directory, self.limits.bytes, "exact")
        found = RealRun(self.request, trace, pack, self.seed, signed=self.signed, double=True).golden()
        if "problem" in found:
            return {"ok": False, "problems": [found["problem"]], "stage_s": stage_s}
        return {"ok": True, "trace": trace, "golden": found, "stage_s": stage_s}

    def by_kernel(self, trace: dict[str, Any]) -> dict[str, Any]:
        """Each distinct operator on small extents, where that was asked for."""
        if not self.kernels:
            return {}
        from .kernels import kernels

        found, without = kernels(trace, Pack(self.directory, self.limits.bytes), Values(self.seed))
        return {"kernels": found, "kernels_without": without}

    def run(self, run: Any, trace: dict[str, Any]) -> dict[str, Any]:
        """Signed inputs first; as the file gives them where signed ones leave the program's domain."""
        first: dict[str, Any] = {}
        for signed in (True, False):
            pack = Pack(self.directory, self.limits.bytes)
            found = RealRun(self.request, trace, pack, self.seed, signed=signed).golden()
            if "problem" not in found and not found["undefined"]:
                return found
            if signed:
                first = found
            elif "problem" in found and "problem" not in first:
                return first
            else:
                return found
        return first


class RealRun(Run):
    """The target built and run on real tensors."""

    def __init__(
        self,
        request: dict[str, Any],
        trace: dict[str, Any],
        pack: Pack,
        seed: int,
        *,
        signed: bool,
        double: bool = False,
    ) -> None:
        super().__init__(request)
        self.trace = trace
        self.seed = seed
        self.gradients_of = trace["settings"].get("gradients_of")
        self.values = Values(seed)
        self.signed, self.double = signed, double
        bounds = index_bounds(trace)
        self._bound_of = {(t["kind"], t.get("name", "")): bounds.get(t["id"]) for t in trace["tensors"]}
        self.follower = Follower(trace, pack)
        self.recorder = self.follower  # pyright: ignore[reportAttributeAccessIssue]
        self.modules = Modules(self.frames, self.follower)  # pyright: ignore[reportArgumentType]

    def golden(self) -> dict[str, Any]:
        """Entries of every array, or the problem."""
        follower = self.follower
        try:
            outputs = self._forward()
        except BaseException as error:
            return {"problem": problem_of(error, self.stage, self.frames)}
        finally:
            follower.pack.close()
        if not follower.diverged and follower.position != len(self.trace["ops"]):
            follower.diverged = f"the run has {follower.position} operators, the trace {len(self.trace['ops'])}"
        return {
            "externals": follower.externals, "outputs": outputs, "ops": follower.ops, "diverged": follower.diverged,
            "undefined": self.undefined, "signed": self.signed,
        }  # fmt: skip

    def _forward(self) -> list[Any]:
        follower = self.follower
        self._seed()
        with torch.no_grad(), contextlib.ExitStack() as stack:
            stack.enter_context(follower)
            stack.enter_context(RealFunctions(follower, train=self.train))
            module = load(
                self.path, self.request.get("text"), self.request.get("paths") or [], self.request.get("tree")
            )
            call, model, args, kwargs = self._build(module)
            with no_modes():
                args, kwargs = self._given(args), self._given(kwargs)
            self._name(model, call, args, kwargs)
            with no_modes():
                args, kwargs = self._bounded(args), self._bounded(kwargs)
            if isinstance(model, torch.nn.Module):
                calibrate(model, lambda probe: self._probed(call, model, probe, args, kwargs), self.seed)
            follower.tensors = Marks()
            self._name(model, call, args, kwargs)
            self.enter("forward")
            follower.begin_forward()
            outputs = self._called(call, model, args, kwargs)
        follower.returned(outputs)
        found = [tensor for _, tensor in pairs(self.trace["outputs"], outputs)]
        self.undefined = any(t.is_floating_point() and not bool(torch.isfinite(t).all()) for t in found)
        return [follower.pack.put(t, needed=True) for t in found]

    undefined = False

    def _probed(self, call: Any, model: Any, probe: Any, args: Any, kwargs: Any) -> Any:
        """A run of a copy of the model on copies of the inputs."""
        args, kwargs = (_each(v, torch.Tensor.clone) for v in (args, kwargs))
        return (probe if call is model else getattr(probe, call.__name__))(*args, **kwargs)

    def _called(self, call: Any, model: Any, args: Any, kwargs: Any) -> Any:
        if not self.double:
            return super()._called(call, model, args, kwargs)
        with no_modes():
            if model is not None:
                model.double()
            wide = {id(t): t.double() for _, _, t in self.named if t.is_floating_point()}
            args, kwargs = (_each(v, lambda t: wide.get(id(t), t)) for v in (args, kwargs))
            self.named = [(k, n, wide.get(id(t), t) if k == "input" else t) for k, n, t in self.named]
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return super()._called(call, model, args, kwargs)
        finally:
            torch.set_default_dtype(default)

    def upstream(self, output: torch.Tensor, name: str) -> torch.Tensor:
        """Seeded values, drawn in the trace's dtype."""
        dtype = next((BY_NAME[t["dtype"]] for t in self.trace["tensors"] if t.get("name") == name), output.dtype)
        with no_modes():
            return self.values.tensor(output.shape, dtype).to(output.dtype)

    def _ready(self, model: torch.nn.Module) -> torch.nn.Module:
        model = super()._ready(model)
        self.values.give_parameters(model)
        return model

    def _value(self, spec: Any) -> Any:
        if isinstance(spec, dict) and "shape" in spec and "dtype" in spec:
            dtype = BY_NAME.get(spec["dtype"])
            if dtype is not None:
                bound = self._bound_of.get(("input", spec.get("name") or ""))
                with no_modes():
                    return self.values.tensor(tuple(spec["shape"]), dtype, bound)
        return super()._value(spec)

    def _given(self, value: Any) -> Any:
        return _each(value, lambda t: self.values.given(t, None, signed=self.signed))

    def _bounded(self, value: Any) -> Any:
        """Indices within the tables that the trace saw them used on."""
        bound_of = {id(t): self._bound_of.get(key) for key, t in self.follower.tensors.named.items()}
        return _each(value, lambda t: self.values.given(t, bound_of.get(id(t)), signed=False))


def _each(value: Any, change: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(_each(v, change) for v in value)
    if isinstance(value, dict):
        return {k: _each(v, change) for k, v in value.items()}
    return value
