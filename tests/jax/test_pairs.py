"""The same model in PyTorch and in JAX has the same multiply-accumulates and the same compulsory traffic."""

from __future__ import annotations

import textwrap

import pytest

pytest.importorskip("torch")

TORCH = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
JAX = "import jax\nimport jax.numpy as jnp\nfrom jax import lax\n"
# Each: the same pragma, then the body in either framework.
PAIRS = {
    "perceptron": (
        "x=f32[32, 64], w1=f32[128, 64], b1=f32[128], w2=f32[10, 128]",
        "return torch.softmax(F.relu(F.linear(x, w1, b1)) @ w2.T, -1)",
        "return jax.nn.softmax(jax.nn.relu(x @ w1.T + b1) @ w2.T)",
    ),
    "convolution and pooling": (
        "x=f32[2, 3, 17, 16], w=f32[8, 3, 3, 3]",
        "return F.max_pool2d(F.relu(F.conv2d(x, w, stride=2, padding=1)), 2)",
        "y = jax.nn.relu(lax.conv_general_dilated(x, w, (2, 2), [(1, 1), (1, 1)]))\n"
        "return lax.reduce_window(y, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), 'VALID')",
    ),
    "depthwise and dilated": (
        "x=f32[2, 8, 16, 16], w=f32[8, 1, 3, 3]",
        "return F.conv2d(x, w, padding=2, dilation=2, groups=8)",
        "return lax.conv_general_dilated(x, w, (1, 1), [(2, 2), (2, 2)], rhs_dilation=(2, 2), feature_group_count=8)",
    ),
    "transposed convolution": (
        "x=f32[1, 4, 7, 7], w=f32[4, 6, 3, 3]",
        "return F.conv_transpose2d(x, w, stride=2, padding=1)",
        "return lax.conv_general_dilated(x, jnp.flip(w, (2, 3)).swapaxes(0, 1), (1, 1), [(1, 1), (1, 1)],\n"
        "                                lhs_dilation=(2, 2))",
    ),
    "causal attention": (
        "q=f32[2, 4, 24, 8], k=f32[2, 4, 24, 8], v=f32[2, 4, 24, 8]",
        "mask = torch.triu(torch.ones(24, 24, dtype=torch.bool), 1)\n"
        "s = (q @ k.transpose(-1, -2)).masked_fill(mask, float('-inf'))\n"
        "return torch.softmax(s, -1) @ v",
        "s = jnp.where(jnp.tril(jnp.ones((24, 24), bool)), jnp.einsum('bhid,bhjd->bhij', q, k), -jnp.inf)\n"
        "return jnp.einsum('bhij,bhjd->bhid', jax.nn.softmax(s), v)",
    ),
    "fused attention": (
        "q=f32[2, 16, 4, 8], k=f32[2, 16, 4, 8], v=f32[2, 16, 4, 8]",
        "q, k, v = (t.transpose(1, 2) for t in (q, k, v))\n"
        "return F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        "return jax.nn.dot_product_attention(q, k, v, is_causal=True)",
    ),
    "normalised and gated in bfloat16": (
        "x=bf16[16, 64], g=bf16[64], w=bf16[64, 128], v=bf16[64, 128]",
        "h = F.rms_norm(x, (64,), g)\nreturn F.silu(h @ w) * (h @ v)",
        "h = (x * lax.rsqrt(jnp.mean(x.astype(jnp.float32) ** 2, -1, keepdims=True) + 1e-6)).astype(x.dtype) * g\n"
        "return jax.nn.silu(h @ w) * (h @ v)",
    ),
    "recurrence": (
        "xs=f32[6, 4, 8], h=f32[4, 16], wx=f32[8, 16], wh=f32[16, 16]",
        "for x in xs:\n    h = torch.tanh(x @ wx + h @ wh)\nreturn h",
        "return lax.scan(lambda h, x: (jnp.tanh(x @ wx + h @ wh), None), h, xs)[0]",
    ),
    "first rows and a slice": (
        "x=f32[64, 32], w=f32[32, 48]",
        "return (x[:16] @ w)[:, ::2].sum(0)",
        "return (x[:16] @ w)[:, ::2].sum(0)",
    ),
    "embedding and messages": (
        "table=f32[100, 16], ids=i32[24], receivers=i32[24]",
        "return torch.zeros(10, 16).index_add(0, receivers, table[ids])",
        "return jnp.zeros((10, 16)).at[receivers].add(table[ids])",
    ),
    "batch norm of inference": (
        "x=f32[4, 8, 6, 6], mean=f32[8], var=f32[8], g=f32[8], b=f32[8]",
        "return F.relu(F.batch_norm(x, mean, var, g, b))",
        "m, s, g, b = (v[None, :, None, None] for v in (mean, var, g, b))\n"
        "return jax.nn.relu((x - m) * lax.rsqrt(s + 1e-5) * g + b)",
    ),
    "prefix sums and sorting": (
        "x=f32[16, 40]",
        "return torch.cumsum(x, 1), torch.sort(x, 1).values, torch.topk(x, 3).values",
        "return jnp.cumsum(x, 1), jnp.sort(x, 1), lax.top_k(x, 3)[0]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_both_frameworks_count_the_same(report, name) -> None:
    pragma, *bodies = PAIRS[name]
    arguments = ", ".join(part.split("=")[0].strip() for part in pragma.replace(", ", ",").split("],"))
    found = []
    for prelude, body in zip((TORCH, JAX), bodies, strict=True):
        text = f"\n# sol: {pragma}\ndef f({arguments}):\n{textwrap.indent(body, '    ')}\n"
        analysed = report(text, prelude)
        (target,) = analysed.targets or [None]
        assert target is not None, analysed.problems
        assert not target.partial, target.partial
        found.append(target)
    torch_, jax_ = found
    assert (jax_.macs, jax_.bytes.compulsory) == (torch_.macs, torch_.bytes.compulsory)
    assert torch_.macs > 0 or name in ("embedding and messages", "batch norm of inference", "prefix sums and sorting")
