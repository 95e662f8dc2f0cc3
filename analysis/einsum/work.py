"""The demand of one kernel: which points must be computed for a region of its result, what they cost and what they read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import gcd, prod
from typing import TypeAlias

import islpy as isl
import opt_einsum

from sollens.analysis.einsum.domain import Domain
from sollens.analysis.einsum.kernels import BaseTensor, FlatProgram, Kernel
from sollens.analysis.einsum.knowledge import Knowledge, Pieces, is_neutral
from sollens.analysis.einsum.region import Region
from sollens.analysis.ir.affine import Affine, FloorDiv, Mod, dim
from sollens.analysis.ir.nodes import Apply, Expr, IndexValue, Literal, Read, Select, reads
from sollens.analysis.ir.scalars import SCALAR_OPS

Canonical: TypeAlias = "dict[str, tuple[int, ...]]"


@dataclass(slots=True)
class Work:
    """What a kernel must do. `operands` are the dtypes multiplied by its MACs; `vector_ops` by dtype of the result."""

    macs: int = 0
    operand_dtype: str = ""
    vector_ops: int = 0
    reads: dict[str, Region] = field(default_factory=lambda: {})
    from_inputs: bool = False  # depends on values of the example inputs


def factors(body: Expr) -> list[Expr]:
    """The operands of a product, casts looked through."""
    match body:
        case Apply(op="mul"):
            return [f for arg in body.args for f in factors(arg)]
        case Apply(op="div"):
            return [*factors(body.args[0]), Apply("reciprocal", (body.args[1],))]
        case Apply(op="cast"):
            inner = factors(body.args[0])
            return inner if len(inner) > 1 else [body]
        case _:
            return [body]


def is_contraction(kernel: Kernel) -> bool:
    """A sum over a product of at least two different tensor terms (bounds.md section 1: its points are MACs)."""
    if kernel.reduction != "sum":
        return False
    terms = [f for f in factors(kernel.body) if next(reads(f), None) is not None]
    return len(terms) >= 2 and any(t != terms[0] for t in terms[1:])


class KernelDemand:
    """Computes the Work of one kernel for a demanded region."""

    def __init__(self, kernel: Kernel, tensors: dict[str, BaseTensor], knowledge: Knowledge, canonical: Canonical) -> None:
        self.kernel = kernel
        self.tensors = tensors
        self.knowledge = knowledge
        self.canonical = canonical
        self.work = Work()
        self.has_knowledge = knowledge.knows(kernel.body)
        self.names = tuple(d.name for d in (*kernel.dims, *kernel.reduced))
        self.intervals = tuple((0, d.extent - 1) for d in (*kernel.dims, *kernel.reduced))

    def of(self, demanded: Region) -> Work:
        """The work for these elements of the result."""
        kernel = self.kernel
        if demanded.is_empty:
            return self.work
        region = self._scan_closure(demanded) if kernel.scan else demanded
        reduced = [(d.name, d.extent) for d in kernel.reduced]
        domain = Domain.of(region, [d.name for d in kernel.dims], reduced, kernel.guard)
        if self.has_knowledge and kernel.reduction is not None:
            for piece in self._pieces(kernel.body):
                if is_neutral(piece.value, kernel.reduction):
                    self.work.from_inputs |= not piece.static
                    domain = domain.subtract(piece.where)
        if domain.is_empty:
            return self.work
        if is_contraction(kernel):
            self._contract(domain)
        else:
            self._need(kernel.body, domain)
            if kernel.reduction is not None:
                # n - 1 operations fold n values; a redundant output is folded once.
                points = self._count(domain, [kernel.body])
                own = frozenset(d.name for d in kernel.dims)
                outputs = domain.count(own & self._used([kernel.body], guarded=True))
                self.work.vector_ops += max(0, points - outputs)
            elif kernel.scan is not None:
                self.work.vector_ops += self._count(domain, [kernel.body])
        return self.work

    # --- contractions ---------------------------------------------------------------------------------------------------------

    def _contract(self, domain: Domain) -> None:
        terms = factors(self.kernel.body)
        with_reads = [t for t in terms if next(reads(t), None) is not None]
        points = self._count(domain, with_reads)
        if len(with_reads) > 2:
            points = min(points, self._pairwise(with_reads))
        self.work.macs += points
        self.work.operand_dtype = _widest([self.tensors[r.tensor].dtype for t in with_reads for r in reads(t)])
        for term in terms:
            self._need(term, domain)

    def _pairwise(self, terms: Sequence[Expr]) -> int:
        """MACs of the cheapest pairwise order of a product of several operands, over the whole box."""
        extents = {d.name: d.extent for d in (*self.kernel.dims, *self.kernel.reduced)}
        letters = {name: opt_einsum.get_symbol(k) for k, name in enumerate(extents)}
        operands = [sorted(self._used([t])) for t in terms]
        output = "".join(letters[d.name] for d in self.kernel.dims if any(d.name in o for o in operands))
        equation = ",".join("".join(letters[n] for n in names) for names in operands) + "->" + output
        shapes = [tuple(extents[n] for n in names) for names in operands]
        _, info = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize="auto")
        # Each step of opt_einsum's path multiplies over the union of its operands' indices.
        macs = 0
        for contraction in info.contraction_list:
            inputs = contraction[2].split("->")[0].replace(",", "")
            macs += prod(info.size_dict[letter] for letter in set(inputs))
        return macs

    # --- bodies ---------------------------------------------------------------------------------------------------------------

    def _need(self, expr: Expr, domain: Domain) -> None:
        """Record operations and reads of `expr` at the points of `domain`."""
        match expr:
            case Literal() | IndexValue():
                return
            case Read():
                self._read(expr, domain)
            case Select():
                inside = domain.restrict(expr.condition)
                if (_matters(expr.then)) and not inside.is_empty:
                    self._need(expr.then, inside)
                if _matters(expr.otherwise):
                    outside = domain.exclude(expr.condition)
                    if not outside.is_empty:
                        self._need(expr.otherwise, outside)
            case Apply():
                self._apply(expr, domain)

    def _apply(self, expr: Apply, domain: Domain) -> None:
        if not _matters(expr):
            return
        if not self.has_knowledge or not self.knowledge.knows(expr):
            cost = SCALAR_OPS[expr.op].cost
            if cost:
                self.work.vector_ops += cost * self._count(domain, [expr])
            for arg in expr.args:
                self._need(arg, domain)
            return
        known = self._pieces(expr)
        rest = domain
        for piece in known:
            if piece.static:
                rest = rest.subtract(piece.where)
        computed = rest
        for piece in known:
            if not piece.static:
                self.work.from_inputs = True
                computed = computed.subtract(piece.where)
        if rest.is_empty:
            return
        self._count_known_apply(expr, computed)
        for position, arg in enumerate(expr.args):
            needed = self._argument_domain(expr, position, computed)
            if computed is not rest and any(not p.static for p in self._pieces(arg)):
                needed = needed.union(rest)  # the values that decide must be read
            if not needed.is_empty:
                self._need(arg, needed)

    def _count_known_apply(self, expr: Apply, computed: Domain) -> None:
        cost = SCALAR_OPS[expr.op].cost
        if not cost or computed.is_empty:
            return
        identity = {"add": 0, "sub": 0, "mul": 1}.get(expr.op)
        if identity is not None:
            for arg in expr.args if expr.op != "sub" else expr.args[1:]:
                for piece in self._pieces(arg):
                    if not isinstance(piece.value, isl.Aff) and piece.value == identity:
                        computed = computed.subtract(piece.where)
        if not computed.is_empty:
            self.work.vector_ops += cost * self._count(computed, [expr])

    def _argument_domain(self, expr: Apply, position: int, computed: Domain) -> Domain:
        """Where an argument's value matters: a `where` takes one side."""
        if expr.op != "where" or computed.is_empty:
            return computed
        for piece in self._pieces(expr.args[0]):
            if isinstance(piece.value, isl.Aff):
                continue
            if position == 0 and piece.static:
                computed = computed.subtract(piece.where)
            elif position == (2 if piece.value else 1):
                computed = computed.subtract(piece.where)
        return computed

    def _read(self, read: Read, domain: Domain) -> None:
        tensor = self.tensors[read.tensor]
        if self.has_knowledge and read.tensor in self.knowledge.tensors:
            for piece in self._pieces(read):
                if piece.static:
                    domain = domain.subtract(piece.where)
            if domain.is_empty:
                return
        region = domain.image(self._canonical_index(read), tensor.shape)
        if not region.is_empty:
            known = self.work.reads.get(read.tensor)
            self.work.reads[read.tensor] = region if known is None else known.union(region)

    def _canonical_index(self, read: Read) -> tuple[Affine, ...]:
        """The index with each axis along which the tensor repeats itself pointed at the first element of its period."""
        periods = self.canonical.get(read.tensor)
        if periods is None:
            return read.index
        return tuple(
            index if period == 1 else Affine() if period == 0 else (index // period) * period
            for index, period in zip(read.index, periods, strict=True)
        )

    # --- counting -------------------------------------------------------------------------------------------------------------

    def _used(self, exprs: Iterable[Expr], *, guarded: bool = False) -> frozenset[str]:
        names: set[str] = set()
        for expr in exprs:
            for index in self.indices(expr):
                names |= index.names
        if guarded:
            for constraint in self.kernel.guard:
                names |= constraint.expr.names
        return frozenset(names)

    def indices(self, expr: Expr) -> Iterable[Affine]:
        match expr:
            case Read():
                yield from self._canonical_index(expr)
            case IndexValue():
                yield expr.expr
            case Apply():
                for arg in expr.args:
                    yield from self.indices(arg)
            case Select():
                for constraint in expr.condition:
                    yield constraint.expr
                yield from self.indices(expr.then)
                yield from self.indices(expr.otherwise)
            case Literal():
                return

    def _count(self, domain: Domain, exprs: Sequence[Expr]) -> int:
        """Distinct points: those at which all the expressions read the same elements are one."""
        indices = [i for e in exprs for i in self.indices(e)]
        functions = _distinguishing(indices)
        plain = [f.single_name for f in functions]
        if all(name is not None for name in plain):
            return domain.count(frozenset(name for name in plain if name is not None))
        return domain.distinct(functions)

    def _pieces(self, expr: Expr) -> Pieces:
        return self.knowledge.of_expr(expr, self.names, self.intervals)

    def _scan_closure(self, demanded: Region) -> Region:
        """Everything that lies before a demanded element along the scanned dimension."""
        assert self.kernel.scan is not None
        _, along, reverse = self.kernel.scan
        axis = [d.name for d in self.kernel.dims].index(along)
        extent = self.kernel.dims[axis].extent
        if demanded.box is not None:
            low, high = demanded.box[axis]
            box = [*demanded.box]
            box[axis] = (low, extent - 1) if reverse else (0, high)
            return Region.of_box(demanded.shape, box)
        rank = len(demanded.shape)
        points = demanded.to_set()
        constraint = "i >= j" if not reverse else "i <= j"
        names = ", ".join(f"x{k}" if k != axis else "i" for k in range(rank))
        targets = ", ".join(f"x{k}" if k != axis else "j" for k in range(rank))
        closure = isl.Map(f"{{ [{names}] -> [{targets}] : {constraint} and 0 <= j < {extent} }}")
        return Region.of_set(demanded.shape, points.apply(closure))


def _distinguishing(indices: Sequence[Affine]) -> list[Affine]:
    """A minimal set of functions that tells points apart as the indices do: plain dimensions, and divisions of dimensions that occur in no
    other way."""
    plain: set[str] = set()
    atoms: dict[Affine, frozenset[str]] = {}
    for index in indices:
        for atom, _ in index.terms:
            if isinstance(atom, str):
                plain.add(atom)
            else:
                atoms[Affine(0, ((atom, 1),))] = atom.operand.names
    # An index with several terms does not tell its dimensions apart by itself, but each of them matters to some point; treating every
    # dimension as distinguishing is exact unless the whole index collapses, which canonical forms do not produce.
    divided = [a for a, names in atoms.items() if not names <= plain]
    whole = _full_digits(divided)
    if whole is not None:
        plain |= whole
        divided = [a for a in divided if not next(iter(a.terms))[0].operand.names <= plain]  # type: ignore[union-attr]
    return [*(dim(n) for n in sorted(plain)), *divided]


def _full_digits(divided: Sequence[Affine]) -> set[str] | None:
    """Dimensions of which both `d floordiv c` and `d mod c` occur: together they are d."""
    quotients: dict[str, set[int]] = {}
    remainders: dict[str, set[int]] = {}
    for function in divided:
        atom = function.terms[0][0]
        assert isinstance(atom, FloorDiv | Mod)
        name = atom.operand.single_name
        if name is not None:
            (quotients if isinstance(atom, FloorDiv) else remainders).setdefault(name, set()).add(atom.divisor)
    found = {n for n, q in quotients.items() if q & remainders.get(n, set())}
    return found or None


def _matters(expr: Expr) -> bool:
    """Whether the expression reads anything (arithmetic on constants and indices is free)."""
    return next(reads(expr), None) is not None


def _widest(dtypes: Sequence[str]) -> str:
    order = ("c128", "c64", "f64", "f32", "bf16", "f16", "f8e4m3", "f8e5m2", "i64", "i32", "i16", "i8", "u8", "i4", "u4", "bool")
    return min(dtypes, key=lambda d: order.index(d) if d in order else 3)


def canonical_periods(flat: FlatProgram) -> Canonical:
    """For each computed tensor that repeats itself along an axis, its period by axis: 0 constant, p > 1 constant in blocks of p, 1 varying.

    `relu(x.expand(8, n))` is one row, whatever its shape says; what reads it needs that row once.
    """
    canonical: Canonical = {}
    for item in flat.items:
        if not isinstance(item, Kernel) or item.scan is not None:
            continue
        demand = KernelDemand(item, flat.tensors, Knowledge(), canonical)
        indices = [*demand.indices(item.body), *(c.expr for c in item.guard)]
        periods = tuple(_period(d.name, indices) if d.extent > 1 else 1 for d in item.dims)
        if any(p != 1 for p in periods):
            canonical[item.name] = periods
    return canonical


def _period(name: str, indices: Sequence[Affine]) -> int:
    period = 0
    for index in indices:
        for atom, _ in index.terms:
            if atom == name:
                return 1
            if not isinstance(atom, str) and name in atom.operand.names:
                if not isinstance(atom, FloorDiv) or atom.operand.single_name != name:
                    return 1
                period = gcd(period, atom.divisor)
    return period
