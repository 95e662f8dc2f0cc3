"""What repeats: elements of one tensor that hold the same value, tensors that are constants, values that fit a
narrower dtype.

Whatever repeats is computed once (bounds.md section 1), so work is counted over distinct values, not over points.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd

from sollens.analysis.einsum.kernels import BaseTensor, FlatProgram, Kernel, Library
from sollens.analysis.ir.affine import Affine, Atom, FloorDiv, Mod, dim
from sollens.analysis.ir.nodes import NO_SOURCE, Apply, Dim, Expr, IndexValue, Literal, Read, Select, reads

MAX_FUNCTIONS = 16
_UNPREDICTABLE = ("random", "opaque")


@dataclass(slots=True)
class Redundancy:
    """Facts about computed tensors, by name; what is not listed has no redundancy.

    `periods`: by axis 0 constant, p > 1 constant in blocks of p, 1 varying. `functions`: equal values of these
    functions of the axes (named $0, $1 ...) mean equal elements. `constants`: follow from the program's text alone.
    `held`: a narrower dtype that holds the values. `same`: the tensor that the same kernel computes from the same
    operands. `mirrored`: kernels without a fold whose elements repeat on parts of an axis (a reflected border).
    """

    periods: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    functions: dict[str, tuple[Affine, ...]] = field(default_factory=dict[str, tuple[Affine, ...]])
    constants: set[str] = field(default_factory=set[str])
    held: dict[str, str] = field(default_factory=dict[str, str])
    same: dict[str, str] = field(default_factory=dict[str, str])
    mirrored: dict[str, Kernel] = field(default_factory=dict[str, Kernel])

    def spelled_out(self, read: Read) -> Expr | None:
        """What a read of a tensor that holds some elements more than once reads in turn; None for other tensors."""
        kernel = self.mirrored.get(read.tensor)
        if kernel is None:
            return None
        return substituted(kernel.body, {d.name: i for d, i in zip(kernel.dims, read.index, strict=True)})

    def shared_names(self, expr: Expr) -> Expr:
        """The expression with one name for the tensors that hold the same."""
        match expr:
            case Read():
                return replace(expr, tensor=self.same.get(expr.tensor, expr.tensor))
            case Apply():
                return replace(expr, args=tuple(self.shared_names(a) for a in expr.args))
            case Select():
                return Select(expr.condition, self.shared_names(expr.then), self.shared_names(expr.otherwise))
            case Literal() | IndexValue():
                return expr

    def indices(self, expr: Expr, *, conditions: bool = True) -> Iterable[Affine]:
        """Functions of the loop nest that determine the expression's value."""
        match expr:
            case Read():
                functions = self.functions.get(expr.tensor)
                if functions is None:
                    yield from expr.index
                else:
                    axes = {f"${k}": index for k, index in enumerate(expr.index)}
                    yield from (f.substitute(axes) for f in functions)
            case IndexValue():
                yield expr.expr
            case Apply():
                for arg in expr.args:
                    yield from self.indices(arg, conditions=conditions)
            case Select():
                if conditions:
                    for constraint in expr.condition:
                        yield constraint.expr
                yield from self.indices(expr.then, conditions=conditions)
                yield from self.indices(expr.otherwise, conditions=conditions)
            case Literal():
                return

    def canonical_index(self, read: Read) -> tuple[Affine, ...]:
        """The index with each axis along which the tensor repeats itself pointed at the first element of its period."""
        periods = self.periods.get(read.tensor)
        if periods is None:
            return read.index
        return tuple(
            index if period == 1 else Affine() if period == 0 else (index // period) * period
            for index, period in zip(read.index, periods, strict=True)
        )

    def matters(self, expr: Expr) -> bool:
        """Whether the expression reads anything but constants (arithmetic on constants and indices is free)."""
        return any(r.tensor not in self.constants for r in reads(expr))

    def dtype_of(self, read: Read, tensors: Mapping[str, BaseTensor]) -> str:
        """The narrowest dtype that is known to hold what is read."""
        return self.held.get(read.tensor, tensors[read.tensor].dtype)


def redundancy_of(flat: FlatProgram) -> Redundancy:
    """The redundancy of every computed tensor of a flat program."""
    known = Redundancy()
    seen: dict[Hashable, list[Kernel]] = {}
    for item in flat.items:
        if isinstance(item, Kernel):
            _learn(known, item, flat.tensors)
            if _repeats_in_part(known, item):
                known.mirrored[item.name] = replace(item, body=_spelled_out(known, item.body))
            # Most kernels differ in what they read: the full comparison is for those that do not.
            alike = seen.setdefault(_likeness(known, item), [])
            normal = _normal(known, item) if alike else item
            first = next((k.name for k in alike if _normal(known, k) == normal), None)
            if first is None:
                alike.append(item)
            else:
                known.same[item.name] = first
        elif isinstance(item, Library) and _constant_call(known, item):
            known.constants.update(item.results)
    return known


def _likeness(known: Redundancy, kernel: Kernel) -> Hashable:
    extents = (tuple(d.extent for d in kernel.dims), tuple(d.extent for d in kernel.reduced))
    names = tuple(known.same.get(r.tensor, r.tensor) for r in reads(kernel.body))
    return kernel.dtype, kernel.reduction, extents, names


def _normal(known: Redundancy, kernel: Kernel) -> Kernel:
    """The kernel without its own names: dimensions by position, operands by what they are the same as."""
    every = (*kernel.dims, *kernel.reduced)
    names = {d.name: f"${k}" for k, d in enumerate(every)}
    values = {old: dim(new) for old, new in names.items()}

    scan = kernel.scan
    return replace(
        kernel,
        name="",
        dims=tuple(Dim(name=names[d.name], extent=d.extent) for d in kernel.dims),
        reduced=tuple(Dim(name=names[d.name], extent=d.extent) for d in kernel.reduced),
        scan=(scan[0], names[scan[1]], scan[2]) if scan else None,
        guard=tuple(c.substitute(values) for c in kernel.guard),
        body=substituted(known.shared_names(kernel.body), values),
        source=NO_SOURCE,
    )


MAX_PARTS = 24


def _repeats_in_part(known: Redundancy, kernel: Kernel) -> bool:
    """Whether a body without a fold takes the same tensor on several sides of a Select, itself or further back."""
    if kernel.reduction is not None or kernel.scan is not None or kernel.guard or not known.matters(kernel.body):
        return False
    found = list(reads(kernel.body))
    size = sum(_sides(known.mirrored[r.tensor].body) if r.tensor in known.mirrored else 1 for r in found)
    if size > MAX_PARTS:
        return False
    return any(r.tensor in known.mirrored for r in found) or _takes_twice(kernel.body)


def _takes_twice(expr: Expr) -> bool:
    match expr:
        case Select():
            then, otherwise = ({r.tensor for r in reads(side)} for side in (expr.then, expr.otherwise))
            return bool(then & otherwise) or _takes_twice(expr.then) or _takes_twice(expr.otherwise)
        case Apply():
            return any(_takes_twice(a) for a in expr.args)
        case Read() | Literal() | IndexValue():
            return False


def _spelled_out(known: Redundancy, expr: Expr) -> Expr:
    match expr:
        case Read():
            return known.spelled_out(expr) or expr
        case Apply():
            return replace(expr, args=tuple(_spelled_out(known, a) for a in expr.args))
        case Select():
            return Select(expr.condition, _spelled_out(known, expr.then), _spelled_out(known, expr.otherwise))
        case Literal() | IndexValue():
            return expr


def _sides(expr: Expr) -> int:
    return sum(1 for _ in reads(expr))


def substituted(expr: Expr, values: Mapping[str, Affine]) -> Expr:
    """The expression with dimensions replaced by functions."""
    match expr:
        case Read():
            return Read(expr.tensor, tuple(i.substitute(values) for i in expr.index))
        case IndexValue():
            return IndexValue(expr.expr.substitute(values))
        case Apply():
            return replace(expr, args=tuple(substituted(a, values) for a in expr.args))
        case Select():
            condition = tuple(c.substitute(values) for c in expr.condition)
            return Select(condition, substituted(expr.then, values), substituted(expr.otherwise, values))
        case Literal():
            return expr


def _constant_call(known: Redundancy, item: Library) -> bool:
    if not item.operands or item.call.op in _UNPREDICTABLE:
        return False
    return all(v.base in known.constants for v in item.operands)


def _learn(known: Redundancy, kernel: Kernel, tensors: Mapping[str, BaseTensor]) -> None:
    if not known.matters(kernel.body):
        known.constants.add(kernel.name)
    moved = _moved(kernel.body)
    if moved is not None and (kernel.reduction in (None, "max", "min") and kernel.scan is None):
        narrow = known.dtype_of(moved, tensors)
        if narrow != kernel.dtype and _holds(kernel.dtype, narrow):
            known.held[kernel.name] = narrow
    functions = value_functions(known, kernel)
    own = [d.name for d in kernel.dims if d.extent > 1]
    fixed = {d.name: Affine() for d in kernel.dims if d.extent <= 1}
    functions = tuple(dict.fromkeys(f for f in (f.substitute(fixed) for f in functions) if not f.is_constant))
    if (
        not determined(functions, {d.name: d.extent for d in kernel.dims}).issuperset(own)
        and len(functions) <= MAX_FUNCTIONS
    ):
        axes = {d.name: dim(f"${k}") for k, d in enumerate(kernel.dims)}
        known.functions[kernel.name] = tuple(f.substitute(axes) for f in functions)
        periods = tuple(_period(d.name, functions) if d.extent > 1 else 1 for d in kernel.dims)
        if any(p != 1 for p in periods):
            known.periods[kernel.name] = periods


def value_functions(known: Redundancy, kernel: Kernel, *, folded: bool = False) -> tuple[Affine, ...]:
    """Functions that determine a kernel's element (or, `folded`, each value that goes into its fold) over its own
    dimensions.
    """
    indices = list(known.indices(kernel.body))
    inner = {d.name for d in kernel.reduced}
    if kernel.scan is not None:
        inner = {kernel.scan[1]}
    guards = [c.expr for c in kernel.guard if not folded or (c.expr.names & inner and c.expr.names - inner)]
    if not inner:
        return (*indices, *guards)
    outer: list[Affine] = []
    deeper: list[Affine] = []
    for index in [*indices, *guards]:
        outer += part_over(index, inner, inside=False)
    for index in indices:
        deeper += part_over(index, inner, inside=True)
    if kernel.scan is not None:
        return (*outer, dim(kernel.scan[1]))
    return (*outer, *deeper) if folded else tuple(outer)


def part_over(index: Affine, inner: set[str], *, inside: bool) -> list[Affine]:
    """What an index says about the dimensions of a fold (`inside`) or about the others: `2*p + r + 1` folded over r is
    `2*p + 1` outside. The constant tells one slice from another, which matters between kernels.
    """
    own: dict[Atom, int] = {}
    others: list[Affine] = []
    for atom, c in index.terms:
        names = frozenset((atom,)) if isinstance(atom, str) else atom.operand.names
        wanted = names & inner if inside else names - inner
        if wanted == names:
            own[atom] = c
        elif wanted and isinstance(atom, Mod):  # (p + r) mod d follows from p mod d and r
            first, *rest = part_over(atom.operand, inner, inside=inside)
            others += [first % atom.divisor, *rest]
        else:
            others += [dim(n) for n in sorted(wanted)]
    return [Affine.make(0 if inside else index.constant, own), *others]


def determined(functions: Sequence[Affine], extents: Mapping[str, int]) -> set[str]:
    """Dimensions whose value follows from the values of the functions (a subset of those that do)."""
    known: set[str] = set()
    atoms: set[Atom] = set()
    pending = list(functions)
    grew = True
    while grew:
        grew = False
        rest: list[Affine] = []
        for function in pending:
            unknown = [
                a
                for a, _ in function.terms
                if not (a in atoms or a in known or (not isinstance(a, str) and a.operand.names <= known))
            ]
            if len(unknown) > 1 and not _mixed_radix(function, unknown, extents):
                rest.append(function)
                continue
            grew = True
            for atom in unknown:
                (known if isinstance(atom, str) else atoms).add(atom)  # type: ignore[arg-type]
        pending = rest
        whole = _full_digits(atoms) - known
        grew |= bool(whole)
        known |= whole
    return known


def _mixed_radix(function: Affine, unknown: Sequence[Atom], extents: Mapping[str, int]) -> bool:
    """Whether the function tells all these atoms apart: `8*h + d` with d < 8."""
    reach = 0
    coefficients = dict(function.terms)
    for atom in sorted(unknown, key=lambda a: abs(coefficients[a])):
        if not isinstance(atom, str) or abs(coefficients[atom]) <= reach:
            return False
        reach += abs(coefficients[atom]) * (extents[atom] - 1)
    return True


def _full_digits(atoms: Iterable[Atom]) -> set[str]:
    """Dimensions of which both `d floordiv c` and `d mod c` occur: together they are d."""
    quotients: dict[str, set[int]] = {}
    remainders: dict[str, set[int]] = {}
    for atom in atoms:
        assert isinstance(atom, FloorDiv | Mod)
        name = atom.operand.single_name
        if name is not None:
            (quotients if isinstance(atom, FloorDiv) else remainders).setdefault(name, set()).add(atom.divisor)
    return {n for n, q in quotients.items() if q & remainders.get(n, set())}


def distinguishing(functions: Sequence[Affine], extents: Mapping[str, int]) -> list[Affine]:
    """Fewer functions that tell points apart as these do: plain dimensions where they follow, and whatever else there
    is.
    """
    plain = determined(functions, extents)
    rest = [f for f in dict.fromkeys(functions) if not f.is_constant and not f.names <= plain]
    return [*(dim(n) for n in sorted(plain)), *rest]


def _period(name: str, functions: Sequence[Affine]) -> int:
    period = 0
    for function in functions:
        for atom, _ in function.terms:
            if atom == name:
                return 1
            if not isinstance(atom, str) and name in atom.operand.names:
                if not isinstance(atom, FloorDiv) or atom.operand.single_name != name:
                    return 1
                period = gcd(period, atom.divisor)
    return period


def _moved(body: Expr) -> Read | None:
    match body:
        case Read():
            return body
        case Apply(op="cast"):
            return _moved(body.args[0])
        case Select(then=then, otherwise=Literal(value=value)) if value == 0:
            return _moved(then)
        case _:
            return None


# value sets of the floating formats: every value of the key is one of each of these
_WIDER = {
    "f4e2m1": ("f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64"),
    "f8e4m3": ("f16", "bf16", "f32", "f64"), "f8e5m2": ("f16", "bf16", "f32", "f64"),
    "f8e4m3fnuz": ("f16", "bf16", "f32", "f64"), "f8e5m2fnuz": ("f16", "bf16", "f32", "f64"),
    "f16": ("f32", "f64"), "bf16": ("f32", "f64"), "f32": ("f64",), "c32": ("c64", "c128"), "c64": ("c128",),
    "bool": ("u8", "i8", "i32", "i64", "f16", "bf16", "f32", "f64"),
    "u4": ("u8", "i8", "i32", "i64", "f16", "bf16", "f32", "f64"),
    "i4": ("i8", "i32", "i64", "f16", "bf16", "f32", "f64"),
    "u8": ("i32", "i64", "f16", "bf16", "f32", "f64"), "i8": ("i32", "i64", "f16", "bf16", "f32", "f64"),
}  # fmt: skip


def _holds(wide: str, narrow: str) -> bool:
    return wide in _WIDER.get(narrow, ())
