"""Demand: walk back from a program's outputs and keep only what can reach one (bounds.md section 1).

The result tells, for every kernel and call, its exact work and the exact region of each base tensor it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import islpy as isl
from numpy.typing import NDArray

from sollens.analysis.einsum.constants import is_any
from sollens.analysis.einsum.domain import Domain
from sollens.analysis.einsum.evaluate import Constants
from sollens.analysis.einsum.kernels import Carry, FlatProgram, Item, Kernel, Library, View, flatten
from sollens.analysis.einsum.knowledge import Knowledge, Piece
from sollens.analysis.einsum.library import LibraryDemand
from sollens.analysis.einsum.library_rules import RULES
from sollens.analysis.einsum.masks import TooComplex
from sollens.analysis.einsum.polyhedra import access, box_set
from sollens.analysis.einsum.redundancy import Redundancy, redundancy_of
from sollens.analysis.einsum.region import Region
from sollens.analysis.einsum.work import KernelDemand, Work
from sollens.analysis.ir.affine import at_least, const, dim
from sollens.analysis.ir.nodes import Declaration, Program

MAX_LOOP_PASSES = 12


@dataclass(slots=True)
class DemandedProgram:
    """A flat program with its demand. `works` stands beside `flat.items`; `demanded` and `returned` are regions of
    base tensors.
    """

    flat: FlatProgram
    works: list[Work]
    demanded: dict[str, Region]
    # Regions of computed tensors that the program returns (a returned view of an external moves nothing and is not
    # here).
    returned: dict[str, Region]
    # Kernels that compute again what another one computes, by name.
    same: Mapping[str, str] = field(default_factory=dict[str, str])
    low: list[str] = field(default_factory=list[str])
    from_inputs: bool = False


def demand(program: Program, values: Mapping[str, NDArray[Any]] | None = None) -> DemandedProgram:
    """The demanded part of `program`; `values` are known values of declared tensors."""
    flat = flatten(program)
    knowledge = _knowledge(program, flat)
    redundancy = redundancy_of(flat)
    first = _Pass(flat, knowledge, redundancy, dict(values or {}), {})
    result = first.run()
    taken = first.taken()
    # What may lie anywhere lies where others read: known only once everything has been walked.
    return _Pass(flat, knowledge, redundancy, dict(values or {}), taken).run() if taken else result


def _knowledge(program: Program, flat: FlatProgram) -> Knowledge:
    knowledge = Knowledge()
    if program.setup:
        named = {d.defined_by: d for d in program.declarations if d.defined_by}
        setup = flatten(program, program.setup, tuple(named))
        before = Knowledge()
        before.learn(setup)
        for (defined_by, declaration), view in zip(named.items(), setup.outputs, strict=True):
            pieces = before.tensors.get(view.base)
            if pieces and defined_by:
                learned = _seen_through(view, pieces, declaration)
                if learned:
                    knowledge.tensors[declaration.name] = learned
    knowledge.learn(flat)
    return knowledge


def _seen_through(view: View, pieces: tuple[Piece, ...], declaration: Declaration) -> tuple[Piece, ...]:
    """Known pieces of a setup tensor as those of the declared one.

    A float buffer of one constant (running statistics at zero) is state that training changes, not a fact about the
    program.
    """
    names = [d.name for d in view.dims]
    domain = box_set(tuple((0, d.extent - 1) for d in view.dims))
    function = access(view.index, names)
    static = declaration.role != "input"
    result = tuple(
        Piece(
            p.where.preimage_multi_aff(function).intersect(domain),
            p.value.pullback_multi_aff(function) if isinstance(p.value, isl.Aff) else p.value,
            static,
        )
        for p in pieces
    )
    result = tuple(p for p in result if not p.where.is_empty() and not is_any(p.value))
    uniform = len(result) == 1 and not isinstance(result[0].value, isl.Aff)
    if declaration.role == "parameter" or (uniform and declaration.dtype[0] in "fbc" and declaration.dtype != "bool"):
        return ()
    return result


class _Pass:
    def __init__(
        self,
        flat: FlatProgram,
        knowledge: Knowledge,
        redundancy: Redundancy,
        values: dict[str, NDArray[Any]],
        taken: Mapping[str, Region],
    ) -> None:
        self.flat = flat
        self.knowledge = knowledge
        self.redundancy = redundancy
        self.constants = Constants(flat, redundancy.constants)
        self.values = values
        self.certain = taken
        self.anywhere: dict[str, set[int]] = {}
        self.returned: dict[str, Region] = {}
        self.demanded: dict[str, Region] = {}
        self.works = [Work() for _ in flat.items]
        self.low: dict[int, str] = {}
        self.from_inputs = False
        self.starts: dict[int, list[int]] = {stop: [] for _, stop in flat.groups}
        for start, stop in flat.groups:
            self.starts[stop].append(start)

    def run(self) -> DemandedProgram:
        returned: dict[str, Region] = {}
        for view in self.flat.outputs:
            tensor = self.flat.tensors[view.base]
            if tensor.declaration is not None:
                continue
            names = tuple(d.name for d in view.dims)
            region = Domain(names, tuple((0, d.extent - 1) for d in view.dims)).image(view.index, tensor.shape)
            returned[view.base] = returned[view.base].union(region) if view.base in returned else region
        self.returned = returned
        for name, region in returned.items():
            self._add(name, region)
        self._range(0, len(self.flat.items), frozenset())
        return DemandedProgram(
            flat=self.flat,
            works=self.works,
            demanded=self.demanded,
            returned=returned,
            same=self.redundancy.same,
            low=list(dict.fromkeys(self.low.values())),
            from_inputs=self.from_inputs,
        )

    def taken(self) -> dict[str, Region]:
        """Of each tensor that is also read at unknown places: what is needed for certain."""
        result: dict[str, Region] = {}
        for name, positions in self.anywhere.items():
            regions = [w.reads[name] for k, w in enumerate(self.works) if k not in positions and name in w.reads]
            if name in self.returned:
                regions.append(self.returned[name])
            for region in regions:
                result[name] = result[name].union(region) if name in result else region
        return result

    def _add(self, name: str, region: Region) -> bool:
        """Join a region to a tensor's demand; whether it grew."""
        known = self.demanded.get(name)
        if known is None:
            self.demanded[name] = region
            return not region.is_empty
        joined = known.union(region)
        self.demanded[name] = joined
        return joined is not known and joined != known

    def _region(self, name: str) -> Region:
        return self.demanded.get(name) or Region.empty(self.flat.tensors[name].shape)

    def _range(self, start: int, stop: int, open_groups: frozenset[tuple[int, int]]) -> None:
        position = stop
        while position > start:
            inner = [s for s in self.starts.get(position, ()) if s >= start and (s, position) not in open_groups]
            if inner:
                outermost = min(inner)
                self._loop(outermost, position, open_groups)
                position = outermost
            else:
                position -= 1
                self._item(position)

    def _loop(self, start: int, stop: int, open_groups: frozenset[tuple[int, int]]) -> None:
        """A loop's carried values make its body demand itself; each pass goes one iteration back, until nothing grows.

        A recurrence that needs at every step what it needs at the last is taken all the way at once. Stopping early
        leaves a smaller demand, which is still a lower bound.
        """
        carries = [item for item in self.flat.items[start:stop] if isinstance(item, Carry)]
        for _ in range(MAX_LOOP_PASSES):
            before = {name: self.demanded.get(name) for name in self._names(start, stop)}
            self._range(start, stop, open_groups | {(start, stop)})
            own = [c for c in carries if (start, stop) == self._group_of(c)]
            if own:
                self._take_back(own, start, stop, open_groups)
            if not carries or all(self.demanded.get(name) == region for name, region in before.items()):
                return

    def _group_of(self, carry: Carry) -> tuple[int, int]:
        """The innermost loop that holds the carry."""
        position = next(k for k, item in enumerate(self.flat.items) if item is carry)
        return min(((a, b) for a, b in self.flat.groups if a <= position < b), key=lambda g: g[1] - g[0])

    def _take_back(self, carries: list[Carry], start: int, stop: int, open_groups: frozenset[tuple[int, int]]) -> None:
        """Demand of every earlier iteration what is demanded of the last one, where one step of the loop shows that
        it follows.
        """
        axis = len(carries[0].loops) - 1
        last = carries[0].loops[axis].extent - 1
        boxes = {c.name: r.box for c in carries if (r := self._region(c.name)).box is not None}
        last = min([last, *(box[axis][1] for box in boxes.values())])
        wanted: dict[str, Region] = {}
        for carry in carries:
            region = self._region(carry.name)
            at_last = [(0, e - 1) for e in region.shape]
            at_last[axis] = (last, last)
            box = region.intersect(Region.of_box(region.shape, at_last)).box
            if box is not None:
                wanted[carry.name] = Region.of_box(region.shape, [*box[:axis], (0, last), *box[axis + 1 :]])
        if last < 1 or all(self._region(name).union(region) == self._region(name) for name, region in wanted.items()):
            return
        step = _Pass(self.flat, self.knowledge, self.redundancy, self.values, self.certain)
        for carry in carries:
            if carry.name in wanted:
                box = wanted[carry.name].box
                assert box is not None
                later = Region.of_box(wanted[carry.name].shape, [*box[:axis], (1, last), *box[axis + 1 :]])
                for base, needed in step._carry(carry, later).reads.items():
                    step._add(base, needed)
        step._range(start, stop, open_groups | {(start, stop)})
        for name, region in wanted.items():
            assert region.box is not None
            follows = Region.of_box(region.shape, [*region.box[:axis], (0, last - 1), *region.box[axis + 1 :]])
            found = step._region(name)
            if found.union(follows) != found:
                return
        for name, region in wanted.items():
            self._add(name, region)

    def _names(self, start: int, stop: int) -> list[str]:
        names: list[str] = []
        for item in self.flat.items[start:stop]:
            names += item.results if isinstance(item, Library) else (item.name,)
        return names

    def _item(self, position: int) -> None:
        item = self.flat.items[position]
        try:
            work = self._work(position, item)
        except TooComplex as error:
            # Nothing of it is counted, which is still a lower bound.
            self.low[position] = f"{item.source.operator}: the part of it that is needed is too complex ({error})"
            work = Work()
        self.works[position] = work
        for name, region in work.reads.items():
            self._add(name, region)

    def _work(self, position: int, item: Item) -> Work:
        match item:
            case Kernel():
                work = KernelDemand(item, self.flat.tensors, self.knowledge, self.redundancy).of(
                    self._region(item.name)
                )
                self.from_inputs |= work.from_inputs
                return work
            case Library():
                call = LibraryDemand(item, self.flat.tensors, self.values, self.certain, self.constants)
                done = call.of([self._region(r) for r in item.results], RULES)
                for name in done.anywhere:
                    self.anywhere.setdefault(name, set()).add(position)
                self.from_inputs |= done.from_inputs
                if done.low:
                    self.low[position] = f"{item.source.operator or item.call.op}: {done.low}"
                return Work(vector_ops=done.vector_ops, reads=done.reads)
            case Carry():
                return self._carry(item, self._region(item.name))

    def _carry(self, item: Carry, region: Region) -> Work:
        """The value at t is the body's at t - 1, and the initial one at t = 0."""
        if region.is_empty:
            return Work()
        work = Work()
        axis = len(item.loops) - 1
        feed = self.flat.feeds[item.name]
        names = (*(d.name for d in item.loops), *(d.name for d in feed.dims))
        whole = Domain.of(region, names, (), ())
        self._read(work, feed, whole.restrict([at_least(dim(names[axis]), const(1))]), {names[axis]: -1})
        self._read(work, item.initial, whole.restrict([at_least(const(0), dim(names[axis]))]), {})
        return work

    def _read(self, work: Work, view: View, domain: Domain, shift: Mapping[str, int]) -> None:
        moved = {name: dim(name) + by for name, by in shift.items()}
        region = domain.image(tuple(i.substitute(moved) for i in view.index), self.flat.tensors[view.base].shape)
        if not region.is_empty:
            known = work.reads.get(view.base)
            work.reads[view.base] = region if known is None else known.union(region)
