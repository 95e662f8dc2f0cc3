#!/usr/bin/env python3
"""Analyse and validate every layer that flax.linen, flax.nnx and equinox ship; write results/jax_layers.md.

    python benchmarks/jax_layers.py [--only LSTMCell Conv2d]

Containers and bases (Sequential, List, StateIndex ...) are tried through the layers that need them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from jax_programs import programs
from kernelbench import RESULTS

from sollens.analysis.cache import Cache
from sollens.analysis.pipeline import Pipeline

X, IMAGE, IDS, SEQUENCE = "x=f32[4, 6]", "x=f32[2, 8, 8, 4]", "x=i32[4]", "x=f32[2, 5, 6]"
# Layer: (how it is made, inputs, how it is called on `layer`).
LINEN: dict[str, tuple[str, str, str]] = {
    "BatchNorm": ("nn.BatchNorm(use_running_average=True)", X, "layer(x)"),
    "Bidirectional": ("nn.Bidirectional(nn.RNN(nn.GRUCell(4)), nn.RNN(nn.GRUCell(4)))", SEQUENCE, "layer(x)"),
    "Conv": ("nn.Conv(5, (3, 3))", IMAGE, "layer(x)"),
    "ConvLSTMCell": ("nn.ConvLSTMCell(3, (3, 3))", IMAGE,
                     "layer((jnp.zeros((2, 8, 8, 3)), jnp.zeros((2, 8, 8, 3))), x)"),
    "ConvLocal": ("nn.ConvLocal(3, (3, 3))", IMAGE, "layer(x)"),
    "ConvTranspose": ("nn.ConvTranspose(3, (3, 3), (2, 2))", IMAGE, "layer(x)"),
    "Dense": ("nn.Dense(5)", X, "layer(x)"),
    "DenseGeneral": ("nn.DenseGeneral((3, 4), axis=(-2, -1))", SEQUENCE, "layer(x)"),
    "Dropout": ("nn.Dropout(0.5, deterministic=True)", X, "layer(x) + 1"),
    "Einsum": ("nn.Einsum((6, 3), 'bi,ij->bj')", X, "layer(x)"),
    "Embed": ("nn.Embed(10, 3)", IDS, "layer(x)"),
    "GRUCell": ("nn.GRUCell(5)", X, "layer(jnp.zeros((4, 5)), x)"),
    "GroupNorm": ("nn.GroupNorm(2)", IMAGE, "layer(x)"),
    "InstanceNorm": ("nn.InstanceNorm()", IMAGE, "layer(x)"),
    "LSTMCell": ("nn.LSTMCell(5)", X, "layer((jnp.zeros((4, 5)), jnp.ones((4, 5))), x)"),
    "LayerNorm": ("nn.LayerNorm()", X, "layer(x)"),
    "MGUCell": ("nn.MGUCell(5)", X, "layer(jnp.zeros((4, 5)), x)"),
    "MultiHeadAttention": ("nn.MultiHeadAttention(2)", SEQUENCE, "layer(x, x)"),
    "MultiHeadDotProductAttention": ("nn.MultiHeadDotProductAttention(3)", SEQUENCE, "layer(x, x)"),
    "OptimizedLSTMCell": ("nn.OptimizedLSTMCell(5)", X, "layer((jnp.zeros((4, 5)), jnp.ones((4, 5))), x)"),
    "PReLU": ("nn.PReLU()", X, "layer(x)"),
    "RMSNorm": ("nn.RMSNorm()", X, "layer(x)"),
    "RNN": ("nn.RNN(nn.SimpleCell(4))", SEQUENCE, "layer(x)"),
    "SelfAttention": ("nn.SelfAttention(2)", SEQUENCE, "layer(x)"),
    "Sequential": ("nn.Sequential([nn.Dense(3), nn.relu, nn.Dense(2)])", X, "layer(x)"),
    "SimpleCell": ("nn.SimpleCell(5)", X, "layer(jnp.zeros((4, 5)), x)"),
    "SpectralNorm": ("nn.SpectralNorm(nn.Dense(3))", X, "layer(x, update_stats=False)"),
    "WeightNorm": ("nn.WeightNorm(nn.Dense(3))", X, "layer(x)"),
    "Fp8DotGeneral": ("nn.Dense(16, dot_general_cls=nn.Fp8DotGeneral)", "x=f32[16, 16]", "layer(x)"),
}  # fmt: skip
NNX: dict[str, tuple[str, str, str]] = {
    "BatchNorm": ("nnx.BatchNorm(6, rngs=rngs)", X, "layer(x)"),
    "Bidirectional": ("nnx.Bidirectional(nnx.RNN(nnx.GRUCell(6, 4, rngs=rngs), rngs=rngs), "
                      "nnx.RNN(nnx.GRUCell(6, 4, rngs=rngs), rngs=rngs), rngs=rngs)", SEQUENCE, "layer(x)"),
    "Conv": ("nnx.Conv(4, 5, (3, 3), rngs=rngs)", IMAGE, "layer(x)"),
    "ConvTranspose": ("nnx.ConvTranspose(4, 3, (3, 3), (2, 2), rngs=rngs)", IMAGE, "layer(x)"),
    "Dropout": ("nnx.Dropout(0.5, rngs=rngs)", X, "layer(x) + 1"),
    "Einsum": ("nnx.Einsum('bi,ij->bj', (6, 3), (3,), rngs=rngs)", X, "layer(x)"),
    "Embed": ("nnx.Embed(10, 3, rngs=rngs)", IDS, "layer(x)"),
    "GRUCell": ("nnx.GRUCell(6, 5, rngs=rngs)", X, "layer(jnp.zeros((4, 5)), x)"),
    "GroupNorm": ("nnx.GroupNorm(4, 2, rngs=rngs)", IMAGE, "layer(x)"),
    "InstanceNorm": ("nnx.InstanceNorm(4, rngs=rngs)", IMAGE, "layer(x)"),
    "LSTMCell": ("nnx.LSTMCell(6, 5, rngs=rngs)", X, "layer((jnp.zeros((4, 5)), jnp.ones((4, 5))), x)"),
    "LayerNorm": ("nnx.LayerNorm(6, rngs=rngs)", X, "layer(x)"),
    "Linear": ("nnx.Linear(6, 5, rngs=rngs)", X, "layer(x)"),
    "LinearGeneral": ("nnx.LinearGeneral((5, 6), (3, 4), axis=(-2, -1), rngs=rngs)", SEQUENCE, "layer(x)"),
    "LoRA": ("nnx.LoRA(6, 2, 5, rngs=rngs)", X, "layer(x)"),
    "LoRALinear": ("nnx.LoRALinear(6, 5, lora_rank=2, rngs=rngs)", X, "layer(x)"),
    "MultiHeadAttention": ("nnx.MultiHeadAttention(2, 6, decode=False, rngs=rngs)", SEQUENCE, "layer(x)"),
    "OptimizedLSTMCell": ("nnx.OptimizedLSTMCell(6, 5, rngs=rngs)", X,
                          "layer((jnp.zeros((4, 5)), jnp.ones((4, 5))), x)"),
    "PReLU": ("nnx.PReLU()", X, "layer(x)"),
    "RMSNorm": ("nnx.RMSNorm(6, rngs=rngs)", X, "layer(x)"),
    "RNN": ("nnx.RNN(nnx.SimpleCell(6, 4, rngs=rngs), rngs=rngs)", SEQUENCE, "layer(x)"),
    "Sequential": ("nnx.Sequential(nnx.Linear(6, 3, rngs=rngs), nnx.relu)", X, "layer(x)"),
    "SimpleCell": ("nnx.SimpleCell(6, 5, rngs=rngs)", X, "layer(jnp.zeros((4, 5)), x)"),
    "SpectralNorm": ("nnx.SpectralNorm(nnx.Linear(6, 3, rngs=rngs), rngs=rngs)", X, "layer(x, update_stats=False)"),
    "WeightNorm": ("nnx.WeightNorm(nnx.Linear(6, 3, rngs=rngs), rngs=rngs)", X, "layer(x)"),
}  # fmt: skip
VECTOR, PICTURE, LINE, VOLUME = "x=f32[6]", "x=f32[4, 8, 9]", "x=f32[4, 9]", "x=f32[2, 5, 6, 7]"
SPACES = {1: LINE, 2: PICTURE, 3: VOLUME}
EQUINOX: dict[str, tuple[str, str, str]] = {
    **{f"{kind}{n}d": (f"eqx.nn.{kind}{n}d(3)", SPACES[n], "layer(x)")
       for kind in ("AdaptiveAvgPool", "AdaptiveMaxPool") for n in SPACES},
    **{f"{kind}{n}d": (f"eqx.nn.{kind}{n}d(2, 2)", SPACES[n], "layer(x)")
       for kind in ("AvgPool", "MaxPool") for n in SPACES},
    **{f"{kind}{n}d": (f"eqx.nn.{kind}{n}d({2 if n == 3 else 4}, 3, 3, 2, 1, key=key)", SPACES[n], "layer(x)")
       for kind in ("Conv", "ConvTranspose") for n in SPACES},
    "Conv": ("eqx.nn.Conv(2, 4, 3, 3, key=key)", PICTURE, "layer(x)"),
    "ConvTranspose": ("eqx.nn.ConvTranspose(2, 4, 3, 3, key=key)", PICTURE, "layer(x)"),
    "Dropout": ("eqx.nn.Dropout(0.5)", VECTOR, "layer(x) + 1"),
    "Embedding": ("eqx.nn.Embedding(10, 3, key=key)", IDS, "jax.vmap(layer)(x)"),
    "GRUCell": ("eqx.nn.GRUCell(6, 5, key=key)", VECTOR, "layer(x, jnp.zeros(5))"),
    "GroupNorm": ("eqx.nn.GroupNorm(2, 4)", PICTURE, "layer(x)"),
    "Identity": ("eqx.nn.Identity()", VECTOR, "layer(x) + 1"),
    "LSTMCell": ("eqx.nn.LSTMCell(6, 5, key=key)", VECTOR, "layer(x, (jnp.zeros(5), jnp.ones(5)))"),
    "Lambda": ("eqx.nn.Lambda(jnp.sin)", VECTOR, "layer(x)"),
    "LayerNorm": ("eqx.nn.LayerNorm(6)", VECTOR, "layer(x)"),
    "Linear": ("eqx.nn.Linear(6, 5, key=key)", VECTOR, "layer(x)"),
    "MLP": ("eqx.nn.MLP(6, 3, 8, 2, key=key)", VECTOR, "layer(x)"),
    "MultiheadAttention": ("eqx.nn.MultiheadAttention(2, 6, key=key)", "x=f32[5, 6]", "layer(x, x, x)"),
    "PReLU": ("eqx.nn.PReLU(0.3)", VECTOR, "layer(x)"),
    "Pool": ("eqx.nn.Pool(0.0, lax.add, 2, 2, 2)", PICTURE, "layer(x)"),
    "RMSNorm": ("eqx.nn.RMSNorm(6)", VECTOR, "layer(x)"),
    "RotaryPositionalEmbedding": ("eqx.nn.RotaryPositionalEmbedding(6)", "x=f32[5, 6]", "layer(x)"),
    "Sequential": ("eqx.nn.Sequential([eqx.nn.Linear(6, 3, key=key), eqx.nn.Lambda(jax.nn.relu)])", VECTOR, "layer(x)"),
    "WeightNorm": ("eqx.nn.WeightNorm(eqx.nn.Linear(6, 3, key=key))", VECTOR, "layer(x)"),
    "Shared": ("eqx.nn.Shared((eqx.nn.Linear(6, 6, key=key), eqx.nn.Linear(6, 6, key=key)), "
               "lambda p: p[1].weight, lambda p: p[0].weight)", VECTOR, "layer()[1](layer()[0](x))"),
}  # fmt: skip
STATEFUL: dict[str, tuple[str, str]] = {
    "BatchNorm": ("eqx.nn.BatchNorm(6, 'batch', mode='batch')", "x=f32[4, 6]"),
    "SpectralNorm": ("eqx.nn.SpectralNorm(eqx.nn.Linear(6, 3, key=key), 'weight', key=key)", "x=f32[6]"),
}
HEAD = "import jax\nimport jax.numpy as jnp\nfrom jax import lax\n"


def linen() -> str:
    """A file with one module a layer."""
    found = [HEAD + "import flax.linen as nn\n"]
    for name, (make, inputs, call) in LINEN.items():
        found.append(
            f"# sol: {inputs}\nclass {name}(nn.Module):\n    @nn.compact\n    def __call__(self, x):\n"
            f"        layer = {make}\n        return {call}\n"
        )
    return "\n\n".join(found)


def nnx() -> str:
    """A file with one module a layer."""
    found = [HEAD + "from flax import nnx\n"]
    found += [_class(name, "nnx.Module", "rngs", *layer) for name, layer in NNX.items()]
    return "\n\n".join(found)


def equinox() -> str:
    """A file with one module a layer."""
    found = [HEAD + "import equinox as eqx\n"]
    found += [_class(name, "eqx.Module", "key", *layer, field=True) for name, layer in EQUINOX.items()]
    for name, (make, inputs) in STATEFUL.items():
        call = "layer(x, state)"
        if name == "BatchNorm":
            call = "jax.vmap(layer, axis_name='batch', in_axes=(0, None), out_axes=(0, None))(x, state)"
        found.append(_class(name, "eqx.Module", "key", make, inputs, f"{call}[0]", "x, state", field=True))
    return "\n\n".join(found)


def _class(
    name: str, base: str, random: str, make: str, inputs: str, call: str, arguments: str = "x", *, field: bool = False
) -> str:
    """A module around one layer; a dataclass declares it as a `field`."""
    declared = "    layer: eqx.Module\n\n" if field else ""
    return (
        f"# sol: {inputs}\nclass {name}({base}):\n{declared}    def __init__(self, *, {random}):\n"
        f"        self.layer = {make}\n\n    def __call__(self, {arguments}):\n        layer = self.layer\n"
        f"        return {call}\n"
    )


def main() -> int:
    """Run; 1 when a layer was not validated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--libraries", nargs="+", default=["linen", "nnx", "equinox"])
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    pipeline = Pipeline(Cache(enabled=False))
    with tempfile.TemporaryDirectory() as folder:
        for library in options.libraries:
            path = Path(folder) / f"{library}_layers.py"
            path.write_text({"linen": linen, "nnx": nnx, "equinox": equinox}[library](), encoding="utf-8")
            for row in programs(pipeline, path, options.only):
                rows.append(row)
                if row["status"] != "validated":
                    print(
                        f"{library} {row['name']}: {row['status']} {row['reason'][:200]} {row['partial']}", flush=True
                    )
    pipeline.close()
    good = sum(r["status"] == "validated" for r in rows)
    told = [f"{good} of {len(rows)} validated.\n", "| library | layer | MAC | verdict |", "|---|---|---|---|"]
    told += [f"| {r['file'].partition('_')[0]} | {r['name']} | {r['macs']} | {r['status']} |" for r in rows]
    print(told[0])
    if not options.only and len(options.libraries) == 3:
        (RESULTS / "jax_layers.md").write_text("\n".join(told) + "\n")
    return 0 if good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
