#!/usr/bin/env python3
"""Measured times over our bounds, for every KernelBench problem with a published timing; results/violations.json and
.md.

    python benchmarks/violations.py --root /path/to/KernelBench

`--root` is the repository itself: its `KernelBench/level*` hold the problems, its `results/timing` the measurements.
A measured
minimum below a bound is a violation: a bug of ours. Timings belong to the revision of the problem files that they
were made with;
the problems here are those of the checkout, and its revision is written beside the results. Nothing of a problem's
text is written.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

from kernelbench import RESULTS, analysed

from sollens.analysis.cache import Cache
from sollens.analysis.pipeline import Pipeline, Request
from sollens.hardware.units import format_ratio

BOARDS = {"H100_PCIe_LambdaLabs": "h100-pcie", "H100_Modal": "h100-sxm"}
KINDS = {"torch": "eager", "torch_compile_inductor_default": "compiled"}
FIDELITIES = ("fused_s", "unfused_s")


def main() -> int:
    """Run; 1 when a bound is above a measured minimum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="a checkout of KernelBench")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--interpreter", default=sys.executable)
    parser.add_argument("--revision", help="the checkout's commit, where git cannot tell")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    pipeline = Pipeline(Cache(enabled=False))
    try:
        rows = [row for board in BOARDS for row in compared(pipeline, options, board)]
    finally:
        pipeline.close()
    document = {"revision": options.revision or revision(options.root), "summary": summaries(rows), "rows": rows}
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "violations.json").write_text(json.dumps(document, indent=1) + "\n")
    (options.output / "violations.md").write_text(markdown(document))
    print(markdown(document))
    return 1 if any(row["ratio"]["fused_s"] < 1 for row in rows) else 0


def revision(root: Path) -> str:
    """The commit of the checkout, or what it says instead."""
    done = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown (no git checkout)"


def compared(pipeline: Pipeline, options: argparse.Namespace, board: str) -> list[dict[str, Any]]:
    """One row a problem and way of running it on this board."""
    measured = {
        kind: json.loads((options.root / "results" / "timing" / board / f"baseline_time_{kind}.json").read_text())
        for kind in KINDS
    }
    rows: list[dict[str, Any]] = []
    for level in options.levels:
        folder = options.root / "KernelBench" / f"level{level}"
        for path in sorted(folder.glob("*.py"), key=lambda p: int(p.stem.split("_")[0])):
            timings = {kind: measured[kind].get(f"level{level}", {}).get(path.name) for kind in KINDS}
            if not any(timings.values()):
                continue
            request = Request(
                path=str(path), interpreter=options.interpreter, hardware=BOARDS[board], explicit=True, validate=False
            )
            bound = analysed(pipeline, request)
            for kind, timing in timings.items():
                if timing and bound["analysed"] and bound["fused_s"] > 0:
                    measured_s = timing["min"] / 1e3
                    rows.append(
                        {
                            "board": board, "run": KINDS[kind], "level": level, "name": path.stem,
                            "measured_s": measured_s, "limit": bound["limit"],
                            "ratio": {name: measured_s / bound[name] for name in FIDELITIES},
                        }
                    )  # fmt: skip
    return rows


def summaries(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Geometric means and violations by board, run and level."""
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["board"], row["run"], row["level"]), []).append(row)
    return [
        {
            "board": board, "run": run, "level": level, "problems": len(group),
            "geometric_mean": {n: math.exp(sum(math.log(r["ratio"][n]) for r in group) / len(group))
                               for n in FIDELITIES},
            "closest": min(group, key=lambda r: r["ratio"]["fused_s"])["name"],
            "smallest": min(r["ratio"]["fused_s"] for r in group),
            "violations": [r["name"] for r in group if r["ratio"]["fused_s"] < 1],
            "faster_than_unfused": sum(r["ratio"]["unfused_s"] < 1 for r in group),
        }
        for (board, run, level), group in groups.items()
    ]  # fmt: skip


def markdown(document: dict[str, Any]) -> str:
    """The summary as tables."""
    lines = [
        f"Measured minimum / bound over KernelBench at {document['revision'][:12]}, with the timings of that checkout.",
        "",
        "| board | run | level | problems | violations | measured / fused (geomean) | smallest | measured / unfused "
        "| below unfused |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for s in document["summary"]:
        means = s["geometric_mean"]
        lines.append(
            f"| {s['board']} | {s['run']} | {s['level']} | {s['problems']} | {len(s['violations'])} "
            f"| {format_ratio(means['fused_s'])} | {format_ratio(s['smallest'])} ({s['closest']}) "
            f"| {format_ratio(means['unfused_s'])} | {s['faster_than_unfused']} |"
        )
    for s in document["summary"]:
        if s["violations"]:
            lines += ["", f"- violated on {s['board']}, {s['run']}: {', '.join(s['violations'])}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
