#!/usr/bin/env python3
"""Analyse every KernelBench problem, warm, in one process; write results/kernelbench.json and .md.

    python benchmarks/kernelbench.py --root /path/to/KernelBench/KernelBench [--levels 1 2 3] [--hw h100-sxm]

Nothing of a problem's text is written: file names, counts and seconds only.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sollens.analysis.cache import Cache
from sollens.analysis.cli import version
from sollens.analysis.interpreter import version_of
from sollens.analysis.pipeline import Pipeline, Request
from sollens.hardware.units import format_seconds

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Run; 1 when a problem was not analysed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="the folder that holds level1, level2, ...")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--hw", default="h100-sxm")
    parser.add_argument("--interpreter", default=sys.executable)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    pipeline = Pipeline(Cache(enabled=False))
    try:
        rows = list(analyses(pipeline, options))
    finally:
        pipeline.close()
    document = {
        "sollens": version(),
        "torch": version_of(options.interpreter, "torch"),
        "hardware": options.hw,
        "machine": machine(),
        "levels": [summary(level, [row for row in rows if row["level"] == level]) for level in options.levels],
        "problems": rows,
    }
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "kernelbench.json").write_text(json.dumps(document, indent=1) + "\n")
    (options.output / "kernelbench.md").write_text(markdown(document))
    print(markdown(document))
    return 0 if all(row["analysed"] for row in rows) else 1


def analyses(pipeline: Pipeline, options: argparse.Namespace) -> Iterable[dict[str, Any]]:
    """One row a problem. The first analysis of all is done twice: the agent's start is not the problem's."""
    warm = False
    for level in options.levels:
        files = sorted((options.root / f"level{level}").glob("*.py"), key=lambda path: int(path.stem.split("_")[0]))
        for path in files:
            request = Request(path=str(path), interpreter=options.interpreter, hardware=options.hw, explicit=True)
            if not warm:
                pipeline.analyse(request)
                warm = True
            yield {"level": level, "name": path.stem, **analysed(pipeline, request)}


def analysed(pipeline: Pipeline, request: Request) -> dict[str, Any]:
    """What one problem gave, and its wall time."""
    start = time.perf_counter()
    try:
        report = pipeline.analyse(request)
    except Exception as error:
        problems = [f"{type(error).__name__}: {error}"[:200]]
        return {"analysed": False, "seconds": time.perf_counter() - start, "problems": problems}
    seconds = time.perf_counter() - start
    problems = [f"{p.code}: {p.message.splitlines()[0][:200]}" for p in report.problems]
    if not report.targets:
        return {"analysed": False, "seconds": seconds, "problems": problems}
    target = report.targets[0]
    return {
        "analysed": True, "seconds": seconds, "problems": problems, "operators": target.operators, "macs": target.macs,
        "vector_ops": target.vector_ops, "bytes": target.bytes.compulsory, "unfused_bytes": target.bytes.unfused,
        "fused_s": target.time_s.fused, "unfused_s": target.time_s.unfused, "limit": target.limit,
        "confidence": target.confidence, "partial": target.partial, "stage_s": target.stage_s,
    }  # fmt: skip


def summary(level: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A level in numbers."""
    done = [row for row in rows if row["analysed"]]
    stages = sorted({stage for row in done for stage in row["stage_s"]})
    return {
        "level": level,
        "problems": len(rows),
        "analysed": len(done),
        "partial": [{"name": row["name"], "reasons": row["partial"]} for row in done if row["partial"]],
        "failed": [{"name": row["name"], "problems": row["problems"]} for row in rows if not row["analysed"]],
        "seconds": spread([row["seconds"] for row in rows]),
        "stage_s": {stage: spread([row["stage_s"].get(stage, 0.0) for row in done]) for stage in stages},
        "confidence": dict(Counter(row["confidence"] for row in done)),
    }


def spread(values: list[float]) -> dict[str, float]:
    """Median, 95th percentile and maximum."""
    if not values:
        return {"median": 0.0, "p95": 0.0, "max": 0.0}
    ordered = sorted(values)
    p95 = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
    return {"median": statistics.median(ordered), "p95": p95, "max": ordered[-1]}


def machine() -> dict[str, Any]:
    """Where the times were measured."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def markdown(document: dict[str, Any]) -> str:
    """The document's summary."""
    lines = [
        f"sollens {document['sollens']}, torch {document['torch']}, {document['hardware']}, "
        f"{document['machine']['cores']} cores, Python {document['machine']['python']}; warm, one process, no cache.",
        "",
        "| level | analysed | partial | median | p95 | slowest |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for level in document["levels"]:
        times = [format_seconds(level["seconds"][name]) for name in ("median", "p95", "max")]
        counts = f"{level['analysed']}/{level['problems']} | {len(level['partial'])}"
        lines.append(f"| {level['level']} | {counts} | {' | '.join(times)} |")
    stages = ("source", "environment", "trace", "lower", "lift", "bound", "findings")
    names = [f"level {level['level']}" for level in document["levels"]]
    lines += ["", f"| stage, median (p95) | {' | '.join(names)} |"]
    lines.append("|---|" + "---:|" * len(document["levels"]))
    for stage in stages:
        spreads = [level["stage_s"].get(stage) for level in document["levels"]]
        cells = [f"{format_seconds(s['median'])} ({format_seconds(s['p95'])})" if s else "-" for s in spreads]
        lines.append(f"| {stage} | {' | '.join(cells)} |")
    for level in document["levels"]:
        for kind, key in (("not analysed", "problems"), ("partial", "reasons")):
            for row in level["failed" if key == "problems" else "partial"]:
                lines += ["", f"- level {level['level']} {row['name']}, {kind}: {'; '.join(row[key])}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
