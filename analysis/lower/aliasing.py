"""Functionalization: tensors that share storage, as single-assignment values.

A view is remembered as affine indices into its parent. An in-place write to a view becomes a new value of the base
(`base'[i] = select(i in region; v[inverse(i)]; base[i])`), and every other view of that base is read again from the
new value when
it is next used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sollens.analysis.ir.affine import Affine, Constraint, FloorDiv, Mod, dim, equals, within
from sollens.analysis.ir.nodes import Node, Read, Select, Source, Statement
from sollens.analysis.lower.builder import Builder, Value
from sollens.analysis.trace.schema import Tensor

Extents = Mapping[str, int]


class NotInvertible(ValueError):
    """The view's indices do not determine which element of the view a base element is."""


@dataclass(frozen=True, slots=True)
class Link:
    """`view[d0, d1, ..] = base[index]`, over canonical dimension names of the view."""

    parent: int
    index: tuple[Affine, ...]


@dataclass(frozen=True, slots=True)
class Write:
    """A part of an external tensor that the program overwrote: the value written, and where."""

    value: Value
    index: tuple[Affine, ...]
    box: tuple[tuple[int, int], ...]

    def may_overlap(self, other: Write) -> bool:
        """The bounding boxes meet."""
        return all(a <= d and c <= b for (a, b), (c, d) in zip(self.box, other.box, strict=True))


def canonical(rank: int) -> list[str]:
    """Dimension names of a view's own axes."""
    return [f"d{k}" for k in range(rank)]


def extents_of(shape: Sequence[int]) -> dict[str, int]:
    """Extents by canonical dimension name."""
    return {f"d{k}": n for k, n in enumerate(shape)}


def affine_view(name: str, base: str, emitted: Mapping[str, Statement]) -> tuple[Affine, ...] | None:
    """Indices into `base` of the value `name`, when the emitted statements make it a pure affine re-reading of
    `base`."""
    statement = emitted.get(name)
    if (
        statement is None
        or statement.reduction
        or statement.scan
        or statement.guard
        or not isinstance(statement.body, Read)
    ):
        return None
    own = {d.name: dim(f"d{k}") for k, d in enumerate(statement.dims)}
    index = tuple(i.substitute(own) for i in statement.body.index)
    if statement.body.tensor == base:
        return index
    inner = affine_view(statement.body.tensor, base, emitted)
    return None if inner is None else compose(inner, index, statement.shape)


def compose(outer: Sequence[Affine], inner: Sequence[Affine], shape: Sequence[int]) -> tuple[Affine, ...]:
    """`outer` with its canonical dims replaced by `inner`, simplified over a view of `shape`."""
    values = {f"d{k}": i for k, i in enumerate(inner)}
    extents = extents_of(shape)
    return tuple(i.substitute(values).simplify(extents) for i in outer)


# --- inversion --------------------------------------------------------------------------------------------------------


def invert(
    index: Sequence[Affine], shape: Sequence[int], base_shape: Sequence[int]
) -> tuple[tuple[Affine, ...], tuple[Constraint, ...]]:
    """Solve `b = index(d)` for d: one expression per view axis over `b0, b1, ..`, and the conditions under which b is
    in the view."""
    base = {f"b{k}": n for k, n in enumerate(base_shape)}
    solved: dict[str, Affine] = {f"d{k}": Affine() for k, n in enumerate(shape) if n == 1}
    extents = extents_of(shape)
    strided: set[int] = set()
    flat = target = Affine()  # of a run of axes that are digits of one position
    for k, expr in enumerate(index):
        if not expr.is_linear or (flat.terms and base_shape[k] == 1):
            flat, target = _rejoin(flat * base_shape[k] + expr), target * base_shape[k] + dim(f"b{k}")
            if flat.is_linear:
                _solve_linear(flat, target, extents, solved)
                flat = target = Affine()
        elif _solve_linear(expr, dim(f"b{k}"), extents, solved):
            strided.add(k)
    if flat.terms:
        raise NotInvertible(f"expected digits of a position, found {index}")
    for name in extents:
        solved.setdefault(name, Affine())  # an expanded axis: every repeat holds the same element
    conditions: list[Constraint] = []
    for k, expr in enumerate(index):
        if k in strided:
            rest = ((dim(f"b{k}") - expr.constant) % expr.terms[0][1]).simplify(base)
        else:
            rest = (dim(f"b{k}") - expr.substitute(solved)).simplify(base)
        if rest != Affine():
            conditions.append(equals(rest, 0))
    solution: list[Affine] = []
    for name, extent in extents.items():
        expr = solved[name].simplify(base)
        low, high = expr.bounds(base)
        if low < 0 or high >= extent:
            lower, upper = within(expr, extent)
            conditions += ([lower] if low < 0 else []) + ([upper] if high >= extent else [])
        solution.append(expr)
    return tuple(solution), tuple(conditions)


def _solve_linear(expr: Affine, target: Affine, extents: Extents, solved: dict[str, Affine]) -> bool:
    """Solve `expr == target` for its unsolved dims (mixed radix). True when it is one dim with a step over 1."""
    rest = target - expr.constant
    unknown: list[tuple[int, str]] = []
    for atom, c in expr.terms:
        if not isinstance(atom, str):
            raise NotInvertible(f"nested division in {expr}")
        if atom in solved:
            rest = rest - solved[atom] * c
        else:
            unknown.append((c, atom))
    if len(unknown) == 1 and unknown[0][0] < 0:
        c, name = unknown[0]
        solved[name] = (-rest) // -c
        return False
    unknown.sort(reverse=True)
    reach = 0
    for c, name in reversed(unknown):
        if c <= reach:
            raise NotInvertible(f"overlapping elements in {expr}")
        reach += c * (extents[name] - 1)
    only = len(unknown) == 1 and unknown[0][0] > 1 and len(expr.terms) == 1
    for c, name in unknown:
        solved[name] = rest // c
        rest = rest % c
    return only


def _rejoin(expr: Affine) -> Affine:
    """The same values with `d * (x floordiv d) + x mod d` put together as `x`, wherever that removes divisions."""
    expr = _reduced(expr)
    for atom, c in expr.terms:
        if isinstance(atom, Mod):
            whole = _reduced(atom.operand // atom.divisor)
            joined = expr + (Affine(0, ((atom, -1),)) - whole * atom.divisor + atom.operand) * c
            if _divisions(joined) < _divisions(expr):
                return _rejoin(joined)
    return expr


def _reduced(expr: Affine) -> Affine:
    """The same values with whole multiples taken out of divisions: `(3*a + c) floordiv 2` is `a + (a + c) floordiv
    2`."""
    result = Affine(expr.constant)
    for atom, c in expr.terms:
        if isinstance(atom, FloorDiv):
            operand, d = _flat_operand(atom)
            whole = Affine.make(operand.constant // d, {a: k // d for a, k in operand.terms})
            result += (whole + (operand - whole * d) // d) * c
        else:
            result += Affine(0, ((atom, c),))
    return result


def _flat_operand(division: FloorDiv) -> tuple[Affine, int]:
    """`(x floordiv a + c) floordiv b` is `(x + a*c) floordiv (a*b)`."""
    operand, divisor = division.operand, division.divisor
    inner = [(a, k) for a, k in operand.terms if isinstance(a, FloorDiv)]
    if len(inner) == 1 and inner[0][1] == 1 and _divisions(operand) == 1:
        atom = inner[0][0]
        rest = operand - Affine(0, ((atom, 1),))
        return atom.operand + rest * atom.divisor, divisor * atom.divisor
    return operand, divisor


def _divisions(expr: Affine) -> int:
    return sum(not isinstance(a, str) for a, _ in expr.terms)


def overwrite(b: Builder, hint: str, base: Value, value: Value, index: tuple[Affine, ...]) -> Value:
    """`base` with `value` written at `index` (over the canonical dims of `value`), as one statement."""
    if not value.size:
        return base
    solution, conditions = invert(index, value.shape, base.shape)
    written = Read(value.name, solution)
    dims = [(f"b{k}", n) for k, n in enumerate(base.shape)]
    body = Select(conditions, written, base[tuple(n for n, _ in dims)]) if conditions else written
    return b.statement(hint, dims, body, base.dtype)


# --- state ------------------------------------------------------------------------------------------------------------


class Aliases:
    """The current value of every tensor of a trace, through views and in-place writes."""

    def __init__(self, builder: Builder, tensors: Mapping[int, Tensor], declare: Callable[[int], Value]) -> None:
        self._builder = builder
        self._tensors = tensors
        self._declare = declare
        self._values: dict[int, Value] = {}
        self._links: dict[int, Link] = {}
        self._roots: dict[int, int] = {}
        self._stamps: dict[int, int] = {}
        self._versions: dict[int, int] = {}
        self._externals: dict[int, None] = {}
        self.writes: dict[int, list[Write]] = {}
        """What was written to external tensors, by id; later writes hide earlier ones they may overlap."""

    def root(self, tensor: int) -> int:
        """The tensor whose memory this one is a view of (itself, when it is no view)."""
        return self._roots.get(tensor, tensor)

    def known(self, tensor: int) -> bool:
        """The tensor has a value already."""
        return tensor in self._values

    def read(self, tensor: int) -> Value:
        """The current value; an external tensor is declared at first use."""
        value = self._values.get(tensor)
        if value is None:
            value = self._values[tensor] = self._declare(tensor)
            self._externals[tensor] = None
            return value
        root = self.root(tensor)
        version = self._versions.get(root, 0)
        if self._stamps.get(tensor, 0) == version:
            return value
        self._stamps[tensor] = version
        index, base = self._index(tensor), self._values[root]
        dims = list(zip(canonical(value.rank), value.shape, strict=True))
        with self._as_view():
            fresh = self._builder.statement(value.name, dims, Read(base.name, index), value.dtype)
        self._values[tensor] = fresh
        return fresh

    def define(self, tensor: int, value: Value, candidates: Iterable[int], nodes: Sequence[Node]) -> None:
        """A new tensor's value. It is a view of the candidate that shares its storage, when the emitted nodes show
        how."""
        self._values[tensor] = value
        storage = self._tensors[tensor].storage
        parent = next(
            (c for c in candidates if c != tensor and self._tensors[c].storage == storage and c in self._values), None
        )
        if parent is None:
            return
        source = self._values[parent]
        if source.name == value.name:
            index: tuple[Affine, ...] | None = tuple(dim(n) for n in canonical(value.rank))
        else:
            emitted = {n.name: n for n in nodes if isinstance(n, Statement)}
            index = affine_view(value.name, source.name, emitted)
        if index is not None and source.dtype == value.dtype:
            self._links[tensor] = Link(parent, index)
            root = self._roots[tensor] = self.root(parent)
            self._stamps[tensor] = self._versions.get(root, 0)

    def write(self, tensor: int, value: Value) -> None:
        """The tensor's elements become `value`, here and in every tensor that shares them."""
        if tensor not in self._values:
            self.read(tensor)
        root = self.root(tensor)
        base = self._values[root]
        index = self._index(tensor)
        whole = root == tensor or (index == tuple(dim(n) for n in canonical(base.rank)) and value.shape == base.shape)
        if whole:
            updated = value
        else:
            with self._as_view():
                updated = overwrite(self._builder, base.name, base, value, index)
        version = self._versions.get(root, 0) + 1
        self._versions[root] = self._stamps[root] = self._stamps[tensor] = version
        self._values[root] = updated
        self._values[tensor] = value
        if root in self._externals and value.size:
            extents = extents_of(value.shape)
            entry = Write(value, index, tuple(i.bounds(extents) for i in index))
            earlier = [] if whole else [w for w in self.writes.get(root, ()) if not w.may_overlap(entry)]
            self.writes[root] = [*earlier, entry]

    def replace(self, tensor: int, value: Value) -> None:
        """The whole memory behind `tensor` becomes `value`, of the root's shape: how is not known."""
        root = self.root(tensor)
        self._versions[root] = self._stamps[root] = self._versions.get(root, 0) + 1
        self._values[root] = value

    def _index(self, tensor: int) -> tuple[Affine, ...]:
        """Indices into the root, over the tensor's canonical dims."""
        shape = self._tensors[tensor].shape
        link = self._links.get(tensor)
        if link is None:
            return tuple(dim(n) for n in canonical(len(shape)))
        index = link.index
        while (above := self._links.get(link.parent)) is not None:
            index, link = compose(above.index, index, shape), above
        return index

    def _as_view(self) -> _Stamp:
        return _Stamp(self._builder, replace(self._builder.source, view=True))


class _Stamp:
    """Sets the builder's source for a while."""

    def __init__(self, builder: Builder, source: Source) -> None:
        self._builder, self._source = builder, source

    def __enter__(self) -> None:
        self._builder.source, self._source = self._source, self._builder.source

    def __exit__(self, *_: object) -> None:
        self._builder.source, self._source = self._source, self._builder.source
