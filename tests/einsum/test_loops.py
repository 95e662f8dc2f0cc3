"""Loops: trip counts multiply, carried values demand their past, and only the iterations that matter count."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sollens.analysis.ir.nodes import Program
from sollens.analysis.ir.text_parse import parse
from tests.einsum.programs import Builder
from tests.einsum.sampling import examples
from tests.einsum.test_exact import check_exact

RECURRENT = """program rnn()
  input x: f32[4, 2]
  parameter w: f32[2, 2]
  input h0: f32[2]
  loop t:4
    carry h(initial=h0, next=h1, final=last)
    a[j:2]: f32 = sum[k:2] h[k] * w[k, j]
    h1[j:2]: f32 = tanh(a[j] + x[t, j])
    collect ys(inner=h1)
  {rest}
  output {output}
"""

OVERWRITTEN = """program overwritten()
  input x: f32[4, 2]
  input h0: f32[2]
  loop t:4
    carry h(initial=h0, next=h1, final=last)
    h1[j:2]: f32 = exp(x[t, j])
  output last
"""

SHIFTED = """program shifted()
  input x: f32[6]
  input h0: f32[3]
  loop t:6
    carry h(initial=h0, next=h1, final=last)
    e[]: f32 = exp(x[t])
    h1[j:3]: f32 = select(j < 2, h[j + 1], e[])
  output last
"""

FILLED = """program filled()
  input x: f32[6]
  input h0: f32[6]
  loop t:6
    carry h(initial=h0, next=h1, final=last)
    h1[j:6]: f32 = select(j == t, exp(x[t]), h[j])
  output last
"""

INVARIANT = """program invariant()
  input x: f32[3]
  parameter w: f32[3]
  input h0: f32[3]
  loop t:5
    carry h(initial=h0, next=h1, final=last)
    e[j:3]: f32 = exp(w[j])
    h1[j:3]: f32 = h[j] * e[j]
  output last
"""

NESTED = """program nested()
  input x: f32[2, 3, 2]
  input h0: f32[2]
  loop s:2
    carry g(initial=h0, next=g1, final=end)
    loop t:3
      carry h(initial=g, next=h1, final=g1)
      h1[j:2]: f32 = tanh(h[j] + x[s, t, j])
      collect ys(inner=h1)
    collect zs(inner=ys)
  output {output}
"""


def program(text: str) -> Program:
    parsed, problems = parse(text)
    assert parsed is not None, problems
    return parsed


@pytest.mark.parametrize(
    ("rest", "output"),
    [
        ("", "last"),
        ("", "ys"),
        ("z[j:2]: f32 = exp(ys[1, j])", "z"),
        ("z[j:2]: f32 = exp(ys[0, j])", "z"),
        ("z[]: f32 = exp(ys[2, 1])", "z"),
        ("z[i:2, j:2]: f32 = exp(ys[2*i, j])", "z"),
    ],
)
def test_a_recurrence_is_computed_up_to_its_last_demanded_step(rest, output):
    check_exact(program(RECURRENT.format(rest=rest, output=output)))


def test_a_value_that_is_overwritten_costs_its_last_iteration():
    check_exact(program(OVERWRITTEN))


def test_a_shift_register_keeps_its_last_elements():
    check_exact(program(SHIFTED))


def test_a_buffer_that_a_loop_fills_needs_nothing_of_its_initial_value():
    check_exact(program(FILLED))


def test_loop_invariant_work_counts_once():
    check_exact(program(INVARIANT))


@pytest.mark.parametrize("output", ["end", "zs"])
def test_nested_loops(output):
    check_exact(program(NESTED.format(output=output)))


@st.composite
def loops(draw: Any) -> Program:
    """A recurrence h' = f(h, x[t], w) with a random body, of which a random part is used."""
    b = Builder(draw)
    steps, width = b.integer(1, 5), b.integer(1, 3)
    x = b.external((steps, width))
    w = b.external((width, width), role="parameter")
    h0 = b.external((width,))
    kind = b.pick("matmul", "elementwise", "independent", "roll", "accumulate")
    j = [f"h[{k}]" for k in ("j", "j")]
    body = {
        "matmul": f"    a[j:{width}]: f32 = sum[k:{width}] h[k] * {w}[k, j]\n"
        f"    n[j:{width}]: f32 = tanh(a[j] + {x}[t, j])",
        "elementwise": f"    n[j:{width}]: f32 = {j[0]} * {w}[j, j] + {x}[t, j]",
        "independent": f"    n[j:{width}]: f32 = exp({x}[t, j])",
        "roll": f"    n[j:{width}]: f32 = select(j < {width - 1}, h[{'j + 1' if width > 1 else 'j'}], {x}[t, j])",
        "accumulate": f"    n[j:{width}]: f32 = h[j] + {x}[t, {width - 1} - j]",
    }[kind]
    collected = b.pick("n", "h", "m")
    first, step = b.integer(0, steps - 1), b.integer(1, 2)
    size = b.integer(1, (steps - 1 - first) // step + 1)
    width_used = b.integer(1, width)
    output = b.pick("last", "z", "ys")
    text = f"""program loops()
  input {x}: f32[{steps}, {width}]
  parameter {w}: f32[{width}, {width}]
  input {h0}: f32[{width}]
  loop t:{steps}
    carry h(initial={h0}, next=n, final=last)
{body}
    m[j:{width}]: f32 = exp(n[j])
    collect ys(inner={collected})
  z[i:{size}, j:{width_used}]: f32 = tanh(ys[{step}*i + {first}, j])
  output {output}
"""
    return program(text)


@examples(120)
@given(loops())
def test_random_loops_count_exactly(example):
    check_exact(example)
