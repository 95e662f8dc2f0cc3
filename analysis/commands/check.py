"""`sollens check FILE…`: the speed of light of every target."""

from __future__ import annotations

import argparse
import re
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from sollens.analysis.commands import options
from sollens.analysis.report import FileReport, Problem, Report, encode

_LIMIT = re.compile(r"(headroom|problems|time|saves)=(.+)")


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of --fail-over: headroom (share of the unfused time), problems (a count), time or saves (seconds)."""

    kind: str
    value: float

    def exceeded(self, report: FileReport) -> bool:
        """Whether the report is over the limit."""
        if self.kind == "problems":
            return sum(p.severity in ("error", "warning") for p in report.problems) > self.value
        for target in report.targets:
            if target.validation.status == "failed":
                continue
            times = target.time_s
            if self.kind == "time" and times.fused > self.value:
                return True
            if self.kind == "headroom" and times.unfused > 0 and 1 - times.fused / times.unfused > self.value:
                return True
            if self.kind == "saves" and any((finding.saves_s or 0) > self.value for finding in target.findings):
                return True
        return False


def limit(text: str) -> Limit:
    """Read a limit."""
    match = _LIMIT.fullmatch(text)
    expected = "expected headroom=30%, problems=0, time=2ms or saves=100us"
    if match is None:
        raise argparse.ArgumentTypeError(f"{expected}, found {text!r}")
    kind, value = match[1], match[2]
    try:
        if kind == "headroom":
            return Limit(kind, float(value.removesuffix("%")) / (100 if value.endswith("%") else 1))
        if kind == "problems":
            return Limit(kind, int(value))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{expected}, found {text!r}") from None
    return Limit(kind, options.seconds(value))


def add(commands: Any) -> None:
    """Declare the command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "check", help="the speed of light of every class and function with example shapes",
        description="Exit status: 0 done, 1 over a limit of --fail-over, 2 a file could not be analysed.",
    )  # fmt: skip
    options.add_analysis(parser)
    parser.add_argument("--format", choices=("table", "json", "markdown", "html"), default="table")
    parser.add_argument(
        "--fail-over", type=limit, action="append", default=[], metavar="KIND=LIMIT",
        help="exit with 1 over a limit: headroom=30%%, problems=0, time=2ms, saves=100us; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--no-validate", action="store_true", help="do not run the programs (or small twins) against their originals"
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="files analysed at a time (default 2)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Analyse, print, and say by the status how it went."""
    files = options.python_files(arguments.files)
    if not files:
        print(f"sollens: no Python files in {', '.join(arguments.files)}", file=sys.stderr)
    cancel = threading.Event()
    try:
        reports = list(_shown(arguments, _reports(arguments, files, cancel)))
    except KeyboardInterrupt:
        cancel.set()
        print("sollens: interrupted", file=sys.stderr)
        return options.INTERRUPTED
    return _status(arguments, reports)


def _reports(arguments: argparse.Namespace, files: list[Path], cancel: threading.Event) -> Iterator[FileReport]:
    """Reports in the order of the files."""
    from sollens.analysis.cache import Cache
    from sollens.analysis.pipeline import Pipeline

    pipeline = Pipeline(Cache(enabled=not arguments.no_cache))
    pool = ThreadPoolExecutor(max(1, arguments.jobs), "check")

    def analyse(path: Path) -> FileReport:
        try:
            request = msgspec.structs.replace(options.request(arguments, path), validate=not arguments.no_validate)
            return pipeline.analyse(request, None, cancel)
        except Exception as error:
            if cancel.is_set():
                raise
            message = f"{type(error).__name__}: {error}: this is a bug of sollens, please report it"
            return FileReport(
                path=str(path),
                problems=[Problem(code="internal-error", line=1, message=message, severity="error")],
                targets=[],
            )

    try:
        yield from pool.map(analyse, files)
    except BaseException:
        cancel.set()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        pipeline.close()


def _shown(arguments: argparse.Namespace, reports: Iterator[FileReport]) -> Iterator[FileReport]:
    """Print the reports on their way: tables and Markdown as they come, JSON and HTML whole."""
    if arguments.format == "json":
        found = list(reports)
        sys.stdout.buffer.write(encode(_report(arguments, found)) + b"\n")
        sys.stdout.buffer.flush()
        yield from found
        return
    if arguments.format == "html":
        from sollens.analysis.page.report_page import report_pages

        found = list(reports)
        print(report_pages(found))
        yield from found
        return
    from sollens.analysis.commands import show

    if arguments.format == "markdown":
        for report in reports:
            print(show.markdown(report), flush=True)
            yield report
        return
    console = show.terminal()
    for report in reports:
        show.print_tables(console, report)
        yield report


def _report(arguments: argparse.Namespace, files: list[FileReport]) -> Report:
    from sollens.analysis.cli import version

    used = next((target for file in files for target in file.targets), None)
    return Report(
        version=version(),
        hardware=arguments.hw or (used.hardware if used else options.DEFAULT_HARDWARE),
        precision=arguments.precision or (used.precision if used else "as-written"),
        files=files,
    )


def _status(arguments: argparse.Namespace, reports: list[FileReport]) -> int:
    failed = any(problem.severity == "error" for report in reports for problem in report.problems)
    if failed or not any(report.targets for report in reports):
        return options.UNUSABLE
    over = any(limit.exceeded(report) for limit in arguments.fail_over for report in reports)
    return options.OVER_LIMIT if over else options.DONE
