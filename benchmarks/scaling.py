#!/usr/bin/env python3
"""How the cost of an analysis grows with the program: transformers of 12, 48 and 96 layers; see results/scaling.md.

python benchmarks/scaling.py [--layers 12 48 96] [--repeat 3]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kernelbench import RESULTS, machine

from sollens.analysis.cache import Cache
from sollens.analysis.cli import version
from sollens.analysis.pipeline import Pipeline, Request
from sollens.hardware.units import format_seconds

SOURCE = """\
import torch
from torch import nn

LAYERS = {layers}


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        w = (q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5).softmax(-1)
        x = x + self.out((w @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


# sol: init(768, 12), x=f32[4, 512, 768]
class Transformer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(LAYERS))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


def main() -> int:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, nargs="+", default=[12, 48, 96])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--interpreter", default=sys.executable)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    pipeline = Pipeline(Cache(enabled=False))
    try:
        with tempfile.TemporaryDirectory() as folder:
            measure(pipeline, Path(folder), 1, options)  # the agent's start
            rows = [measure(pipeline, Path(folder), layers, options) for layers in options.layers]
    finally:
        pipeline.close()
    document = {"sollens": version(), "machine": machine(), "rows": rows}
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "scaling.json").write_text(json.dumps(document, indent=1) + "\n")
    (options.output / "scaling.md").write_text(markdown(document))
    print(markdown(document))
    return 0


def measure(pipeline: Pipeline, folder: Path, layers: int, options: argparse.Namespace) -> dict[str, Any]:
    """The fastest of some analyses."""
    path = folder / f"transformer_{layers}.py"
    path.write_text(SOURCE.format(layers=layers))
    best: dict[str, Any] = {}
    for _ in range(options.repeat):
        start = time.perf_counter()
        report = pipeline.analyse(Request(path=str(path), interpreter=options.interpreter))
        seconds = time.perf_counter() - start
        if not report.targets:
            raise SystemExit(f"{layers} layers: {[p.message for p in report.problems]}")
        if not best or seconds < best["seconds"]:
            (target,) = report.targets
            best = {"layers": layers, "operators": target.operators, "seconds": seconds, "stage_s": target.stage_s}
    return best


def markdown(document: dict[str, Any]) -> str:
    """The document as a table."""
    stages = ("trace", "lower", "lift", "bound")
    lines = [
        f"sollens {document['sollens']}, {document['machine']['cores']} cores; warm, nothing cached, best of repeats.",
        "",
        f"| layers | operators | total | per operator | {' | '.join(stages)} |",
        "|---:|---:|---:|---:|" + "---:|" * len(stages),
    ]
    for row in document["rows"]:
        per = format_seconds(row["seconds"] / max(1, row["operators"]))
        parts = " | ".join(format_seconds(row["stage_s"].get(stage, 0.0)) for stage in stages)
        lines.append(f"| {row['layers']} | {row['operators']} | {format_seconds(row['seconds'])} | {per} | {parts} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
