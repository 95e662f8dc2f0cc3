"""What follows from the program's text costs nothing: masks, tables, constants, and everything they remove."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sollens.analysis.einsum.pairwise import pairwise_points
from tests.einsum.brute import brute
from tests.einsum.sampling import examples
from tests.einsum.test_exact import check_exact, engine
from tests.einsum.test_loops import program

BUFFER = """program masked()
  input x: f32[4, 4]
  parameter w: f32[4, 3]
  buffer mask: {dtype}[4, 4] = m
  setup
    m[i:4, j:4]: {dtype} = {value}
  a[i:4, j:4]: f32 = {use}
  {rest}
  output y
"""
PRODUCT = "y[i:4, n:3]: f32 = sum[j:4] a[i, j] * w[j, n]"
SOFTMAX = """t[i:4]: f32 = max[j:4] a[i, j]
  e[i:4, j:4]: f32 = exp(a[i, j] - t[i])
  z[i:4]: f32 = sum[j:4] e[i, j]
  y[i:4, n:3]: f32 = sum[j:4] e[i, j] / z[i] * w[j, n]"""


@pytest.mark.parametrize(
    ("dtype", "value", "use", "rest"),
    [
        ("bool", "index(i) >= index(j)", "where(mask[i, j], x[i, j], 0.0)", PRODUCT),
        ("f32", "select(j <= i, 1.0, 0.0)", "x[i, j] * mask[i, j]", PRODUCT),
        ("f32", "select(j <= i, 0.0, -inf)", "x[i, j] + mask[i, j]", SOFTMAX),
        ("f32", "select(j <= i, 0.0, -1000000000.0)", "x[i, j] + mask[i, j]", SOFTMAX),
        ("bool", "index(i) >= index(j)", "where(mask[i, j], x[i, j], -inf)", SOFTMAX),
        ("bool", "index(j) > index(i)", "where(mask[i, j], -inf, x[i, j])", SOFTMAX),
        ("bool", "index(i) - index(j) < 2 and index(i) >= index(j)", "where(mask[i, j], x[i, j], -inf)", SOFTMAX),
    ],
)
def test_a_mask_buffer_removes_what_it_masks(dtype, value, use, rest):
    example = program(BUFFER.format(dtype=dtype, value=value, use=use, rest=rest))
    check_exact(example)
    dense = program(BUFFER.format(dtype=dtype, value=value, use="x[i, j]", rest=rest))
    assert engine(example).macs < engine(dense).macs


def test_a_buffer_of_one_float_is_state_and_is_read():
    text = """program running()
  input x: f32[4]
  buffer mean: f32[4] = m
  setup
    m[i:4]: f32 = 0.0
  y[i:4]: f32 = x[i] - mean[i]
  output y
"""
    check_exact(program(text))
    assert engine(program(text)).read_bytes == 32


def test_a_table_of_constants_is_free():
    check_exact(
        program("""program rotary()
  input x: f32[8, 4]
  t[i:8]: f32 = cast<f32>(index(i))
  f[k:4]: f32 = exp(cast<f32>(index(k)) * -0.5)
  a[i:8, k:4]: f32 = t[i] * f[k]
  c[i:8, k:4]: f32 = cos(a[i, k])
  y[i:8, k:4]: f32 = x[i, k] * c[i, k]
  output y
""")
    )


def test_a_fold_of_constants_is_a_constant():
    check_exact(
        program("""program degrees()
  input x: f32[4, 4]
  m[i:4, j:4]: f32 = select(j <= i, 2.0, 0.0)
  d[i:4]: f32 = sum[j:4] m[i, j]
  r[i:4]: f32 = reciprocal(d[i])
  y[i:4, j:4]: f32 = x[i, j] * r[i]
  output y
""")
    )


@pytest.mark.parametrize("op", ["x[i] * 1.0", "x[i] + 0.0", "x[i] - 0.0", "x[i] / 1.0"])
def test_an_identity_is_no_operation(op):
    check_exact(program(f"program p()\n  input x: f32[4]\n  y[i:4]: f32 = {op}\n  output y\n"))


@pytest.mark.parametrize("window", [2, 3])
def test_overlapping_windows_compute_an_element_once(window):
    check_exact(
        program(f"""program unfolded()
  input x: f32[8]
  u[i:6, k:{window}]: f32 = x[i + k] @ op=0 aten.unfold view
  e[i:6, k:{window}]: f32 = exp(u[i, k])
  t[i:6, k:{window}]: f32 = tanh(e[i, k])
  output t
""")
    )


THREE = """program three()
  input a: f32[4, 5]
  input b: f32[5, 6]
  input c: f32[6, 3]
  t[i:4, l:3]: f32 = sum[j:5, k:6] a[i, j] * b[j, k] * c[k, l]
  y[i:{rows}, l:{columns}]: f32 = exp(t[i, l])
  output y
"""


@pytest.mark.parametrize(("rows", "columns"), [(4, 3), (1, 3), (4, 1), (1, 1), (2, 2)])
def test_three_operands_cost_the_cheapest_order_of_the_demanded_part(rows, columns):
    left = rows * 5 * 6 + rows * 6 * columns
    right = 5 * 6 * columns + rows * 5 * columns
    found = engine(program(THREE.format(rows=rows, columns=columns)))
    at_once = rows * 5 * 6 * columns
    assert found.macs == min(left, right, at_once)
    assert found.bytes == 4 * (rows * 5 + 30 + 6 * columns + rows * columns)


@examples(60)
@given(st.data())
def test_a_pairwise_order_is_never_above_any_order(data):
    extents = {n: data.draw(st.integers(1, 5)) for n in "abcdef"}
    operands = data.draw(
        st.lists(st.frozensets(st.sampled_from("abcdef"), min_size=1, max_size=3), min_size=2, max_size=4)
    )
    output = data.draw(st.frozensets(st.sampled_from("abcdef"), max_size=3))

    def count(dims: frozenset[str]) -> int:
        return prod(extents[n] for n in dims)

    def cheapest(left: list[frozenset[str]]) -> int:
        if len(left) == 1:
            return 0
        found = []
        for a in range(len(left)):
            for b in range(a + 1, len(left)):
                rest = [o for k, o in enumerate(left) if k not in (a, b)]
                alive = output.union(*rest)
                joined = left[a] | left[b]
                found.append(count(joined) + cheapest([*rest, joined & alive]))
        return min(found)

    summed = [o & output.union(*(other for j, other in enumerate(operands) if j != k)) for k, o in enumerate(operands)]
    assert pairwise_points(operands, output, count) == cheapest(summed)


def test_what_only_one_operand_has_is_summed_first():
    text = (
        "program p()\n  input x: f32[8]\n  input w: f32[8, 5]\n  y[]: f32 = sum[k:8, j:5] x[k] * w[k, j]\n  output y\n"
    )
    assert engine(program(text)).macs == 8


def test_the_same_computation_twice_counts_once():
    text = """program twice()
  input x: f32[8, 8]
  parameter w: f32[8, 8]
  a[i:8, n:8]: f32 = sum[k:8] x[i, k] * w[k, n]
  b[p:8, q:8]: f32 = sum[r:8] x[p, r] * w[r, q]
  e[i:8, n:8]: f32 = exp(a[i, n])
  f[i:8, n:8]: f32 = exp(b[i, n])
  y[i:8, n:8]: f32 = e[i, n] * f[i, n] + tanh(a[i, n]) * tanh(a[i, n])
  output y
"""
    check_exact(program(text))
    assert engine(program(text)).macs == 512


def test_known_zero_columns_of_a_product_are_never_read():
    text = """program blocks()
  input x: f32[4, 6]
  parameter w: f32[6, 2]
  p[i:4, j:6]: f32 = select(j < 3, x[i, j], 0.0)
  y[i:4, n:2]: f32 = sum[j:6] p[i, j] * w[j, n]
  output y
"""
    check_exact(program(text))
    assert brute(program(text)).read_bytes == 4 * (12 + 6)


@pytest.mark.parametrize("longer", ["", "  f[i:12]: f32 = tanh(e[i])\n", "  f[i:12]: f32 = e[i] * e[i]\n"])
def test_a_mirrored_border_is_computed_once(longer):
    text = f"""program reflected()
  input x: f32[8]
  p[i:12]: f32 = select(i < 2, x[2 - i], select(i < 10, x[i - 2], x[16 - i]))
  e[i:12]: f32 = exp(p[i])
{longer}  output {"f" if longer else "e"}
"""
    assert engine(program(text)).vector_ops == brute(program(text)).vector_ops == (16 if longer else 8)


def test_halves_of_one_tensor_joined_again_are_computed_once():
    text = """program rejoined()
  input x: f32[4, 6]
  c[i:4, j:12]: f32 = select(j < 6, x[i, j], x[i, j - 6])
  e[i:4, j:12]: f32 = exp(c[i, j])
  y[i:4, j:12]: f32 = e[i, j] + x[i, 0]
  output y
"""
    assert engine(program(text)).vector_ops == brute(program(text)).vector_ops == 48


@pytest.mark.parametrize("op", ["-x[i]", "abs(x[i])", "-abs(x[i])"])
def test_signs_cost_nothing(op):
    assert engine(program(f"program p()\n  input x: f32[4]\n  y[i:4]: f32 = {op}\n  output y\n")).vector_ops == 0


@pytest.mark.parametrize(
    ("part", "expected"),
    [("x[i, j]", 24), ("x[i, j + 2]", 24), ("x[i + 2, j]", 24)],
)
def test_the_same_operation_on_overlapping_slices_counts_the_union(part, expected):
    rows, columns = (4, 4) if "j + 2" in part else (2, 6) if "i + 2" in part else (3, 5)
    text = f"""program slices()
  input x: f32[4, 6]
  a[i:4, j:6]: f32 = exp(x[i, j])
  b[i:{rows}, j:{columns}]: f32 = exp({part})
  output a
  output b
"""
    assert engine(program(text)).vector_ops == brute(program(text)).vector_ops == expected


def test_neighbours_in_one_statement_are_computed_once():
    text = """program neighbours()
  input x: f32[9]
  y[i:8]: f32 = exp(x[i]) * exp(x[i + 1])
  output y
"""
    assert engine(program(text)).vector_ops == brute(program(text)).vector_ops == 9 + 8


def test_a_product_with_part_of_the_same_weights_counts_the_union():
    text = """program shared()
  input x: f32[4, 8]
  parameter w: f32[8, 6]
  a[i:4, n:6]: f32 = sum[k:8] x[i, k] * w[k, n]
  b[i:4, n:2]: f32 = sum[k:8] x[i, k] * w[k, n + 4]
  output a
  output b
"""
    assert engine(program(text)).macs == 4 * 8 * 6


def test_sums_of_the_same_products_over_other_dimensions_are_other_sums():
    text = """program sums()
  input x: f32[4, 4]
  parameter w: f32[4, 4]
  a[i:4, k:4]: f32 = sum[j:4] x[i, j] * w[j, k]
  b[i:4, k:4]: f32 = sum[j:4] x[i, k] * w[k, j] * x[j, j]
  output a
  output b
"""
    assert engine(program(text)).macs > 64


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("x[0, i, k] * w[k, n]", "x[1, i, k] * w[k, n]", 2 * 3 * 4 * 2),  # steps of a recurrence
        ("x[0, i, k] * w[k, n]", "x[0, i + 2, k] * w[k, n]", 5 * 4 * 2),  # rows 2 are in both
        ("x[0, i, k] * w[k, n]", "x[0, i + 3, k] * w[k, n]", 2 * 3 * 4 * 2),
        ("x[0, i, k] * w[k, n]", "x[0, i, k + 4] * w[k, n]", 2 * 3 * 4 * 2),
        ("x[0, i, k] * w[k, n]", "x[0, i, k + 4] * w[k + 4, n]", 2 * 3 * 4 * 2),  # halves of one long sum
    ],
)
def test_products_of_other_slices_are_other_products(first, second, expected):
    text = f"""program slices()
  input x: f32[2, 6, 8]
  parameter w: f32[8, 2]
  a[i:3, n:2]: f32 = sum[k:4] {first}
  b[i:3, n:2]: f32 = sum[k:4] {second}
  output a
  output b
"""
    assert engine(program(text)).macs == expected


def test_maxima_of_other_slices_are_other_maxima():
    text = """program slices()
  input x: f32[2, 6, 8]
  a[i:6]: f32 = max[k:8] x[0, i, k]
  b[i:6]: f32 = max[k:8] x[1, i, k]
  output a
  output b
"""
    assert engine(program(text)).vector_ops == brute(program(text)).vector_ops == 2 * 6 * 7
