"""A checker that cannot fail is no checker: every kind of mistake, planted in small programs, is noticed.

The full run, over all of KernelBench, is `benchmarks/mutation.py`; this is its sample. The golden values come from the
reference executor, so mutants are judged by the compiled one with the validator's own comparison.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest

from sollens.analysis.execute.errors import NotExecutable, OutOfBounds
from sollens.analysis.execute.storage import Array
from sollens.analysis.ir.nodes import Program
from sollens.analysis.ir.text_parse import parse
from sollens.analysis.ir.verify import verify
from sollens.analysis.validate.compare import difference, roundings
from sollens.analysis.validate.execute import execute

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from mutations.catalog import MUTATIONS

TEXTS = {
    "convolution and pooling": """
program conv(N=2, C=3, O=4, H=7, W=6)
  input x: f32[N, C, H, W]
  parameter w: f32[O, C, 3, 3]
  parameter b: f32[O]
  buffer var: f32[O]
  y[n:N, o:O, h:H, v:W]: f32 = sum[c:C, i:3, j:3] x[n, c, h + i - 1, v + j - 1] * w[o, c, i, j]
      if 0 <= h + i - 1 < H and 0 <= v + j - 1 < W
  z[n:N, o:O, h:H, v:W]: f32 = minimum(maximum((y[n, o, h, v] + b[o]) * rsqrt(var[o] + 1e-5), -1.5), 6.0)
  p[n:N, o:O, h:3, v:3]: f32 = max[i:2, j:2] z[n, o, 2*h + i, 2*v + j]
  flat[n:N, k:36]: f32 = p[n, k // 9, k // 3 % 3, k % 3]
  bright[n:N, k:36]: f32 = where(flat[n, k] > 0.25, log1p(exp(flat[n, k])), -0.5 * flat[n, k])
  output bright
""",
    "attention": """
program attention(B=2, T=5, D=4)
  input q: f32[B, T, D]
  input k: f32[B, T, D]
  input v: f32[B, T, D]
  s[b:B, i:T, j:T]: f32 = sum[d:D] q[b, i, d] * k[b, j, d]
  m[b:B, i:T, j:T]: f32 = select(i >= j, s[b, i, j] * 0.5, -4.0)
  e[b:B, i:T, j:T]: f32 = exp(m[b, i, j])
  t[b:B, i:T]: f32 = sum[j:T] e[b, i, j]
  o[b:B, i:T, d:D]: f32 = sum[j:T] e[b, i, j] / t[b, i] * v[b, j, d]
  place[b:B, i:T]: i64 = argmax[d:D] o[b, i, d]
  running[b:B, i:T, d:D]: f32 = scan sum[i] o[b, i, d]
  later[b:B, i:T, d:D]: f32 = running[b, i, d] + cast<f32>(cast<i64>(k[b, i, d])) * 0.25 + index(i)
  output later, place
""",
    "recurrence": """
program recurrence(T=6, N=3, D=4)
  input x: f32[T, N, D]
  parameter w: f32[D, D]
  input h0: f32[N, D]
  input c0: f32[N, D]
  loop t:T
    carry h(initial=h0, next=h_new, final=h_last)
    carry c(initial=c0, next=c_new, final=c_last)
    g[n:N, d:D]: f32 = sum[e:D] h[n, e] * w[d, e]
    c_new[n:N, d:D]: f32 = sigmoid(g[n, d]) * c[n, d] + tanh(x[t, n, d])
    h_new[n:N, d:D]: f32 = tanh(c_new[n, d] + g[n, d])
    collect states(inner=h_new)
  y[n:N, d:D]: f32 = max[t:T] states[t, n, d] + c_last[n, d] * h_last[n, d]
  output y, states
""",
    "a loop without collected values": """
program powers(T=3, D=4)
  parameter w: f32[D, D]
  input h0: f32[D]
  loop t:T
    carry h(initial=h0, next=h_new, final=h_last)
    g[d:D]: f32 = sum[e:D] h[e] * w[d, e]
    h_new[d:D]: f32 = tanh(g[d])
  whole[i:D, j:D]: bool = w[i, j] >= 0.5
  y[i:D, j:D]: f32 = where(whole[i, j], h_last[i], 2.0 * h_last[j] + 0.125)
  output y
""",
    "branch and calls": """
program calls(N=5, D=5)
  input x: f32[N, D]
  input other: f32[N, D]
  constant ids: i64[3]
  sorted, places = sort(x; axis=0, descending=false, stable=true): f32[N, D], i64[N, D]
  best, position = topk(x; k=2, axis=1, largest=true): f32[N, 2], i64[N, 2]
  long, long_position = topk(x; k=5, axis=1, largest=true): f32[N, D], i64[N, D]
  low, low_position = topk(other; k=2, axis=1, largest=false): f32[N, 2], i64[N, 2]
  rows = take(sorted, ids; axis=0): f32[3, D]
  total[]: f32 = sum[i:N, j:D] x[i, j]
  large[]: bool = x[0, 0] > 0.5
  count[i:N, j:D]: i64 = floor(x[i, j] * 3.0)
  ordered, came_from = sort(count; axis=1, descending=true, stable=true): i64[N, D], i64[N, D]
  branch large
    then
      doubled[i:3, j:D]: f32 = rows[i, j] * 2.0
    else
      halved[i:3, j:D]: f32 = rows[i, j] / 2.0
    merge y(then=doubled, otherwise=halved)
  gap[i:N, j:2]: f32 = abs(best[i, j] - low[i, j])
  output y, total, gap, places, long_position, position, low_position, ordered, came_from
""",
}
_PER_KIND = 3
_SEEDS = 6
_LIMIT = 1_000_000


def program(name: str) -> Program:
    found, problems = parse(TEXTS[name])
    assert found is not None, problems
    assert not verify(found), verify(found)
    return found


def values(of: Program, seed: int) -> dict[str, Array]:
    """Values of both signs; those of the last seed are halves, so that some are equal to each other and to literals."""
    random = np.random.default_rng(seed)
    made: dict[str, Array] = {}
    for d in of.declarations:
        if d.dtype == "i64":
            made[d.name] = random.permutation(5)[:3]
            continue
        drawn = random.standard_normal(d.shape) * 1.5
        drawn = np.round(drawn * 2) / 2 if seed == _SEEDS - 1 else drawn
        made[d.name] = np.asarray(np.abs(drawn) * 0.02 + 1e-3 if d.role == "buffer" else drawn, np.float32)
    return made


class Judge:
    """A program with its results on several sets of values."""

    def __init__(self, right: Program) -> None:
        self.right = right
        self.allowed = roundings(right)
        self.runs = [(inputs, self._golden(inputs)) for inputs in (values(right, seed) for seed in range(_SEEDS))]

    def _golden(self, inputs: dict[str, Array]) -> dict[str, Array]:
        return dict(execute(self.right, inputs, self.right.outputs, executor="reference", limit_points=_LIMIT))

    def notices(self, mutant: Program) -> bool:
        """Whether a run of the mutant differs from the program's by more than rounding."""
        return any(self._differs(mutant, inputs, golden) for inputs, golden in self.runs)

    def _differs(self, mutant: Program, inputs: dict[str, Array], golden: dict[str, Array]) -> bool:
        try:
            found = execute(mutant, inputs, self.right.outputs, executor="compiled", limit_points=_LIMIT)
        except (OutOfBounds, NotExecutable):
            return True
        return any(
            found[name].dtype != golden[name].dtype
            or difference(found[name], golden[name], self.allowed[name])[1] is not None
            for name in self.right.outputs
        )


@pytest.fixture(scope="module")
def outcomes() -> dict[str, list[tuple[bool, str]]]:
    """For each kind: (noticed, what was changed) of up to three mutants a program."""
    found: dict[str, list[tuple[bool, str]]] = {kind: [] for kind in MUTATIONS}
    for name in TEXTS:
        right = program(name)
        judge = Judge(right)
        assert not judge.notices(right), name
        random, seen = Random(name), {(kind, right) for kind in MUTATIONS}
        for kind, mutate in MUTATIONS.items():
            for _ in range(_PER_KIND):
                mutant = mutate(right, random)
                if mutant is not None and (kind, mutant) not in seen and not verify(mutant):
                    seen.add((kind, mutant))
                    found[kind].append((judge.notices(mutant), name))
    return found


@pytest.mark.parametrize("kind", MUTATIONS)
def test_every_kind_of_mistake_is_noticed(outcomes: dict[str, list[tuple[bool, str]]], kind: str) -> None:
    made = outcomes[kind]
    assert made, "no program has a place for it"
    assert any(ok for ok, _ in made), made


def test_hardly_any_mistake_goes_unnoticed(outcomes: dict[str, list[tuple[bool, str]]]) -> None:
    """Those that do compute the same: a maximum that only cancels, a reading order of a sum."""
    every = [ok for made in outcomes.values() for ok, _ in made]
    assert len(every) > 300
    assert sum(every) / len(every) > 0.95, {k: [n for ok, n in m if not ok] for k, m in outcomes.items()}
