"""Verdicts: right programs pass, wrong ones are caught and their line named."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sollens.analysis.lower import registry
from sollens.analysis.lower.lower import lower
from sollens.analysis.validate.agree import How, agreement
from sollens.analysis.validate.compare import Rounding, difference
from tests.validate.conftest import BUDGET

MODEL = """
    N, D = 512, 1024
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(D, D)
        def forward(self, x):
            y = self.fc(x)
            z = F.relu(y)
            return z.softmax(dim=-1)
    def get_inputs():
        return [torch.rand(N, D)]
"""


def test_a_right_program_is_validated_on_its_twin(files: Any) -> None:
    verdict = files.verdict(MODEL)
    assert verdict.status == "validated", verdict
    assert set(verdict.sizes) == {"3:7", "3:12"}
    assert verdict.max_rel_error is not None and verdict.max_rel_error < 1e-5
    assert verdict.mismatch is None and verdict.tensors >= 3
    assert verdict.validation().status == "validated"


def test_compiled_code_gives_the_same_verdict(files: Any) -> None:
    assert files.verdict(MODEL, budget=replace(BUDGET, executor="compiled")).status == "validated"


def planted(monkeypatch: pytest.MonkeyPatch, target: str, wrong: Any) -> None:
    right = registry.find(target)
    assert right is not None
    monkeypatch.setattr(
        "sollens.analysis.lower.lower.find", lambda name: wrong(right) if name == target else registry.find(name)
    )


def negated(right: Any) -> Any:
    negate = registry.find("aten.neg.default")
    assert negate is not None
    return lambda builder, op: negate(builder, replace(op, target="aten.neg.default"))


def test_a_wrong_rule_is_caught_and_its_line_named(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, "aten.relu.default", negated)
    verdict = files.verdict(MODEL)
    assert verdict.status == "failed"
    assert verdict.mismatch is not None
    assert verdict.mismatch.operator == "aten.relu.default" and verdict.mismatch.line == 10
    assert verdict.mismatch.statement.startswith("neg")
    difference = verdict.mismatch.difference
    assert difference.expected != difference.found
    row = verdict.validation()
    assert row.status == "failed" and row.line == 10 and "neg" in row.statement


def test_a_dropped_bias_is_caught(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(right: Any) -> Any:
        return lambda builder, op: right(builder, replace(op, args=(op.args[0], op.args[1], None)))

    planted(monkeypatch, "fn.linear", wrong)
    verdict = files.verdict(MODEL)
    assert verdict.status == "failed" and verdict.mismatch is not None and verdict.mismatch.operator == "fn.linear"


def test_random_numbers_are_taken_from_the_original(files: Any) -> None:
    verdict = files.verdict("""
        class Model(nn.Module):
            def forward(self, x):
                return x * torch.randn(8, 8)
        def get_inputs():
            return [torch.rand(8, 8)]
    """)
    assert verdict.status == "validated" and "random" in verdict.reason


def test_a_program_that_fails_on_real_values_says_so(files: Any) -> None:
    verdict = files.verdict("""
        class Model(nn.Module):
            def forward(self, x):
                return F.binary_cross_entropy(x, x)
        def get_inputs():
            return [torch.randn(8, 8) * 9]
    """)
    assert verdict.status == "not-validated" and "between 0 and 1" in verdict.reason


def test_without_a_twin_every_kernel_is_checked_alone(files: Any) -> None:
    verdict = files.verdict(MODEL, budget=replace(BUDGET, search_s=-1.0))
    assert verdict.status == "by-kernel", verdict
    assert verdict.kernels == 3 and "no smaller program" in verdict.reason


def test_a_wrong_kernel_alone_is_caught(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, "aten.relu.default", negated)
    verdict = files.verdict(MODEL, budget=replace(BUDGET, search_s=-1.0))
    assert verdict.status == "failed" and "aten.relu.default" in verdict.reason


def test_an_unknown_operator_is_not_validated(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, "aten.relu.default", lambda right: None)
    verdict = files.verdict(MODEL)
    assert verdict.status == "not-validated" and "aten.relu.default" in verdict.reason


F32 = Rounding(2.0**-24, 4.0)


def test_integers_must_be_equal() -> None:
    expected = np.arange(6).reshape(2, 3)
    assert difference(expected.copy(), expected, F32)[1] is None
    wrong = expected.copy()
    wrong[1, 0] += 1
    found = difference(wrong, expected, F32)[1]
    assert found is not None and (found.index, found.expected, found.found) == ((1, 0), 3, 4)


def test_nan_and_infinities_must_be_at_the_same_places() -> None:
    expected = np.array([1.0, np.nan, np.inf, -np.inf], np.float32)
    assert difference(expected.copy(), expected, F32)[1] is None
    for position, value in ((0, np.nan), (1, 1.0), (2, -np.inf), (3, 0.0)):
        wrong = expected.copy()
        wrong[position] = value
        found = difference(wrong, expected, F32)[1]
        assert found is not None and found.index == (position,)


def test_tolerance_grows_with_the_root_of_the_reduction() -> None:
    assert Rounding(2.0**-24, 400.0).tolerance == pytest.approx(10 * Rounding(2.0**-24, 4.0).tolerance)
    assert Rounding(2.0**-11, 4.0).tolerance == pytest.approx(2**13 * Rounding(2.0**-24, 4.0).tolerance)


def test_a_coarse_dtype_that_the_original_never_had_excuses_nothing(files: Any) -> None:
    golden = files.golden(MODEL)
    lowered = lower(golden.trace)
    assert agreement(golden, lowered, How(executor="reference")).status == "validated"
    for dtype in ("f16", "bf16"):
        for k, node in enumerate(lowered.program.nodes):
            if node.name == "row_max":  # cancels out of a softmax
                continue
            narrow = replace(node, dtype=dtype)
            nodes = (*lowered.program.nodes[:k], narrow, *lowered.program.nodes[k + 1 :])
            wrong = replace(lowered, program=replace(lowered.program, nodes=nodes))
            assert agreement(golden, wrong, How(executor="reference")).status == "failed", (dtype, node.name)


def test_amplified_rounding_is_allowed_and_error_is_not() -> None:
    expected = np.ones(4, np.float32)
    found = np.array([1, 1, 1, 1.0001], np.float32)
    assert difference(found, expected, F32)[1] is not None
    assert difference(found, expected, F32, exact=np.array([1, 1, 1, 1.00005]))[1] is None
    assert difference(found, expected, F32, exact=found.astype(np.float64))[1] is not None


def test_rounding_that_double_precision_shows_too_is_an_error() -> None:
    """A result kept in 16 bits is as far from its double-precision run as an ill-conditioned one."""
    original = np.array([1.0, 0.7004])
    expected = original.astype(np.float32)
    found = expected.astype(np.float16).astype(np.float32)
    other_way = found.astype(np.float64) - [0, 2.0**-11]  # the last bit falls otherwise
    assert difference(found, expected, F32, exact=other_way)[1] is None
    differs = difference(found, expected, F32, exact=other_way, original=original)[1]
    assert differs is not None and differs.index == (1,)


def test_what_double_precision_takes_to_nothing_is_rounding_on_both_sides() -> None:
    expected, found = np.array([3e-8, -1e-8], np.float32), np.array([-2e-8, 4e-8], np.float32)
    nothing, small = np.array([1e-17, 0.0]), np.array([0.0, 2e-8])
    assert difference(found, expected, F32)[1] is not None
    assert difference(found, expected, F32, exact=nothing, original=nothing)[1] is None
    assert difference(found, expected, F32, exact=small, original=nothing)[1] is not None
    assert difference(found, expected, F32, exact=nothing, original=small)[1] is not None
