"""The engine's counts are the brute force's on random small programs."""

from __future__ import annotations

import pytest
from hypothesis import currently_in_test_context, given, note

from sollens.analysis.einsum.lift import lift
from sollens.analysis.einsum.scopes import Scopes
from sollens.analysis.ir.nodes import Program
from sollens.analysis.ir.text_print import to_text
from tests.einsum.brute import Counts, brute
from tests.einsum.programs import STEPS, programs
from tests.einsum.sampling import examples


def engine(program: Program) -> Counts:
    whole = Scopes(lift(program), lambda e: "x").whole()
    return Counts(whole.total_macs, whole.total_vector_ops, whole.read_bytes, whole.written_bytes)


def check_exact(program: Program) -> None:
    """Equal numbers, but for two things: operations that repeat on part of an axis only (padding that is not zero), or
    in parts of several statements, may be counted more than once, and `x + x + x` from an expanded x may count nothing.
    """
    if currently_in_test_context():
        note(to_text(program))
    found, expected = engine(program), brute(program)
    assert (found.read_bytes, found.written_bytes) == (expected.read_bytes, expected.written_bytes)
    surplus = found.macs - expected.macs + found.vector_ops - expected.vector_ops
    assert -expected.powers <= surplus <= expected.partial_repeats, f"found {found}, expected {expected}"


@pytest.mark.parametrize("step", STEPS, ids=lambda s: s.__name__)
def test_one_step_counts_exactly(step):
    @examples(40)
    @given(programs(steps=(step,), longest=2))
    def check(program):
        check_exact(program)

    check()


@examples(150)
@given(programs())
def test_chains_count_exactly(program):
    check_exact(program)
