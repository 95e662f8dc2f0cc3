"""What the source of a file says about its targets: names, places, example inputs and options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from sollens.analysis.report import Problem

Kind = Literal["class", "function"]
Frontend = Literal["torch", "jax", "llm"]
Mode = Literal["inference", "train"]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An example tensor: a short dtype name of `trace.schema.DTYPE_BITS` and its extents."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class ListSpec:
    """A list of example values."""

    items: tuple[Spec, ...]


@dataclass(frozen=True, slots=True)
class TupleSpec:
    """A tuple of example values."""

    items: tuple[Spec, ...]


@dataclass(frozen=True, slots=True)
class DictSpec:
    """A dictionary with string keys."""

    items: tuple[tuple[str, Spec], ...]


Scalar: TypeAlias = "int | float | bool | str | None"
Spec: TypeAlias = "TensorSpec | ListSpec | TupleSpec | DictSpec | Scalar"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """What a pragma states. `inputs` are by argument name; `names` are the integers bound in it.

    `dims`: the extents of each tensor argument as they are written. `golden`: a file of golden data, or
    FILE.py:FUNCTION. `llm`: a model translates the source, even where it could be traced.
    """

    inputs: tuple[tuple[str, Spec], ...] = ()
    init_args: tuple[Spec, ...] = ()
    init_kwargs: tuple[tuple[str, Spec], ...] = ()
    mode: Mode = "inference"
    target_s: float | None = None
    hardware: str | None = None
    names: tuple[tuple[str, int], ...] = ()
    golden: str = ""
    llm: bool = False
    dims: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def is_described(self) -> bool:
        """Whether a model translates the source."""
        return self.llm or bool(self.golden)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One class or function to analyse. By KernelBench's convention `get_inputs` and `get_init_inputs` give the inputs:
    `shapes` is None then, or has settings alone.
    """

    name: str
    kind: Kind
    frontend: Frontend
    line: int
    convention: Literal["pragma", "kernelbench", "pyproject"]
    shapes: Shapes | None = None

    @property
    def mode(self) -> Mode:
        """Whether the backward pass is part of the program."""
        return self.shapes.mode if self.shapes else "inference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """Targets of a file, in source order, and why others are missing."""

    targets: tuple[Target, ...]
    problems: tuple[Problem, ...]
