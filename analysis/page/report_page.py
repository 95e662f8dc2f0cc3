"""The report of a file as a page: for each target its bounds, the roofline chart and the table of its modules."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from sollens.analysis.page.document import document
from sollens.analysis.page.roofline import Roof, chart, roof_of
from sollens.analysis.page.scopes import Scope, scopes
from sollens.analysis.report import FileReport, Problem, TargetReport
from sollens.hardware import catalog
from sollens.hardware.limits import limit_name, memory_name
from sollens.hardware.units import (
    format_bound_seconds,
    format_bytes,
    format_intensity,
    format_load,
    format_macs,
    format_percent,
    format_ratio,
    format_seconds,
)

# Seconds of real runs by target and then by module path, "" for the whole target.
Measured = Mapping[str, Mapping[str, float]]


def report_page(report: FileReport, measured: Measured | None = None, verdicts: Mapping[str, str] | None = None) -> str:
    """The page of a file's report. `verdicts`: a sentence for each target on how far its program was checked."""
    return document(f"Speed of light: {Path(report.path).name}", _file(report, "0", measured or {}, verdicts or {}))


def report_pages(reports: Sequence[FileReport]) -> str:
    """One page of several files' reports, each below its path."""
    parts = [
        f"<h2>{escape(report.path)}</h2>{_file(report, str(number), {}, {})}" for number, report in enumerate(reports)
    ]
    return document("Speed of light", "\n".join(parts))


def _file(report: FileReport, key: str, measured: Measured, verdicts: Mapping[str, str]) -> str:
    sections = [
        _target(target, f"{key}-{number}", measured.get(target.name, {}), verdicts.get(target.name, ""))
        for number, target in enumerate(report.targets)
    ]
    nothing = "" if sections else "<p>Nothing was analysed.</p>"
    return "\n".join([nothing, *sections, _problems(report.problems)])


def _target(target: TargetReport, key: str, measured: Mapping[str, float], verdict: str) -> str:
    chip = catalog.load(target.hardware)
    name = escape(target.name)
    if target.validation.status == "failed":
        return f"<section><h1>{name}</h1><p>No number is shown: the analysed program is not the original.</p></section>"
    memory = memory_name(chip)
    shown = scopes(target, measured)
    others = [catalog.load(chip_id) for chip_id in catalog.ids() if chip_id != chip.id]
    roofs = [roof_of(target, each) for each in (chip, *others)]
    limit = f", limited by {escape(limit_name(target.limit, memory))}" if target.time_s.fused else ""
    headline = f"<strong>{format_bound_seconds(target.time_s.fused)}</strong> on {escape(chip.name)}{limit}"
    facts = [*target.assumptions, *(f"Partial: {reason}" for reason in target.partial), *([verdict] if verdict else [])]
    return "\n".join(
        (
            f'<section class="target"><h1 data-line="{target.line}">{name}</h1><p class="headline">{headline}</p>',
            '<div class="columns"><div class="left">',
            chart(target, shown, roofs, key),
            _legend(measured),
            _chips(roofs),
            "</div>",
            f'<div class="right">{_bounds(target)}{_resources(target, memory)}</div></div>',
            _modules(shown, memory),
            f'<ul class="facts">{"".join(f"<li>{escape(fact)}</li>" for fact in facts)}</ul></section>',
        )
    )


def _legend(measured: Mapping[str, float]) -> str:
    parts = [
        '<span class="key dot"></span> bound of a module (number of its row)',
        '<span class="key gap"></span> how far fusing lifts it',
    ]
    if measured:
        parts.append('<span class="key cross">×</span> measured')
    return f'<p class="legend">{" ".join(parts)}</p>'


def _chips(roofs: Sequence[Roof]) -> str:
    boxes = [
        f'<label><input type="checkbox" data-chip="{escape(roof.chip.id)}"{" checked" if number == 0 else ""}>'
        f'<span class="c{number % 8}">{escape(roof.chip.name)}</span></label>'
        for number, roof in enumerate(roofs)
    ]
    return f'<details class="chips"><summary>Roofs of other chips</summary>{"".join(boxes)}</details>'


def _bounds(target: TargetReport) -> str:
    times, traffic = target.time_s, target.bytes
    rows = [("fused", format_bound_seconds(times.fused), format_bytes(traffic.compulsory))]
    if times.cache_aware is not None and traffic.cache_aware is not None:
        rows.append(("cache-aware", format_bound_seconds(times.cache_aware), format_bytes(traffic.cache_aware)))
    if times.plan is not None and traffic.plan is not None:
        rows.append(("best plan found", format_seconds(times.plan), format_bytes(traffic.plan)))
    rows.append(("unfused", format_seconds(times.unfused, "down"), format_bytes(traffic.unfused)))
    return _table(("bound", ">time", ">traffic"), rows)


def _resources(target: TargetReport, memory: str) -> str:
    rows = [
        (limit_name(r.name, memory), *format_load(r.amount, r.unit, r.peak_per_s, r.time_s))
        for r in sorted(target.resources, key=lambda r: -r.time_s)
    ]
    return _table(("resource", ">work", ">peak", ">time"), rows) if rows else ""


def _modules(shown: Sequence[Scope], memory: str) -> str:
    with_measured = any(scope.measured_s for scope in shown)
    columns = [
        "",
        "module",
        "type",
        ">runs",
        ">MAC",
        ">traffic",
        ">intensity",
        ">bound",
        "limit",
        ">unfused",
        ">headroom",
    ]
    if with_measured:
        columns += [">measured", ">× bound"]
    rows = [_module(scope, memory, with_measured) for scope in shown]
    marks = [f' data-row="{scope.number}" data-line="{scope.line}"' for scope in shown]
    return _table(columns, rows, marks, kind="modules")


def _module(scope: Scope, memory: str, with_measured: bool) -> list[str]:
    cells = [
        str(scope.number) if scope.path else "Σ",
        scope.path or "whole",
        scope.type,
        f"×{scope.count}" if scope.count > 1 else "",
        format_macs(scope.macs) if scope.macs else "",
        format_bytes(scope.bytes),
        format_intensity(scope.intensity) if scope.intensity else "",
        format_bound_seconds(scope.bound_s),
        limit_name(scope.limit, memory) if scope.bound_s else "",
        format_seconds(scope.unfused_s, "down") if scope.unfused_s else "",
        format_percent(scope.headroom, "down") if scope.headroom else "",
    ]
    if with_measured:
        took = scope.measured_s
        cells.append(format_seconds(took) if took else "")
        cells.append(format_ratio(took / scope.bound_s, "down") if took and scope.bound_s else "")
    return cells


def _problems(problems: Sequence[Problem]) -> str:
    items = [f'<li data-line="{each.line}">{escape(f"{each.line}: {each.message}")}</li>' for each in problems]
    return f'<section><h2>Problems</h2><ul class="problems">{"".join(items)}</ul></section>' if items else ""


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], marks: Sequence[str] = (), kind: str = "") -> str:
    """A table; columns whose name begins with ">" are right-aligned, `marks` are attributes of the rows."""
    right = [' class="number"' if name.startswith(">") else "" for name in columns]
    head = "".join(
        f"<th{side}>{escape(name.removeprefix('>'))}</th>" for name, side in zip(columns, right, strict=True)
    )

    def lines() -> Iterator[str]:
        for number, row in enumerate(rows):
            mark = marks[number] if marks else ""
            cells = "".join(f"<td{side}>{escape(cell)}</td>" for cell, side in zip(row, right, strict=True))
            yield f"<tr{mark}>{cells}</tr>"

    body = "".join(lines())
    return f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
