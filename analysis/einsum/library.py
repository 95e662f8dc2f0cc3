"""The demand of calls: which operand elements a set of result elements needs (bounds.md section 2).

Indices that are known (constants, example inputs) give the elements really touched. Unknown ones give the smallest
region that any indices could, and the result is marked low confidence. The rules stand in `library_rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sollens.analysis.einsum.domain import Domain
from sollens.analysis.einsum.evaluate import Constants
from sollens.analysis.einsum.kernels import BaseTensor, Library, View
from sollens.analysis.einsum.region import Region
from sollens.analysis.ir.affine import Affine, Constraint, dim

# Where something may lie anywhere, so many places are tried for the one that costs least.
MAX_PLACES = 64


@dataclass(slots=True)
class LibraryWork:
    """What a call reads and costs; `low` says why its region is only the smallest possible.

    `anywhere` names base tensors of which elements at unknown places are read.
    """

    vector_ops: int = 0
    reads: dict[str, Region] = field(default_factory=dict[str, Region])
    low: str = ""
    from_inputs: bool = False
    anywhere: set[str] = field(default_factory=set[str])


Rule: TypeAlias = "Callable[[LibraryDemand, Region], None]"


class LibraryDemand:
    """Computes the reads of one call for the demanded regions of its results.

    `taken` are regions of base tensors that others read for certain: what may lie anywhere lies there first.
    """

    def __init__(
        self,
        item: Library,
        tensors: Mapping[str, BaseTensor],
        values: Mapping[str, NDArray[Any]],
        taken: Mapping[str, Region],
        constants: Constants,
    ) -> None:
        self.item = item
        self.call = item.call
        self.tensors = tensors
        self.values = values
        self.taken = taken
        self.constants = constants
        self.work = LibraryWork()
        self.loops = tuple(d.name for d in item.loops)

    def of(self, demanded: Sequence[Region], rules: Mapping[str, Rule]) -> LibraryWork:
        """The work when these regions of the results (in order) are needed."""
        rule = rules.get(self.call.op, LibraryDemand.read_everything)
        for region in demanded:
            if not region.is_empty:
                rule(self, region)
        return self.work

    # --- results

    def axes(self, region: Region) -> list[Affine]:
        """The result's own axes (without the loops') as functions of the demanded elements."""
        return [dim(f"%{k}") for k in range(len(region.shape) - len(self.loops))]

    def own_shape(self, region: Region) -> tuple[int, ...]:
        """The result's shape in one iteration."""
        return region.shape[len(self.loops) :]

    def domain(
        self, region: Region, free: Sequence[tuple[str, int]] = (), guard: tuple[Constraint, ...] = ()
    ) -> Domain:
        """Demanded elements, with more dimensions of any value."""
        names = (*self.loops, *(f"%{k}" for k in range(len(region.shape) - len(self.loops))))
        return Domain.of(region, names, free, guard)

    def whole(self, region: Region) -> bool:
        """Every element of the result is needed in each iteration that needs any."""
        return region.box is not None and all(
            low == 0 and high == extent - 1
            for (low, high), extent in list(zip(region.box, region.shape, strict=True))[len(self.loops) :]
        )

    # --- reading operands

    def shape(self, position: int) -> tuple[int, ...]:
        """Shape of an operand."""
        return tuple(d.extent for d in self.item.operands[position].dims)

    def touched(self, position: int, domain: Domain, index: Sequence[Affine]) -> Region:
        """The region of the operand's base tensor at these functions of the domain."""
        view = self.item.operands[position]
        names = dict(zip((d.name for d in view.dims), index, strict=True))
        return domain.image(tuple(i.substitute(names) for i in view.index), self.tensors[view.base].shape)

    def read(self, position: int, domain: Domain, index: Sequence[Affine]) -> Region:
        """Need the operand at these functions of the domain's dimensions; the region of its base tensor."""
        region = self.touched(position, domain, index)
        self._add(position, region)
        return region

    def _add(self, position: int, region: Region) -> None:
        base = self.item.operands[position].base
        if not region.is_empty:
            known = self.work.reads.get(base)
            self.work.reads[base] = region if known is None else known.union(region)

    def read_all(self, position: int, region: Region) -> None:
        """Need the whole operand in every iteration that is demanded."""
        free = [(f"&{k}", e) for k, e in enumerate(self.shape(position))]
        self.read(position, self.domain(region, free), [dim(name) for name, _ in free])

    def read_everything(self, region: Region) -> None:
        """Need all operands: what is known of an operator without a rule."""
        for position in range(len(self.item.operands)):
            self.read_all(position, region)

    def read_anywhere(
        self, position: int, domain: Domain, index: Sequence[Affine], axes: Sequence[int], length: int = 1
    ) -> None:
        """Need `length` elements of the operand at an unknown place along `axes` (the functions there count from 0):
        where others read anyway, when they do; nothing at all where the best place is not found.
        """
        base = self.item.operands[position].base
        self.work.anywhere.add(base)
        region = self.touched(position, domain, index)
        taken = self.taken.get(base)
        if taken is None or taken.is_empty:
            self._add(position, region)
            return
        if len(axes) != 1 or region.count == 0:
            return
        axis = axes[0]
        places = range(max(1, self.shape(position)[axis] - length + 1))
        best: Region | None = None
        most = -1
        for place in places[:MAX_PLACES]:
            moved = self.touched(position, domain, [i + place if k == axis else i for k, i in enumerate(index)])
            shared = moved.intersect(taken).count
            if shared == moved.count:
                self._add(position, moved)
                return
            if shared > most:
                best, most = moved, shared
        if best is not None and len(places) <= MAX_PLACES:
            self._add(position, best)

    # --- known indices

    def known(self, position: int) -> NDArray[Any] | None:
        """The operand's values, when they are known."""
        view = self.item.operands[position]
        if self.loops:
            return None
        declaration = self.tensors[view.base].declaration
        base = self.values.get(view.base) if declaration is not None else self.constants.of(view.base)
        if base is None:
            return None
        self.work.from_inputs |= declaration is not None and declaration.role == "input"
        return _through(view, base)


def _through(view: View, base: NDArray[Any]) -> NDArray[Any]:
    shape = tuple(d.extent for d in view.dims)
    grids = dict(zip((d.name for d in view.dims), np.indices(shape, sparse=True), strict=True))
    index = tuple(np.broadcast_to(np.asarray(i.evaluate(grids)), shape) for i in view.index)
    return base[index] if index else np.broadcast_to(base, shape)


def runs_of(rows: NDArray[Any], extent: int) -> list[tuple[int, int]]:
    """The distinct rows as runs (first, last)."""
    unique = np.unique(rows)
    unique = unique[(unique >= 0) & (unique < extent)]
    if unique.size == 0:
        return []
    breaks = np.flatnonzero(np.diff(unique) > 1)
    starts = unique[np.concatenate(([0], breaks + 1))]
    ends = unique[np.concatenate((breaks, [unique.size - 1]))]
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def elements(shape: Sequence[int]) -> int:
    """Number of elements."""
    return prod(shape)
