"""Einsum equations as pairwise contractions in the cheapest order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import opt_einsum

from sollens.analysis.ir.affine import Affine
from sollens.analysis.ir.nodes import Apply, Read
from sollens.analysis.lower.builder import Builder, Value

Label: TypeAlias = Hashable


def contract_equation(b: Builder, equation: str, operands: Sequence[Value], dtype: str) -> Value:
    """`torch.einsum`: ellipsis, repeated labels (diagonals), implicit output, extents of 1 that broadcast."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    subscripts = left.split(",")
    if len(subscripts) != len(operands):
        raise ValueError(f"einsum {equation!r}: expected {len(subscripts)} operands, found {len(operands)}")
    covered = [
        v.rank - len(s.replace("...", "")) if "..." in s else 0 for s, v in zip(subscripts, operands, strict=True)
    ]
    widest = max(covered, default=0)
    terms = [_labels(s, n) for s, n in zip(subscripts, covered, strict=True)]
    for s, labels, v in zip(subscripts, terms, operands, strict=True):
        if len(labels) != v.rank:
            raise ValueError(f"einsum {equation!r}: expected {len(labels)} axes for {s!r}, found shape {v.shape}")
    if arrow:
        output = _labels(right, widest)
    else:
        letters = left.replace(",", "").replace("...", "")
        once = sorted({c for c in letters if letters.count(c) == 1})
        output = [*_labels("...", widest), *once]
    return contract_terms(b, operands, terms, output, dtype)


def _labels(subscript: str, ellipsis: int) -> list[Label]:
    """Letters, and `-1` for the last axis an ellipsis covers, `-2` for the one before."""
    before, dots, after = subscript.partition("...")
    return [*before, *(range(-ellipsis, 0) if dots else ()), *after]


@dataclass(frozen=True, slots=True)
class _Term:
    """A tensor and one label an axis; None marks an axis of extent 1 that is broadcast: it is read at 0."""

    value: Value
    labels: tuple[Label | None, ...]

    @property
    def free(self) -> tuple[Label, ...]:
        """Distinct labels in order."""
        return tuple(dict.fromkeys(x for x in self.labels if x is not None))

    def read(self, names: dict[Label, str]) -> Read:
        return self.value[tuple(Affine() if x is None else names[x] for x in self.labels)]


class _Contractor:
    def __init__(self, b: Builder, sizes: dict[Label, int], dtype: str) -> None:
        self.b = b
        self.sizes = sizes
        self.dtype = dtype
        self.names: dict[Label, str] = {}
        for label in sizes:
            name = label if isinstance(label, str) else f"d{len(self.names)}"
            # "d3" never meets a letter; upper and lower case letters are distinct names.
            self.names[label] = name

    def dims(self, labels: Sequence[Label]) -> list[tuple[str, int]]:
        return [(self.names[x], self.sizes[x]) for x in labels]

    def reduced(self, term: _Term, kept: Sequence[Label], hint: str = "summed") -> _Term:
        """The sum of a term over what is not kept, in the order of `kept`; the term itself where nothing changes."""
        if term.labels == tuple(kept):
            return term
        over = [x for x in term.free if x not in kept]
        reduce = ("sum", self.dims(over)) if over else None
        return _Term(
            self.b.statement(hint, self.dims(kept), term.read(self.names), self.dtype, reduce=reduce), tuple(kept)
        )

    def product(self, left: _Term, right: _Term, kept: Sequence[Label]) -> _Term:
        over = [x for x in dict.fromkeys((*left.free, *right.free)) if x not in kept]
        body = Apply("mul", (left.read(self.names), right.read(self.names)))
        reduce = ("sum", self.dims(over)) if over else None
        return _Term(self.b.statement("einsum", self.dims(kept), body, self.dtype, reduce=reduce), tuple(kept))


def contract_terms(
    b: Builder, operands: Sequence[Value], terms: Sequence[Sequence[Label]], output: Sequence[Label], dtype: str
) -> Value:
    """The sum over every label not in `output` of the product of the operands, read at their labels.

    More than two operands are contracted pairwise in opt_einsum's cheapest order. A label that only one operand has,
    and the output has not, is summed before the product.
    """
    sizes: dict[Label, int] = {}
    for value, labels in zip(operands, terms, strict=True):
        for label, extent in zip(labels, value.shape, strict=True):
            if sizes.get(label, 1) == 1:
                sizes[label] = extent
            elif extent not in (1, sizes[label]):
                raise ValueError(f"einsum: extent of {label!r}: expected {sizes[label]}, found {extent}")
    wide = [
        _Term(v, tuple(None if e == 1 and sizes[x] != 1 else x for x, e in zip(labels, v.shape, strict=True)))
        for v, labels in zip(operands, terms, strict=True)
    ]
    contractor = _Contractor(b, sizes, dtype)
    if len(wide) == 1:
        value = contractor.reduced(wide[0], output, "einsum").value
        return value if value is not wide[0].value else _copy(b, value, dtype)
    pending = [_without_lonely(contractor, t, wide, output) for t in wide]
    for pair in b.chosen(_path(pending, output, sizes)):
        chosen = [pending[k] for k in pair]
        pending = [t for k, t in enumerate(pending) if k not in pair]
        if len(chosen) == 1:
            pending.append(chosen[0])
            continue
        needed = {*output, *(x for t in pending for x in t.free)}
        kept = [x for x in dict.fromkeys((*chosen[0].free, *chosen[1].free)) if x in needed]
        pending.append(contractor.product(chosen[0], chosen[1], kept if pending else [x for x in output if x in kept]))
    return contractor.reduced(pending[0], output).value


def _copy(b: Builder, value: Value, dtype: str) -> Value:
    dims = [(f"i{k}", e) for k, e in enumerate(value.shape)]
    return b.statement("einsum", dims, value[tuple(n for n, _ in dims)], dtype)


def _without_lonely(contractor: _Contractor, term: _Term, all_terms: Sequence[_Term], output: Sequence[Label]) -> _Term:
    """The term with its labels summed that neither the output nor another term has."""
    others = {x for t in all_terms if t is not term for x in t.free} | set(output)
    lonely = [x for x in term.free if x not in others]
    return contractor.reduced(term, [x for x in term.free if x in others]) if lonely else term


def _path(terms: Sequence[_Term], output: Sequence[Label], sizes: dict[Label, int]) -> list[tuple[int, ...]]:
    """Pairs of positions to contract; a result goes to the end, as opt_einsum has it."""
    if len(terms) == 2:
        return [(0, 1)]
    symbols = {label: opt_einsum.get_symbol(k) for k, label in enumerate(sizes)}
    equation = ",".join("".join(symbols[x] for x in t.free) for t in terms) + "->" + "".join(symbols[x] for x in output)
    shapes = [tuple(max(sizes[x], 1) for x in t.free) for t in terms]
    optimize = "optimal" if len(terms) <= 6 else "auto"
    path, _ = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize=optimize)
    return [tuple(pair) for pair in path]
