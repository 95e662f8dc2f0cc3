#!/usr/bin/env python3
"""Translate every problem of `benchmarks/llm/problems` with a model: coverage, rounds, tokens and cost of each.

    export SOLLENS_LLM_URL=https://host/v1 SOLLENS_LLM_MODEL=name SOLLENS_LLM_KEY=...
    python benchmarks/llm.py --record run.jsonl
    python benchmarks/llm.py --play run.jsonl --model name

Sources and reference functions are ours; running this sends the sources to the endpoint. `--record` keeps every
exchange, `--play` repeats a run from such a file without an endpoint.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import msgspec
from rich.console import Console
from rich.table import Table

from sollens.analysis.llm.config import BadConfig, LlmConfig, load
from sollens.analysis.llm.endpoint import Endpoint, OpenAIEndpoint
from sollens.analysis.llm.recording import Player, Recorder
from sollens.analysis.llm.translate import Transcript, translate
from sollens.hardware.units import format_seconds
from tests.llm.problems import NAMES, task


def main() -> int:
    """Run the problems and print a row each; 2 where no endpoint is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", metavar="PROBLEM", help=", ".join(NAMES))
    parser.add_argument("--record", type=Path, metavar="FILE", help="write every exchange to a new file")
    parser.add_argument("--play", type=Path, metavar="FILE", help="answer from a recording")
    parser.add_argument("--model", help="the model's name (default: SOLLENS_LLM_MODEL)")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows, without what was said")
    arguments = parser.parse_args()
    try:
        config = load() if not arguments.play else LlmConfig(base_url="http://localhost/played", model="played")
    except BadConfig as error:
        print(error, file=sys.stderr)
        return 2
    changes = {"model": arguments.model, "rounds": arguments.rounds}
    config = msgspec.structs.replace(config, **{name: value for name, value in changes.items() if value})
    if not config.is_on:
        print("expected SOLLENS_LLM_URL and SOLLENS_LLM_MODEL, or --play FILE --model NAME", file=sys.stderr)
        return 2
    endpoint: Endpoint = Player(arguments.play, config.model) if arguments.play else OpenAIEndpoint(config)
    if arguments.record:
        arguments.record.unlink(missing_ok=True)
        endpoint = Recorder(endpoint, arguments.record, config.model)
    cancel = threading.Event()
    found = [translate(task(name), endpoint, config, cancel=cancel) for name in arguments.problems or NAMES]
    rows = [row(name, one, config) for name, one in zip(arguments.problems or NAMES, found, strict=True)]
    show(rows, config)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return 0


def row(name: str, found: Transcript, config: LlmConfig) -> dict[str, object]:
    """What one problem took. `cost` is in the currency of the configured prices."""
    cost = (found.prompt_tokens * config.input_price + found.completion_tokens * config.output_price) / 1e6
    return {
        "problem": name, "outcome": found.outcome, "rounds": len(found.rounds), "first": found.rounds[0].stage
        if found.rounds else "", "prompt_tokens": found.prompt_tokens, "completion_tokens": found.completion_tokens,
        "cost": round(cost, 6), "seconds": round(found.seconds, 3), "error": found.error,
    }  # fmt: skip


def show(rows: list[dict[str, object]], config: LlmConfig) -> None:
    """A table, and how many were right at once and in the end."""
    console = Console(width=140)
    table = Table("problem", "outcome", "rounds", "first answer", "sent", "received", "cost", "time", box=None)
    for one in rows:
        cells = [
            one[k] for k in ("problem", "outcome", "rounds", "first", "prompt_tokens", "completion_tokens", "cost")
        ]
        table.add_row(*map(str, cells), format_seconds(float(str(one["seconds"]))))
    console.print(table)
    at_once = sum(one["outcome"] == "validated" and one["rounds"] == 1 for one in rows)
    in_the_end = sum(one["outcome"] == "validated" for one in rows)
    cost = sum(float(str(one["cost"])) for one in rows)
    console.print(f"{config.model}: {at_once} of {len(rows)} at once, {in_the_end} in the end, cost {cost:.4f}")


if __name__ == "__main__":
    sys.exit(main())
