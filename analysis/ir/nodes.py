"""The Affine Loop IR: what a program computes, as data.

    program     = declarations, setup nodes, nodes, outputs
    node        = Statement | Call | Loop | Branch
    Statement   = name[dims]: dtype = [reduction | scan] body [if guard]
    body        = Read | Literal | IndexValue | Apply | Select

A *Statement* is a perfect loop nest over named dimensions with static extents: every point of `dims` evaluates `body`,
and `reduction` folds the points of its own dims into one value. Points that fail `guard` contribute the identity of the
reduction or scan; in a plain statement they are 0 (False). A *Call* moves data in a way that is not affine, or is a
library call.

Names are unique in a program (single assignment). Dimension names are local to their statement; a loop's index may be
used in its body's indices. Sums of floating point accumulate in at least float32. Text form and semantics: docs/ir.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import nan
from typing import TypeAlias

from sollens.analysis.ir.affine import Affine, Constraint

# Reductions and their scans. argmax and argmin give the first position along their single dim, as i64.
REDUCTIONS = ("sum", "prod", "max", "min", "argmax", "argmin", "any", "all")
SCANS = ("sum", "prod", "max", "min", "argmax", "argmin", "logsumexp")

ROLES = ("input", "parameter", "buffer", "constant")

Attribute: TypeAlias = "int | float | bool | str | tuple[Attribute, ...] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a node comes from. Nodes of one source-level operator share `op` (its position in the trace).

    Lines are 1-based, columns 0-based UTF-8 bytes; line 0 means unknown. `operator` is "aten.softmax.int" or the like.
    `view`: the operator moves no data in eager execution. `module` is the dotted path of the innermost module.
    """

    op: int = -1
    operator: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    module: str = ""
    view: bool = False


NO_SOURCE = Source()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dim:
    """A loop dimension: 0 <= name < extent."""

    name: str
    extent: int


# --- scalar bodies ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Read:
    """One element of a tensor; one affine index per axis, in bounds wherever the guard (and enclosing Selects) hold."""

    tensor: str
    index: tuple[Affine, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. Every nan is the same object, so that equal programs compare equal."""

    value: float | int | bool | complex

    def __post_init__(self) -> None:
        if self.value != self.value and isinstance(self.value, float):
            object.__setattr__(self, "value", nan)


@dataclass(frozen=True, slots=True)
class IndexValue:
    """The value of an affine expression of the dimensions, as an i64 number (iota)."""

    expr: Affine


@dataclass(frozen=True, slots=True)
class Apply:
    """A scalar operation of the catalogue in `ir/scalars.py`; `dtype` is the target of `cast`, else ""."""

    op: str
    args: tuple[Expr, ...]
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Select:
    """`then` where every constraint holds, else `otherwise`; the side not taken is not evaluated."""

    condition: tuple[Constraint, ...]
    then: Expr
    otherwise: Expr


Expr: TypeAlias = Read | Literal | IndexValue | Apply | Select


def reads(expr: Expr) -> Iterator[Read]:
    """Every Read of a body, left to right."""
    match expr:
        case Read():
            yield expr
        case Apply():
            for arg in expr.args:
                yield from reads(arg)
        case Select():
            yield from reads(expr.then)
            yield from reads(expr.otherwise)
        case Literal() | IndexValue():
            return


# --- nodes ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """Fold over `dims` with `kind`."""

    kind: str
    dims: tuple[Dim, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Inclusive prefix fold along `dim`, one of the statement's own dims (from the far end when `reverse`)."""

    kind: str
    dim: str
    reverse: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One affine kernel. Its shape is the extents of `dims`, in order."""

    name: str
    dtype: str
    dims: tuple[Dim, ...]
    body: Expr
    reduction: Reduction | None = None
    scan: Scan | None = None
    guard: tuple[Constraint, ...] = ()
    source: Source = NO_SOURCE

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the result."""
        return tuple(d.extent for d in self.dims)

    @property
    def domain(self) -> tuple[Dim, ...]:
        """Own dims, then the reduction's."""
        return self.dims + (self.reduction.dims if self.reduction else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A tensor that a Call defines."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A non-affine movement or a library call; `op` is in the catalogue of `ir/calls.py`, "opaque" when unknown."""

    op: str
    results: tuple[Result, ...]
    operands: tuple[str, ...]
    attributes: tuple[tuple[str, Attribute], ...] = ()
    source: Source = NO_SOURCE

    def attribute(self, name: str, default: Attribute = None) -> Attribute:
        """The value of an attribute."""
        return next((v for k, v in self.attributes if k == name), default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """A value carried from one iteration to the next.

    `name` is the value at the start of an iteration (visible in the body), `initial` the tensor outside that starts it,
    `next` the body's tensor that replaces it, `final` the name of the last value, visible after the loop.
    """

    name: str
    initial: str
    next: str
    final: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """`name[t, ...] = inner[...]` of iteration t: the stack over all iterations, visible after the loop."""

    name: str
    inner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """`extent` iterations in order of `index`; carried tensors have the same shape and dtype in every iteration.

    `unknown_trips`: the trip count depends on data; `extent` is 1 and every count is partial.
    """

    index: Dim
    carried: tuple[Carried, ...]
    body: tuple[Node, ...]
    collected: tuple[Collected, ...] = ()
    unknown_trips: bool = False
    source: Source = NO_SOURCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A branch's result: `name` is `then` or `otherwise`."""

    name: str
    then: str
    otherwise: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Runs `then` when the one-element tensor `condition` is true, else `otherwise`."""

    condition: str
    then: tuple[Node, ...]
    otherwise: tuple[Node, ...]
    results: tuple[Merged, ...]
    source: Source = NO_SOURCE


Node: TypeAlias = Statement | Call | Loop | Branch


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """An external tensor.

    `label` is its name in the source ("fc.weight"). `defined_by` names a setup tensor of the same shape that holds its
    value, when the value is known (a causal mask made in `__init__`); reading it is traffic all the same.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: str
    label: str = ""
    defined_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A whole program. `setup` nodes only define known values of declarations: no work, no traffic.

    `symbols` are the header's bindings, kept for printing; extents in nodes are already numbers.
    """

    name: str
    declarations: tuple[Declaration, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    setup: tuple[Node, ...] = ()
    symbols: tuple[tuple[str, int], ...] = ()


def walk(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """Every node, also inside loops and branches, in order."""
    for node in nodes:
        yield node
        match node:
            case Loop():
                yield from walk(node.body)
            case Branch():
                yield from walk(node.then)
                yield from walk(node.otherwise)
            case Statement() | Call():
                pass


def defined(node: Node) -> tuple[str, ...]:
    """Names visible after the node that it defines."""
    match node:
        case Statement():
            return (node.name,)
        case Call():
            return tuple(r.name for r in node.results)
        case Loop():
            return tuple(c.final for c in node.carried) + tuple(c.name for c in node.collected)
        case Branch():
            return tuple(m.name for m in node.results)
