#!/usr/bin/env python3
"""Analyse and validate every program of benchmarks/jax_zoo; write results/jax_zoo.json and .md.

    python benchmarks/jax_programs.py [--only GPT lstm]

Each file is analysed twice by one warm pipeline without its cache: the second time is the latency of an edit. Then
every program runs on the CPU beside its loop program.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from kernelbench import RESULTS, machine

from sollens.analysis.cache import Cache
from sollens.analysis.cli import version
from sollens.analysis.interpreter import version_of
from sollens.analysis.pipeline import Pipeline, Request
from sollens.hardware.units import format_bytes, format_count, format_seconds

ZOO = Path(__file__).parent / "jax_zoo"


def main() -> int:
    """Run; 1 when a program was not validated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help="names of programs; the results are printed only")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    pipeline = Pipeline(Cache(enabled=False))
    try:
        for path in sorted(ZOO.glob("*.py")):
            for row in programs(pipeline, path, options.only):
                rows.append(row)
                print(f"{row['name']}: {row['status']} {row['reason'][:150]} {row['partial']}", flush=True)
    finally:
        pipeline.close()
    told = markdown(rows)
    print(told)
    if not options.only:
        document = {
            "sollens": version(),
            "jax": version_of(sys.executable, "jax"),
            "machine": machine(),
            "programs": rows,
        }
        (options.output / "jax_zoo.json").write_text(json.dumps(document, indent=1) + "\n")
        (options.output / "jax_zoo.md").write_text(told)
    return 0 if all(r["status"] == "validated" for r in rows) else 1


def programs(pipeline: Pipeline, path: Path, only: list[str] | None = None) -> list[dict[str, Any]]:
    """A row for each program of a file."""
    request = Request(path=str(path), interpreter=sys.executable, hardware="h100-sxm")
    pipeline.analyse(request)
    start = time.perf_counter()
    report = pipeline.analyse(request)
    seconds = (time.perf_counter() - start) / max(1, len(report.targets))
    for problem in report.problems:
        print(f"{path.name}:{problem.line}: {problem.code}: {problem.message}")
    rows: list[dict[str, Any]] = []
    for target in report.targets:
        if only and target.name not in only:
            continue
        verdict = pipeline.verdict(request, target.name, target.line)
        rows.append({
            "file": path.name, "name": target.name, "macs": target.macs, "vector_ops": target.vector_ops,
            "bytes": target.bytes.compulsory, "bound_s": target.time_s.fused, "partial": target.partial,
            "operators": target.operators, "status": verdict.status, "reason": verdict.reason,
            "error": verdict.max_rel_error, "seconds": verdict.seconds, "latency_s": seconds,
        })  # fmt: skip
    return rows


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table."""
    good = sum(r["status"] == "validated" for r in rows)
    latency = median([r["latency_s"] for r in rows]) if rows else 0.0
    head = (
        f"{good} of {len(rows)} validated; median latency of a warm analysis {format_seconds(latency)} a program.\n\n"
    )
    table = [
        "| file | program | primitives | MAC | vector ops | traffic | bound | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        table.append(
            f"| {r['file']} | {r['name']} | {r['operators']} | {format_count(r['macs'])} | "
            f"{format_count(r['vector_ops'])} | {format_bytes(r['bytes'])} | "
            f"{format_seconds(r['bound_s'], 'down')} | {r['status']} |"
        )
    return head + "\n".join(table) + "\n"


if __name__ == "__main__":
    sys.exit(main())
