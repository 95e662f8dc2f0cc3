"""Mistakes in a statement around its body: guard, fold, dims, dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from mutations.places import Change, Scope, contained, parts, statements, substituted
from sollens.analysis.ir.affine import Affine, Constraint, at_least, dim, less
from sollens.analysis.ir.nodes import Apply, Dim, Expr, Literal, Read, Reduction, Select, Statement, reads

_KINDS: Mapping[str, tuple[str, ...]] = {
    "sum": ("max", "prod"), "prod": ("sum", "max"), "max": ("min", "sum"), "min": ("max", "sum"), "argmax": ("argmin",),
    "argmin": ("argmax",), "any": ("all",), "all": ("any",), "logsumexp": ("sum", "max"),
}  # fmt: skip
_NARROWER: Mapping[str, tuple[str, ...]] = {
    "f64": ("f32", "f16"), "f32": ("bf16", "f16"), "f16": ("f8e4m3",), "bf16": ("f8e5m2",), "c128": ("c64",),
    "i64": ("i8",),
}  # fmt: skip


def guard_off_by_one(node: Statement, scope: Scope) -> Iterator[Statement]:
    for k, constraint in enumerate(node.guard):
        for by in (1, -1):
            moved = Constraint(constraint.expr + by, constraint.equal)
            yield contained(replace(node, guard=(*node.guard[:k], moved, *node.guard[k + 1 :])), scope)


def guard_dropped(node: Statement, scope: Scope) -> Iterator[Statement]:
    for k in range(len(node.guard)):
        yield contained(replace(node, guard=(*node.guard[:k], *node.guard[k + 1 :])), scope)


def guard_turned(node: Statement, scope: Scope) -> Iterator[Statement]:
    for k, constraint in enumerate(node.guard):
        if not constraint.equal:
            turned = Constraint(-constraint.expr - 1)
            yield contained(replace(node, guard=(*node.guard[:k], turned, *node.guard[k + 1 :])), scope)


def edge_left_out(node: Statement, scope: Scope) -> Iterator[Statement]:
    for d in node.dims:
        yield from _narrowed(node, d)


def first_point_left_out(node: Statement, scope: Scope) -> Iterator[Statement]:
    for d in node.reduction.dims if node.reduction else ():
        yield from _narrowed(node, d)


def _narrowed(node: Statement, d: Dim) -> Iterator[Statement]:
    if d.extent > 1:
        for constraint in (at_least(dim(d.name), 1), less(dim(d.name), d.extent - 1)):
            yield replace(node, guard=(*node.guard, constraint))


def dropped(node: Statement, scope: Scope) -> Iterator[Statement]:
    """The statement becomes a copy of one of its operands."""
    for read in reads(node.body):
        if scope.types[read.tensor].shape == node.shape:
            index = tuple(dim(d.name) for d in node.dims)
            yield replace(node, body=Read(read.tensor, index), reduction=None, scan=None, guard=())


def operand_only(node: Statement, scope: Scope) -> Iterator[Statement]:
    """Of the body only one read is left."""
    if isinstance(node.body, Read):
        return
    for read in reads(node.body):
        yield contained(replace(node, body=read), scope)


def dims_swapped(node: Statement, scope: Scope) -> Iterator[Statement]:
    """The result is transposed."""
    for a in range(len(node.dims)):
        for b in range(a):
            one, other = node.dims[a], node.dims[b]
            if one.extent == other.extent > 1:
                yield substituted(node, {one.name: dim(other.name), other.name: dim(one.name)})


def result_shifted(node: Statement, scope: Scope) -> Iterator[Statement]:
    """Every element is written one further along an axis."""
    for d in node.dims:
        if d.extent > 1:
            yield contained(substituted(node, {d.name: (dim(d.name) + 1) % d.extent}), scope)


def reduction_replaced(node: Statement, scope: Scope) -> Iterator[Statement]:
    if node.reduction:
        for kind in _KINDS[node.reduction.kind]:
            yield replace(node, reduction=replace(node.reduction, kind=kind))


def reduction_shortened(node: Statement, scope: Scope) -> Iterator[Statement]:
    dims = node.reduction.dims if node.reduction else ()
    for k, d in enumerate(dims):
        if d.extent > 1:
            shorter = (*dims[:k], replace(d, extent=d.extent - 1), *dims[k + 1 :])
            yield replace(node, reduction=replace(node.reduction, dims=shorter))


def reduction_dropped(node: Statement, scope: Scope) -> Iterator[Statement]:
    """One dim is no longer folded: only its first point counts."""
    reduction = node.reduction
    for d in reduction.dims if reduction else ():
        if d.extent > 1 and reduction:
            rest = tuple(other for other in reduction.dims if other is not d)
            folded = Reduction(kind=reduction.kind, dims=rest) if rest else None
            if folded is not None or not reduction.kind.startswith("arg"):
                yield contained(replace(substituted(node, {d.name: Affine()}), reduction=folded), scope)


def scan_reversed(node: Statement, scope: Scope) -> Iterator[Statement]:
    if node.scan:
        yield replace(node, scan=replace(node.scan, reverse=not node.scan.reverse))


def scan_replaced(node: Statement, scope: Scope) -> Iterator[Statement]:
    if node.scan:
        for kind in _KINDS[node.scan.kind]:
            yield replace(node, scan=replace(node.scan, kind=kind))


def scan_exclusive(node: Statement, scope: Scope) -> Iterator[Statement]:
    if node.scan:
        name, extent = node.scan.dim, next(d.extent for d in node.dims if d.name == node.scan.dim)
        by, edge = (1, less(dim(name), extent - 1)) if node.scan.reverse else (-1, at_least(dim(name), 1))
        moved = substituted(node, {name: dim(name) + by})
        yield contained(replace(moved, guard=(*moved.guard, edge)), scope)


def scan_dropped(node: Statement, scope: Scope) -> Iterator[Statement]:
    if node.scan and not node.scan.kind.startswith("arg"):
        yield replace(node, scan=None)


def dtype_narrowed(node: Statement, scope: Scope) -> Iterator[Statement]:
    if not (node.reduction and node.reduction.kind.startswith("arg")):
        for dtype in _NARROWER.get(node.dtype, ()):
            yield replace(node, dtype=dtype)


def select_swapped(node: Statement, scope: Scope) -> Iterator[Statement]:
    yield from _selects(node, scope, lambda s: iter([replace(s, then=s.otherwise, otherwise=s.then)]))


def select_off_by_one(node: Statement, scope: Scope) -> Iterator[Statement]:
    def moved(select: Select) -> Iterator[Expr]:
        for k, c in enumerate(select.condition):
            for by in (1, -1):
                new = Constraint(c.expr + by, c.equal)
                yield replace(select, condition=(*select.condition[:k], new, *select.condition[k + 1 :]))

    yield from _selects(node, scope, moved)


def select_dropped(node: Statement, scope: Scope) -> Iterator[Statement]:
    yield from _selects(node, scope, lambda s: iter([s.then, s.otherwise]))


def _selects(node: Statement, scope: Scope, variants: Callable[[Select], Iterator[Expr]]) -> Iterator[Statement]:
    def part(expr: Expr) -> Iterator[Expr]:
        if isinstance(expr, Select):
            yield from variants(expr)

    for body in parts(node.body, part):
        yield contained(replace(node, body=body), scope)


def zeroed(node: Statement, scope: Scope) -> Iterator[Statement]:
    """The statement gives zeros."""
    if not isinstance(node.body, Literal):
        yield replace(node, body=Literal(0), reduction=None, scan=None)


def doubled(node: Statement, scope: Scope) -> Iterator[Statement]:
    """Every term counts twice."""
    if node.dtype not in ("bool", "i64") and not (node.reduction and node.reduction.kind in ("argmax", "argmin")):
        yield replace(node, body=Apply("add", (node.body, node.body)))


STATEMENT: Mapping[str, Change] = {
    "guard off by one": statements(guard_off_by_one),
    "guard dropped": statements(guard_dropped),
    "guard turned round": statements(guard_turned),
    "edge of the result left out": statements(edge_left_out),
    "edge of the reduction left out": statements(first_point_left_out),
    "statement dropped": statements(dropped),
    "one operand only": statements(operand_only),
    "statement zeroed": statements(zeroed),
    "statement doubled": statements(doubled),
    "result transposed": statements(dims_swapped),
    "result shifted": statements(result_shifted),
    "reduction replaced": statements(reduction_replaced),
    "reduction shortened": statements(reduction_shortened),
    "reduction dropped": statements(reduction_dropped),
    "scan reversed": statements(scan_reversed),
    "scan replaced": statements(scan_replaced),
    "scan made exclusive": statements(scan_exclusive),
    "scan dropped": statements(scan_dropped),
    "dtype narrowed": statements(dtype_narrowed),
    "select branches swapped": statements(select_swapped),
    "select boundary off by one": statements(select_off_by_one),
    "select dropped": statements(select_dropped),
}
