# pyright: basic
"""Every distinct operator of a trace alone on small extents: what is checked where no twin of the whole is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import prod
from typing import Any

import torch
import torch.nn.functional as F

from .dtypes import BY_NAME, short_name
from .pack import Pack
from .real import pairs, real_tensors
from .signature import policy_of
from .tensors import no_modes
from .values import Values, index_bounds

_SMALL = (3, 5, 7, 4, 6, 9, 11, 13, 10, 14, 15, 17)
_KEPT_BELOW = 3
_MOST_ELEMENTS = 1_000_000
_SKIPPED = {
    "empty",
    "new_empty",
    "empty_like",
    "empty_strided",
    "randn",
    "rand",
    "randint",
    "normal",
    "uniform_",
    "normal_",
    "native_dropout",
    "bernoulli_",
    "randperm",
}
_FUNCTIONS = {
    "linear": F.linear,
    "matmul": torch.matmul,
    "einsum": lambda equation, operands: torch.einsum(equation, *operands),
    "scaled_dot_product_attention": lambda q, k, v, mask, p, causal, scale, gqa: F.scaled_dot_product_attention(
        q, k, v, mask, p, causal, scale=scale, **({"enable_gqa": True} if gqa else {})
    ),
    **{name: getattr(torch._VF, name) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
}


def kernels(trace: dict[str, Any], pack: Pack, values: Values) -> tuple[list[dict[str, Any]], list[str]]:
    """(golden runs of one operator each, names of those that could not be run alone)."""
    table = {t["id"]: t for t in trace["tensors"]}
    seen: set[str] = set()
    found: list[dict[str, Any]] = []
    unknown: list[str] = []
    for op in trace["ops"]:
        key = _key(op, table)
        if op.get("view") or key in seen or op["target"].split(".")[1] in _SKIPPED:
            continue
        seen.add(key)
        kernel = _Kernel(op, table, trace, pack, values).run()
        if kernel is None:
            unknown.append(op["target"])
        else:
            found.append(kernel)
    pack.close()
    return found, list(dict.fromkeys(unknown))


def _key(op: dict[str, Any], table: dict[int, Any]) -> str:
    def form(value: Any, policy: Any) -> Any:
        if isinstance(value, dict) and "tensor" in value:
            t = table[value["tensor"]]
            return [t["dtype"], [min(n, 2) for n in t["shape"]]]
        if isinstance(value, list):
            return [form(v, policy) for v in value]
        return "number" if policy and isinstance(value, (int, float)) and not isinstance(value, bool) else value

    policy = policy_of(op["target"])
    args = [form(v, policy.get(i)) for i, v in enumerate(op["args"])]
    return json.dumps([op["target"], args, {k: form(v, policy.get(k)) for k, v in op["kwargs"].items()}])


class _Kernel:
    """One operator call, made small."""

    def __init__(
        self, op: dict[str, Any], table: dict[int, Any], trace: dict[str, Any], pack: Pack, values: Values
    ) -> None:
        self.op, self.table, self.trace, self.pack, self.values = op, table, trace, pack, values
        self.policy = policy_of(op["target"])
        one = {"ops": [op], "tensors": [{**t, "kind": "input"} for t in table.values()]}
        self.bounds = index_bounds(one)
        self.sizes: dict[int, int] = {}

    def run(self) -> dict[str, Any] | None:
        """Its golden run, or None where no small sizes were found that it accepts."""
        for sizes in self._candidates():
            self.sizes = sizes
            try:
                with no_modes(), torch.no_grad():
                    return self._golden()
            except Exception:
                continue
        return None

    def _candidates(self) -> Iterator[dict[int, int]]:
        extents = {
            n
            for number in _ids((self.op["args"], self.op["kwargs"], self.op["outputs"]))
            for n in self.table[number]["shape"]
        }
        large = sorted(n for n in extents if n > _KEPT_BELOW)
        yield dict(zip(large, _SMALL, strict=False)) if len(large) <= len(_SMALL) else {}
        for factor in (64, 32, 16, 8, 4, 2):
            yield {n: n // factor for n in large if n % factor == 0 and n >= 2 * factor}
        for floor in (8, 16, 32):
            yield {n: min(n, floor + k) for k, n in enumerate(large)}
        if all(prod(self.table[n]["shape"]) <= _MOST_ELEMENTS for n in _ids((self.op["args"], self.op["outputs"]))):
            yield {}

    def _golden(self) -> dict[str, Any] | None:
        made: dict[int, torch.Tensor] = {}
        args = [self._value(v, self.policy.get(i), made) for i, v in enumerate(self.op["args"])]
        kwargs = {k: self._value(v, self.policy.get(k), made) for k, v in self.op["kwargs"].items()}
        if self.op["target"] == "aten.native_group_norm.default":
            args[3:6] = [args[0].shape[0], args[0].shape[1], prod(args[0].shape[2:])]
        entries = {number: self.pack.put(t, needed=True) for number, t in made.items()}
        inputs = [self._row(number, t, "input") for number, t in made.items()]
        copies = _each_tensor(args, lambda t: t.double() if t.is_floating_point() else t.clone())
        result = self._function()(*args, **kwargs)
        outs = list(pairs(self.op["outputs"], result))
        if any(t.numel() > _MOST_ELEMENTS for t in (*real_tensors(result), *made.values())):
            raise ValueError("too large")
        rows = [self._row(number, t, "intermediate") for number, t in outs if number not in made]
        outputs = [{"tensor": number} for number, _ in outs]
        op = {
            **self.op,
            "args": [_encode(v, w) for v, w in zip(self.op["args"], args, strict=False)],
            "kwargs": {k: _encode(v, kwargs[k]) for k, v in self.op["kwargs"].items()},
            "module": -1,
        }
        trace = {**self.trace, "tensors": inputs + rows, "ops": [op], "outputs": outputs, "setup": [], "modules": []}
        return {
            "trace": trace,
            "externals": entries,
            "outputs": [self.pack.put(t, needed=True) for _, t in outs],
            "ops": {},
            "full": True,
            "exact": {"outputs": self._exact(copies, kwargs), "ops": {}},
            "sizes": {},
            "points": 0,
            "elements": 0,
            "diverged": "",
            "undefined": False,
        }

    def _exact(self, args: Any, kwargs: Any) -> list[Any]:
        """Outputs in double precision; none where the operator has no such variant."""
        try:
            result = self._function()(
                *args, **_each_tensor(kwargs, lambda t: t.double() if t.is_floating_point() else t)
            )
        except Exception:
            return []
        return [self.pack.put(t, needed=True) for _, t in pairs(self.op["outputs"], result)]

    def _function(self) -> Any:
        namespace, name, *overload = self.op["target"].split(".")
        if namespace == "fn":
            return _FUNCTIONS[name]
        return getattr(getattr(getattr(torch.ops, namespace), name), overload[0])

    def _value(self, value: Any, policy: Any, made: dict[int, torch.Tensor]) -> Any:
        if isinstance(value, list):
            return [self._value(v, policy, made) for v in value]
        if isinstance(value, dict):
            if "tensor" in value:
                number = value["tensor"]
                if number not in made:
                    made[number] = self._tensor(number)
                return made[number]
            if "dtype" in value:
                return BY_NAME[value["dtype"]]
            if "float" in value:
                return float(value["float"])
            raise ValueError(f"argument {value}")
        if policy and isinstance(value, int) and not isinstance(value, bool):
            return self.sizes.get(value, value)
        return value

    def _tensor(self, number: int) -> torch.Tensor:
        row = self.table[number]
        bound = self.bounds.get(number)
        value = self.values.tensor(
            [self.sizes.get(n, n) for n in row["shape"]],
            BY_NAME[row["dtype"]],
            bound if bound is None else self.sizes.get(bound, bound),
        )
        if self.op["target"] == "aten.native_batch_norm.default" and value.dim() == 1:
            return value.abs() + 0.5
        return value

    def _row(self, number: int, tensor: torch.Tensor, kind: str) -> dict[str, Any]:
        return {
            "id": number,
            "dtype": short_name(tensor.dtype),
            "shape": list(tensor.shape),
            "storage": number,
            "kind": kind,
            "name": f"x{number}" if kind == "input" else "",
            "strides": list(tensor.stride()),
        }


def _each_tensor(value: Any, change: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return [_each_tensor(v, change) for v in value]
    if isinstance(value, dict):
        return {k: _each_tensor(v, change) for k, v in value.items()}
    return value


def _encode(encoded: Any, value: Any) -> Any:
    if isinstance(encoded, list):
        return [_encode(e, v) for e, v in zip(encoded, value, strict=False)]
    return value if isinstance(value, int) and not isinstance(value, bool) else encoded


def _ids(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        if isinstance(value.get("tensor"), int):
            yield value["tensor"]
        else:
            for item in value.values():
                yield from _ids(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _ids(item)
