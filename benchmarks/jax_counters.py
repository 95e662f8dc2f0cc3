#!/usr/bin/env python3
"""Our counts beside those of jax.experimental.roofline and of XLA's cost analysis; write results/jax_counters.md.

    python benchmarks/jax_counters.py

Each program says why the counters differ, if they do. FLOP of contractions are 2 a multiply-accumulate everywhere.
"""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import roofline
from kernelbench import RESULTS

from sollens.analysis.cache import Cache
from sollens.analysis.pipeline import Pipeline, Request


def matmul(x, w):
    return x @ w


def batched(q, k):
    return jnp.einsum("bhid,bhjd->bhij", q, k)


def mixed(x, w):
    return (x @ w).astype(jnp.float32)


def padded(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "SAME")


def upsampling(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), [(2, 2), (2, 2)], lhs_dilation=(2, 2))


def recurrence(h, w, xs):
    return lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), h, xs)[0]


def softmax(x):
    return jax.nn.softmax(x)


def causal(q, k):
    scores = jnp.where(jnp.tril(jnp.ones((q.shape[0], k.shape[0]), bool)), q @ k.T, -jnp.inf)
    return jax.nn.softmax(scores) @ k


def sliced(x, w):
    return (x @ w)[:8]


def gradient(x, w):
    return jax.grad(lambda w: jnp.tanh(x @ w).sum())(w)


def prefix(x):
    return jnp.cumsum(x, axis=1)


def lookup(table, ids):
    return table[ids]


F32, I32, BF16 = jnp.float32, jnp.int32, jnp.bfloat16
CASES: list[tuple[Callable[..., Any], list[tuple[Any, tuple[int, ...]]], str]] = [
    (matmul, [(F32, (64, 128)), (F32, (128, 32))], "all agree"),
    (batched, [(F32, (2, 4, 16, 32)), (F32, (2, 4, 24, 32))], "all agree"),
    (mixed, [(BF16, (64, 128)), (BF16, (128, 32))],
     "roofline has the product's bfloat16 result, we the float32 one that is returned; XLA converts operands"),
    (padded, [(F32, (1, 8, 14, 14)), (F32, (16, 8, 3, 3))], "all leave out taps on padding; XLA adds layout copies"),
    (upsampling, [(F32, (1, 8, 7, 7)), (F32, (8, 8, 3, 3))],
     "all leave out taps between dilated elements; XLA adds layout copies"),
    (recurrence, [(F32, (8, 32)), (F32, (32, 32)), (F32, (10, 8, 32))],
     "both count a loop's body once, for 10 steps; we multiply, and keep the carried state on chip"),
    (softmax, [(F32, (64, 128))],
     "XLA counts exp apart, as a transcendental; both write every intermediate to memory"),
    (causal, [(F32, (64, 16)), (F32, (64, 16))], "we leave out the masked half: nothing depends on it"),
    (sliced, [(F32, (64, 128)), (F32, (128, 32))], "we count the 8 rows that are used"),
    (gradient, [(F32, (64, 128)), (F32, (128, 32))], "all agree on two contractions; XLA counts tanh apart"),
    (prefix, [(F32, (16, 100))],
     "XLA on a CPU makes windows of a prefix sum: quadratic; roofline counts one row of it"),
    (lookup, [(F32, (1000, 16)), (I32, (32,))],
     "all rows could be one, so ours is the smallest possible; index arithmetic is free; XLA has the whole table"),
]  # fmt: skip


def main() -> int:
    """Print and write the table."""
    names = {jnp.float32: "f32", jnp.int32: "i32", jnp.bfloat16: "bf16"}
    parts = ["import jax\nimport jax.numpy as jnp\nfrom jax import lax\n"]
    for function, inputs, _ in CASES:
        arguments = inspect.signature(function).parameters
        given = ", ".join(f"{n}={names[d]}{list(s)}" for n, (d, s) in zip(arguments, inputs, strict=True))
        parts.append(f"# sol: {given}\n{textwrap.dedent(inspect.getsource(function))}")
    pipeline = Pipeline(Cache(enabled=False))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.py"
        path.write_text("\n\n".join(parts), encoding="utf-8")
        report = pipeline.analyse(Request(path=str(path), interpreter=sys.executable))
    pipeline.close()
    ours = {t.name: t for t in report.targets}
    rows = [
        "| program | FLOP ours | roofline | XLA | bytes ours | roofline | XLA | why |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for function, inputs, why in CASES:
        structs = [jax.ShapeDtypeStruct(s, d) for d, s in inputs]
        mine = ours[function.__name__]
        try:
            _, theirs = roofline.roofline(function)(*structs)
            flops, moved = str(theirs.unfused_flops), str(theirs.unfused_hbm_bytes)
        except Exception as error:
            flops = moved = type(error).__name__
        cost: Any = jax.jit(function).lower(*structs).compile().cost_analysis()
        cost = cost[0] if isinstance(cost, list) else cost
        rows.append(
            f"| {function.__name__} | {mine.flop} ({2 * mine.macs} in contractions) | {flops} | "
            f"{cost.get('flops', 0):.0f} | {mine.bytes.compulsory} | {moved} | "
            f"{cost.get('bytes accessed', 0):.0f} | {why} |"
        )
    told = "\n".join(rows) + "\n"
    print(told)
    (RESULTS / "jax_counters.md").write_text(told, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
