"""Hypothesis strategies for affine expressions and for small programs that verify and run."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, prod

from hypothesis import strategies as st

from sollens.analysis.ir.affine import Affine, Constraint, FloorDiv, dim, within
from sollens.analysis.ir.nodes import (
    Apply,
    Branch,
    Call,
    Carried,
    Collected,
    Declaration,
    Dim,
    Expr,
    IndexValue,
    Literal,
    Loop,
    Merged,
    Node,
    Program,
    Read,
    Reduction,
    Result,
    Scan,
    Select,
    Source,
    Statement,
)
from sollens.analysis.ir.tensors import TensorType

NAMES = ("i", "j", "k")


def affines(names: tuple[str, ...] = NAMES) -> st.SearchStrategy[Affine]:
    """Expressions over the names, built only by the operators, with divisions and remainders."""
    leaves = st.integers(-6, 6).map(Affine) | st.sampled_from(names).map(dim)
    divisors = st.sampled_from((1, 2, 3, 4, 6, 8))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
            st.tuples(inner, inner).map(lambda p: p[0] - p[1]),
            st.tuples(inner, st.integers(-4, 4)).map(lambda p: p[0] * p[1]),
            st.tuples(inner, divisors).map(lambda p: p[0] // p[1]),
            st.tuples(inner, divisors).map(lambda p: p[0] % p[1]),
        ),
        max_leaves=8,
    )


def constraints(names: tuple[str, ...] = NAMES) -> st.SearchStrategy[Constraint]:
    """Inequalities and equations."""
    return st.builds(Constraint, affines(names), st.booleans())


sources = st.builds(
    Source,
    op=st.integers(-1, 99),
    operator=st.sampled_from(("", "aten.softmax.int", "fn.linear", "op", "odd name\n", "view")),
    file=st.sampled_from(("", "a.py", 'dir/ü "q".py')),
    line=st.integers(0, 50),
    column=st.integers(0, 50),
    end_line=st.integers(0, 50),
    end_column=st.integers(0, 50),
    module=st.sampled_from(("", "layers.0", "a.b")),
    view=st.booleans(),
)

_DTYPES = ("f32", "f32", "f32", "f64", "i64", "i32", "bool", "bf16", "f16", "u8", "f8e4m3")
_UNARY = ("neg", "abs", "exp", "tanh", "sigmoid", "floor", "not", "isnan", "sqrt", "erf")
_BINARY = (
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "lt",
    "ge",
    "eq",
    "and",
    "or",
    "pow",
    "atan2",
    "fmod",
    "mod",
)
literals = st.one_of(
    st.floats(allow_nan=False, width=32), st.integers(-9, 9), st.booleans(), st.sampled_from((inf, -inf, -0.0, 1e30))
).map(Literal)


@dataclass
class _Scope:
    """What a program under construction may use."""

    tensors: dict[str, TensorType] = field(default_factory=dict)
    trips: dict[str, int] = field(default_factory=dict)
    count: list[int] = field(default_factory=lambda: [0])

    def fresh(self, stem: str = "t") -> str:
        self.count[0] += 1
        return f"{stem}{self.count[0]}"

    def inner(self) -> _Scope:
        return _Scope(dict(self.tensors), dict(self.trips), self.count)


@st.composite
def _index(draw: st.DrawFn, extent: int, extents: dict[str, int]) -> Affine:
    """An index that is inside 0..extent-1 on the whole box."""
    options: list[Affine] = [Affine(0), Affine(extent - 1)]
    for name, size in extents.items():
        options.append(dim(name) % extent)
        if size <= extent:
            options += [dim(name), Affine(size - 1) - dim(name)]
        if (size - 1) // 2 < extent:
            options.append(dim(name) // 2)
    return draw(st.sampled_from(options))


@st.composite
def _read(draw: st.DrawFn, scope: _Scope, extents: dict[str, int]) -> Expr:
    usable = [n for n, t in scope.tensors.items() if all(t.shape)]
    if not usable:
        return draw(literals)
    name = draw(st.sampled_from(usable))
    shape = scope.tensors[name].shape
    if shape and extents and draw(st.integers(0, 3)) == 0:  # a shifted read, kept inside by a Select
        first = draw(st.sampled_from(sorted(extents)))
        shifted = dim(first) + draw(st.integers(-2, 2))
        rest = tuple(draw(_index(e, extents)) for e in shape[1:])
        return Select(within(shifted, shape[0]), Read(name, (shifted, *rest)), draw(literals))
    return Read(name, tuple(draw(_index(e, extents)) for e in shape))


@st.composite
def _body(draw: st.DrawFn, scope: _Scope, extents: dict[str, int], depth: int = 0) -> Expr:
    kind = draw(st.integers(0, 8 if depth < 3 else 3))
    inner = _body(scope, extents, depth + 1)
    match kind:
        case 0:
            return draw(literals)
        case 1 if extents:
            return IndexValue(draw(affines(tuple(extents))))
        case 4:
            return Apply(draw(st.sampled_from(_UNARY)), (draw(inner),))
        case 5 | 6:
            return Apply(draw(st.sampled_from(_BINARY)), (draw(inner), draw(inner)))
        case 7:
            return Apply("cast", (draw(inner),), draw(st.sampled_from(_DTYPES)))
        case 8 if extents:
            condition = draw(st.lists(constraints(tuple(extents)), max_size=2))
            return Select(tuple(condition), draw(inner), draw(inner))
        case _:
            return draw(_read(scope, extents))


@st.composite
def _statement(draw: st.DrawFn, scope: _Scope) -> Statement:
    extent = st.sampled_from((0, 1, 2, 3, 4, 4, 3, 2))
    dims = tuple(
        Dim(name=n, extent=draw(extent)) for n in draw(st.sampled_from(((), ("i",), ("i", "j"), ("j", "i", "k"))))
    )
    extents = scope.trips | {d.name: d.extent for d in dims}
    dtype = draw(st.sampled_from(_DTYPES))
    reduction, scan = None, None
    fold = draw(st.integers(0, 3))
    if fold == 1:
        kind = draw(st.sampled_from(("sum", "prod", "max", "min", "argmax", "argmin", "any", "all")))
        over = (Dim(name="r", extent=draw(extent)),)
        if not kind.startswith("arg") and draw(st.booleans()):
            over += (Dim(name="s", extent=draw(extent)),)
        reduction = Reduction(kind=kind, dims=over)
        extents |= {d.name: d.extent for d in over}
        dtype = "i64" if kind.startswith("arg") else dtype
    elif fold == 2 and dims:
        kind = draw(st.sampled_from(("sum", "prod", "max", "min", "argmax", "argmin", "logsumexp")))
        scan = Scan(kind=kind, dim=draw(st.sampled_from(dims)).name, reverse=draw(st.booleans()))
        dtype = {"argmax": "i64", "argmin": "i64", "logsumexp": "f32"}.get(kind, dtype)
    guard = tuple(draw(st.lists(constraints(tuple(extents)), max_size=2))) if extents else ()
    body = draw(_body(scope, extents))
    if scan is not None and scan.kind == "logsumexp":
        body = Apply("cast", (body,), "f32")
    return Statement(
        name=scope.fresh(), dtype=dtype, dims=dims, body=body, reduction=reduction, scan=scan, guard=guard,
        source=draw(sources),
    )  # fmt: skip


@st.composite
def _copy(draw: st.DrawFn, scope: _Scope, kind: TensorType) -> Statement:
    """A statement of exactly this type."""
    dims = tuple(Dim(name=f"c{k}", extent=e) for k, e in enumerate(kind.shape))
    extents = scope.trips | {d.name: d.extent for d in dims}
    return Statement(name=scope.fresh(), dtype=kind.dtype, dims=dims, body=draw(_body(scope, extents)))


@st.composite
def _call(draw: st.DrawFn, scope: _Scope) -> Call | None:
    usable = [(n, t) for n, t in scope.tensors.items() if t.shape and t.dtype in ("f32", "f64", "i64")]
    if not usable:
        return None
    name, kind = draw(st.sampled_from(usable))
    axis = draw(st.integers(0, len(kind.shape) - 1))
    attributes: tuple[tuple[str, object], ...] = (("axis", axis),)
    shape = kind.shape
    if draw(st.booleans()):
        op = "sort"
        attributes += (("descending", draw(st.booleans())),)
    else:
        op, k = "topk", draw(st.integers(0, shape[axis]))
        shape = (*shape[:axis], k, *shape[axis + 1 :])
        attributes = (("k", k), ("axis", axis), ("largest", draw(st.booleans())))
    results = (
        Result(name=scope.fresh(), dtype=kind.dtype, shape=shape),
        Result(name=scope.fresh(), dtype="i64", shape=shape),
    )
    return Call(op=op, results=results, operands=(name,), attributes=attributes, source=draw(sources))


@st.composite
def _node(draw: st.DrawFn, scope: _Scope, depth: int) -> Node:
    kind = draw(st.integers(0, 9))
    if kind == 8 and depth < 2 and scope.tensors:
        return draw(_loop(scope, depth))
    if kind == 9 and depth < 2:
        conditions = [n for n, t in scope.tensors.items() if prod(t.shape) == 1]
        if conditions:
            return draw(_branch(scope, depth, draw(st.sampled_from(conditions))))
    call = draw(_call(scope)) if kind == 7 else None
    node = call or draw(_statement(scope))
    if isinstance(node, Call):
        scope.tensors |= {r.name: TensorType(r.dtype, r.shape) for r in node.results}
    else:
        scope.tensors[node.name] = TensorType(node.dtype, node.shape)
    return node


@st.composite
def _loop(draw: st.DrawFn, scope: _Scope, depth: int) -> Loop:
    index = Dim(name=f"t{depth}_", extent=draw(st.integers(1, 3)))
    inner = scope.inner()
    inner.trips[index.name] = index.extent
    initial = draw(st.sampled_from(sorted(scope.tensors)))
    kind = scope.tensors[initial]
    carried_name = scope.fresh("h")
    inner.tensors[carried_name] = kind
    body = [draw(_node(inner, depth + 1)) for _ in range(draw(st.integers(0, 2)))]
    following = draw(_copy(inner, kind))
    carried = Carried(name=carried_name, initial=initial, next=following.name, final=scope.fresh())
    collected = Collected(name=scope.fresh(), inner=following.name)
    scope.tensors[carried.final] = kind
    scope.tensors[collected.name] = TensorType(kind.dtype, (index.extent, *kind.shape))
    return Loop(index=index, carried=(carried,), body=(*body, following), collected=(collected,), source=draw(sources))


@st.composite
def _branch(draw: st.DrawFn, scope: _Scope, depth: int, condition: str) -> Branch:
    left, right = scope.inner(), scope.inner()
    then = [draw(_node(left, depth + 1)) for _ in range(draw(st.integers(0, 1)))]
    first = draw(_statement(left))
    second = draw(_copy(right, TensorType(first.dtype, first.shape)))
    merged = Merged(name=scope.fresh(), then=first.name, otherwise=second.name)
    scope.tensors[merged.name] = TensorType(first.dtype, first.shape)
    return Branch(
        condition=condition, then=(*then, first), otherwise=(second,), results=(merged,), source=draw(sources)
    )


@st.composite
def programs(draw: st.DrawFn, max_nodes: int = 5) -> Program:
    """Valid programs of a few small nodes of every kind; zero extents occur."""
    scope = _Scope()
    declarations: list[Declaration] = []
    for _ in range(draw(st.integers(1, 3))):
        shape = tuple(draw(st.lists(st.sampled_from((1, 2, 3, 4, 4)), max_size=3)))
        role = draw(st.sampled_from(("input", "parameter", "buffer")))
        d = Declaration(
            name=scope.fresh("x"), dtype=draw(st.sampled_from(_DTYPES)), shape=shape, role=role,
            label=draw(st.sampled_from(("", "fc.weight", 'odd "label"\té'))),
        )  # fmt: skip
        declarations.append(d)
        scope.tensors[d.name] = TensorType(d.dtype, d.shape)
    setup: tuple[Node, ...] = ()
    if draw(st.booleans()):
        known = draw(_statement(_Scope(count=scope.count)))
        setup = (known,)
        d = Declaration(
            name=scope.fresh("x"), dtype=known.dtype, shape=known.shape, role="buffer", defined_by=known.name
        )
        declarations.append(d)
        scope.tensors[d.name] = TensorType(d.dtype, d.shape)
    nodes = tuple(draw(_node(scope, 0)) for _ in range(draw(st.integers(0, max_nodes))))
    outputs = tuple(draw(st.lists(st.sampled_from(sorted(scope.tensors)), min_size=1, max_size=3, unique=True)))
    symbols = draw(st.sampled_from(((), (("B", 2), ("T", 0)))))
    return Program(
        name=draw(st.sampled_from(("p", "Model.forward", "größe"))), declarations=tuple(declarations), nodes=nodes,
        outputs=outputs, setup=setup, symbols=symbols,
    )  # fmt: skip


def is_canonical(expr: Affine) -> bool:
    """Terms are non-zero, distinct and sorted; divisions are reduced."""
    atoms = [a for a, _ in expr.terms]
    names = [a for a in atoms if isinstance(a, str)]
    rebuilt = [
        dim(a) if isinstance(a, str) else a.operand // a.divisor if isinstance(a, FloorDiv) else a.operand % a.divisor
        for a in atoms
    ]
    reduced = rebuilt == [Affine(0, ((a, 1),)) for a in atoms]
    return all(c for _, c in expr.terms) and len(set(atoms)) == len(atoms) and names == sorted(names) and reduced
