"""The demand of one kernel: which points must be computed for a region of its result, what they cost and what they
read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import islpy as isl

from sollens.analysis.einsum.constants import is_any, is_identity, is_neutral
from sollens.analysis.einsum.domain import Domain
from sollens.analysis.einsum.kernels import BaseTensor, Kernel
from sollens.analysis.einsum.knowledge import Knowledge, Pieces
from sollens.analysis.einsum.pairwise import pairwise_points
from sollens.analysis.einsum.redundancy import Redundancy, distinguishing, value_functions
from sollens.analysis.einsum.region import Region
from sollens.analysis.einsum.sharing import Computed, Part, union_count
from sollens.analysis.ir.affine import Affine
from sollens.analysis.ir.nodes import Apply, Expr, IndexValue, Literal, Read, Select, reads
from sollens.analysis.ir.scalars import SCALAR_OPS


@dataclass(slots=True)
class Work:
    """What a kernel must do. `operands` are the dtypes multiplied by its MACs; `vector_ops` by dtype of the result."""

    macs: int = 0
    operand_dtype: str = ""
    vector_ops: int = 0
    reads: dict[str, Region] = field(default_factory=dict[str, Region])
    from_inputs: bool = False  # depends on values of the example inputs
    computed: list[Computed] = field(default_factory=list[Computed])  # what other kernels may compute as well


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

    def __init__(
        self, kernel: Kernel, tensors: dict[str, BaseTensor], knowledge: Knowledge, redundancy: Redundancy
    ) -> None:
        self.kernel = kernel
        self.tensors = tensors
        self.knowledge = knowledge
        self.redundancy = redundancy
        self.work = Work()
        self.counted: list[tuple[Apply, Domain]] = []
        self.has_knowledge = knowledge.knows(kernel.body)
        self.names = tuple(d.name for d in (*kernel.dims, *kernel.reduced))
        self.intervals = tuple((0, d.extent - 1) for d in (*kernel.dims, *kernel.reduced))

    def of(self, demanded: Region) -> Work:
        """The work for these elements of the result."""
        kernel = self.kernel
        if demanded.is_empty:
            return self.work
        if not self.redundancy.matters(kernel.body):
            return self.work
        region = self._scan_closure(demanded) if kernel.scan else demanded
        reduced = [(d.name, d.extent) for d in kernel.reduced]
        domain = Domain.of(region, [d.name for d in kernel.dims], reduced, kernel.guard)
        constants = Domain(domain.names, tuple((0, -1) for _ in domain.names))
        fold = kernel.reduction or (kernel.scan[0] if kernel.scan else None)
        if self.has_knowledge and fold is not None:
            for piece in self._pieces(kernel.body):
                if is_neutral(piece.value, fold):
                    self.work.from_inputs |= not piece.static
                    domain = domain.subtract(piece.where)
                elif piece.static:
                    constants = constants.union(domain.intersect(piece.where))
                    domain = domain.subtract(piece.where)
        if kernel.scan and not constants.is_empty:
            # A constant that follows something unknown is folded like any other value.
            unknown = Region.of_set(region.shape, domain.to_set().within(tuple((0, e - 1) for e in region.shape)))
            domain = domain.union(constants.intersect(self._scan_closure(unknown, backwards=False).to_set()))
        if domain.is_empty:
            return self.work
        if is_contraction(kernel):
            self._contract(domain)
            return self.work
        self._need(kernel.body, domain)
        if kernel.reduction is not None:
            # n - 1 operations fold n values, all constants being one of them; a redundant output is folded once.
            outer = value_functions(self.redundancy, kernel)
            self.work.vector_ops += self._distinct(domain, value_functions(self.redundancy, kernel, folded=True))
            self.work.vector_ops -= self._distinct(domain, outer)
            if not constants.is_empty:
                both = domain.project(len(kernel.dims)).intersect(constants.project(len(kernel.dims)).to_set())
                self.work.vector_ops += 0 if both.is_empty else self._distinct(both, outer)
        elif kernel.scan is not None:
            self.work.vector_ops += self._distinct(domain, value_functions(self.redundancy, kernel))
        return self.work

    # --- contractions ------------------------------------------------------------------------------------------------

    def _contract(self, domain: Domain) -> None:
        terms = factors(self.kernel.body)
        with_reads = [t for t in terms if next(reads(t), None) is not None]
        functions = value_functions(self.redundancy, self.kernel, folded=True)
        points = self._distinct(domain, functions)
        operands = [frozenset(n for i in self.redundancy.indices(t) for n in i.names) for t in with_reads]
        # Dimensions that a guard or a demanded region ties to others cannot be summed away on their own.
        tied = frozenset(n for c in domain.constraints for n in c.expr.names)
        tied = frozenset(self.names) if domain.points is not None else tied
        output = frozenset(d.name for d in self.kernel.dims)
        alone = any(n not in output | tied and sum(n in o for o in operands) == 1 for o in operands for n in o)
        if len(with_reads) > 2 or alone:
            points = min(points, pairwise_points(operands, output, domain.count, tied))
        elif not self.kernel.guard:
            key = self.redundancy.shared_names(without_indices(self.kernel.body))
            inner = {d.name: d.extent for d in self.kernel.reduced}
            summed = tuple(
                tuple(sorted(inner.get(n, 0) for n in f.names)) for f in self.redundancy.indices(self.kernel.body)
            )
            self.work.computed.append(Computed((key, summed), ((domain, functions),), points, is_mac=True))
        self.work.macs += points
        self.work.operand_dtype = _widest(
            [self.redundancy.dtype_of(r, self.tensors) for t in with_reads for r in reads(t)]
        )
        for term in terms:
            self._need(term, domain)

    # --- bodies ------------------------------------------------------------------------------------------------------

    def _need(self, expr: Expr, domain: Domain) -> None:
        """Record operations and reads of `expr` at the points of `domain`."""
        match expr:
            case Literal() | IndexValue():
                return
            case Read():
                self._read(expr, domain)
            case Select():
                inside = domain.restrict(expr.condition)
                if self.redundancy.matters(expr.then) and not inside.is_empty:
                    self._need(expr.then, inside)
                if self.redundancy.matters(expr.otherwise):
                    outside = domain.exclude(expr.condition)
                    if not outside.is_empty:
                        self._need(expr.otherwise, outside)
            case Apply():
                self._apply(expr, domain)

    def _apply(self, expr: Apply, domain: Domain) -> None:
        if not self.redundancy.matters(expr):
            return
        if any(expr == other and domain is where for other, where in self.counted):
            return  # the same value of the same statement, written twice
        self.counted.append((expr, domain))
        if not self.has_knowledge or not self.knowledge.knows(expr):
            cost = SCALAR_OPS[expr.op].cost
            if cost and not any(
                isinstance(a, Literal) and is_identity(expr.op, k, a.value) for k, a in enumerate(expr.args)
            ):
                self.work.vector_ops += cost * self._count(domain, expr)
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
        for position, arg in enumerate(expr.args):
            for piece in self._pieces(arg):
                if is_identity(expr.op, position, piece.value):
                    computed = computed.subtract(piece.where)
        if not computed.is_empty:
            self.work.vector_ops += cost * self._count(computed, expr)

    def _argument_domain(self, expr: Apply, position: int, computed: Domain) -> Domain:
        """Where an argument's value matters: a `where` takes one side."""
        if expr.op != "where" or computed.is_empty:
            return computed
        for piece in self._pieces(expr.args[0]):
            if isinstance(piece.value, isl.Aff) or is_any(piece.value):
                continue
            if (position == 0 and piece.static) or position == (2 if piece.value else 1):
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
        region = domain.image(self.redundancy.canonical_index(read), tensor.shape)
        if not region.is_empty:
            known = self.work.reads.get(read.tensor)
            self.work.reads[read.tensor] = region if known is None else known.union(region)

    # --- counting ----------------------------------------------------------------------------------------------------

    def _count(self, domain: Domain, expr: Apply) -> int:
        """Distinct values of the expression: points at which it has the same operands are one."""
        cells: dict[Expr, list[Part]] = {}
        for inside, alternative in self._cells(domain, expr):
            functions = tuple(self.redundancy.indices(alternative))
            cells.setdefault(without_indices(alternative), []).append((inside, functions))
        total = 0
        cost = SCALAR_OPS[expr.op].cost
        for key, same in cells.items():
            count = self._distinct(*same[0]) if len(same) == 1 else union_count(same)
            self.work.computed.append(Computed(self.redundancy.shared_names(key), tuple(same), count, cost))
            total += count
        return total

    def _cells(self, domain: Domain, expr: Expr) -> Iterable[tuple[Domain, Expr]]:
        """The domain in parts, each with the expression without Selects and with numbers for what is a constant
        there.
        """
        if domain.is_empty:
            return
        for part in subexpressions(expr):
            if isinstance(part, Read) and (inner := self.redundancy.spelled_out(part)) is not None:
                yield from self._cells(domain, replaced(expr, part, inner))
                return
            if isinstance(part, Select):
                yield from self._cells(domain.restrict(part.condition), replaced(expr, part, part.then))
                yield from self._cells(domain.exclude(part.condition), replaced(expr, part, part.otherwise))
                return
            if self.has_knowledge and isinstance(part, Read) and part.tensor in self.knowledge.tensors:
                numbers = [
                    (p.where, p.value) for p in self._pieces(part) if p.static and not isinstance(p.value, isl.Aff)
                ]
                if numbers:
                    rest = domain
                    for where, value in numbers:
                        yield from self._cells(domain.intersect(where), replaced(expr, part, Literal(value)))
                        rest = rest.subtract(where)
                    if not rest.is_empty:
                        yield from self._cells_after(rest, expr, part)
                    return
        yield domain, expr

    def _cells_after(self, domain: Domain, expr: Expr, read: Read) -> Iterable[tuple[Domain, Expr]]:
        """As `_cells`, where this read is not a number."""
        unknown = Read(f"?{read.tensor}", read.index)
        for inside, alternative in self._cells(domain, replaced(expr, read, unknown)):
            yield inside, replaced(alternative, unknown, read)

    def _distinct(self, domain: Domain, functions: Sequence[Affine]) -> int:
        extents = {name: high + 1 for name, (_, high) in zip(self.names, self.intervals, strict=True)}
        functions = distinguishing(functions, extents)
        plain = [f.single_name for f in functions]
        if all(name is not None for name in plain):
            return domain.count(frozenset(name for name in plain if name is not None))
        return domain.distinct(functions)

    def _pieces(self, expr: Expr) -> Pieces:
        return self.knowledge.of_expr(expr, self.names, self.intervals)

    def _scan_closure(self, demanded: Region, *, backwards: bool = True) -> Region:
        """Everything that lies before (else after) an element of the region along the scanned dimension."""
        assert self.kernel.scan is not None
        _, along, reverse = self.kernel.scan
        reverse ^= not backwards
        axis = [d.name for d in self.kernel.dims].index(along)
        extent = self.kernel.dims[axis].extent
        if demanded.box is not None:
            low, high = demanded.box[axis]
            box = [*demanded.box]
            box[axis] = (low, extent - 1) if reverse else (0, high)
            return Region.of_box(demanded.shape, box)
        return Region.of_set(demanded.shape, demanded.to_set().swept(axis, backwards=not reverse))


def subexpressions(expr: Expr) -> Iterable[Expr]:
    """The expression's parts, itself first."""
    yield expr
    match expr:
        case Apply():
            for arg in expr.args:
                yield from subexpressions(arg)
        case Select():
            yield from subexpressions(expr.then)
            yield from subexpressions(expr.otherwise)
        case Read() | Literal() | IndexValue():
            return


def replaced(expr: Expr, part: Expr, by: Expr) -> Expr:
    """The expression with every occurrence of a part replaced."""
    if expr == part:
        return by
    match expr:
        case Apply():
            return replace(expr, args=tuple(replaced(a, part, by) for a in expr.args))
        case Select():
            return Select(expr.condition, replaced(expr.then, part, by), replaced(expr.otherwise, part, by))
        case Read() | Literal() | IndexValue():
            return expr


def without_indices(expr: Expr) -> Expr:
    """What an expression computes, not where it reads."""
    match expr:
        case Read():
            return Read(expr.tensor, ())
        case Apply():
            return replace(expr, args=tuple(without_indices(a) for a in expr.args))
        case IndexValue():
            return IndexValue(Affine())
        case Select() | Literal():
            return expr


def _widest(dtypes: Sequence[str]) -> str:
    order = (
        "c128",
        "c64",
        "f64",
        "f32",
        "bf16",
        "f16",
        "f8e4m3",
        "f8e5m2",
        "i64",
        "i32",
        "i16",
        "i8",
        "u8",
        "i4",
        "u4",
        "bool",
    )
    return min(dtypes, key=lambda d: order.index(d) if d in order else 3)
