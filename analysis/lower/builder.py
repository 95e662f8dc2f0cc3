"""What lowering rules build with: values, fresh names, and emitters of IR nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any, TypeAlias, TypeVar, cast

from sollens.analysis.ir.affine import Affine, Constraint, dim
from sollens.analysis.ir.calls import CALLS
from sollens.analysis.ir.nodes import (
    NO_SOURCE,
    REDUCTIONS,
    Attribute,
    Call,
    Dim,
    Expr,
    Node,
    Read,
    Reduction,
    Result,
    Scan,
    Source,
    Statement,
)


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the IR program. `x[i, j]` is a Read; an index is an Affine, a dimension name or an integer."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __getitem__(self, index: Affine | str | int | tuple[Affine | str | int, ...]) -> Read:
        items = index if isinstance(index, tuple) else (index,)
        if len(items) != len(self.shape):
            raise ValueError(f"read of {self.name}: expected {len(self.shape)} indices, found {len(items)}")
        return Read(self.name, tuple(as_affine(i) for i in items))

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)


# Lowers a block's operators on these values; its results are Values, or numbers.
Body: TypeAlias = "Callable[[Sequence[Value]], list[Any]]"


@dataclass(frozen=True, slots=True)
class OpCall:
    """A decoded operator call: tensors are Values, dtypes short names; `outputs` what the trace recorded (dtype,
    shape) per output, then per
    tensor written in place; `used` whether anything reads each."""

    target: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: tuple[tuple[str, tuple[int, ...]] | None, ...]
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    used: tuple[bool, ...] = ()
    # Of loops and branches: each lowers its body at the builder's place, on the values it is given.
    blocks: tuple[Body, ...] = ()

    def wants(self, position: int) -> bool:
        """Whether anything reads this output; a rule may return None for one that nothing reads."""
        if position >= len(self.outputs) or self.outputs[position] is None:
            return False
        return self.used[position] if position < len(self.used) else True

    def arg(self, position: int, name: str, default: Any = None) -> Any:
        """The argument at a position or by keyword; ATen drops trailing defaults, so `default` must be the schema's."""
        if position < len(self.args):
            return self.args[position]
        return self.kwargs.get(name, default)

    @property
    def out_dtype(self) -> str:
        """dtype of the first output."""
        assert self.outputs[0] is not None
        return self.outputs[0][0]

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the first output."""
        assert self.outputs[0] is not None
        return self.outputs[0][1]


def as_affine(index: Affine | str | int) -> Affine:
    """An index given as a dimension's name, an integer or an expression."""
    if isinstance(index, Affine):
        return index
    return _dim(index) if isinstance(index, str) else Affine(index)


_dim = lru_cache(maxsize=1024)(dim)


_NOT_OF_A_NAME = re.compile(r"[^A-Za-z0-9_]")


def _stem(hint: str) -> str:
    """The hint as an identifier."""
    stem = _NOT_OF_A_NAME.sub("_", hint).strip("_") or "t"
    return "t" + stem if stem[0].isdigit() else stem


# What rules chose by sizes, by position of the operator in its trace.
Choices = Mapping[int, Sequence[object]]
C = TypeVar("C")


class Builder:
    """Collects nodes. `source` is stamped on every node emitted while it is set.

    `followed` are the choices of the same program at other sizes.
    """

    def __init__(self, followed: Choices | None = None) -> None:
        self.choices: dict[int, list[object]] = {}
        self._followed = followed or {}
        self.nodes: list[Node] = []
        self.source: Source = NO_SOURCE
        # Integers of small tensors, row-major, that are affine in the indices of enclosing loops.
        self.positions: dict[str, tuple[Affine, ...]] = {}
        self.extents: dict[str, int] = {}  # of the enclosing loops
        self._used: dict[str, int] = {}

    @contextmanager
    def block(self, index: str = "", extent: int = 1) -> Generator[list[Node]]:
        """Nodes emitted meanwhile go to a list of their own: the body of a loop over `index`, or of a branch."""
        outer, source, known = self.nodes, self.source, dict(self.positions)
        self.nodes = []
        if index:
            self.extents[index] = max(extent, 1)
        try:
            yield self.nodes
        finally:
            self.nodes, self.source, self.positions = outer, source, known
            self.extents.pop(index, None)

    def chosen(self, choice: C) -> C:
        """A choice between forms that follows from sizes: this one, or what was chosen for the program followed."""
        made, followed = self.choices.setdefault(self.source.op, []), self._followed.get(self.source.op, ())
        if len(made) < len(followed):
            choice = cast("C", followed[len(made)])
        made.append(choice)
        return choice

    def fresh(self, hint: str) -> str:
        """A name not used before, made from the hint (letters, digits, underscores)."""
        stem = _stem(hint)
        count = self._used.get(stem, 0)
        self._used[stem] = count + 1
        if count == 0 and not stem[-1].isdigit():
            return stem
        return self.fresh(f"{stem}_{count}_") if f"{stem}_{count}" in self._used else self._claim(f"{stem}_{count}")

    def _claim(self, name: str) -> str:
        self._used[name] = 1
        return name

    def statement(
        self,
        hint: str,
        dims: Sequence[tuple[str, int]],
        body: Expr,
        dtype: str,
        *,
        reduce: tuple[str, Sequence[tuple[str, int]]] | None = None,
        scan: Scan | None = None,
        guard: Sequence[Constraint] = (),
    ) -> Value:
        """Emit a statement; `reduce` is (kind, dims). Dimension names must be distinct."""
        reduction = None
        if reduce is not None:
            kind, over = reduce
            assert kind in REDUCTIONS, kind
            reduction = Reduction(kind=kind, dims=tuple(Dim(name=n, extent=e) for n, e in over))
        name = self.fresh(hint)
        node = Statement(
            name=name, dtype=dtype, dims=tuple(Dim(name=n, extent=e) for n, e in dims), body=body,
            reduction=reduction, scan=scan,
            guard=tuple(guard), source=self.source,
        )  # fmt: skip
        self.nodes.append(node)
        return Value(name, dtype, node.shape)

    def call(
        self,
        op: str,
        operands: Sequence[Value],
        results: Sequence[tuple[str, tuple[int, ...]]],
        hint: str = "",
        **attributes: Attribute,
    ) -> tuple[Value, ...]:
        """Emit a call of the catalogue; `results` are (dtype, shape)."""
        assert op in CALLS, op
        named = tuple(Result(name=self.fresh(hint or op), dtype=d, shape=tuple(s)) for d, s in results)
        self.nodes.append(
            Call(
                op=op,
                results=named,
                operands=tuple(v.name for v in operands),
                attributes=tuple(attributes.items()),
                source=self.source,
            )
        )
        return tuple(Value(r.name, r.dtype, r.shape) for r in named)
