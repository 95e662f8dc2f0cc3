#!/usr/bin/env python3
"""Validate every KernelBench problem in one warm agent; write results/validate.json and .md.

    python benchmarks/validate.py --root /path/to/KernelBench/KernelBench [--levels 1 2 3] [--only 23 45] [--quick]

Each problem is validated cold (no kernel in memory or on disk, no twin known) and at once again, warm, as after an
edit. The rows of levels that
are not run are kept from an earlier result. Nothing of a problem's text is written but what a verdict says.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kernelbench import RESULTS, machine, spread

from sollens.analysis.cli import version
from sollens.analysis.execute.compiled import kernels
from sollens.analysis.interpreter import version_of
from sollens.analysis.lower.lower import lower
from sollens.analysis.trace.host import AgentHost, TraceRequest
from sollens.analysis.validate.validate import forget_twins, validate
from sollens.hardware.units import format_seconds

STATUSES = ("validated", "by-kernel", "not-validated", "failed")
_SAMPLE_S = 0.05


def main() -> int:
    """Run; 1 when a problem was not validated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="the folder that holds level1, level2, ...")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", type=int, nargs="+", help="numbers of problems; the results are printed only")
    parser.add_argument("--interpreter", default=sys.executable)
    parser.add_argument(
        "--quick", action="store_true", help="once, with the kernels that are there; the results are printed only"
    )
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with AgentHost(options.interpreter) as host:
        problem = host.start()
        if problem is not None:
            sys.exit(problem.message)
        for row in validations(host, options):
            rows.append(row)
            told = f"{row['reason'][:160]} {row['mismatch'][:160]}"
            print(f"{row['level']} {row['name']}: {row['status']} {row['warm_s']:.2f} s {told}", flush=True)
    if options.only or options.quick:
        return 0
    path = options.output / "validate.json"
    if path.exists():
        rows += [r for r in json.loads(path.read_text())["problems"] if r["level"] not in options.levels]
    rows.sort(key=lambda row: (row["level"], int(row["name"].split("_")[0])))
    document = {
        "sollens": version(), "torch": version_of(options.interpreter, "torch"), "machine": machine(),
        "load_average": os.getloadavg()[2],
        "levels": [summary(level, rows) for level in sorted({row["level"] for row in rows})], "problems": rows,
    }  # fmt: skip
    options.output.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
    (options.output / "validate.md").write_text(markdown(document))
    print(markdown(document))
    return 0 if all(row["status"] in ("validated", "by-kernel") for row in rows) else 1


def problems(root: Path, level: int) -> list[Path]:
    """The files of a level by number."""
    return sorted((root / f"level{level}").glob("*.py"), key=lambda path: int(path.stem.split("_")[0]))


def validations(host: AgentHost, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One row a problem. One validation goes ahead: the agent's and the compiler's start are no problem's."""
    first = True
    for level in options.levels:
        for path in problems(options.root, level):
            if options.only and int(path.stem.split("_")[0]) not in options.only:
                continue
            if first and not options.quick:
                row_of(host, path, quick=False)
                first = False
            yield {"level": level, "name": path.stem, **row_of(host, path, quick=options.quick)}


def row_of(host: AgentHost, path: Path, *, quick: bool) -> dict[str, Any]:
    """A problem's verdict, and what it took."""
    request = TraceRequest(path=str(path))
    reply = host.trace(request)
    if reply.trace is None:
        reason = reply.problems[0].message if reply.problems else "no trace"
        return {"status": "not-validated", "reason": reason.splitlines()[0], "mismatch": "", "cold_s": 0.0,
                "warm_s": 0.0, "stage_s": {}, "peak_bytes": 0, "sizes": {}, "points": 0}  # fmt: skip
    full = lower(reply.trace)
    with Memory() as memory:
        if quick:
            cold_s, verdict = timed(host, request, full)
            warm_s = cold_s
        else:
            with no_kernels():
                cold_s, _ = timed(host, request, full)
                warm_s, verdict = timed(host, request, full)
    found = verdict.mismatch
    return {
        "status": verdict.status, "reason": verdict.reason.splitlines()[0] if verdict.reason else "",
        "mismatch": f"{found} {found.statement}" if found else "", "max_rel_error": verdict.max_rel_error,
        "tensors": verdict.tensors, "kernels": verdict.kernels, "points": verdict.points, "sizes": dict(verdict.sizes),
        "cold_s": cold_s, "warm_s": warm_s, "stage_s": dict(verdict.stage_s), "peak_bytes": memory.peak_bytes,
    }  # fmt: skip


def timed(host: AgentHost, request: TraceRequest, full: Any) -> tuple[float, Any]:
    """Wall seconds and verdict."""
    start = time.perf_counter()
    verdict = validate(host, request, full)
    return time.perf_counter() - start, verdict


@contextmanager
def no_kernels() -> Generator[None]:
    """No compiled kernel, neither in memory nor on disk, and no known twin, as on a new machine."""
    before = os.environ.get("SOLLENS_CACHE_DIR")
    with tempfile.TemporaryDirectory(prefix="sollens-cold-") as folder:
        os.environ["SOLLENS_CACHE_DIR"] = folder
        kernels.forget()
        forget_twins()
        try:
            yield
        finally:
            kernels.forget()
            if before is None:
                del os.environ["SOLLENS_CACHE_DIR"]
            else:
                os.environ["SOLLENS_CACHE_DIR"] = before


class Memory:
    """The largest resident memory of this process and its descendants together, sampled.

    Pages that forks share are counted in each: an upper bound.
    """

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(_SAMPLE_S):
            self.peak_bytes = max(self.peak_bytes, sum(map(resident, family(os.getpid()))))


def family(number: int) -> Iterator[int]:
    """A process and its descendants; on systems without /proc nothing."""
    yield number
    for tasks in Path(f"/proc/{number}/task").glob("*/children"):
        try:
            children = tasks.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from family(int(child))


def resident(number: int) -> int:
    """Resident bytes of a process, 0 when it is gone."""
    try:
        return int(Path(f"/proc/{number}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def summary(level: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A level in numbers."""
    rows = [row for row in rows if row["level"] == level]
    return {
        "level": level,
        "problems": len(rows),
        "status": dict(Counter(row["status"] for row in rows)),
        "twins": sum(bool(row["sizes"]) for row in rows),
        "cold_s": spread([row["cold_s"] for row in rows]),
        "warm_s": spread([row["warm_s"] for row in rows]),
        "stage_s": {
            stage: spread([row["stage_s"].get(stage, 0.0) for row in rows])
            for stage in sorted({s for row in rows for s in row["stage_s"]})
        },
        "peak_bytes": max((row["peak_bytes"] for row in rows), default=0),
    }


def markdown(document: dict[str, Any]) -> str:
    """The document's summary."""
    lines = [
        f"sollens {document['sollens']}, torch {document['torch']}, {document['machine']['cores']} cores, "
        f"Python {document['machine']['python']}; one warm agent.",
        "Cold: no compiled kernel, no twin known. Warm: as after an edit. Wall time; the load average over the last "
        f"15 minutes was {document['load_average']:.1f}.",
        "",
        f"| level | problems | {' | '.join(STATUSES)} | twins | cold median (p95) | warm median (p95) | peak memory |",
        "|---|" + "---:|" * (len(STATUSES) + 5),
    ]
    for level in document["levels"]:
        counts = " | ".join(str(level["status"].get(s, 0)) for s in STATUSES)
        times = [
            f"{format_seconds(level[name]['median'])} ({format_seconds(level[name]['p95'])})"
            for name in ("cold_s", "warm_s")
        ]
        lines.append(
            f"| {level['level']} | {level['problems']} | {counts} | {level['twins']} | {' | '.join(times)} "
            f"| {level['peak_bytes'] / 2**30:.2f} GiB |"
        )
    lines += ["", "| level | stage of the warm validation, median (p95) |", "|---|---|"]
    for level in document["levels"]:
        cells = [
            f"{stage} {format_seconds(s['median'])} ({format_seconds(s['p95'])})"
            for stage, s in level["stage_s"].items()
        ]
        lines.append(f"| {level['level']} | {', '.join(cells)} |")
    told = [row for row in document["problems"] if row["status"] != "validated"]
    if told:
        lines += ["", "| problem | status | reason |", "|---|---|---|"]
    for row in told:
        reason = (row["reason"] or row["mismatch"]).replace("|", "\\|")[:240]
        lines.append(f"| {row['level']} {row['name']} | {row['status']} | {reason} |")
    noted = [row for row in document["problems"] if row["status"] == "validated" and row["reason"]]
    if noted:
        lines += ["", "Validated, with a remark:", ""]
    for row in noted:
        lines.append(f"- {row['level']} {row['name']}: {row['reason'][:240]}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
