#!/usr/bin/env python3
"""Mutate the loop programs of KernelBench and see whether validation notices; write results/mutation.json and .md.

    python benchmarks/mutation.py --root /path/to/KernelBench/KernelBench [--levels 1 2 3] [--per-problem 16]

Each problem is run once, on the twin that a validation runs, for its golden values; each mutant is then judged by the
validator's own comparison. Mutants that the verifier refuses are counted apart: nothing would run them. Nothing of a
problem's text is written: file names, operators, and the IR of statements.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from kernelbench import RESULTS, machine
from mutations.catalog import MUTATIONS
from mutations.equivalence import Probes
from mutations.subject import NoSubject, Subject, subject

from sollens.analysis.cli import version
from sollens.analysis.execute.errors import OutOfBounds
from sollens.analysis.interpreter import version_of
from sollens.analysis.ir.nodes import NO_SOURCE, Node, Program, walk
from sollens.analysis.ir.text_print import node_text
from sollens.analysis.ir.verify import verify
from sollens.analysis.trace.host import AgentHost, TraceRequest
from sollens.analysis.validate.validate import Budget
from sollens.hardware.units import format_seconds

BUDGET = Budget(kernels=False)  # the twins that a validation runs
_ROUNDS = 6
_EQUIVALENT = ("equivalent",)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A program with one mistake; `refused` by the verifier, or to be judged."""

    kind: str
    program: Program
    refused: bool


def mutants(program: Program, random: Random, count: int, made: Counter[str]) -> Iterator[Mutant]:
    """Up to `count` distinct mutants that the verifier accepts, and those that it does not.

    Kinds in turn, those first of which `made` has fewest: few programs have loops, and theirs must not be missed.
    """
    seen = {program}
    accepted = 0
    for _ in range(_ROUNDS):
        for kind in sorted(MUTATIONS, key=lambda kind: (made[kind], random.random())):
            changed = MUTATIONS[kind](program, random)
            if changed is None or changed in seen:
                continue
            seen.add(changed)
            refused = bool(verify(changed))
            made[kind] += not refused
            yield Mutant(kind, changed, refused)
            accepted += not refused
            if accepted == count:
                return


def judged(one: Subject, probes: Probes, mutant: Mutant) -> dict[str, Any]:
    """What became of a mutant: "refused" (verifier), "rejected", "survived" (with why) or "not run" (with why)."""
    row: dict[str, Any] = {"kind": mutant.kind}
    if mutant.refused:
        return {**row, "outcome": "refused"}
    try:
        verdict = one.verdict(mutant.program)
    except Exception as error:
        return {**row, "outcome": "not run", "reason": f"{type(error).__name__}: {error}"[:200], **_place(one, mutant)}
    if verdict.status == "failed":
        return {**row, "outcome": "rejected"}
    if verdict.status == "not-validated":
        return {**row, "outcome": "not run", "reason": verdict.reason[:200], **_place(one, mutant)}
    try:
        why = probes.reason(mutant.program)
    except (OutOfBounds, ValueError, RuntimeError) as error:
        why = f"not probed: {type(error).__name__}: {error}"[:200]
    return {**row, "outcome": "survived", "why": why, **_place(one, mutant)}


def _place(one: Subject, mutant: Mutant) -> dict[str, str]:
    """The operator, and the changed node before and after."""
    before, after = (list(walk((*p.setup, *p.nodes))) for p in (one.program, mutant.program))
    changed = [(a, b) for a, b in zip(before, after, strict=False) if a != b]
    old, new = changed[-1] if changed else (before[0], after[0])
    return {"operator": old.source.operator, "before": _text(old), "after": _text(new)}


def _text(node: Node) -> str:
    text = node_text(replace(node, source=NO_SOURCE)).strip()
    return text if len(text) <= 240 else text[:237] + "..."


def problems(host: AgentHost, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One row a problem."""
    counts: Counter[str] = Counter()
    for level in options.levels:
        files = sorted((options.root / f"level{level}").glob("*.py"), key=lambda path: int(path.stem.split("_")[0]))
        for path in files[:: options.every]:
            if options.only and int(path.stem.split("_")[0]) not in options.only:
                continue
            start = time.perf_counter()
            row: dict[str, Any] = {"level": level, "name": path.stem, "mutants": []}
            try:
                with subject(host, TraceRequest(path=str(path), deadline_s=120.0), BUDGET, options.seed) as one:
                    random = Random(f"{options.seed} {level} {path.stem}")
                    made = mutants(one.program, random, options.per_problem, counts)
                    row.update(sizes=dict(one.golden.sizes), points=one.golden.points)
                    probes = Probes(one)
                    for mutant in made:
                        row["mutants"].append(judged(one, probes, mutant))
                        if time.perf_counter() - start > options.seconds:
                            break
            except NoSubject as none:
                row["without"] = str(none)[:300]
            row["seconds"] = time.perf_counter() - start
            print(_line(row), file=sys.stderr, flush=True)
            yield row


def _line(row: dict[str, Any]) -> str:
    counts = Counter(m["outcome"] for m in row["mutants"])
    whys = Counter(m["why"] for m in row["mutants"] if m["outcome"] == "survived")
    found = f"{dict(counts)} {dict(whys)} {row.get('without', '')}"
    return f"{row['level']} {row['name'][:50]:50} {format_seconds(row['seconds'])} {found}"


def summary(name: str, found: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Counts and rates of a set of mutants."""
    rows = list(found)
    counts = Counter(m["outcome"] for m in rows)
    whys = Counter(m["why"] for m in rows if m["outcome"] == "survived")
    run = counts["rejected"] + counts["survived"]
    different = run - sum(whys[w] for w in _EQUIVALENT)
    return {
        "name": name, "accepted": run + counts["not run"], "rejected": counts["rejected"],
        "survived": counts["survived"], "why": dict(whys), "not_run": counts["not run"],
        "refused_by_verifier": counts["refused"],
        "rejected_of_all": counts["rejected"] / run if run else None,
        "rejected_of_not_equivalent": counts["rejected"] / different if different else None,
    }  # fmt: skip


def document(rows: list[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """Everything that the results hold."""
    every = [m for row in rows for m in row["mutants"]]
    survivors = [
        {"level": row["level"], "problem": row["name"], **m}
        for row in rows
        for m in row["mutants"]
        if m["outcome"] in ("survived", "not run")
    ]
    return {
        "sollens": version(),
        "torch": version_of(sys.executable, "torch"),
        "machine": machine(),
        "seed": options.seed,
        "per_problem": options.per_problem,
        "seconds": options.seconds,
        "total": summary("all", every),
        "levels": [
            {
                **summary(str(level), [m for row in rows if row["level"] == level for m in row["mutants"]]),
                "problems": sum(row["level"] == level for row in rows),
                "mutated": sum(row["level"] == level and "without" not in row for row in rows),
                "seconds": sum(row["seconds"] for row in rows if row["level"] == level),
            }
            for level in options.levels
        ],
        "kinds": [summary(kind, [m for m in every if m["kind"] == kind]) for kind in MUTATIONS],
        "without": [
            {"level": row["level"], "problem": row["name"], "reason": row["without"]}
            for row in rows
            if "without" in row
        ],
        "survivors": survivors,
    }


def markdown(found: dict[str, Any]) -> str:
    """The document's summary."""
    counted = "mutants | rejected | of not equivalent | survivors | refused by the verifier"
    lines = [
        f"sollens {found['sollens']}, torch {found['torch']}, seed {found['seed']}, up to {found['per_problem']}",
        f"mutants a problem (fewer after {found['seconds']:.0f} s of one), {len(found['kinds'])} kinds, those first",
        "of which there are fewest. The verifier accepts each and the validator's comparison judges, on its twins.",
        "",
        "A survivor is *equivalent* when it computes the same on other values too, in single and double precision,",
        "*below tolerance* when it differs by less than rounding may, *ties* when only exact ties tell, *weak",
        "input* when other values tell, *lenient* when the golden values tell and the validator does not.",
        "",
        f"| level | problems mutated | {counted} |",
        "|---|---:|---:|---:|---:|---|---:|",
    ]
    total = {**found["total"], "problems": 0, "mutated": 0}
    for level in found["levels"]:
        total["problems"] += level["problems"]
        total["mutated"] += level["mutated"]
    for row in (*found["levels"], total):
        lines.append(f"| {row['name']} | {row['mutated']}/{row['problems']} | {_cells(row)} |")
    lines += ["", f"| kind | {counted} |", "|---|---:|---:|---:|---|---:|"]
    lines += [f"| {row['name']} | {_cells(row)} |" for row in found["kinds"]]
    lines += [f"\nNot mutated: level {row['level']} {row['problem']}: {row['reason']}" for row in found["without"]]
    for title, equivalent in (("Survivors that are not equivalent", False), ("Equivalent survivors", True)):
        lines += ["", f"## {title}", ""]
        for m in found["survivors"]:
            if (m.get("why") in _EQUIVALENT) == equivalent:
                why = m.get("why") or m.get("reason")
                lines += [
                    f"- level {m['level']} {m['problem']}, {m['kind']}: {why}; {m['operator']}",
                    f"  - `{m['before']}`",
                    f"  - `{m['after']}`",
                ]
    return "\n".join(lines) + "\n"


def _cells(row: dict[str, Any]) -> str:
    why = ", ".join(f"{n} {reason}" for reason, n in row["why"].items())
    if row["not_run"]:
        why += f"{', ' if why else ''}{row['not_run']} not run"
    rates = (row["rejected_of_all"], row["rejected_of_not_equivalent"])
    shown = [f"{100 * rate:.2f} %" if rate is not None else "-" for rate in rates]
    return f"{row['accepted']} | {shown[0]} | {shown[1]} | {why} | {row['refused_by_verifier']}"


def main() -> int:
    """Run; 1 when less than 99.5 % of the mutants that are not equivalent are rejected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="the folder that holds level1, level2, ...")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--per-problem", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=40.0, help="after so long a problem gets no more mutants")
    parser.add_argument("--every", type=int, default=1, help="only every n-th problem")
    parser.add_argument("--only", type=int, nargs="+", help="numbers of problems; the results are printed only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    with AgentHost(sys.executable) as host:
        found = document(list(problems(host, options)), options)
    if options.only:
        print(markdown(found))
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "mutation.json").write_text(json.dumps(found, indent=1) + "\n")
    (options.output / "mutation.md").write_text(markdown(found))
    print(markdown(found))
    return 0 if (found["total"]["rejected_of_not_equivalent"] or 0.0) >= 0.995 else 1


if __name__ == "__main__":
    sys.exit(main())
