"""Sums of products as matrix multiplication: `sum[k] a(b, m, k) * b(b, k, n)` of any affine reads goes through BLAS.

Each factor is brought into order by a kernel of its own (for a convolution that is im2col) unless it lies in order
in memory already. Guards go with the factor that has their dims: what they exclude becomes 0, which is the same as
long as the other factor is finite; that is looked at. Factors of one side are multiplied first, and f32 products
accumulate in f32, as torch does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from sollens.analysis.execute.compiled.flatten import substitute
from sollens.analysis.execute.compiled.scalars import kind_of
from sollens.analysis.ir.affine import Constraint, dim
from sollens.analysis.ir.nodes import Apply, Dim, Expr, IndexValue, Literal, Read, Select, Statement, reads

LEAST_POINTS = 1 << 20
"""Smaller sums of products are left to loops."""
LEAST_REUSE = 6
"""How often each element must be used for ordering the factors to pay."""
PACKED_BYTES = 1 << 26
"""A factor that is larger is made in pieces."""
CHUNK = "first of the chunk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One factor as statements whose result is ordered (batch, outer, own, summed), or (batch, outer, summed, own).

    `guarded`: its guard makes some elements 0. `chunked`: it has the dim along which the product is made in pieces.
    """

    own_first: Statement
    summed_first: Statement
    outer: int
    own: int
    guarded: bool
    chunked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Contraction:
    """A batched matrix product of `rows` (batch, 1, own, summed) and `columns` (batch, outer, own, summed).

    `order` names the result's dims as the product has them: batch, outer, rows, columns. It is made in `chunks` along
    the first of them: extents are of one chunk, which starts at the value of `CHUNK`.
    """

    rows: Side
    columns: Side
    dtype: str
    batch: int
    summed: int
    order: tuple[Dim, ...]
    chunks: int


def find(node: Statement, dtypes: Mapping[str, str]) -> Contraction | None:
    """The matrix product that a flattened statement is, if it is one with enough work."""
    if node.reduction is None or node.reduction.kind != "sum":
        return None
    points = prod(d.extent for d in node.domain)
    dtype = _common_dtype(node, dtypes)
    if points < LEAST_POINTS or dtype is None:
        return None
    loops = frozenset(d.name for d in node.domain)
    sides = _split([(f, _names(f) & loops) for f in _factors(node.body)])
    if sides is None:
        return None
    left, right = sides
    in_left, in_right = _names(left) & loops, _names(right) & loops
    over = frozenset(d.name for d in node.reduction.dims)
    if over - (in_left & in_right) or loops - in_left - in_right or not over:
        return None
    if (guards := _assigned(node.guard, in_left, in_right, loops)) is None:
        return None
    batch = [d for d in node.dims if d.name in in_left & in_right]
    alone = [d for d in node.dims if d.name not in in_left & in_right]
    parts = _arranged(alone, in_left)
    if parts is None:
        return None
    outer, rows, columns = parts
    b, m, n, k = (prod(d.extent for d in dims) for dims in (batch, rows, outer + columns, node.reduction.dims))
    if min(m, n) < min(4, LEAST_REUSE) or points < LEAST_REUSE * b * (m * k + k * n + m * n):
        return None
    order = (*batch, *outer, *rows, *columns)
    chunks = _pieces(b * max(m * k, k * n) * (8 if dtype == "f64" else 4), order[0].extent)
    cut = order[0].name if chunks > 1 else ""
    short = [d if d.name != cut else Dim(name=d.name, extent=d.extent // chunks) for d in order]

    def size(*dims: Dim) -> int:
        return prod(d.extent for d in short if d.name in {e.name for e in dims})

    def side(body: Expr, guard: tuple[Constraint, ...], above: list[Dim], own: list[Dim]) -> Side:
        def packed(*dims: Dim) -> Statement:
            statement = Statement(name=node.name, dtype=dtype, dims=dims, body=body, guard=guard)
            return _chunk(statement, cut, chunks) if cut in {d.name for d in dims} else statement

        assert node.reduction is not None
        first, over = (*batch, *above), node.reduction.dims
        return Side(
            own_first=packed(*first, *own, *over), summed_first=packed(*first, *over, *own),
            outer=size(*above), own=size(*own), guarded=bool(guard), chunked=cut in {d.name for d in (*first, *own)},
        )  # fmt: skip

    one, other = (left, guards[0]), (right, guards[1])
    if rows[0].name not in in_left:
        one, other = other, one
    return Contraction(
        rows=side(*one, [], rows), columns=side(*other, outer, columns), dtype=dtype, batch=size(*batch), summed=k,
        order=tuple(short), chunks=chunks,
    )  # fmt: skip


def _assigned(
    guard: tuple[Constraint, ...], left: frozenset[str], right: frozenset[str], loops: frozenset[str]
) -> tuple[tuple[Constraint, ...], tuple[Constraint, ...]] | None:
    """Each constraint to a factor that has its dims."""
    on_left = tuple(c for c in guard if c.expr.names & loops <= left)
    rest = tuple(c for c in guard if c not in on_left)
    return (on_left, rest) if all(c.expr.names & loops <= right for c in rest) else None


def _arranged(dims: list[Dim], left: frozenset[str]) -> tuple[list[Dim], list[Dim], list[Dim]] | None:
    """Outer, row and column dims in the result's order if that can be: `images, channels, places` of a convolution."""
    runs: list[list[Dim]] = []
    for d in dims:
        if runs and (runs[-1][0].name in left) == (d.name in left):
            runs[-1].append(d)
        else:
            runs.append([d])
    match runs:
        case [rows, columns]:
            return [], rows, columns
        case [outer, rows, columns]:
            return outer, rows, columns
        case [first, *_] if len(runs) > 3:
            of_first = first[0].name in left
            return (
                [],
                [d for d in dims if (d.name in left) == of_first],
                [d for d in dims if (d.name in left) != of_first],
            )
        case _:
            return None


def _pieces(size_bytes: int, extent: int) -> int:
    """Into how many equal pieces an extent is cut so that each takes few bytes."""
    wanted = min(-(-size_bytes // PACKED_BYTES), extent)
    return next(c for c in range(max(1, wanted), extent + 1) if extent % c == 0)


def _chunk(node: Statement, name: str, chunks: int) -> Statement:
    """A part of the statement along one dim, from an offset on that is known later."""
    dims = tuple(Dim(name=d.name, extent=d.extent // chunks if d.name == name else d.extent) for d in node.dims)
    moved = substitute(node, {name: dim(name) + dim(CHUNK)})
    return Statement(name=node.name, dtype=node.dtype, dims=dims, body=moved.body, guard=moved.guard)


def _common_dtype(node: Statement, dtypes: Mapping[str, str]) -> str | None:
    """The type of the product: f32 or f64 when everything read is of that kind or bool."""
    kinds = {kind_of(dtypes[r.tensor]) for r in reads(node.body)} | {kind_of(c) for c in _casts(node.body)}
    kinds.discard("b")
    if len(kinds) != 1 or kind_of(node.dtype) not in "fd":
        return None
    return {"f": "f32", "d": "f64"}.get(kinds.pop())


def _casts(body: Expr) -> Iterator[str]:
    match body:
        case Apply():
            if body.op == "cast":
                yield body.dtype
            for a in body.args:
                yield from _casts(a)
        case Select():
            yield from _casts(body.then)
            yield from _casts(body.otherwise)
        case _:
            pass


def _factors(body: Expr) -> list[Expr]:
    """The body as a product; a divisor is a factor as its reciprocal."""
    if isinstance(body, Apply) and body.op == "mul":
        return _factors(body.args[0]) + _factors(body.args[1])
    if isinstance(body, Apply) and body.op == "div":
        return [*_factors(body.args[0]), Apply("div", (Literal(1.0), body.args[1]))]
    return [body]


def _names(body: Expr) -> frozenset[str]:
    match body:
        case Read():
            return frozenset[str]().union(*(i.names for i in body.index))
        case IndexValue():
            return body.expr.names
        case Apply():
            return frozenset[str]().union(*map(_names, body.args))
        case Select():
            condition = frozenset[str]().union(*(c.expr.names for c in body.condition))
            return condition | _names(body.then) | _names(body.otherwise)
        case Literal():
            return frozenset()


def _split(factors: list[tuple[Expr, frozenset[str]]]) -> tuple[Expr, Expr] | None:
    """Two products with different dims; a further factor joins the one that has its dims."""
    factors = sorted(factors, key=lambda f: -len(f[1]))
    if len(factors) < 2:
        return None
    left, right = [factors[0]], None
    for position, factor in enumerate(factors[1:], 1):
        if not factor[1] <= left[0][1]:
            right = [factor]
            del factors[position]
            break
    if right is None:
        return None
    for factor in factors[1:]:
        if factor[1] <= left[0][1]:
            left.append(factor)
        elif factor[1] <= right[0][1]:
            right.append(factor)
        else:
            return None
    return _product([f for f, _ in left]), _product([f for f, _ in right])


def _product(factors: list[Expr]) -> Expr:
    """The factors multiplied; a reciprocal divides, so that `a / b` stays what it was."""
    result = factors[0]
    for factor in factors[1:]:
        reciprocal = isinstance(factor, Apply) and factor.op == "div" and factor.args[0] == Literal(1.0)
        if reciprocal and isinstance(factor, Apply):
            result = Apply("div", (result, factor.args[1]))
        else:
            result = Apply("mul", (result, factor))
    return result
