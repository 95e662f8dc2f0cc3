"""Mutated programs through parser, verifier and executor: nothing crashes, hangs, imports or evaluates.

    python benchmarks/llm_fuzz.py [--count 100000] [--seed 0] [--json FILE]

Every program is a hand-made one of `benchmarks/llm` with one to six mutations: tokens dropped, doubled, swapped or
taken from another program, numbers made huge or negative, lines moved, characters replaced. An audit hook counts what
Python does meanwhile: `exec`, `compile`, imports, processes, sockets and writes must not happen.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from sollens.analysis.ir.verify import WorkLimits
from sollens.analysis.llm import check
from sollens.analysis.llm.check import judge
from tests.llm.problems import NAMES, right, task

_TOKEN = re.compile(r"\w+|[^\w\s]+|\n\s*|\s+")
_NUMBERS = (
    "0",
    "-1",
    "1",
    "2",
    "7",
    "1000000",
    "1000000000000",
    "9" * 30,
    "18446744073709551616",
    "1e309",
    "0.0",
    "nan",
    "inf",
)
_WORDS = (
    "loop t:9", "carry", "collect", "branch", "setup", "scan", "reverse", "select", "index", "where", "cast<f8e4m3>",
    "sum[k:9]", "argmax[k:3]", "if", "and", "or", "not", "==", "//", "%", "linalg", "fft", "sort", "topk", "gather",
    "take", "nonzero", "__import__", "eval", "exec", "os", "lambda", "import", "output", "input", "buffer", "@ op=3",
    '"x"', "\u202e", "\uff58", "\x00", "f16", "bf16", "i4", "c64", "bool", "()", "[]", "[[", "))", ";", ":", ",",
)  # fmt: skip
# `open` may read our own modules' text for tracebacks; what writes counts as a fault.
_FAULTS = frozenset(
    ("exec", "compile", "import", "os.system", "subprocess.Popen", "socket.connect", "os.exec", "os.fork")
)


def mutants(generator: random.Random, count: int) -> Iterator[tuple[str, str]]:
    """(problem, text) of mutated programs."""
    texts = {name: right(name) for name in NAMES}
    tokens = {name: _TOKEN.findall(text) for name, text in texts.items()}
    pool = [token for each in tokens.values() for token in each if token.strip()]
    for _ in range(count):
        name = generator.choice(NAMES)
        parts = list(tokens[name])
        for _ in range(generator.choice((1, 1, 1, 2, 3, 6))):
            at = generator.randrange(len(parts))
            match generator.choice((0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 9, 9, 9, 10, 10, 10)):
                case 0:
                    del parts[at : at + generator.choice((1, 1, 3))]
                case 1:
                    parts.insert(at, parts[at])
                case 2:
                    other = generator.randrange(len(parts))
                    parts[at], parts[other] = parts[other], parts[at]
                case 3:
                    parts[at] = generator.choice(pool)
                case 4:
                    parts[at] = generator.choice(_NUMBERS)
                case 5:
                    parts[at] = generator.choice(_WORDS)
                case 6:
                    parts.insert(at, f"\n{'  ' * generator.randrange(4)}")
                case 7:
                    numbers = [k for k, part in enumerate(parts) if part.isdigit()]
                    if numbers:
                        parts[generator.choice(numbers)] = generator.choice(_NUMBERS)
                case 9 | 10 as kind:  # a name for a name, a sign for a sign: these mostly parse
                    alike = [k for k, part in enumerate(parts) if part[0].isalpha() == (kind == 9) and part.strip()]
                    alike = [k for k in alike if kind == 9 or not parts[k][0].isalnum()]
                    if len(alike) > 1:
                        parts[generator.choice(alike)] = parts[generator.choice(alike)]
                case _:
                    word = parts[at]
                    parts[at] = word[: len(word) // 2] + chr(generator.randrange(1, 0x3000)) + word[len(word) // 2 :]
            if not parts:
                parts = ["program"]
        yield name, "".join(parts)


def run(count: int, seed: int) -> dict[str, object]:
    """Judge `count` mutants; counts of the stages they reached, faults, the slowest, and the memory added."""
    # Small programs alone: those that our code generator compiles are the executor's own fuzz.
    check._TWIN = WorkLimits(points=3_000_000, elements=3_000_000, nodes=2_000, problems=8, seconds=3.0)
    generator = random.Random(seed)
    for name in NAMES:  # everything is imported once before the hook counts
        judge(right(name), task(name))
    for name, text in mutants(random.Random(seed + 1), 300):
        judge(text, task(name))
    stages: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    watching = [False]

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if watching[0] and (event in _FAULTS or (event == "open" and _writes(arguments))):
            faults[f"{event} {str(arguments[0])[:60]}"] += 1

    sys.addaudithook(hook)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    slowest, slowest_text = 0.0, ""
    crashes: list[str] = []
    begun = time.perf_counter()
    for name, text in mutants(generator, count):
        start = time.process_time()
        watching[0] = True
        try:
            stages[judge(text, task(name)).stage] += 1
        except Exception as error:
            crashes.append(f"{type(error).__name__}: {error}\n{text}")
        finally:
            watching[0] = False
        took = time.process_time() - start
        if took > slowest:
            slowest, slowest_text = took, text
    return {
        "programs": count, "seed": seed, "stages": dict(stages.most_common()), "crashes": len(crashes),
        "faults": dict(faults), "slowest_cpu_s": round(slowest, 3), "seconds": round(time.perf_counter() - begun, 1),
        "memory_added_MiB": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024,
        "first_crashes": crashes[:5], "slowest_program": slowest_text,
    }  # fmt: skip


def _writes(arguments: tuple[object, ...]) -> bool:
    mode = arguments[1] if len(arguments) > 1 else None
    return isinstance(mode, str) and any(letter in mode for letter in "wax+")


def main() -> int:
    """Print what was found; 1 when anything crashed or did what it must not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = run(arguments.count, arguments.seed)
    text = json.dumps(found, indent=2)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    return 1 if found["crashes"] or found["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
