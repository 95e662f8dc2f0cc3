"""A statement rewritten over flat memory, so that statements of one structure look alike whatever their sizes.

Every read gets one index: the offset of its element in the contiguous tensor. Equations in the guard are solved for
a reduction dimension, dims are split where they are divided, dims of extent 1 go, and neighbours that all indices
walk as one are merged: an element-wise operation on a contiguous tensor of any rank becomes one loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod

from sollens.analysis.ir.affine import Affine, Constraint, FloorDiv, Mod, dim
from sollens.analysis.ir.nodes import Apply, Dim, Expr, IndexValue, Literal, Read, Reduction, Select, Statement

Shapes = Mapping[str, tuple[int, ...]]


def flatten(node: Statement, shapes: Shapes, trips: Mapping[str, int]) -> Statement:
    """The same values in row-major order; reads have one flat index. `trips` are the extents of enclosing loops.

    The domain must have points, and every read must be inside its tensor (`in_bounds.proves`).
    """
    node = _simplified(node, trips)
    node = _split(_solve_equations(node), trips)
    extents = {**trips, **_extents(node)}

    def flat(read: Read) -> Read:
        return Read(read.tensor, (offset(read.index, shapes[read.tensor]).simplify(extents),))

    node = replace(node, body=_map_reads(node.body, flat))
    return _merge(_drop_units(node))


def offset(index: tuple[Affine, ...], shape: tuple[int, ...]) -> Affine:
    """The position of an element in row-major order; `d * (e // d) + e % d` becomes `e`."""
    total = Affine()
    for axis, expr in enumerate(index):
        total = total + expr * prod(shape[axis + 1 :])
    for atom, coefficient in total.terms:
        if isinstance(atom, Mod):
            whole = (atom.operand - atom.operand // atom.divisor * atom.divisor) * coefficient
            changed = total - Affine(0, ((atom, coefficient),)) + whole
            if _divisions(changed) < _divisions(total):
                total = changed
    return total


def expressions(node: Statement) -> Iterator[Affine]:
    """Every affine expression of a statement."""
    for c in node.guard:
        yield c.expr
    yield from _body_expressions(node.body)


def holds_linearly(expr: Affine, name: str) -> int:
    """The coefficient of a name that occurs only as a plain term; 0 when it is absent or inside a division."""
    if any(not isinstance(a, str) and name in a.operand.names for a, _ in expr.terms):
        return 0
    return next((c for a, c in expr.terms if a == name), 0)


def _extents(node: Statement) -> dict[str, int]:
    return {d.name: d.extent for d in node.domain}


def _divisions(expr: Affine) -> int:
    return sum(1 for a, _ in expr.terms if not isinstance(a, str))


def _body_expressions(body: Expr) -> Iterator[Affine]:
    match body:
        case Read():
            yield from body.index
        case IndexValue():
            yield body.expr
        case Apply():
            for arg in body.args:
                yield from _body_expressions(arg)
        case Select():
            for c in body.condition:
                yield c.expr
            yield from _body_expressions(body.then)
            yield from _body_expressions(body.otherwise)
        case Literal():
            pass


def _map_reads(body: Expr, change: Callable[[Read], Read]) -> Expr:
    match body:
        case Read():
            return change(body)
        case Apply():
            return Apply(body.op, tuple(_map_reads(a, change) for a in body.args), body.dtype)
        case Select():
            return Select(body.condition, _map_reads(body.then, change), _map_reads(body.otherwise, change))
        case Literal() | IndexValue():
            return body


def _map_body(body: Expr, change: Callable[[Affine], Affine]) -> Expr:
    """The body with every affine expression changed."""
    match body:
        case Read():
            return Read(body.tensor, tuple(change(i) for i in body.index))
        case IndexValue():
            return IndexValue(change(body.expr))
        case Apply():
            return Apply(body.op, tuple(_map_body(a, change) for a in body.args), body.dtype)
        case Select():
            condition = tuple(Constraint(change(c.expr), c.equal) for c in body.condition)
            return Select(condition, _map_body(body.then, change), _map_body(body.otherwise, change))
        case Literal():
            return body


def _map(node: Statement, change: Callable[[Affine], Affine]) -> Statement:
    guard = tuple(Constraint(change(c.expr), c.equal) for c in node.guard)
    return replace(node, body=_map_body(node.body, change), guard=guard)


def substitute(node: Statement, values: Mapping[str, Affine]) -> Statement:
    """The statement with names replaced by expressions, also where they are its dims."""
    return _map(node, lambda e: e if e.names.isdisjoint(values) else e.substitute(values))


def _solve_equations(node: Statement) -> Statement:
    """Without the reduction dims that an equation of the guard fixes: `o == s*i + k` needs no loop over `i`."""
    while node.reduction is not None and not node.reduction.kind.startswith("arg"):
        found = _solvable(node)
        if found is None:
            break
        equation, solved, factor = found
        rest = (equation.expr - dim(solved.name) * factor) * (-1 if factor > 0 else 1)
        kept = tuple(c for c in node.guard if c is not equation)
        over = tuple(d for d in node.reduction.dims if d.name != solved.name)
        inside = (Constraint(rest), Constraint(abs(factor) * solved.extent - 1 - rest))
        whole = (Constraint(rest % abs(factor), equal=True),) if abs(factor) > 1 else ()
        node = replace(node, guard=kept, reduction=replace(node.reduction, dims=over))
        node = _map(node, _without(solved.name, equation.expr, factor))
        node = replace(node, guard=(*node.guard, *whole, *inside))
        node = substitute(node, {solved.name: rest // abs(factor)})
    return node


def _simplified(node: Statement, trips: Mapping[str, int]) -> Statement:
    extents = {**trips, **_extents(node)}
    return _map(node, lambda e: e.simplify(extents))


def _split(node: Statement, trips: Mapping[str, int]) -> Statement:
    """Dims that occur as `d // n` and `d % n`, n a divisor of the extent, become two: the groups of a convolution."""
    node = _simplified(node, trips)
    pinned = _pinned(node)
    for _ in range(8):
        divisors = [
            (atom.divisor, d)
            for e in expressions(node)
            for atom, _ in e.terms
            if not isinstance(atom, str)
            for d in node.domain
            if atom.operand.single_name == d.name != pinned and d.extent % atom.divisor == 0
        ]
        if not divisors:
            break
        size, split = max(divisors, key=lambda found: found[0])
        high = Dim(name=f"{split.name} over {size}", extent=split.extent // size)
        low = Dim(name=split.name, extent=size)

        def parts(dims: tuple[Dim, ...], gone: Dim = split, pair: tuple[Dim, ...] = (high, low)) -> tuple[Dim, ...]:
            return tuple(part for d in dims for part in (pair if d == gone else (d,)))

        node = substitute(node, {split.name: dim(high.name) * size + dim(low.name)})
        node = _simplified(_with_dims(node, parts(node.dims), parts(_inner(node))), trips)
    return node


def _without(name: str, zero: Affine, factor: int) -> Callable[[Affine], Affine]:
    """Takes multiples of an expression that is 0 away, where that removes the name."""

    def change(expr: Affine) -> Affine:
        own = holds_linearly(expr, name)
        return expr - zero * (own // factor) if own and own % factor == 0 else expr

    return change


def windows(node: Statement) -> list[tuple[Constraint, Dim, int, int]]:
    """Reduction dims `d` that the guard confines to `0 <= f*d + rest <= width` for each point of the others.

    As (the first inequality, d, f, width), one a dim and inequality, where that is fewer positions than the dim has.
    """
    found: list[tuple[Constraint, Dim, int, int]] = []
    taken: set[str] = set()
    for position, low in enumerate(node.guard):
        for high in node.guard[position + 1 :]:
            total = low.expr + high.expr
            if low.equal or high.equal or not total.is_constant:
                continue
            for d in _inner(node):
                factor = holds_linearly(low.expr, d.name)
                alone = len(low.expr.terms) == 1
                if factor and not alone and d.name not in taken and total.constant // abs(factor) + 1 < d.extent:
                    taken.add(d.name)
                    found.append((low, d, factor, total.constant))
                    break
    return found


def effective_points(node: Statement) -> int:
    """About how many points of the domain are evaluated: equations are solved, windows are walked."""
    over = {d.name: d.extent for d in _inner(node)}
    if node.reduction is not None and not node.reduction.kind.startswith("arg"):
        for c in node.guard:
            candidates = [n for n in over if over[n] > 1 and c.equal and holds_linearly(c.expr, n)]
            if candidates:
                over[max(candidates, key=lambda n: over[n])] = 1
    for _, d, factor, width in windows(node):
        over[d.name] = min(over[d.name], max(0, width) // abs(factor) + 1)
    return prod(node.shape) * prod(over.values())


def over_windows(node: Statement) -> Statement:
    """The same sum over positions in each window instead of positions in the tensor that the window slides over."""
    for low, d, _, width in windows(node):
        assert node.reduction is not None
        name = f"{d.name} in window"
        equation = Constraint(low.expr - dim(name), equal=True)
        over = (*node.reduction.dims, Dim(name=name, extent=width + 1))
        node = replace(node, guard=(equation, *node.guard), reduction=replace(node.reduction, dims=over))
        extra = (Constraint(dim(name)),)
        node = replace(node, guard=node.guard + extra)
    return node


def _solvable(node: Statement) -> tuple[Constraint, Dim, int] | None:
    assert node.reduction is not None
    found = [
        (c, d, factor)
        for c in node.guard
        if c.equal
        for d in node.reduction.dims
        if (factor := holds_linearly(c.expr, d.name))
    ]
    return max(found, key=lambda f: f[1].extent) if found else None


def _pinned(node: Statement) -> str | None:
    """The dimension whose position matters to a fold, which is neither dropped nor merged."""
    if node.scan is not None:
        return node.scan.dim
    if node.reduction is not None and node.reduction.kind.startswith("arg"):
        return node.reduction.dims[0].name
    return None


def _with_dims(node: Statement, own: tuple[Dim, ...], inner: tuple[Dim, ...]) -> Statement:
    reduction = Reduction(kind=node.reduction.kind, dims=inner) if node.reduction else None
    return replace(node, dims=own, reduction=reduction)


def _inner(node: Statement) -> tuple[Dim, ...]:
    return node.reduction.dims if node.reduction else ()


def _drop_units(node: Statement) -> Statement:
    pinned = _pinned(node)
    gone = {d.name: Affine() for d in node.domain if d.extent == 1 and d.name != pinned}
    if not gone:
        return node
    own = tuple(d for d in node.dims if d.name not in gone)
    inner = tuple(d for d in _inner(node) if d.name not in gone)
    return substitute(_with_dims(node, own, inner), gone)


def _merge(node: Statement) -> Statement:
    pinned = _pinned(node)
    own, into_own = _merge_neighbours(node.dims, node, pinned)
    node = substitute(_with_dims(node, own, _inner(node)), into_own) if into_own else node
    inner, into_inner = _merge_neighbours(_inner(node), node, pinned)
    return substitute(_with_dims(node, node.dims, inner), into_inner) if into_inner else node


def _merge_neighbours(
    dims: tuple[Dim, ...], node: Statement, pinned: str | None
) -> tuple[tuple[Dim, ...], dict[str, Affine]]:
    """Fewer dims, the last of each merged group standing for all; the names that went, to be replaced by 0."""
    kept: list[Dim] = []
    gone: dict[str, Affine] = {}
    used: list[Affine] = list(dict.fromkeys(expressions(node))) if len(dims) > 1 else []
    for d in dims:
        if kept and pinned not in (kept[-1].name, d.name) and all(_as_one(e, kept[-1].name, d) for e in used):
            outer = kept.pop()
            gone[outer.name] = Affine()
            kept.append(Dim(name=d.name, extent=outer.extent * d.extent))
            used = [e.substitute({outer.name: Affine()}) for e in used]
        else:
            kept.append(d)
    return tuple(kept), gone


def _as_one(expr: Affine, outer: str, inner: Dim) -> bool:
    """Whether the two dims occur only as `extent * outer + inner`."""
    factors = {outer: 0, inner.name: 0}
    for atom, coefficient in expr.terms:
        match atom:
            case str():
                if atom in factors:
                    factors[atom] = coefficient
            case FloorDiv() | Mod():
                if not _as_one(atom.operand, outer, inner):
                    return False
    return factors[outer] == inner.extent * factors[inner.name]
