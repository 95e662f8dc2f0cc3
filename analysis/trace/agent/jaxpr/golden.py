# pyright: basic
"""Golden outputs of a JAX program: really run on seeded values, at its own size or a twin's.

The program's outputs come from running the user's code; what every operator gave comes from its equations, all of them
compiled as one function.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..differs import Differs
from ..files import Files
from ..golden_request import GoldenRequest
from ..problems import problem_of
from ..shrink import Search, Twin
from .cost import cost_of
from .dtypes import is_key, short_name
from .run import Run
from .signature import Signature
from .subjects import Subject
from .values import Values, index_bounds


def reply_of(request: dict[str, Any]) -> dict[str, Any]:
    """The reply to a request: a trace, or a trace and golden outputs."""
    return Golden(request).reply() if request.get("golden") else Run(request).reply()


_NARROW = (np.float32, np.float16, jax.numpy.bfloat16)


class TwinSearch(Search):
    """The search for a twin among jaxprs."""

    cost_of = staticmethod(cost_of)

    def signature_of(self, trace: dict[str, Any]) -> Signature:
        """What every candidate must share with a trace."""
        return Signature(trace)

    def traced(self, target: Any) -> dict[str, Any]:
        """A candidate's trace."""
        reply = Run({**self.request, "tree": self.tree, "target": target}).reply()
        if not reply["ok"]:
            raise Differs(reply["problems"][0]["message"])
        return reply["trace"]


class Golden(GoldenRequest):
    """One request: trace, twin, real run."""

    run_type = Run
    search_type = TwinSearch

    def of_twin(self, run: Any, twin: Twin) -> tuple[Run, dict[str, Any]]:
        """The search keeps traces; a real run needs the equations, too."""
        run = Run(self.request)
        return run, run.reply()

    def by_kernel(self, trace: dict[str, Any]) -> dict[str, Any]:
        """No operator is run alone yet."""
        return {"kernels": [], "kernels_without": []}

    def run(self, run: Any, trace: dict[str, Any]) -> dict[str, Any]:
        """Signed inputs first; positive ones where signed ones leave the program's domain."""
        first: dict[str, Any] = {}
        for signed, name in ((True, "golden"), (False, "positive")):
            files = Files(self.directory, self.limits.bytes, name)
            found = RealRun(run, trace, files, self.seed, signed=signed).golden()
            if "problem" in found or not found["undefined"]:
                return found
            first = first or found
        return first

    def run_again(self, run: Any, trace: dict[str, Any], stage_s: dict[str, float]) -> dict[str, Any]:
        """The same program in double precision: how far its own results are from exact ones."""
        if self.again:
            self.take_twin_of(self.again, run, trace)
            run = Run(self.request)
            trace = run.reply()["trace"]
        narrow = RealRun(run, trace, Files(self.directory, 0), self.seed, signed=self.signed)
        drawn, _ = jax.jit(narrow.operators)(*narrow.values)
        jax.config.update("jax_enable_x64", True)
        wide = Wide(self.request)
        reply = wide.reply()
        if not reply["ok"] or [o["target"] for o in reply["trace"]["ops"]] != [o["target"] for o in trace["ops"]]:
            told = {"code": "forward-failed", "message": "the program is another one in double precision"}
            problem = {**told, "file": run.path, "line": 0, "column": 0, "detail": ""}
            return {"ok": False, "problems": [problem], "stage_s": stage_s}
        files = Files(self.directory, self.limits.bytes, "exact")
        real = RealRun(wide, reply["trace"], files, self.seed, signed=self.signed, like=narrow, drawn=drawn)
        return {"ok": True, "trace": trace, "golden": real.golden(), "stage_s": stage_s}


class Wide(Run):
    """The target traced on 64-bit floats."""

    def traced(self, subject: Subject) -> Any:
        """The jaxpr of the subject's call on wide values."""
        for external in subject.externals:
            if not is_key(external.value.dtype) and external.value.dtype in _NARROW:
                external.value = jax.ShapeDtypeStruct(external.value.shape, np.float64)
        return super().traced(subject)


class RealRun:
    """A traced program run on real arrays."""

    def __init__(
        self, run: Run, trace: dict[str, Any], files: Files, seed: int, *, signed: bool, like: RealRun | None = None,
        drawn: list[list[Any]] | None = None,
    ) -> None:  # fmt: skip
        self.run, self.trace, self.files, self.signed = run, trace, files, signed
        assert run.subject is not None
        self.externals = run.subject.externals
        bounds, source = index_bounds(trace), Values(seed)
        # What another run's random operators drew: in double precision they would draw something else.
        self.drawn = drawn
        self.values = like.values if like else [
            source.array(e, bounds.get(k), signed=signed) for k, e in enumerate(self.externals)
        ]  # fmt: skip
        self.values = [
            v if is_key(e.value.dtype) else np.asarray(v).astype(e.value.dtype)
            for e, v in zip(self.externals, self.values, strict=True)
        ]

    def golden(self) -> dict[str, Any]:
        """Entries of every array, or the problem."""
        try:
            return self._golden()
        except BaseException as error:
            return {"problem": problem_of(error, "forward", self.run.frames)}
        finally:
            self.files.close()

    def _golden(self) -> dict[str, Any]:
        subject = self.run.subject
        assert subject is not None
        made, outputs = jax.jit(self.operators)(*self.values)
        if self.drawn is None:
            outputs = jax.jit(subject.call)(*self.values)
        externals = {k: self.put(v, needed=True) for k, v in enumerate(self.values)}
        for number, value in self._constants().items():
            externals[number] = self.put(value, needed=True)
        ops: dict[int, dict[int, Any]] = {}
        for (op, _, _), results in zip(self.run.equations, made, strict=True):
            if op.get("view"):
                continue
            entries = {out["tensor"]: self.put(v) for out, v in zip(op["outputs"], results, strict=True)}
            # The nodes of a library call count as its first operator's.
            ops.setdefault(op["group"], {}).update({n: e for n, e in entries.items() if e is not None})
        undefined = any(
            np.issubdtype(v.dtype, np.inexact) and not bool(np.isfinite(np.asarray(v, np.complex128)).all())
            for v in outputs
            if not is_key(v.dtype)
        )
        return {
            "externals": externals, "outputs": [self.put(v, needed=True) for v in outputs], "ops": ops, "diverged": "",
            "undefined": undefined, "signed": self.signed,
        }  # fmt: skip

    def _constants(self) -> dict[int, Any]:
        return self.run.recorder.constants

    def operators(self, *values: Any) -> tuple[list[list[Any]], list[Any]]:
        """What every operator of the program's own level gives, and the program."""
        env: dict[int, Any] = dict(enumerate(values))
        env.update(self._constants())
        made: list[list[Any]] = []
        for number, (op, eqn, given) in enumerate(self.run.equations):
            if eqn is None:
                results = [jax.numpy.asarray(v) for v in given]
            elif self.drawn is not None and op["target"].startswith("jax.random"):
                results = [
                    v if is_key(v.dtype) else v.astype(variable.aval.dtype)
                    for v, variable in zip(self.drawn[number], eqn.outvars, strict=True)
                ]
            else:
                args = [_real(v, variable, env) for v, variable in zip(given, eqn.invars, strict=True)]
                params: Any = eqn.primitive.get_bind_params(eqn.params)
                functions, params = params if isinstance(params, tuple) else ((), params)  # a pair before JAX 0.8
                found = eqn.primitive.bind(*functions, *args, **params)
                results = list(found) if eqn.primitive.multiple_results else [found]
            env.update({out["tensor"]: v for out, v in zip(op["outputs"], results, strict=True)})
            made.append(results)
        return made, [env[out["tensor"]] for out in self.trace["outputs"]["tuple"]]

    def put(self, value: Any, *, needed: bool = False) -> dict[str, Any] | None:
        """Write an array in row-major order; None where it is too large and not needed."""
        if is_key(value.dtype):
            value = jax.random.key_data(value)
        array = np.asarray(value)
        if array.dtype.kind not in "biufc" or array.dtype.name == "bfloat16":  # what NumPy cannot hold travels wider
            array = array.astype(np.float32)
        if array.nbytes > self.files.left and not needed:
            return None
        self.files.left -= array.nbytes
        entry = {**self.files.place(array.nbytes), "dtype": short_name(array.dtype), "shape": list(array.shape)}
        if array.nbytes:
            self.files.write(np.ascontiguousarray(array).data.cast("B"))
        return entry


def _real(encoded: Any, variable: Any, env: dict[int, Any]) -> Any:
    if isinstance(encoded, dict):
        if "tensor" in encoded:
            return env[encoded["tensor"]]
        encoded = float(encoded["float"]) if "float" in encoded else complex(*encoded["complex"])
    return np.asarray(encoded, variable.aval.dtype)
