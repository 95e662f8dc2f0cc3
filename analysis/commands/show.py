"""Reports as terminal tables and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from sollens.analysis.report import FileReport, LineRow, Problem, TargetReport, Validation, twin_sizes
from sollens.analysis.source.text import UnreadableSource, decode, normalise, summarise
from sollens.hardware import catalog
from sollens.hardware.limits import memory_name
from sollens.hardware.target import Target
from sollens.hardware.units import (
    format_bound_seconds,
    format_bytes,
    format_count,
    format_error,
    format_flop,
    format_load,
    format_macs,
    format_percent,
    format_rate,
    format_ratio,
    format_seconds,
)

_MOST_LINES = 40
_MOST_MODULES = 30
_WIDTH_ELSEWHERE = 160
_STYLES = {"error": "bold red", "warning": "yellow", "information": "cyan", "hint": "dim"}


@dataclass(frozen=True, slots=True)
class Grid:
    """A table before it has a form: a title, column names (those that end in ">" are right-aligned) and cells."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def limit_name(limit: str, chip: Target) -> str:
    """ "memory" as the chip's kind of memory, "matmul:tf32" as "tf32 matmul"."""
    if limit == "memory":
        return memory_name(chip)
    kind, _, pipe = limit.partition(":")
    return f"{pipe} {kind}" if pipe else limit


def headline(target: TargetReport) -> str:
    """`Model  ≥ 41.2 µs · HBM on H100 SXM`."""
    chip = catalog.load(target.hardware)
    if target.validation.status == "failed":
        return f"{target.name}  no number: validation failed"
    limit = f" · {limit_name(target.limit, chip)}" if target.time_s.fused > 0 else ""
    return f"{target.name}  {format_bound_seconds(target.time_s.fused)}{limit} on {chip.name}"


def notes(target: TargetReport) -> Iterator[str]:
    """Sentences below the headline: work, confidence, what is partial, assumptions; of a failed one, how it failed."""
    if target.validation.status == "failed":
        yield from _mismatch(target.validation)
        return
    work = f"{format_macs(target.macs)}, {format_count(target.vector_ops)} vector ops, {format_flop(target.flop)}"
    yield f"work: {work}; precision {target.precision or 'as-written'}; confidence {target.confidence}"
    yield f"validation: {verdict(target.validation)}"
    for reason in target.partial:
        yield f"partial: {reason}"
    for assumption in target.assumptions:
        yield f"assumed: {assumption}"


def verdict(validation: Validation) -> str:
    """`validated on twin batch=2, dim=24 (error 3e-7)`."""
    how = {"validated": "validated", "by-kernel": "validated kernel by kernel", "failed": "failed"}
    text = how.get(validation.status, "not validated")
    if validation.sizes and validation.status != "not-validated":
        text += f" on twin {twin_sizes(validation.sizes)}"
    if validation.max_rel_error is not None and validation.status in ("validated", "by-kernel"):
        text += f" (error {format_error(validation.max_rel_error)})"
    return f"{text}: {validation.reason}" if validation.reason else text


def _mismatch(validation: Validation) -> Iterator[str]:
    found = validation.mismatch
    if found is None:
        yield f"validation: {verdict(validation)}"
        return
    sizes = msgspec.structs.replace(validation, reason="")
    yield f"validation: {verdict(sizes)} at {found.tensor}[{', '.join(map(str, found.index))}]"
    yield f"expected {found.expected}, found {found.found}: line {found.line}, {found.operator}"
    yield f"loop program: {found.statement}"


def grids(target: TargetReport, source: Sequence[str]) -> Iterator[Grid]:
    """Tables: bounds, resources, inverse roofline, sub-modules, lines, findings; empty ones are left out.

    None of a target that failed its validation: its numbers are another program's.
    """
    if target.validation.status == "failed":
        return
    chip = catalog.load(target.hardware)
    yield Grid("bounds", ("", "time>", "traffic>"), list(_bounds(target)))
    if target.resources:
        rows = [
            (limit_name(r.name, chip), *format_load(r.amount, r.unit, r.peak_per_s, r.time_s))
            for r in sorted(target.resources, key=lambda r: -r.time_s)
        ]
        yield Grid("resources", ("resource", "work>", "peak>", "time>"), rows)
    if target.inverse is not None:
        rows = [
            (
                r.resource,
                format_rate(r.needed_per_s, r.unit),
                format_rate(r.available_per_s, r.unit),
                format_ratio(r.ratio),
            )
            for r in target.inverse.rows
        ]
        meets = ", ".join(target.inverse.meets) or "no known chip"
        title = f"to run in {format_seconds(target.inverse.target_s)} (met by: {meets})"
        yield Grid(title, ("resource", "needed>", "here>", "ratio>"), rows)
    modules = [
        (
            m.path,
            m.type,
            f"×{m.count}" if m.count > 1 else "",
            format_macs(m.macs),
            format_bytes(m.bytes),
            format_bound_seconds(m.time_s),
            limit_name(m.limit, chip) if m.time_s > 0 else "",
        )
        for m in target.modules
        if m.path
    ]
    if modules:
        columns = ("module", "type", "count>", "MAC>", "traffic>", "bound>", "limit")
        yield Grid(_title("sub-modules", modules, _MOST_MODULES), columns, modules[:_MOST_MODULES])
    lines = [_line(row, chip, source) for row in target.lines if row.kind == "op"]
    if lines:
        columns = ("line>", "source", "count>", "bound>", "limit", "share>")
        yield Grid(_title("lines", lines, _MOST_LINES), columns, lines[:_MOST_LINES])
    if target.findings:
        rows = [
            (str(f.line), f.code, f.message, format_seconds(f.saves_s) if f.saves_s else "") for f in target.findings
        ]
        yield Grid("findings", ("line>", "code", "what", "saves>"), rows)


def _bounds(target: TargetReport) -> Iterator[tuple[str, str, str]]:
    times, traffic = target.time_s, target.bytes
    yield "fused", format_bound_seconds(times.fused), format_bytes(traffic.compulsory)
    if times.cache_aware is not None and traffic.cache_aware is not None:
        yield "cache-aware", format_bound_seconds(times.cache_aware), format_bytes(traffic.cache_aware)
    if times.plan is not None and traffic.plan is not None:
        yield "best plan found", format_seconds(times.plan), format_bytes(traffic.plan)
    yield "unfused", format_seconds(times.unfused, "down"), format_bytes(traffic.unfused)


def _line(row: LineRow, chip: Target, source: Sequence[str]) -> tuple[str, ...]:
    text = summarise(source[row.line - 1]) if 0 < row.line <= len(source) else ""
    limit = limit_name(row.limit, chip) if row.time_s > 0 else ""
    count = f"×{row.count}" if row.count > 1 else ""
    return str(row.line), text, count, format_bound_seconds(row.time_s), limit, format_percent(row.share)


def _title(name: str, rows: Sequence[object], most: int) -> str:
    return name if len(rows) <= most else f"{name} (first {most} of {len(rows)}; --format json has all)"


def source_lines(path: str) -> list[str]:
    """Lines of a file, none where it cannot be read."""
    try:
        return normalise(decode(Path(path).read_bytes())).split("\n")
    except (OSError, UnreadableSource):
        return []


# --- terminal ---


def terminal() -> Console:
    """A console on stdout; where that is no terminal, wide enough for every table."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH_ELSEWHERE)


def print_tables(console: Console, report: FileReport) -> None:
    """A file's report as tables."""
    console.rule(Text(report.path), align="left", style="dim")
    source = source_lines(report.path) if report.targets else []
    for target in report.targets:
        failed = target.validation.status == "failed"
        console.print(Text(headline(target), style="bold red" if failed else "bold green"))
        for note in notes(target):
            console.print(Text(f"  {note}", style="yellow" if note.startswith("partial") else "dim"))
        console.print(Group(*(_rich(grid) for grid in grids(target, source))))
    for problem in report.problems:
        console.print(_problem(report.path, problem))


def _rich(grid: Grid) -> RenderableType:
    table = Table(
        title=grid.title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for column in grid.columns:
        name = column.removesuffix(">")
        table.add_column(name, justify="right" if column.endswith(">") else "left", header_style="dim", overflow="fold")
    for row in grid.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _problem(path: str, problem: Problem) -> Text:
    text = Text(f"{path}:{problem.line}: ")
    text.append(f"{problem.code}: ", style=_STYLES[problem.severity])
    text.append(problem.message)
    if problem.detail:
        text.append("\n" + problem.detail, style="dim")
    return text


# --- Markdown ---


def markdown(report: FileReport) -> str:
    """A file's report as Markdown."""
    parts = [f"## {_escaped(report.path)}"]
    source = source_lines(report.path) if report.targets else []
    for target in report.targets:
        parts.append(f"### {_escaped(headline(target))}")
        parts.append("\n".join(f"- {_escaped(note)}" for note in notes(target)))
        parts += [_markdown_grid(grid) for grid in grids(target, source)]
    if report.problems:
        parts.append("\n".join(f"- line {p.line}, `{p.code}`: {_escaped(p.message)}" for p in report.problems))
    return "\n\n".join(parts) + "\n"


def _markdown_grid(grid: Grid) -> str:
    header = [column.removesuffix(">") for column in grid.columns]
    rule = ["---:" if column.endswith(">") else "---" for column in grid.columns]
    rows = [header, rule, *([_escaped(cell) for cell in row] for row in grid.rows)]
    return f"**{_escaped(grid.title)}**\n\n" + "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _escaped(text: str) -> str:
    for character in "\\`*_[]<>|#":
        text = text.replace(character, "\\" + character)
    return " ".join(text.split())
