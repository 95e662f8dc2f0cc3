"""Calls one lowering rule on torch tensors and runs what it emits (no tests of its own)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sollens.analysis.execute.reference import run_all
from sollens.analysis.ir.nodes import Declaration, Node, Program, Statement, walk
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.registry import find
from tests.lower.tracing import DTYPES, compare, flatten, to_numpy


class Emitted:
    """The program that a rule emitted, and its results."""

    def __init__(
        self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any], expected: Any, settings: dict[str, Any]
    ) -> None:
        self.builder = Builder()
        self.declarations: list[Declaration] = []
        self.arrays: dict[str, np.ndarray] = {}
        outputs = expected if isinstance(expected, list | tuple) else [expected]
        specs = tuple((DTYPES[t.dtype], tuple(t.shape)) if isinstance(t, torch.Tensor) else None for t in outputs)
        rule = find(target)
        assert rule is not None, target
        call = OpCall(
            target, tuple(map(self._decode, args)), {k: self._decode(v) for k, v in kwargs.items()}, specs, settings
        )
        results = rule(self.builder, call)
        self.results = [results] if isinstance(results, Value) else list(results)
        for value, spec in zip(self.results, specs, strict=False):
            assert value is None or spec is None or (value.dtype, value.shape) == spec, (value, spec)
        self.program = Program(
            name="rule",
            declarations=tuple(self.declarations),
            nodes=tuple(self.builder.nodes),
            outputs=tuple(v.name for v in self.results if v is not None),
        )

    def _decode(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            name = self.builder.fresh("x")
            self.arrays[name] = to_numpy(value)
            dtype = DTYPES[value.dtype]
            self.declarations.append(Declaration(name=name, dtype=dtype, shape=tuple(value.shape), role="input"))
            return Value(name, dtype, tuple(value.shape))
        if isinstance(value, list | tuple):
            return [self._decode(v) for v in value]
        return value

    @property
    def nodes(self) -> list[Node]:
        return list(walk(self.program.nodes))

    @property
    def nodes_outside_loops(self) -> list[Node]:
        return list(self.program.nodes)

    @property
    def statements(self) -> list[Statement]:
        return [n for n in self.nodes if isinstance(n, Statement)]

    def values(self) -> dict[str, np.ndarray]:
        return run_all(self.program, self.arrays, limit_points=20_000_000)


def check_rule(
    target: str,
    args: tuple[Any, ...],
    expected: Any,
    *,
    settings: dict[str, Any] | None = None,
    tolerance: float | None = None,
    **kwargs: Any,
) -> Emitted:
    """The rule's program gives `expected` (a tensor, or a list whose None entries are not compared)."""
    emitted = Emitted(target, args, kwargs, expected, settings or {})
    values = emitted.values()
    wanted = [expected] if isinstance(expected, torch.Tensor) else list(expected)
    for value, one in zip(emitted.results, wanted, strict=False):
        if one is not None:
            assert value is not None
            compare(values[value.name], one, tolerance)
    assert len(flatten(wanted)) <= len(emitted.results)
    return emitted
