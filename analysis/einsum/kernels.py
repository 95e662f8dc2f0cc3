"""Flatten a program: loops become extra leading dimensions, views disappear into the index expressions of their
readers.

After this pass every body reads *base* tensors (externals and results of kernels and calls), so that regions, counts
and redundancy are seen where memory is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sollens.analysis.ir.affine import Affine, Constraint, const, dim
from sollens.analysis.ir.nodes import (
    Apply,
    Branch,
    Call,
    Carried,
    Declaration,
    Dim,
    Expr,
    IndexValue,
    Literal,
    Loop,
    Node,
    Program,
    Read,
    Select,
    Source,
    Statement,
    walk,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseTensor:
    """A tensor that has memory of its own. Inside loops the shape starts with the loops' extents."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    declaration: Declaration | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """`name[dims] = base[index]`: no data of its own."""

    base: str
    dims: tuple[Dim, ...]
    index: tuple[Affine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A statement over base tensors; `dims` start with the enclosing loops' indices."""

    name: str
    dtype: str
    dims: tuple[Dim, ...]
    reduced: tuple[Dim, ...]
    reduction: str | None
    scan: tuple[str, str, bool] | None  # kind, dim, reverse
    guard: tuple[Constraint, ...]
    body: Expr
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A call; `operands` are views of base tensors over the operand's own axes."""

    call: Call
    results: tuple[str, ...]
    operands: tuple[View, ...]
    loops: tuple[Dim, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Carry:
    """`name[t]` is `FlatProgram.feeds[name]` at t - 1, and `initial` at t = 0; `loops` ends with t's loop."""

    name: str
    initial: View
    loops: tuple[Dim, ...]
    source: Source


Item: TypeAlias = "Kernel | Library | Carry"


@dataclass(slots=True)
class FlatProgram:
    """Items in program order; a carry stands before the body that feeds it. `groups` are [start, stop) item ranges of
    loops.
    """

    name: str
    items: list[Item] = field(default_factory=list[Item])
    tensors: dict[str, BaseTensor] = field(default_factory=dict[str, BaseTensor])
    views: dict[str, View] = field(default_factory=dict[str, View])
    outputs: list[View] = field(default_factory=list[View])
    groups: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    # What a carried tensor is replaced by, as a view over its own axes at the same iteration.
    feeds: dict[str, View] = field(default_factory=dict[str, View])
    unknown_trips: bool = False


def flatten(
    program: Program, nodes: tuple[Node, ...] | None = None, outputs: tuple[str, ...] | None = None
) -> FlatProgram:
    """The flat form of the program (or of its setup nodes, when given)."""
    flat = FlatProgram(program.name)
    builder = _Flattener(flat, _multi_statement_ops(program))
    for declaration in program.declarations:
        builder.define(declaration.name, declaration.dtype, declaration.shape, declaration)
    builder.run(program.nodes if nodes is None else nodes, ())
    for name in program.outputs if outputs is None else outputs:
        flat.outputs.append(builder.view(name))
    return flat


def _multi_statement_ops(program: Program) -> set[int]:
    seen: set[int] = set()
    repeated: set[int] = set()
    for node in walk(program.nodes):
        (repeated if node.source.op in seen else seen).add(node.source.op)
    repeated.discard(-1)
    return repeated


class _Flattener:
    def __init__(self, flat: FlatProgram, composite_ops: set[int]) -> None:
        self.flat = flat
        self.composite_ops = composite_ops
        # Loops a tensor was defined inside, by name.
        self.depth: dict[str, int] = {}

    def define(
        self, name: str, dtype: str, shape: tuple[int, ...], declaration: Declaration | None = None, depth: int = 0
    ) -> None:
        self.flat.tensors[name] = BaseTensor(name=name, dtype=dtype, shape=shape, declaration=declaration)
        self.depth[name] = depth

    def view(self, name: str, loops: Sequence[Dim] = ()) -> View:
        """The tensor as a function of its own axes (named $0, $1 ...), at the current iteration of the loops it is
        inside.
        """
        inside = tuple(dim(d.name) for d in loops[: self.depth[name]])
        if name in self.flat.views:
            known = self.flat.views[name]
            shape = tuple(d.extent for d in known.dims)[self.depth[name] :]
        else:
            known = None
            shape = self.flat.tensors[name].shape[self.depth[name] :]
        dims = tuple(Dim(name=f"${k}", extent=e) for k, e in enumerate(shape))
        index = (*inside, *(dim(d.name) for d in dims))
        if known is None:
            return View(base=name, dims=dims, index=index)
        extents = {d.name: d.extent for d in (*loops, *dims)}
        names = dict(zip((d.name for d in known.dims), index, strict=True))
        return View(base=known.base, dims=dims, index=tuple(i.substitute(names).simplify(extents) for i in known.index))

    def run(self, nodes: tuple[Node, ...], loops: tuple[Dim, ...]) -> None:
        for node in nodes:
            match node:
                case Statement():
                    self._statement(node, loops)
                case Call():
                    self._call(node, loops)
                case Loop():
                    self._loop(node, loops)
                case Branch():
                    self._branch(node, loops)

    def _statement(self, node: Statement, loops: tuple[Dim, ...]) -> None:
        dims = loops + node.dims
        reduced = node.reduction.dims if node.reduction else ()
        extents = {d.name: max(d.extent, 1) for d in (*dims, *reduced)}
        body = self._expr(node.body, loops, extents)
        plain = node.reduction is None and node.scan is None and not node.guard
        if (
            plain
            and isinstance(body, Read)
            and self.flat.tensors[body.tensor].dtype == node.dtype
            and (node.source.view or node.source.op in self.composite_ops)
        ):
            self.flat.views[node.name] = View(base=body.tensor, dims=dims, index=body.index)
            self.depth[node.name] = len(loops)
            return
        kernel = Kernel(
            name=node.name,
            dtype=node.dtype,
            dims=dims,
            reduced=reduced,
            reduction=node.reduction.kind if node.reduction else None,
            scan=(node.scan.kind, node.scan.dim, node.scan.reverse) if node.scan else None,
            guard=tuple(Constraint(c.expr.simplify(extents), c.equal) for c in node.guard),
            body=body,
            source=node.source,
        )
        self.flat.items.append(kernel)
        self.define(node.name, node.dtype, tuple(d.extent for d in dims), depth=len(loops))

    def _expr(self, expr: Expr, loops: tuple[Dim, ...], extents: Mapping[str, int]) -> Expr:
        match expr:
            case Read():
                index = (*(dim(d.name) for d in loops[: self.depth[expr.tensor]]), *expr.index)
                known = self.flat.views.get(expr.tensor)
                if known is None:
                    return Read(expr.tensor, tuple(i.simplify(extents) for i in index))
                names = dict(zip((d.name for d in known.dims), index, strict=True))
                return Read(known.base, tuple(i.substitute(names).simplify(extents) for i in known.index))
            case Apply():
                return replace(expr, args=tuple(self._expr(a, loops, extents) for a in expr.args))
            case Select():
                condition = tuple(Constraint(c.expr.simplify(extents), c.equal) for c in expr.condition)
                return Select(
                    condition, self._expr(expr.then, loops, extents), self._expr(expr.otherwise, loops, extents)
                )
            case IndexValue():
                return IndexValue(expr.expr.simplify(extents))
            case Literal():
                return expr

    def _call(self, node: Call, loops: tuple[Dim, ...]) -> None:
        prefix = tuple(d.extent for d in loops)
        operands = tuple(self.view(name, loops) for name in node.operands)
        for result in node.results:
            self.define(result.name, result.dtype, prefix + result.shape, depth=len(loops))
        self.flat.items.append(
            Library(
                call=node,
                results=tuple(r.name for r in node.results),
                operands=operands,
                loops=loops,
                source=node.source,
            )
        )

    def _loop(self, node: Loop, loops: tuple[Dim, ...]) -> None:
        self.flat.unknown_trips |= node.unknown_trips
        inner = (*loops, node.index)
        start = len(self.flat.items)
        prefix = tuple(d.extent for d in inner)
        pending: list[tuple[Carried, View]] = []
        for carried in node.carried:
            initial = self.view(carried.initial, loops)
            shape = tuple(d.extent for d in initial.dims)
            dtype = self.flat.tensors[initial.base].dtype
            self.define(carried.name, dtype, prefix + shape, depth=len(inner))
            pending.append((carried, initial))
            self.flat.items.append(Carry(name=carried.name, initial=initial, loops=inner, source=node.source))
        self.run(node.body, inner)
        for carried, _ in pending:
            self.flat.feeds[carried.name] = self.view(carried.next, inner)
        last = const(node.index.extent - 1)
        for carried, _ in pending:
            self._outside(carried.final, carried.next, loops, node.index, last)
        for collected in node.collected:
            self._outside(collected.name, collected.inner, loops, node.index, None)
        self.flat.groups.append((start, len(self.flat.items)))

    def _outside(self, name: str, inner: str, loops: tuple[Dim, ...], index: Dim, at: Affine | None) -> None:
        """Make `name` the inner tensor seen after the loop: of one iteration, or of all (leading axis)."""
        if self.depth[inner] <= len(loops):  # defined outside the loop: the same in every iteration
            outer = self.view(inner, loops)
            own = outer.dims if at is not None else (Dim(name=index.name, extent=index.extent), *outer.dims)
            self.flat.views[name] = View(base=outer.base, dims=(*loops, *own), index=outer.index)
            self.depth[name] = len(loops)
            return
        whole = self.view(inner, (*loops, index))
        if at is None:
            dims = (*loops, index, *whole.dims)
            self.flat.views[name] = View(base=whole.base, dims=dims, index=whole.index)
        else:
            fixed = tuple(i.substitute({index.name: at}) for i in whole.index)
            self.flat.views[name] = View(base=whole.base, dims=(*loops, *whole.dims), index=fixed)
        self.depth[name] = len(loops)

    def _branch(self, node: Branch, loops: tuple[Dim, ...]) -> None:
        """A branch counts as its cheaper side (by statement points, before demand)."""
        then_cost, otherwise_cost = (_static_points(side) for side in (node.then, node.otherwise))
        taken = node.then if then_cost <= otherwise_cost else node.otherwise
        self.run(taken, loops)
        for merged in node.results:
            inner = merged.then if taken is node.then else merged.otherwise
            view = self.view(inner, loops)
            self.flat.views[merged.name] = View(base=view.base, dims=(*loops, *view.dims), index=view.index)
            self.depth[merged.name] = len(loops)


def _static_points(nodes: tuple[Node, ...]) -> int:
    total = 0
    for node in nodes:
        match node:
            case Statement():
                points = 1
                for d in node.domain:
                    points *= d.extent
                total += points
            case Loop():
                total += node.index.extent * _static_points(node.body)
            case Branch():
                total += min(_static_points(node.then), _static_points(node.otherwise))
            case Call():
                pass
    return total
