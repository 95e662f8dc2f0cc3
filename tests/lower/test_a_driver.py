"""The lowering driver: setup values, tied weights, opaque operators, sources, documentation."""

from pathlib import Path

import numpy as np
import torch
from tracing import check, record

from sollens.analysis.execute.reference import run_all
from sollens.analysis.ir.nodes import Call
from sollens.analysis.lower.lower import lower
from sollens.analysis.lower.registry import load_rules, markdown, rule
from sollens.analysis.trace.schema import BUFFER, Module, Op, Span, Tensor, Trace

ROOT = Path(__file__).parents[2]


def tensor(number: int, shape: list[int], kind: str = "intermediate", **more) -> Tensor:
    return Tensor(
        number, more.pop("dtype", "f32"), shape, more.pop("storage", number), kind, more.pop("name", ""), **more
    )


def trace_of(tensors, ops, outputs, setup=()) -> Trace:
    return Trace(
        "f",
        "torch",
        tensors,
        list(ops),
        outputs,
        [Span("m.py", 3, 4, 3, 9)],
        [Module("net.fc", "Linear")],
        setup=list(setup),
    )


def t(number: int) -> dict:
    return {"tensor": number}


def masked(random: bool = False) -> Trace:
    """x * mask, where mask = tril(ones) was built before, in place."""
    first = Op("aten.rand.default" if random else "aten.ones.default", [[3, 3]], {}, t(1))
    return trace_of(
        [tensor(0, [3, 3], "input", name="x"), tensor(1, [3, 3], BUFFER, name="net.mask"), tensor(2, [3, 3])],
        [Op("aten.mul.Tensor", [t(0), t(1)], {}, t(2), span=0, module=0)],
        t(2),
        setup=[first, Op("aten.tril_.default", [t(1)], {}, t(1), mutates=[1])],
    )


def test_a_buffer_from_setup_has_its_value():
    lowered = lower(masked())
    mask = next(d for d in lowered.program.declarations if d.label == "net.mask")
    assert mask.defined_by is not None
    values = run_all(
        lowered.program,
        {"x": np.full((3, 3), 2.0)} if "x" in lowered.names.values() else {lowered.names[0]: np.full((3, 3), 2.0)},
    )
    np.testing.assert_array_equal(values[lowered.returned[0]], np.tril(np.full((3, 3), 2.0)))


def test_a_random_buffer_has_none():
    lowered = lower(masked(random=True))
    assert not lowered.program.setup
    assert all(d.defined_by is None for d in lowered.program.declarations)


def test_nodes_carry_the_source_of_their_operator():
    (node,) = lower(masked()).program.nodes
    assert (node.source.op, node.source.operator, node.source.line, node.source.module) == (
        0,
        "aten.mul.Tensor",
        3,
        "net.fc",
    )


def test_two_names_of_one_memory_are_one_declaration():
    tied = {"strides": [2, 1], "storage": 7}
    lowered = lower(
        trace_of(
            [
                tensor(0, [2, 2], "parameter", name="a", **tied),
                tensor(1, [2, 2], "parameter", name="b", **tied),
                tensor(2, [2, 2]),
            ],
            [Op("aten.add.Tensor", [t(0), t(1)], {}, t(2))],
            t(2),
        )
    )
    assert [d.label for d in lowered.program.declarations] == ["a"]


def test_an_operator_without_a_rule_is_an_opaque_call():
    lowered = lower(
        trace_of(
            [tensor(0, [2], "input"), tensor(1, [3])], [Op("aten.frobnicate.default", [t(0)], {}, t(1), span=0)], t(1)
        )
    )
    (node,) = lowered.program.nodes
    assert isinstance(node, Call) and node.op == "opaque" and node.attribute("operator") == "aten.frobnicate.default"
    (partial,) = lowered.partial
    assert (
        partial.operator == "aten.frobnicate.default"
        and partial.source.line == 3
        and "no lowering rule" in partial.reason
    )


def test_a_rule_that_disagrees_with_the_trace_is_partial():
    lowered = lower(
        trace_of([tensor(0, [2], "input"), tensor(1, [5])], [Op("aten.flip.default", [t(0), [0]], {}, t(1))], t(1))
    )
    assert "f32[2]" in lowered.partial[0].reason and "f32[5]" in lowered.partial[0].reason
    assert lowered.program.outputs == (lowered.names[1],)


def test_malformed_arguments_do_not_raise():
    ops = [
        Op("aten.add.Tensor", [], {}, t(1)),
        Op("aten.cat.default", [[]], {}, t(2)),
        Op("nonsense", [t(0)], {}, t(3)),
    ]
    lowered = lower(
        trace_of([tensor(k, [2], "input" if k == 0 else "intermediate") for k in range(4)], ops, [t(1), t(2), t(3)])
    )
    assert len(lowered.partial) == 3


def test_an_input_returned_unchanged_needs_no_node():
    lowered = check(lambda x: x, torch.randn(3))
    assert not lowered.program.nodes


def test_a_cache_is_written_by_the_row():
    def step(cache, x):
        cache[:, 1:2].copy_(x)
        return (cache * 2).sum()

    lowered = check(step, torch.zeros(2, 4, 3), torch.randn(2, 1, 3))
    shapes = {n.name: n.shape for n in lowered.program.nodes}
    assert sorted(shapes[o] for o in lowered.program.outputs) == [(), (2, 1, 3)]


def test_a_second_rule_for_an_operator_is_refused():
    load_rules()
    try:
        rule("aten.add")(lambda b, call: call.args[0])
    except ValueError as error:
        assert "aten.add" in str(error)
    else:
        raise AssertionError("two rules were accepted")


def test_the_documented_table_is_the_registry():
    assert markdown() in (ROOT / "docs" / "operators.md").read_text(), (
        "run `python -m sollens.analysis.lower.registry --markdown` and put the table at the end of docs/operators.md"
    )


def test_recording_is_deterministic():
    names = [lower(record(lambda x: (x + 1).relu().sum(), torch.ones(3)).trace).returned for _ in range(2)]
    assert names[0] == names[1]
