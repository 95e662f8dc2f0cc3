"""Analyse KernelBench in `mode=train` (forward and backward) and validate every n-th problem; write results/train.md.

    python benchmarks/train.py --root /path/to/KernelBench/KernelBench [--levels 1 2 3] [--every 6]

Nothing of a problem's text is written but its file name.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

from sollens.analysis.cache import Cache
from sollens.analysis.pipeline import Pipeline, Request
from sollens.hardware import units

RESULTS = Path(__file__).parent / "results"
PRAGMA = "# sol: mode=train\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--root", type=Path, required=True, help="the folder that holds level1, level2, ...")
    arguments.add_argument("--levels", nargs="+", type=int, default=[1, 2, 3])
    arguments.add_argument("--every", type=int, default=6, help="validate every n-th problem")
    options = arguments.parse_args()
    pipeline = Pipeline(Cache(enabled=False))
    rows, remarks = [], []
    for level in options.levels:
        paths = sorted((options.root / f"level{level}").glob("*.py"), key=lambda p: int(p.name.split("_")[0]))
        outcome: Counter[str] = Counter()
        verdicts: Counter[str] = Counter()
        seconds: list[float] = []
        for position, path in enumerate(paths):
            judged = position % options.every == 0
            kind, verdict, took, remark = analysed(pipeline, path, judged)
            outcome[kind] += 1
            seconds.append(took)
            if judged and kind == "analysed":
                verdicts[verdict] += 1
            if remark:
                remarks.append(f"- {level}/{path.stem}: {remark}")
            print(level, path.stem, kind, verdict, units.format_seconds(took), remark, flush=True)
        checked = ", ".join(f"{n} {name}" for name, n in sorted(verdicts.items()))
        rows.append(
            f"| {level} | {len(paths)} | {outcome['analysed']} | {outcome['partial']} | {outcome['not analysed']} | "
            f"{units.format_seconds(statistics.median(seconds))} | {checked} |"
        )
    pipeline.close()
    table = "\n".join(rows)
    (RESULTS / "train.md").write_text(
        "# Forward and backward of KernelBench\n\n"
        f"`benchmarks/train.py --every {options.every}`, {time.strftime('%Y-%m-%d')}. Medians are of analyses that are "
        "validated or not, warm.\n\n"
        "| level | problems | analysed | partial | not analysed | median | of those checked |\n"
        "|---|---|---|---|---|---|---|\n"
        f"{table}\n\n## Not analysed, partial or not validated\n\n" + ("\n".join(remarks) or "None.") + "\n"
    )


def analysed(pipeline: Pipeline, path: Path, judged: bool) -> tuple[str, str, float, str]:
    """(analysed, partial or not analysed; verdict; seconds; what to remark) of one problem."""
    text = with_pragma(path.read_text())
    started = time.perf_counter()
    request = Request(path=str(path), text=text, interpreter=sys.executable, validate=judged, deadline_s=60.0)
    report = pipeline.analyse(request)
    took = time.perf_counter() - started
    if not report.targets:
        message = report.problems[0].message.split("\n")[0] if report.problems else "no target"
        return "not analysed", "", took, message[:200]
    (target,) = report.targets
    verdict = target.validation.status
    if target.partial:
        return "partial", verdict, took, "partial: " + ", ".join(target.partial)[:150]
    fine = not judged or verdict == "validated"
    return "analysed", verdict, took, "" if fine else f"{verdict}: {target.validation.reason}"[:200]


def with_pragma(text: str) -> str:
    """The file with the pragma above its class Model."""
    lines = text.splitlines(keepends=True)
    at = next(k for k, line in enumerate(lines) if line.startswith("class Model"))
    return "".join([*lines[:at], PRAGMA, *lines[at:]])


if __name__ == "__main__":
    main()
