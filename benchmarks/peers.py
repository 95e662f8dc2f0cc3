#!/usr/bin/env python3
"""Counts, bytes, times and seconds of other tools beside ours on the same KernelBench files; results/peers.json, .md.

    python benchmarks/peers.py --root /path/to/KernelBench --peers /path/to/python [--levels 1 2 3] [--every 1]

`--root` is the repository itself. `--peers` is an interpreter that has NVlabs/SOLAR, fvcore, ptflops and calflops
beside torch; a tool that it lacks is an error in every row. The tools run on the meta device, each problem in a forked
child with a time limit. SOLAR prices an H100 PCIe, so that is what we price here. Of a problem's text nothing is
written.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from kernelbench import RESULTS, analysed
from violations import revision

from sollens.analysis.cache import Cache
from sollens.analysis.pipeline import Pipeline, Request
from sollens.hardware.units import format_ratio, format_seconds

TOOLS = ("solar", "flop_counter", "fvcore", "ptflops", "calflops")
HARDWARE = "h100-pcie"
# Counts this near are the same.
TOLERANCE = 1e-3


def main() -> int:
    """Run and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="a checkout of KernelBench")
    parser.add_argument("--peers", required=True, help="an interpreter that has the other tools")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--every", type=int, default=1, help="take every n-th problem of a level")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--limit-s", type=float, default=30.0, help="seconds a tool may take for a problem")
    parser.add_argument("--revision", help="the checkout's commit, where git cannot tell")
    parser.add_argument("--interpreter", default=sys.executable)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    document: dict[str, Any] = {
        "revision": options.revision or revision(options.root), "hardware": HARDWARE, "limit_s": options.limit_s,
        "rows": rows,
    }  # fmt: skip
    pipeline = Pipeline(Cache(enabled=False))
    probe = subprocess.Popen(
        [options.peers, str(Path(__file__).parent / "peers_probe.py")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        for level, path in problems(options):
            row = {"level": level, "name": path.stem, **compared(pipeline, probe, path, options)}
            rows.append(row)
            write(document, options.output)
    finally:
        pipeline.close()
        probe.kill()
    print(markdown(document))
    return 0


def problems(options: argparse.Namespace) -> list[tuple[int, Path]]:
    """Levels in turn, a level's files by number."""
    found: list[tuple[int, Path]] = []
    for level in options.levels:
        folder = options.root / "KernelBench" / f"level{level}"
        files = sorted(folder.glob("*.py"), key=lambda p: int(p.stem.split("_")[0]))
        found += [(level, path) for path in files[:: options.every]]
    return found


def compared(
    pipeline: Pipeline, probe: subprocess.Popen[str], path: Path, options: argparse.Namespace
) -> dict[str, Any]:
    """Our numbers and every tool's, for one problem."""
    assert probe.stdin is not None and probe.stdout is not None
    request = {"path": str(path), "tools": options.tools, "limit_s": options.limit_s}
    probe.stdin.write(json.dumps(request) + "\n")
    probe.stdin.flush()
    others = json.loads(probe.stdout.readline())
    ours = analysed(
        pipeline,
        Request(path=str(path), interpreter=options.interpreter, hardware=HARDWARE, explicit=True, validate=False),
    )
    kept = ("macs", "vector_ops", "bytes", "unfused_bytes", "fused_s", "unfused_s", "limit", "seconds", "problems")
    return {"sollens": {name: ours[name] for name in kept if name in ours}, **others}


def write(document: dict[str, Any], folder: Path) -> None:
    """Both files, after every problem: a run that is cut short keeps what it has."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "peers.json").write_text(json.dumps(document, indent=1) + "\n")
    (folder / "peers.md").write_text(markdown(document))


# --- tables


def relation(ours: float, other: float) -> str:
    """How another tool's count stands to ours."""
    if other == 0 and ours:
        return "nothing counted"
    if abs(other - ours) <= TOLERANCE * max(ours, other):
        return "same"
    return "more" if other > ours else "less"


def geometric_mean(values: list[float]) -> float:
    """Of positive values; nan of none."""
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


def markdown(document: dict[str, Any]) -> str:
    """Tables: how often each tool answers and agrees, the ratio of the bounds, and every disagreement."""
    rows = document["rows"]
    tools = [t for t in TOOLS if any(t in r for r in rows)]
    lines = [
        f"KernelBench at {document['revision'][:12]}, {len(rows)} problems, {document['limit_s']:g} s a problem and "
        f"tool, inputs on the meta device, {document['hardware']}.",
        "",
        "| level | tool | answers | same MACs | more | less | nothing counted | median s | p95 s |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for level in sorted({r["level"] for r in rows}):
        group = [r for r in rows if r["level"] == level]
        for tool in ("sollens", *tools):
            lines.append(f"| {level} | {tool} | {answers(group, tool)} |")
    if "solar" in tools:
        lines += ["", *bounds_table(rows), "", *below_one(rows)]
    lines += ["", *disagreements(rows, tools)]
    return "\n".join(lines) + "\n"


def answers(group: list[dict[str, Any]], tool: str) -> str:
    """One row of the first table, but for its level and tool."""
    done = [r for r in group if "macs" in r[tool]]
    relations = [relation(r["sollens"]["macs"], r[tool]["macs"]) for r in done if "macs" in r["sollens"]]
    counts = [relations.count(kind) for kind in ("same", "more", "less", "nothing counted")]
    seconds = sorted(r[tool]["seconds"] for r in group)
    p95 = seconds[round(0.95 * (len(seconds) - 1))]
    times = f"{format_seconds(statistics.median(seconds))} | {format_seconds(p95)}"
    return f"{len(done)}/{len(group)} | {' | '.join(map(str, counts))} | {times}"


def both(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with a bound of ours and of SOLAR's."""
    return [r for r in rows if r["solar"].get("fused_s") and r["sollens"].get("fused_s")]


def bounds_table(rows: list[dict[str, Any]]) -> list[str]:
    """Geometric means of our fused bound over SOLAR's."""
    lines = [
        "| level | problems | our bound / SOLAR's, float32 rate | TF32 rate | our bytes / SOLAR's | bound below 1 |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for level in sorted({r["level"] for r in rows}):
        group = both([r for r in rows if r["level"] == level])
        ratios = [r["sollens"]["fused_s"] / r["solar"]["fused_s"] for r in group]
        tf32 = [r["sollens"]["fused_s"] / r["solar"]["fused_tf32_s"] for r in group]
        moved = [r["sollens"]["bytes"] / r["solar"]["bytes"] for r in group if r["solar"]["bytes"]]
        means = " | ".join(format_ratio(geometric_mean(values)) for values in (ratios, tf32, moved))
        lines.append(f"| {level} | {len(group)} | {means} | {sum(x < 1 - TOLERANCE for x in ratios)} |")
    return lines


def reason(row: dict[str, Any]) -> str:
    """Why our bound is below SOLAR's, from the numbers of both."""
    ours, solar = row["sollens"], row["solar"]
    memory_bound = ours["limit"] == "memory"
    if ours["limit"] == "matmul:tf32" and solar["fused_s"] > solar["fused_tf32_s"]:
        return "the pipe: PyTorch runs this in TF32 by default, SOLAR's rate is that of float32 CUDA cores"
    if memory_bound and solar["fused_s"] > solar["fused_tf32_s"]:
        return "the pipe: in TF32, which PyTorch takes by default, this is memory-bound"
    if memory_bound and solar["bytes"] > ours["bytes"] * (1 + TOLERANCE):
        return f"traffic: SOLAR moves {format_ratio(solar['bytes'] / ours['bytes'])} our bytes"
    if memory_bound:
        return "work: SOLAR's MACs limit it"
    return f"work: SOLAR counts {format_ratio(solar['macs'] / max(ours['macs'], 1))} our MACs"


def below_one(rows: list[dict[str, Any]]) -> list[str]:
    """Every problem whose bound of ours is below SOLAR's."""
    lines = ["| our bound is below SOLAR's | ratio | reason |", "|---|---:|---|"]
    for row in both(rows):
        ratio = row["sollens"]["fused_s"] / row["solar"]["fused_s"]
        if ratio < 1 - TOLERANCE:
            lines.append(f"| level {row['level']} {row['name']} | {format_ratio(ratio)} | {reason(row)} |")
    return lines


def disagreements(rows: list[dict[str, Any]], tools: list[str]) -> list[str]:
    """Every problem on which a tool's MACs differ from ours, or that it does not answer."""
    lines = ["| level | problem | ours, MACs | " + " | ".join(tools) + " |", "|---:|---|---:|" + "---|" * len(tools)]
    for row in rows:
        ours = row["sollens"].get("macs")
        if ours is None:
            continue
        cells = [cell(ours, row[t]) for t in tools]
        if any(c != "=" for c in cells):
            lines.append(f"| {row['level']} | {row['name']} | {ours:.4g} | {' | '.join(cells)} |")
    return lines


def cell(ours: float, other: dict[str, Any]) -> str:
    """A tool's MACs as a multiple of ours; "=" where they agree; its error where there is one."""
    if "macs" not in other:
        return other.get("error", "no answer").partition(":")[0]
    if relation(ours, other["macs"]) == "same":
        return "="
    return f"{other['macs']:.3g}" if not ours else f"{other['macs'] / ours:.3g}x"


if __name__ == "__main__":
    sys.exit(main())
