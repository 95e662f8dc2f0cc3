"""Texts of hints, hovers and tooltips, from rows of a report. Markdown here holds no raw text of the user's."""

import re
from collections.abc import Iterable, Sequence

from sollens.analysis.report import Inverse, LineRow, Resource, TargetReport, twin_sizes
from sollens.hardware.limits import limit_name
from sollens.hardware.units import (
    format_bound_seconds,
    format_bytes,
    format_error,
    format_flop,
    format_intensity,
    format_load,
    format_macs,
    format_percent,
    format_rate,
    format_ratio,
    format_seconds,
)
from sollens.server.results import Result, Row

_MOST_OPERATORS = 8
# As little as makes it plain, for editors that show the backslashes: brackets only where they could make a link or a
# box to tick, underscores only outside of words, and what means something at the start of a line only there.
_MARKDOWN = re.compile(r"[\\`*<|~&]|\](?=[(:\[])|^\[(?=[ xX]\])|(?<![^\W_])_|_(?![^\W_])|^(?:[#>+=-]|\d+(?=[.)]))")


def escape(text: str) -> str:
    """Text as Markdown that shows it unchanged, on one line."""
    return _MARKDOWN.sub(lambda found: _backslashed(found[0]), " ".join(text.split()))


def _backslashed(mark: str) -> str:
    """A number at the start of a line would make a list: there the mark is the stop behind it."""
    return mark + "\\" if mark.isdigit() else "\\" + mark


def code(text: str) -> str:
    """Text as Markdown code on one line."""
    return f"`{' '.join(text.replace('`', chr(39)).split())}`"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as a block of code: it stands in line in every editor, which no table of Markdown does."""
    cells = [header, *rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    return "\n".join(["```text", *lines, "```"])


def headline(row: Row, result: Result) -> str:
    """What the number is, where it holds and what limits it."""
    line = row.line
    name = {"op": "This line", "module": "This sub-module", "total": code(row.target.name)}[line.kind]
    if line.time_s == 0:
        return f"{name} is **free**: no work and no traffic of its own."
    chip = result.chip_of(row.target)
    limit = limit_name(line.limit, chip.memory)
    once = f" for each of {line.count} runs" if line.count > 1 else ""
    return f"{name}: **{format_bound_seconds(line.time_s)}**{once} on {escape(chip.name)}, limited by {escape(limit)}."


def line_parts(rows: Sequence[Row], result: Result) -> list[str]:
    """What hover and tooltip both say of a line: its slowest row in full, then every target's headline."""
    row = rows[0]
    parts = [headline(row, result)]
    if row.line.resources:
        parts.append(resource_table(row.line.resources, result.chip_of(row.target).memory))
    parts += [work(row.line), bounds_table(row), operators(row.line)]
    if len(rows) > 1:
        parts.append("\n".join(f"- {headline(other, result)} (in {code(other.target.name)})" for other in rows))
    return parts


def bounds_table(row: Row) -> str:
    """Every fidelity that is known: one fused kernel, with finite caches, operator by operator."""
    times = row.target.time_s
    traffic = row.target.bytes
    if row.line.kind == "total" and row.line.line in (row.target.line, row.target.forward_line):
        rows = [
            ("fused", format_bound_seconds(times.fused), format_bytes(traffic.compulsory)),
            ("cache-aware", _seconds(times.cache_aware), _bytes(traffic.cache_aware)),
            ("best plan found", _plan(times.plan), _bytes(traffic.plan)),
            ("unfused", format_seconds(times.unfused, "down"), format_bytes(traffic.unfused)),
        ]
        return table(("bound", "time", "traffic"), [each for each in rows if each[1]])
    rows = [("fused", format_bound_seconds(row.line.time_s), format_bytes(row.line.bytes))]
    if row.line.unfused_s is not None:
        rows.append(("unfused", format_seconds(row.line.unfused_s, "down"), ""))
    return table(("bound", "time", "traffic"), rows)


def resource_table(resources: Sequence[Resource], memory: str) -> str:
    """What each resource alone would take at least, the limiting one first: rounded down, as the bound is."""
    rows = [
        (limit_name(r.name, memory), *format_load(r.amount, r.unit, r.peak_per_s, r.time_s))
        for r in sorted(resources, key=lambda r: -r.time_s)
    ]
    return table(("resource", "work", "peak", "time"), rows)


def work(row: LineRow) -> str:
    """MACs, vector operations, bytes, intensity and share of a line."""
    facts = [format_macs(row.macs)] if row.macs else []
    facts += [f"{format_flop(row.vector_ops)} of vector operations"] if row.vector_ops else []
    facts.append(format_bytes(row.bytes))
    if row.bytes:
        facts.append(format_intensity((2 * row.macs + row.vector_ops) / row.bytes))
    if row.kind != "total":
        facts.append(f"{format_percent(row.share)} of all lines")
    if row.count > 1:
        facts.append(f"×{row.count}")
    return " · ".join(facts)


def operators(row: LineRow) -> str:
    if not row.operators:
        return ""
    names = list(dict.fromkeys(_operator_name(name) for name in row.operators))
    more = f" and {len(names) - _MOST_OPERATORS} more" if len(names) > _MOST_OPERATORS else ""
    return "Operators: " + ", ".join(code(name) for name in names[:_MOST_OPERATORS]) + more


def _operator_name(name: str) -> str:
    """The name that a user of PyTorch knows: "aten._softmax.default" is "softmax"; others keep their namespace."""
    namespace, _, rest = name.partition(".")
    return rest.partition(".")[0].removeprefix("_") if rest and namespace in ("aten", "fn") else name


def inverse_table(inverse: Inverse, memory: str) -> str:
    """Which rates the target latency needs, and which chips have them."""
    rows = [
        (
            _needed(row.resource, memory),
            format_rate(row.needed_per_s, row.unit),
            format_rate(row.available_per_s, row.unit),
            format_ratio(row.ratio),
        )
        for row in inverse.rows
    ]
    meets = ", ".join(code(name) for name in inverse.meets) or "no known chip"
    reach = "" if inverse.reachable else " No known hardware reaches it."
    text = f"For **{format_seconds(inverse.target_s)}**:{reach}\n\n"
    return text + table(("resource", "needed", "this chip", "ratio"), rows) + f"\n\nMet by: {meets}"


def provenance(target: TargetReport) -> str:
    """How far the program behind the numbers was checked."""
    validation = target.validation
    sizes = twin_sizes(validation.sizes)
    error = validation.max_rel_error
    worst = f", largest relative error {format_error(error)}" if error is not None else ""
    reason = f": {validation.reason}" if validation.reason else ""
    match validation.status:
        case "validated":
            how = f"on a twin with {sizes}" if sizes else "at these sizes"
            return escape(f"Validated against the original: the whole program, {how}{worst}{reason}.")
        case "by-kernel":
            return escape(f"Validated kernel by kernel{worst}{reason}.")
        case "failed":
            return escape(f"Validation failed{reason}: no number is shown.")
        case "not-validated":
            return escape(f"Not validated{reason}.")


def assumptions(target: TargetReport, result: Result) -> str:
    """Shapes, types, precision and interpreter that the numbers stand on, as a list."""
    facts = [*target.assumptions]
    facts.append(f"Hardware {result.chip_of(target).name}, precision {target.precision or result.settings.precision}.")
    if result.interpreter.path:
        facts.append(f"Interpreter {result.interpreter.path} (from {result.interpreter.origin}).")
    if target.confidence != "high":
        facts.append(f"Confidence: {target.confidence}.")
    facts += [f"Partial: {reason}" for reason in target.partial]
    return "\n".join(f"- {escape(fact)}" for fact in facts)


def _needed(resource: str, memory: str) -> str:
    """A row of the inverse roofline: "bandwidth:cache_aware" is "HBM, cache-aware traffic"."""
    kind, _, traffic = resource.partition(":")
    if kind == "bandwidth":
        return f"{memory}, {traffic.replace('_', '-')} traffic"
    return limit_name(resource, memory)


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else format_bound_seconds(seconds)


def _plan(seconds: float | None) -> str:
    """A plan is attainable, an upper bound: no "at least"."""
    return "" if seconds is None else format_seconds(seconds)


def _bytes(count: int | None) -> str:
    return "" if count is None else format_bytes(count)
