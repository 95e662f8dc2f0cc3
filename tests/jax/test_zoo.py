"""A sample of the zoo, validated; the exact counts of tiny programs that counters get wrong."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from sollens.analysis.pipeline import Request

ZOO = Path(__file__).parents[2] / "benchmarks" / "jax_zoo"
SAMPLE = {
    "perceptrons.py": ("mlp", "sgd_step", "quantize"),
    "images.py": ("separable", "cnn_gradients"),
    "sequences.py": ("lstm", "graph_convolution", "viterbi", "branching"),
    "transformers.py": ("decode_step", "EquinoxEncoder", "scanned_gradients"),
}


def only(text: str, names: tuple[str, ...]) -> str:
    """The text without the pragmas of other programs; every line stays where it is."""
    lines = text.split("\n")
    for k, line in enumerate(lines):
        if line.startswith("# sol:"):
            owner = next(rest for rest in lines[k:] if rest.startswith(("def ", "class ")))
            if re.split(r"\W", owner.partition(" ")[2])[0] not in names:
                lines[k] = "#"
    return "\n".join(lines)


@pytest.mark.parametrize("name", SAMPLE)
def test_programs_of_the_zoo_are_validated(pipeline, name) -> None:
    text = only((ZOO / name).read_text(encoding="utf-8"), SAMPLE[name])
    request = Request(path=str(ZOO / name), interpreter=sys.executable, text=text)
    report = pipeline.analyse(request)
    assert sorted(t.name for t in report.targets) == sorted(SAMPLE[name])
    for target in report.targets:
        assert not target.partial, (target.name, target.partial)
        verdict = pipeline.verdict(request, target.name, target.line)
        assert verdict.status == "validated", (target.name, verdict.reason)


EXACT = {
    "batch dimensions multiply, contracted ones reduce": (
        "q=f32[2,3,8,4], k=f32[2,3,6,4]", 'return jnp.einsum("bhid,bhjd->bhij", q, k)', 2 * 3 * 8 * 6 * 4,
        4 * (2 * 3 * 8 * 4 + 2 * 3 * 6 * 4 + 2 * 3 * 8 * 6)),
    "a scan's body runs once a step": (
        "h=f32[4,16], w=f32[16,16], xs=f32[7,4,16]",
        "return lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), h, xs)[0]", 7 * 4 * 16 * 16,
        4 * (64 + 256 + 7 * 64 + 64)),
    "nested scans multiply": (
        "x=f32[4], w=f32[4,4]",
        "step = lambda c, _: (c @ w, None)\n"
        "    return lax.scan(lambda c, _: (lax.scan(step, c, None, length=3)[0], None), x, None, length=5)[0]",
        15 * 16, 4 * (4 + 16 + 4)),
    "work that no iteration changes is done once": (
        "x=f32[4,4], w=f32[4,4]", "return lax.fori_loop(0, 9, lambda i, c: c + x @ w, x)", 64, 4 * 48),
    "inserted zeros are no work": (
        "x=f32[1,4,3,3], w=f32[2,4,3,3]",
        "return lax.conv_general_dilated(x, w, (1, 1), [(2, 2), (2, 2)], lhs_dilation=(2, 2))", 2 * 4 * 9 * 9,
        4 * (36 + 72 + 2 * 49)),
    "a checkpoint recomputes nothing that counts": (
        "x=f32[8,4], w=f32[4,6]",
        "f = jax.checkpoint(lambda w: jnp.sin(x @ w))\n    return jax.grad(lambda w: f(w).sum())(w)", 2 * 8 * 4 * 6,
        4 * (32 + 24 + 24)),
    "a checkpointed scan recomputes nothing either": (
        "x=f32[4,8], w=f32[8,8]",
        "step = jax.checkpoint(lambda c, _: (jnp.sin(c @ w), None))\n"
        "    return jax.grad(lambda x: lax.scan(step, x, None, length=3)[0].sum())(x)", 6 * 4 * 64,
        4 * (32 + 64 + 32)),
    "vmap and jit change nothing": (
        "a=f32[3,4,8], b=f32[8,6]", "return jax.vmap(jax.jit(lambda r: jnp.tanh(r @ b)))(a)", 3 * 4 * 8 * 6,
        4 * (96 + 48 + 72)),
    "a branch counts as its cheaper side": (
        "x=f32[4,4], k=f32[]", "return lax.cond(k > 0, lambda x: x @ x @ x, lambda x: x @ x, x)", 64,
        4 * (16 + 16)),
    "a slice at a loop's counter reads one row a step": (
        "x=f32[8,4]", "return lax.fori_loop(0, 3, lambda i, c: c + x[i], jnp.zeros(4))", 0, 4 * (3 * 4 + 4)),
    "every tensor in its own dtype": (
        "x=bf16[8,16], w=bf16[16,4], b=f32[4]", "return (x @ w).astype(jnp.float32) + b", 8 * 16 * 4,
        2 * (128 + 64) + 4 * (4 + 32)),
    "a masked half is no work": (
        "q=f32[16,4], k=f32[16,4]",
        "s = jnp.where(jnp.tril(jnp.ones((16, 16), bool)), q @ k.T, -jnp.inf)\n    return jax.nn.softmax(s) @ k",
        2 * 136 * 4, 4 * (64 + 64 + 64)),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_counts_are_exact(report, name) -> None:
    pragma, body, macs, moved = EXACT[name]
    arguments = ", ".join(part.split("=")[0].strip(", ") for part in pragma.split("]")[:-1])
    analysed = report(f"\n# sol: {pragma}\ndef f({arguments}):\n    {body}\n")
    (target,) = analysed.targets or [None]
    assert target is not None, analysed.problems
    assert not target.partial
    assert (target.macs, target.bytes.compulsory) == (macs, moved)


def test_a_loop_whose_trips_depend_on_data_counts_once_and_says_so(report) -> None:
    body = "lax.while_loop(lambda c: c.sum() < 9, lambda c: c @ x, x)"
    (target,) = report(f"\n# sol: x=f32[4,4]\ndef f(x):\n    return {body}\n").targets
    assert target.macs == 64
    assert any("trip count" in reason for reason in target.partial)


@pytest.mark.parametrize(
    ("hardware", "precision", "pipe"),
    [("h100-sxm", "", "tf32"), ("h100-sxm", ", precision='highest'", "float32"), ("tpu-v5e", "", "bfloat16"),
     ("tpu-v5e", ", precision='high'", "tf32"), ("h100-sxm", ", precision='BF16_BF16_F32'", "bfloat16")],
)  # fmt: skip
def test_the_precision_that_jax_resolves_chooses_the_pipe(report, hardware, precision, pipe) -> None:
    text = f"\n# sol: x=f32[64,64], w=f32[64,64]\ndef f(x, w):\n    return lax.dot(x, w{precision})\n"
    (target,) = report(text, hardware=hardware).targets
    assert set(target.macs_by_pipe) == {pipe}


def test_the_default_precision_of_the_file_holds(report) -> None:
    text = (
        "\njax.config.update('jax_default_matmul_precision', 'float32')\n"
        "# sol: x=f32[64,64], w=f32[64,64]\ndef f(x, w):\n    return x @ w\n"
    )
    (target,) = report(text).targets
    assert set(target.macs_by_pipe) == {"float32"}


TRAIN = {
    "function": ("w=f32[16, 10], x=f32[8, 16]", "def Net(w, x):\n    return jnp.tanh(x @ w).sum()\n", 3 * 8 * 16 * 10),
    "linen": (
        "init(10), x=f32[8, 16]",
        "class Net(nn.Module):\n    n: int\n    @nn.compact\n    def __call__(self, x):\n"
        "        return nn.Dense(self.n)(nn.relu(nn.Dense(32)(x)))\n",
        2 * 8 * 16 * 32 + 3 * 8 * 32 * 10,
    ),
}


@pytest.mark.parametrize("name", TRAIN)
def test_training_counts_the_backward_pass_too(report, name) -> None:
    pragma, text, macs = TRAIN[name]
    (target,) = report(f"\nimport flax.linen as nn\n# sol: {pragma}, mode=train\n{text}").targets
    assert not target.partial
    assert target.macs == macs
