"""Large extents take no longer than small ones: shapes of real models, well under a second each."""

from __future__ import annotations

import time

import pytest

from sollens.analysis.einsum.lift import lift
from sollens.analysis.einsum.points import count_points
from sollens.analysis.einsum.scopes import Scopes
from sollens.analysis.ir.affine import at_least, dim
from tests.einsum.test_loops import program

LIMIT_S = 0.5

ATTENTION = """program attention()
  input q: f16[{b}, {h}, {t}, {d}]
  input k: f16[{b}, {h}, {t}, {d}]
  input v: f16[{b}, {h}, {t}, {d}]
  s[b:{b}, h:{h}, i:{t}, j:{t}]: f32 = sum[d:{d}] q[b, h, i, d] * k[b, h, j, d]
  a[b:{b}, h:{h}, i:{t}, j:{t}]: f32 = select(j <= i, s[b, h, i, j], -inf)
  m[b:{b}, h:{h}, i:{t}]: f32 = max[j:{t}] a[b, h, i, j]
  e[b:{b}, h:{h}, i:{t}, j:{t}]: f32 = exp(a[b, h, i, j] - m[b, h, i])
  z[b:{b}, h:{h}, i:{t}]: f32 = sum[j:{t}] e[b, h, i, j]
  p[b:{b}, h:{h}, i:{t}, j:{t}]: f32 = e[b, h, i, j] / z[b, h, i]
  o[b:{b}, h:{h}, i:{t}, d:{d}]: f16 = sum[j:{t}] p[b, h, i, j] * v[b, h, j, d]
  output o
"""

CONVOLUTION = """program convolution()
  input x: f32[{n}, {c}, 224, 224]
  parameter w: f32[64, {c}, 7, 7]
  y[n:{n}, m:64, p:112, q:112]: f32 = sum[c:{c}, r:7, s:7] x[n, c, 2*p + r - 3, 2*q + s - 3] * w[m, c, r, s]\
 if 2*p + r >= 3 and 2*p + r < 227 and 2*q + s >= 3 and 2*q + s < 227
  z[n:{n}, m:64, p:112, q:112]: f32 = maximum(y[n, m, p, q], 0.0)
  output z
"""

TRIANGLE = """program triangle()
  input x: f32[16384, 16384]
  parameter w: f32[16384, 4096]
  t[i:16384, j:16384]: f32 = select(j <= i, x[i, j], 0.0)
  y[i:16384, n:4096]: f32 = sum[j:16384] t[i, j] * w[j, n]
  output y
"""

TRANSPOSED = """program transposed()
  input x: f32[16, 64, 128, 128]
  parameter w: f32[64, 32, 4, 4]
  y[n:16, m:32, p:256, q:256]: f32 = sum[c:64, a:128, b:128, r:4, s:4] x[n, c, a, b] * w[c, m, r, s]\
 if p == 2*a + r - 1 and q == 2*b + s - 1
  output y
"""


def timed(text: str):
    example = program(text)
    start = time.process_time()
    whole = Scopes(lift(example), lambda e: "x").whole()
    return whole, time.process_time() - start


@pytest.mark.parametrize("t", [197, 2048, 32768])
def test_causal_attention_of_any_length(t):
    whole, seconds = timed(ATTENTION.format(b=2, h=16, t=t, d=64))
    pairs = 2 * 16 * t * (t + 1) // 2
    assert whole.total_macs == 2 * 64 * pairs
    assert whole.total_vector_ops == 5 * pairs - 2 * 2 * 16 * t  # max and sum less one each; sub, exp, div
    assert whole.bytes == 4 * 2 * 16 * t * 64 * 2
    assert seconds < LIMIT_S


@pytest.mark.parametrize(("n", "c"), [(1, 3), (32, 64)])
def test_a_padded_strided_convolution(n, c):
    whole, seconds = timed(CONVOLUTION.format(n=n, c=c))
    taps = sum(1 for p in range(112) for r in range(7) if 0 <= 2 * p + r - 3 < 224)
    assert whole.total_macs == n * 64 * c * taps * taps
    assert seconds < LIMIT_S


def test_a_triangle_of_16384():
    whole, seconds = timed(TRIANGLE)
    half = 16384 * 16385 // 2
    assert whole.total_macs == half * 4096
    assert whole.read_bytes == 4 * (half + 16384 * 4096)
    assert seconds < LIMIT_S


def test_a_transposed_convolution():
    whole, seconds = timed(TRANSPOSED)
    taps = sum(1 for a in range(128) for r in range(4) if 0 <= 2 * a + r - 1 < 256)
    assert whole.total_macs == 16 * 64 * 32 * taps * taps
    assert seconds < LIMIT_S


def test_counting_a_large_simplex():
    start = time.process_time()
    box = dict.fromkeys(("i", "j", "k"), (0, 511))
    ordered = [at_least(dim("j"), dim("i")), at_least(dim("k"), dim("j"))]
    assert count_points(box, ordered) == 514 * 513 * 512 // 6
    assert time.process_time() - start < LIMIT_S
