"""The pragma language: what reads, and what is said of what does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sollens.analysis.source.model import DictSpec, ListSpec, TensorSpec, TupleSpec
from sollens.analysis.source.pragma import PragmaError, parse
from sollens.analysis.trace.schema import DTYPE_BITS


def test_shapes_bind_names_and_read_those_of_the_module() -> None:
    shapes = parse("x=f32[B=8, 512, dim], mask=bool[B, 1, 512, 4*dim//2 - 1]", {"dim": 64})
    assert dict(shapes.inputs) == {"x": TensorSpec("f32", (8, 512, 64)), "mask": TensorSpec("bool", (8, 1, 512, 127))}
    assert dict(shapes.names) == {"B": 8}


def test_options_are_told_from_arguments_of_the_same_name() -> None:
    shapes = parse("target=2ms, hw=h100-sxm, mode=train, x=f32[]", {})
    assert (shapes.target_s, shapes.hardware, shapes.mode) == (0.002, "h100-sxm", "train")
    arguments = parse("target=i64[8], mode='linear', hw=f32[2, 2]", {})
    assert [name for name, _ in arguments.inputs] == ["target", "mode", "hw"]
    assert arguments.hardware is None


@pytest.mark.parametrize("chip", ["a100-pcie-40gb", "tpu-v5e", "jetson-thor-t5000", "rtx-4090"])
def test_a_chip_with_digits_and_dashes_reads_whole(chip: str) -> None:
    assert parse(f"hw={chip}, x=f32[1]", {}).hardware == chip


def test_literals_and_containers() -> None:
    text = "k=-3, scale=1e-5, name='gelu', flag=True, none=None, xs=[f32[2], f32[3]], pair=(1, 2), p={'w': f16[4, 4]}"
    assert dict(parse(text, {}).inputs) == {
        "k": -3, "scale": 1e-5, "name": "gelu", "flag": True, "none": None,
        "xs": ListSpec((TensorSpec("f32", (2,)), TensorSpec("f32", (3,)))), "pair": TupleSpec((1, 2)),
        "p": DictSpec((("w", TensorSpec("f16", (4, 4))),)),
    }  # fmt: skip


def test_init_takes_positional_then_named() -> None:
    shapes = parse("init(dim, 2*dim, heads=12), x=float32[1]", {"dim": 8})
    assert shapes.init_args == (8, 16)
    assert shapes.init_kwargs == (("heads", 12),)
    assert dict(shapes.inputs) == {"x": TensorSpec("f32", (1,))}


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("x=f99[8]", 2, "a dtype"),
        ("x=f32[8, N]", 9, "a name bound to an integer"),
        ("x=f32[?]", 6, "in place of the question mark"),
        ("x=f32[8", 7, "']' to close the shape"),
        ("x f32[8]", 2, "'=' after 'x'"),
        ("x=f32[-1]", 6, "an extent from 0"),
        ("x=f32[8], x=f32[9]", 10, "every argument once"),
        ("x=f32[B=8], y=f32[B=9]", 18, "B = 8, as bound before"),
        ("x=f32[8//0]", 9, "a divisor other than 0"),
        ("init(a=1, 2)", 10, "a constructor argument with its name"),
        ("target=5, x=f32[1]", 7, "a duration"),
        ("x=f32[8] $", 9, "a name, a number"),
        ("", 0, "an argument such as"),
        ("x=f32[99999999999999999999]", 6, "an extent from 0"),
    ],
)
def test_an_error_has_its_column_and_says_what_was_expected(text: str, column: int, expected: str) -> None:
    with pytest.raises(PragmaError) as caught:
        parse(text, {})
    assert caught.value.column == column
    assert expected in str(caught.value)


@given(st.sampled_from(sorted(DTYPE_BITS)), st.lists(st.integers(0, 2**40), max_size=6))
def test_a_printed_shape_reads_back(dtype: str, shape: list[int]) -> None:
    spec = TensorSpec(dtype, tuple(shape))
    assert parse(f"x={spec}", {}).inputs == (("x", spec),)


@given(st.text(alphabet="x=f32[](){}8,:'\"?-*/% \tNµ", max_size=40))
def test_any_text_reads_or_is_refused_with_a_column_inside_it(text: str) -> None:
    try:
        parse(text, {})
    except PragmaError as error:
        assert 0 <= error.column <= len(text)
