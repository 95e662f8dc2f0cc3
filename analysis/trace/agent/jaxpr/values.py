# pyright: basic
"""Seeded values of a JAX program's arrays that make a wrong program show: no zeros, no ones, both signs."""

from __future__ import annotations

from math import prod
from typing import Any

import jax
import numpy as np

from .dtypes import is_key

_DEFAULT_BOUND = 8
# Through these an index keeps its meaning.
_FOLLOWED = {
    "convert_element_type", "broadcast_in_dim", "reshape", "squeeze", "expand_dims", "transpose", "slice", "select_n",
    "add", "clamp", "max", "min", "concatenate", "rem", "split", "dynamic_slice", "gather", "rev", "pad",
}  # fmt: skip


def index_bounds(trace: dict[str, Any]) -> dict[int, int]:
    """For each external integer tensor that indexes others: the smallest extent that it indexes."""
    tensors = {t["id"]: t for t in trace["tensors"]}
    origin = {t["id"]: {t["id"]} for t in trace["tensors"] if t["kind"] != "intermediate" and t["dtype"][0] in "iu"}
    bounds: dict[int, int] = {}
    _follow(trace["ops"], tensors, origin, bounds)
    return bounds


def _follow(
    ops: list[dict[str, Any]], tensors: dict[int, Any], origin: dict[int, set[int]], bounds: dict[int, int]
) -> None:
    def limit(value: Any, extent: int) -> None:
        for number in origin.get(_tensor(value), ()):
            bounds[number] = max(1, min(bounds.get(number, extent), extent))

    for op in ops:
        name, args = op["target"].split(".")[1], op["args"]
        if name == "gather":
            numbers = dict(op["kwargs"]["dimension_numbers"]["dict"])
            shape = tensors[_tensor(args[0])]["shape"]
            for axis in numbers["start_index_map"]:
                limit(args[1], shape[axis] - op["kwargs"]["slice_sizes"][axis] + 1)
        elif name.startswith("scatter"):
            numbers = dict(op["kwargs"]["dimension_numbers"]["dict"])
            shape = tensors[_tensor(args[0])]["shape"]
            for axis in numbers["scatter_dims_to_operand_dims"]:
                limit(args[1], shape[axis])
        elif name in ("dynamic_slice", "dynamic_update_slice"):
            first = 1 if name == "dynamic_slice" else 2
            shape = tensors[_tensor(args[0])]["shape"]
            for axis, start in enumerate(args[first:]):
                limit(start, shape[axis])
        if name in _FOLLOWED:
            indices = args[:1] if name in ("gather", "dynamic_slice", "pad") else args
            found = set[int]().union(*(origin.get(_tensor(a), set()) for a in indices))
            for out in op["outputs"]:
                if found and tensors[out["tensor"]]["dtype"][0] in "iu":
                    origin[out["tensor"]] = found
        for block in op.get("blocks", ()):
            for number, given in zip(block["inputs"], args, strict=False):
                if _tensor(given) in origin:
                    origin[number] = origin[_tensor(given)]
            _follow(block["ops"], tensors, origin, bounds)


def _tensor(value: Any) -> int:
    return value["tensor"] if isinstance(value, dict) and isinstance(value.get("tensor"), int) else -1


class Values:
    """One seeded source of values."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed + 1)

    def array(self, external: Any, bound: int | None, *, signed: bool) -> Any:
        """The value of an external array."""
        spec, name = external.value, external.name.rpartition(".")[2].rpartition("[")[2].strip("]'")
        if is_key(spec.dtype):
            return jax.random.split(jax.random.key(7), spec.shape) if spec.shape else jax.random.key(7)
        dtype, shape = np.dtype(spec.dtype), tuple(spec.shape)
        if dtype == np.bool_:
            return self._generator.random(shape) < 0.5
        if dtype.kind in "iu":
            return self._generator.integers(0, max(1, bound or _DEFAULT_BOUND), shape).astype(dtype)
        if external.kind == "input" and "[" not in external.name:  # a pytree's arrays are mostly weights
            value = self._floats(shape) if signed else self._generator.random(shape)
        else:
            value = self._weight(name, shape)
        if dtype.kind == "c":
            value = value + 1j * self._floats(shape)
        return value.astype(dtype)

    def _floats(self, shape: tuple[int, ...]) -> Any:
        """Normal values, one in sixteen four times as large, so that both ends of a clamp are reached."""
        value = self._generator.standard_normal(shape)
        return np.where(self._generator.random(shape) < 1 / 16, value * 4, value)

    def _weight(self, name: str, shape: tuple[int, ...]) -> Any:
        """A weight that keeps the size of what it multiplies; statistics and scales are positive."""
        if name in ("var", "scale") or name.endswith(("_var", "var_bias")):
            return self._generator.random(shape) + 0.5
        if len(shape) < 2:
            return self._generator.standard_normal(shape) * 0.2
        fan = prod(shape[:-1]) if name == "kernel" else prod(shape[1:])
        return self._generator.standard_normal(shape) * max(1, fan) ** -0.5
