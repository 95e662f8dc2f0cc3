"""Scopes: parts move at least what the whole does, and no execution moves less than the whole's bytes."""

from __future__ import annotations

import random
from collections import OrderedDict

from hypothesis import given, note
from hypothesis import strategies as st

from sollens.analysis.einsum.lift import lift
from sollens.analysis.einsum.scopes import Scopes
from sollens.analysis.ir.nodes import Program
from sollens.analysis.ir.text_print import to_text
from sollens.analysis.trace.schema import DTYPE_BITS
from tests.einsum.brute import Machine, Value
from tests.einsum.programs import programs
from tests.einsum.sampling import examples
from tests.einsum.test_loops import loops


def scopes_of(program: Program) -> Scopes:
    return Scopes(lift(program), lambda e: "x")


@examples(80)
@given(st.one_of(programs(), loops()), st.randoms(use_true_random=False))
def test_parts_move_at_least_what_the_whole_moves(program: Program, rng: random.Random):
    note(to_text(program))
    scopes = scopes_of(program)
    whole = scopes.whole()
    count = len(scopes.graph.einsums)
    for _ in range(3):
        parts: dict[int, list[int]] = {}
        for k in range(count):
            parts.setdefault(rng.randrange(max(1, count)), []).append(k)
        found = [scopes.of(members) for members in parts.values()]
        assert sum(s.bytes for s in found) >= whole.bytes
        assert sum(s.read_bytes for s in found) >= whole.read_bytes
        assert sum(s.written_bytes for s in found) >= whole.written_bytes
        assert sum(s.total_macs for s in found) >= whole.total_macs
        assert sum(s.total_vector_ops for s in found) >= whole.total_vector_ops
        if len({e.value for e in scopes.graph.einsums}) == count and not scopes.shared:  # nothing is computed twice
            assert sum(s.total_macs for s in found) == whole.total_macs
            assert sum(s.total_vector_ops for s in found) == whole.total_vector_ops


@examples(60)
@given(st.one_of(programs(), loops()))
def test_what_is_read_is_demanded_and_what_is_demanded_is_read_or_returned(program: Program):
    note(to_text(program))
    graph = lift(program)
    for einsum in graph.einsums:
        for tensor, region in einsum.reads.items():
            assert region.subtract(graph.demanded[tensor]).is_empty
    for tensor, region in graph.demanded.items():
        rest = region.subtract(graph.returned[tensor]) if tensor in graph.returned else region
        for einsum in graph.einsums:
            if tensor in einsum.reads:
                rest = rest.subtract(einsum.reads[tensor])
        assert rest.is_empty


class Chip:
    """Executes values in a random order with an LRU cache of so many elements; counts bytes moved."""

    def __init__(self, machine: Machine, capacity: int, rng: random.Random) -> None:
        self.machine, self.capacity, self.rng = machine, capacity, rng
        self.cache: OrderedDict[int, Value] = OrderedDict()
        self.spilled: set[int] = set()
        self.done: set[int] = set()
        self.moved_bits = 0

    def bits(self, value: Value) -> int:
        """Bits of an element: the external's dtype; anything computed is at least a byte."""
        return DTYPE_BITS[self.machine.tensors[value.key[1]].dtype] if value.key[0] == "external" else 8

    def hold(self, value: Value) -> None:
        self.cache[id(value)] = value
        self.cache.move_to_end(id(value))
        while len(self.cache) > self.capacity:
            key, dropped = self.cache.popitem(last=False)
            if dropped.key[0] != "external" and key not in self.spilled:
                self.spilled.add(key)
                self.moved_bits += self.bits(dropped)

    def use(self, value: Value) -> None:
        """Bring a value on chip: computed now, already there, or read from memory."""
        stack = [(value, False)]
        while stack:
            top, ready = stack.pop()
            if top.constant:
                continue
            if id(top) in self.cache:
                self.cache.move_to_end(id(top))
            elif top.key[0] == "external" or id(top) in self.done:
                self.moved_bits += self.bits(top)
                self.hold(top)
            elif ready:
                for arg in top.args:
                    if not arg.constant and id(arg) not in self.cache:
                        self.moved_bits += self.bits(arg)
                        self.hold(arg)
                self.done.add(id(top))
                self.hold(top)
            else:
                stack.append((top, True))
                args = list(top.args)
                self.rng.shuffle(args)
                stack += [(a, False) for a in args]

    def run(self) -> int:
        """Compute and write every output element; bytes moved."""
        places = {
            place: (value, tensor.dtype)
            for tensor in (self.machine.tensors[n] for n in self.machine.program.outputs)
            for place, value in ((tensor.places[i], v) for i, v in tensor.values.items())
            if place[0] != "external"
        }
        wanted = list(places.values())
        self.rng.shuffle(wanted)
        for value, dtype in wanted:
            self.use(value)
            self.moved_bits += DTYPE_BITS[dtype]
        return -(-self.moved_bits // 8)


@examples(60)
@given(st.one_of(programs(), loops()), st.randoms(use_true_random=False))
def test_no_execution_moves_less_than_the_bound(program: Program, rng: random.Random):
    note(to_text(program))
    bound = scopes_of(program).whole().bytes
    machine = Machine(program).run()
    for capacity in (1, rng.randint(2, 12), 10_000):
        assert Chip(machine, capacity, rng).run() >= bound
    assert Chip(machine, 10_000_000, rng).run() == bound
