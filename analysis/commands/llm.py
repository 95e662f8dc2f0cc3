"""`sollens llm show|consent|revoke|status`: what was asked of a model, and who may be asked."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sollens.analysis.commands import options
from sollens.analysis.llm.consent import Consents, question
from sollens.hardware.units import format_count, format_error, format_seconds

if TYPE_CHECKING:
    from sollens.analysis.llm.translate import Transcript


def add(commands: Any) -> None:
    """Declare the commands."""
    parser: argparse.ArgumentParser = commands.add_parser("llm", help="sources that a language model translates")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    show: argparse.ArgumentParser = actions.add_parser("show", help="the last translation of a file: every message")
    show.add_argument("file", type=Path, metavar="FILE")
    show.add_argument("--format", choices=("text", "json", "ir"), default="text")
    show.add_argument("--full", action="store_true", help="with the whole prompt")
    show.set_defaults(run=_show)
    consent: argparse.ArgumentParser = actions.add_parser("consent", help="agree that sources go to the model")
    consent.add_argument("folder", type=Path, nargs="?", default=Path(), metavar="FOLDER")
    consent.add_argument("--yes", action="store_true", help="agree without being asked")
    consent.set_defaults(run=_consent)
    revoke: argparse.ArgumentParser = actions.add_parser("revoke", help="take that back")
    revoke.add_argument("folder", type=Path, nargs="?", default=Path(), metavar="FOLDER")
    revoke.set_defaults(run=_revoke)
    actions.add_parser("status", help="the endpoint, and who agreed to what").set_defaults(run=_status)


def _show(arguments: argparse.Namespace) -> int:
    from sollens.analysis.cache import Cache
    from sollens.analysis.translating import Translator, described_targets

    path: Path = arguments.file.absolute()
    names = described_targets(path)
    found = Translator(Cache()).latest(path, names)
    if not found:
        where = f"{arguments.file} ({', '.join(names)})" if names else f"{arguments.file}"
        print(f"sollens: expected a translation of {where}, found none: run `sollens check` first", file=sys.stderr)
        return options.UNUSABLE
    match arguments.format:
        case "json":
            sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        case "ir":
            print("\n".join(transcript.text for transcript in found))
        case _:
            for transcript in found:
                print("\n".join(lines_of(transcript, full=arguments.full)))
    return options.DONE


def lines_of(transcript: Transcript, *, full: bool = False) -> Iterator[str]:
    """A transcript as text: verdict, what was sent, every answer and what was wrong with it, the best program."""
    yield f"{transcript.name} ({transcript.path}:{transcript.line})"
    yield f"asked {transcript.model} at {transcript.host}, prompt {transcript.prompt_version}"
    spent = (
        f"{format_count(transcript.prompt_tokens)} tokens sent, {format_count(transcript.completion_tokens)} received"
    )
    yield f"{len(transcript.rounds)} rounds in {format_seconds(transcript.seconds)}, {spent}"
    verdict = transcript.outcome
    if transcript.sizes:
        verdict += f" at {', '.join(f'{name}={size}' for name, size in transcript.sizes.items())}"
    if transcript.golden:
        verdict += f", compared with {transcript.golden}"
    if transcript.max_rel_error is not None:
        verdict += f" (error {format_error(transcript.max_rel_error)})"
    yield f"verdict: {verdict}" + (f": {transcript.reason}" if transcript.reason else "")
    for message in transcript.sent:
        size = f"{format_count(len(message.content))} characters"
        if full or message.role != "system":
            yield f"\n--- sent, {message.role} ({size})\n{message.content}"
        else:
            yield f"\n--- sent, {message.role}: the reference of the IR and examples ({size}; --full shows them)"
    for number, answer in enumerate(transcript.rounds, 1):
        yield f"\n--- answer {number} in {format_seconds(answer.seconds)}: {answer.stage}\n{answer.reply.rstrip()}"
        if answer.problem:
            yield f"\n--- told after answer {number}\n{answer.problem}"
    if transcript.error:
        yield f"\n--- ended: {transcript.error}"
    yield f"\n--- program\n{transcript.text}" if transcript.text else "\n--- no program"


def _consent(arguments: argparse.Namespace) -> int:
    config = options.llm()
    if config is None:
        print("sollens: expected a configured model, found none (docs/llm.md says how)", file=sys.stderr)
        return options.UNUSABLE
    print(question(arguments.folder, config.host, config.model))
    if not arguments.yes:
        if not sys.stdin.isatty():
            print("sollens: expected a terminal to ask on, or --yes", file=sys.stderr)
            return options.UNUSABLE
        if input("Agree? [y/N] ").strip().lower() not in ("y", "yes"):
            print("nothing was agreed to")
            return options.DONE
    try:
        Consents().give(arguments.folder, config.host)
    except OSError as error:
        print(f"sollens: the agreement could not be kept: {error}", file=sys.stderr)
        return options.UNUSABLE
    print("agreed")
    return options.DONE


def _revoke(arguments: argparse.Namespace) -> int:
    count = Consents().revoke(arguments.folder)
    print(f"{count} agreement{'' if count == 1 else 's'} taken back")
    return options.DONE


def _status(arguments: argparse.Namespace) -> int:
    config = options.llm()
    if config is None:
        print("no model is configured: nothing is ever sent")
    else:
        key = f"key in {config.key_variable}" if config.key() else f"no key ({config.key_variable} is not set)"
        print(f"{config.model} at {config.base_url}, {key}")
        print(f"at most {config.rounds} rounds, {format_count(config.tokens)} tokens, {format_seconds(config.seconds)}")
    for agreement in Consents().all():
        print(f"{agreement.workspace} -> {agreement.host} since {agreement.since}")
    return options.DONE
