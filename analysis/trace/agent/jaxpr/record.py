# pyright: basic
"""A jaxpr as operators of the trace's schema: calls are inlined, loops and branches keep their bodies as blocks."""

from __future__ import annotations

import base64
import os
from typing import Any

import jax
import numpy as np

from ..problems import TooManyOperators
from .dtypes import is_key, spec
from .parameters import encoded_parameters, precision_suffix, scalar
from .places import Context, Places, info_of
from .trips import counters_of, trips_of

_INLINED = {
    "jit", "pjit", "closed_call", "core_call", "call", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr",
    "remat2", "remat", "checkpoint", "remat_opt", "custom_vmap_call", "composite", "linear_call", "custom_lin",
}  # fmt: skip
_SAME = {
    "stop_gradient", "copy", "copy_p", "optimization_barrier", "name", "pvary", "sharding_constraint", "device_put",
    "layout_constraint", "reshard", "tie", "pin", "unpin", "random_clone", "pbroadcast", "mesh_cast", "dce_sink",
    "stage", "with_memory_space_constraint", "multiple_of",
}  # fmt: skip
_VIEWS = {
    "reshape", "squeeze", "expand_dims", "transpose", "broadcast_in_dim", "slice", "split", "unstack", "broadcast_to",
    "random_wrap", "random_unwrap", "real", "imag", "to_edtype", "from_edtype",
}  # fmt: skip
_REMAT = {"remat2", "remat", "checkpoint", "remat_opt"}
_RANDOM = os.path.join("jax", "_src", "random")  # a module, or a package in newer releases
_MOST_BYTES = 1 << 16
Encoded = Any


class Recorder:
    """Collects tensors and operators; `walk` adds those of a jaxpr."""

    def __init__(self, places: Places, limit: int, module_of: Any) -> None:
        self.places = places
        self.limit = limit
        self.module_of = module_of  # (name stack, module row of the caller) -> module row
        self.tensors: list[dict[str, Any]] = []
        self.count = 0
        # Values of captured arrays, by tensor id.
        self.constants: dict[int, Any] = {}
        self._constant_of: dict[int, Encoded] = {}

    # --- tensors ---

    def tensor(self, dtype: str, shape: list[int], kind: str = "intermediate", name: str = "") -> dict[str, int]:
        """A new tensor."""
        number = len(self.tensors)
        self.tensors.append({
            "id": number, "dtype": dtype, "shape": shape, "storage": number, "kind": kind, "name": name,
        })  # fmt: skip
        return {"tensor": number}

    def of_aval(self, aval: Any, kind: str = "intermediate", name: str = "") -> dict[str, int]:
        """A new tensor like an abstract value."""
        return self.tensor(*spec(aval), kind, name)

    def constant(self, value: Any) -> Encoded:
        """An array that the program captured: a number when it is one, with its values when they are few."""
        known = self._constant_of.get(id(value))
        if known is not None:
            return known
        aval = jax.typeof(value) if hasattr(jax, "typeof") else jax.core.get_aval(value)  # pyright: ignore
        ref = self._constant_of[id(value)] = self.of_aval(aval, "constant")
        self.constants[ref["tensor"]] = value
        if not is_key(aval.dtype):
            entry = self.tensors[ref["tensor"]]
            array = np.asarray(value)
            if array.nbytes <= _MOST_BYTES:
                if array.dtype.itemsize < 4 and array.dtype.kind not in "biuf":  # bfloat16 and smaller floats
                    array = array.astype(np.float32)
                data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
                entry["values"] = {"dtype": spec(array)[0], "data": data}
        return ref

    # --- equations ---

    def walk(
        self, jaxpr: Any, args: list[Encoded], ops: list[dict[str, Any]], context: Context,
        seen: dict[Any, list[Encoded]] | None = None,
    ) -> list[Encoded]:  # fmt: skip
        """Record a jaxpr (closed or not) on arguments; its results. With `seen`, equal equations are one."""
        consts = list(getattr(jaxpr, "consts", ()))
        jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
        env: dict[Any, Encoded] = dict(zip(jaxpr.invars, args, strict=True))
        env.update(zip(jaxpr.constvars, (self._const(c) for c in consts), strict=True))
        for eqn in jaxpr.eqns:
            ins = [self._read(v, env) for v in eqn.invars]
            for var, value in zip(eqn.outvars, self._equation(eqn, ins, ops, context, seen), strict=True):
                env[var] = value
        return [self._read(v, env) for v in jaxpr.outvars]

    def _const(self, value: Any) -> Encoded:
        if isinstance(value, dict) and "tensor" in value:
            return value
        return self.constant(value)

    def _read(self, atom: Any, env: dict[Any, Encoded]) -> Encoded:
        if hasattr(atom, "val"):
            return scalar(atom.val) if not np.shape(atom.val) else self.constant(atom.val)
        return env[atom]

    def _equation(
        self, eqn: Any, ins: list[Encoded], ops: list[dict[str, Any]], context: Context, seen: Any
    ) -> list[Encoded]:
        name, params = eqn.primitive.name, eqn.params
        if name in _SAME and len(ins) == len(eqn.outvars):
            return ins
        inner = _jaxpr_of(params) if name in _INLINED else None
        if inner is not None and not self._is_random(name, inner, eqn):
            below = seen if name not in _REMAT else self._seen_in(ops)
            return self.walk(inner, ins[-len(_invars(inner)) :] if _invars(inner) else [], ops,
                             self._within(eqn, inner, context), below)  # fmt: skip
        if name == "custom_linear_solve":
            return self._linear_solve(eqn, ins, ops, context)
        if name == "platform_index":
            return [_default_platform(params["platforms"])]
        if name == "cond" and not isinstance(ins[0], dict):
            branches = params["branches"]
            branch = branches[min(max(int(ins[0]), 0), len(branches) - 1)]
            return self.walk(branch, ins[1:], ops, self._within(eqn, branch, context), seen)
        if not eqn.outvars:
            return []
        if name in ("scan", "while", "cond"):
            return getattr(self, f"_{name}")(eqn, ins, ops, context)
        keys = any(is_key(v.aval.dtype) for v in eqn.outvars) and name != "random_wrap"
        target = "random" if inner is not None or keys else name.replace("-", "_") + precision_suffix(params)
        kwargs = encoded_parameters(params)
        if target == "random":
            kwargs = {"name": str(params.get("name", name)).strip("_")}
        elif name in ("reduce", "reduce_window"):
            kwargs["computation"] = _single(params["jaxpr"])
        elif "select_prim" in params:
            kwargs["select"] = params["select_prim"].name
        key = ""
        if seen is not None:
            key = repr((target, ins, kwargs))
            if key in seen:
                return seen[key]
        outs = self._append(f"jax.{target}", ins, kwargs, eqn, ops, context, view=name in _VIEWS)
        if seen is not None:
            seen[key] = outs
        return outs

    def _seen_in(self, ops: list[dict[str, Any]]) -> dict[Any, list[Encoded]]:
        """What a recomputation may find computed already."""
        return {
            repr((op["target"].removeprefix("jax."), op["args"], op["kwargs"])): op["outputs"]
            for op in ops
            if not op.get("blocks")
        }

    def _is_random(self, name: str, inner: Any, eqn: Any) -> bool:
        """A sampler of jax.random whose operands are keys and numbers: random values, however they are made."""
        if name not in ("jit", "pjit") or _RANDOM not in info_of(inner):
            return False
        keys = [v for v in eqn.invars if is_key(v.aval.dtype)]
        rest = [v for v in eqn.invars if not is_key(v.aval.dtype)]
        return bool(keys) and all(not np.shape(v.aval) for v in rest)

    def _linear_solve(self, eqn: Any, ins: list[Encoded], ops: list[dict[str, Any]], context: Context) -> list[Encoded]:
        lengths, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
        first = lengths.matvec + lengths.vecmat
        total = sum(n for n in lengths if n)
        args = [*ins[first : first + lengths.solve], *ins[total:]]
        return self.walk(jaxprs.solve, args, ops, self._within(eqn, jaxprs.solve, context))

    # --- loops and branches ---

    def _scan(self, eqn: Any, ins: list[Encoded], ops: list[dict[str, Any]], context: Context) -> list[Encoded]:
        p = eqn.params
        body, consts, carries = p["jaxpr"], p["num_consts"], p["num_carry"]
        counters = counters_of(body, ins[consts:], consts, carries)
        block = self._block(body, ins[:consts], consts, context, eqn)
        kwargs = {"length": int(p["length"]), "reverse": bool(p["reverse"]), "num_carry": carries, "counters": counters}
        return self._append("jax.scan", ins[consts:], kwargs, eqn, ops, context, blocks=[block], given=ins)

    def _while(self, eqn: Any, ins: list[Encoded], ops: list[dict[str, Any]], context: Context) -> list[Encoded]:
        p = eqn.params
        skipped, consts = p["cond_nconsts"], p["body_nconsts"]
        body, first = p["body_jaxpr"], skipped + consts
        carries = len(ins) - first
        counters = counters_of(body, ins[first:], consts, carries)
        trips = trips_of(p["cond_jaxpr"], ins[:skipped], ins[first:], skipped, {k: (a, s) for k, a, s in counters})
        block = self._block(body, ins[skipped:first], consts, context, eqn)
        kwargs = {"length": trips, "reverse": False, "num_carry": carries, "counters": counters if trips else []}
        return self._append("jax.scan" if trips is not None else "jax.while", ins[first:], kwargs, eqn, ops, context,
                            blocks=[block], given=ins)  # fmt: skip

    def _cond(self, eqn: Any, ins: list[Encoded], ops: list[dict[str, Any]], context: Context) -> list[Encoded]:
        blocks: list[dict[str, Any]] = []
        for branch in eqn.params["branches"]:
            inner: list[dict[str, Any]] = []
            outs = self.walk(branch, ins[1:], inner, self._within(eqn, branch, context))
            blocks.append({"inputs": [], "ops": inner, "outputs": outs})
        return self._append("jax.cond", [ins[0]], {}, eqn, ops, context, blocks=blocks, given=ins)

    def _block(self, body: Any, outer: list[Encoded], consts: int, context: Context, eqn: Any) -> Any:
        """A loop's body: its constants are the outer values, everything else is given anew in each iteration."""
        variables = [self.of_aval(v.aval) for v in _invars(body)[consts:]]
        inner: list[dict[str, Any]] = []
        outs = self.walk(body, [*outer, *variables], inner, self._within(eqn, body, context))
        return {"inputs": [v["tensor"] for v in variables], "ops": inner, "outputs": outs}

    # --- operators ---

    def _within(self, eqn: Any, jaxpr: Any, context: Context) -> Context:
        """The context of a function that an equation calls."""
        info = eqn.source_info
        callers, key, _ = self.places.locate(info.traceback, context)
        return Context(info_of(jaxpr), callers, key, self.module_of(info.name_stack, context.module))

    def _append(
        self, target: str, ins: list[Encoded], kwargs: dict[str, Any], eqn: Any, ops: list[dict[str, Any]],
        context: Context, *, view: bool = False, blocks: list[Any] | None = None, given: list[Encoded] | None = None,
    ) -> list[Encoded]:  # fmt: skip
        outs = [self.of_aval(v.aval) for v in eqn.outvars]
        frames, key, exact = self.places.locate(eqn.source_info.traceback, context)
        op: dict[str, Any] = {
            "target": target, "args": ins, "kwargs": kwargs, "outputs": outs, "span": self.places.span(frames),
            "module": self.module_of(eqn.source_info.name_stack, context.module),
        }  # fmt: skip
        if view:
            op["view"] = True
        if blocks:
            op["blocks"] = blocks
        op["_eqn"], op["_given"] = eqn, ins if given is None else given
        self._grouped(op, key, exact, ops)
        ops.append(op)
        self.count += 1
        if self.count > self.limit:
            raise TooManyOperators(f"more than {self.limit} operators")
        return outs

    def returned(self, outs: list[Encoded], variables: list[Any], ops: list[dict[str, Any]]) -> list[Encoded]:
        """A program's outputs; one that is a number is written like any other."""
        found: list[Encoded] = []
        for out, variable in zip(outs, variables, strict=True):
            if not (isinstance(out, dict) and "tensor" in out):
                ref = self.of_aval(variable.aval)
                op: dict[str, Any] = {"target": "jax.literal", "args": [out], "kwargs": {}, "outputs": [ref]}
                op.update(_key=None, _leader=op, _exact=set())
                op.update(_eqn=None, _given=[out])
                ops.append(op)
                out = ref
            found.append(out)
        return found

    def _grouped(self, op: dict[str, Any], key: Any, exact: Any, ops: list[dict[str, Any]]) -> None:
        """One call of a library makes many equations; where the same equation comes again, it is the next call."""
        last = ops[-1] if ops else None
        joins = last is not None and last["_key"] == key and not op.get("blocks") and not last.get("blocks")
        exact = (exact, op["target"])
        if joins and last is not None and exact not in last["_exact"]:
            op["_leader"], op["_exact"] = last["_leader"], last["_exact"]
            op["_exact"].add(exact)
        else:
            op["_leader"], op["_exact"] = op, {exact}
        op["_key"] = key


def _jaxpr_of(params: dict[str, Any]) -> Any:
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr", "fwd_jaxpr", "callee"):
        value = params.get(name)
        if value is not None and hasattr(getattr(value, "jaxpr", value), "eqns"):
            return value
    return None


def _single(jaxpr: Any) -> str:
    """The primitive of a computation that is one primitive of its two arguments, else ""."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    if len(inner.eqns) == 1 and list(inner.outvars) == list(inner.eqns[0].outvars) and len(inner.invars) == 2:
        eqn = inner.eqns[0]
        return eqn.primitive.name if set(map(id, eqn.invars)) == set(map(id, inner.invars)) else ""
    return ""


def _invars(jaxpr: Any) -> list[Any]:
    return list(getattr(jaxpr, "jaxpr", jaxpr).invars)


def _default_platform(platforms: Any) -> int:
    """Of code that differs by platform: the one without a name, else an accelerator's, else the first."""
    listed = list(platforms)
    for wanted in (None, "cuda", "gpu", "tpu"):
        for position, names in enumerate(listed):
            if names is wanted or (names is not None and wanted in names):
                return position
    return 0
