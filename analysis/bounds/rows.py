"""Rows of a report: sub-modules and source lines, each bounded as one fused kernel."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from sollens.analysis.bounds.roofline import Roofline, roofline
from sollens.analysis.einsum.lift import Einsum
from sollens.analysis.einsum.scopes import Scopes
from sollens.analysis.report import LineRow, ModuleRow, Resource
from sollens.analysis.trace.schema import Module, Trace
from sollens.hardware.target import Target

UnfusedOf: TypeAlias = Callable[[Iterable[int]], tuple[float, int]]


def resources(line: Roofline) -> list[Resource]:
    """The roofline's rows for the report, limiting one first."""
    return [
        Resource(name=r.name, amount=r.amount, unit=r.unit, peak_per_s=r.peak_per_s, time_s=r.time_s) for r in line.rows
    ]


def module_rows(trace: Trace, scopes: Scopes, target: Target, unfused_of: UnfusedOf) -> list[ModuleRow]:
    """One row for each sub-module that did something, in order of first use."""
    modules = {m.path: m for m in trace.modules}
    rows: list[ModuleRow] = []
    for path, members in scopes.grouped(_enclosing_modules).items():
        assert isinstance(path, str)
        module = modules.get(path)
        if module is None:
            continue
        scope = scopes.of(members)
        line = roofline(scope, target)
        rows.append(
            ModuleRow(
                path=path,
                line=module.created_line,
                count=max(1, module.calls),
                macs=scope.total_macs,
                bytes=scope.bytes,
                time_s=line.time_s,
                type=module.type,
                limit=line.limit,
                unfused_s=max(unfused_of(members)[0], line.time_s),
                vector_ops=scope.total_vector_ops,
            )
        )
    return rows


def _enclosing_modules(einsum: Einsum) -> Iterable[str]:
    path = einsum.source.module
    while path:
        yield path
        path = path.rpartition(".")[0]


@dataclass(slots=True)
class _Line:
    members: set[int] = field(default_factory=lambda: set())
    operators: Counter[str] = field(default_factory=lambda: Counter())
    count: int = 1


def line_rows(trace: Trace, scopes: Scopes, target: Target, unfused_of: UnfusedOf, path: str) -> list[LineRow]:
    """Rows of the lines of `path`: code lines, lines that build sub-modules, class and function headers."""
    wanted = os.path.realpath(path) if path else None
    same: dict[str, bool] = {"": False}

    def ours(file: str) -> bool:
        if file not in same:
            same[file] = wanted is None or os.path.realpath(file) == wanted
        return same[file]

    code = _code_lines(trace, scopes, ours)
    rows = [_row(scopes, target, unfused_of, number, line, "op") for number, line in sorted(code.items())]
    total = sum(r.time_s for r in rows)
    rows = [_with_share(r, r.time_s / total if total > 0 else 0.0) for r in rows]
    whole = roofline(scopes.whole(), target).time_s
    for kind, lines in (("module", _created_lines(trace, scopes, ours)), ("total", _header_lines(trace, scopes, ours))):
        for number, line in sorted(lines.items()):
            if kind == "module" and number in code:
                continue
            row = _row(scopes, target, unfused_of, number, line, kind)
            rows.append(_with_share(row, row.time_s / whole if whole > 0 else 0.0))
    return sorted(rows, key=lambda r: r.line)


def _code_lines(trace: Trace, scopes: Scopes, ours: Callable[[str], bool]) -> dict[int, _Line]:
    """Einsums by every line of the file that was on the stack when their operator ran."""
    lines: dict[int, _Line] = {}
    frames_of_op: dict[int, list[int]] = {}
    for k, einsum in enumerate(scopes.graph.einsums):
        op = einsum.source.op
        if op not in frames_of_op:
            frames_of_op[op] = _frames(trace, einsum, ours)
            for number in frames_of_op[op]:
                lines.setdefault(number, _Line()).operators[einsum.source.operator] += 1
        for number in frames_of_op[op]:
            lines.setdefault(number, _Line()).members.add(k)
    runs = _runs(trace, ours)
    for number, line in lines.items():
        line.count = runs.get(number, 1)
    return lines


def _frames(trace: Trace, einsum: Einsum, ours: Callable[[str], bool]) -> list[int]:
    source = einsum.source
    if 0 <= source.op < len(trace.ops) and trace.ops[source.op].span >= 0:
        span = trace.spans[trace.ops[source.op].span]
        frames = [(span.file, span.line), *((str(f), int(n)) for f, n, *_ in span.stack)]
    else:
        frames = [(source.file, source.line)]
    return list(dict.fromkeys(n for f, n in frames if n > 0 and ours(f)))


def _runs(trace: Trace, ours: Callable[[str], bool]) -> dict[int, int]:
    """How often each line ran: as often as the rarest operator call on it (one expression may call an operator
    twice).
    """
    calls: Counter[tuple[int, int, int, str]] = Counter()
    for op in trace.ops:
        if op.span >= 0:
            place = trace.spans[op.span]
            if ours(place.file):
                calls[place.line, place.column, place.end_column, op.target] += 1
    runs: dict[int, int] = {}
    for (line, *_), count in calls.items():
        runs[line] = min(runs.get(line, count), count)
    return runs


def _created_lines(trace: Trace, scopes: Scopes, ours: Callable[[str], bool]) -> dict[int, _Line]:
    """Einsums by the line of `__init__` that built the sub-module they ran in."""
    built = {m.path: m.created_line for m in trace.modules if m.path and m.created_line and ours(m.created_file)}
    lines: dict[int, _Line] = {}
    for path, members in scopes.grouped(_enclosing_modules).items():
        assert isinstance(path, str)
        number = built.get(path)
        if number:
            lines.setdefault(number, _Line()).members.update(members)
    for number, line in lines.items():
        line.count = sum(1 for path, n in built.items() if n == number and not _parent_built_at(path, built, number))
    return lines


def _parent_built_at(path: str, built: dict[str, int], number: int) -> bool:
    """A Sequential's children are built on the same line as it is: they are one."""
    parent = path.rpartition(".")[0]
    return bool(parent) and built.get(parent) == number


def _header_lines(trace: Trace, scopes: Scopes, ours: Callable[[str], bool]) -> dict[int, _Line]:
    """Headers of the target, of its forward, and of the file's own classes that it uses."""
    lines: dict[int, _Line] = {}
    everything = set(range(len(scopes.graph.einsums)))
    for number in {trace.line, trace.forward_line} - {0}:
        lines[number] = _Line(everything)
    by_path: dict[str, Module] = {m.path: m for m in trace.modules if m.path}
    for path, members in scopes.grouped(_enclosing_modules).items():
        assert isinstance(path, str)
        module = by_path.get(path)
        if module is not None and module.class_line and ours(module.class_file) and module.class_line != trace.line:
            line = lines.setdefault(module.class_line, _Line(count=0))
            line.members.update(members)
            line.count += max(1, module.calls)
    return lines


def _row(scopes: Scopes, target: Target, unfused_of: UnfusedOf, number: int, line: _Line, kind: str) -> LineRow:
    scope = scopes.of(line.members)
    bound = roofline(scope, target)
    return LineRow(
        line=number,
        time_s=bound.time_s,
        limit=bound.limit,
        share=0.0,
        count=max(1, line.count),
        macs=scope.total_macs,
        bytes=scope.bytes,
        vector_ops=scope.total_vector_ops,
        unfused_s=max(unfused_of(line.members)[0], bound.time_s),
        kind="op" if kind == "op" else "module" if kind == "module" else "total",
        operators=[name if n == 1 else f"{name} ×{n}" for name, n in line.operators.items()],
        resources=resources(bound),
    )


def _with_share(row: LineRow, share: float) -> LineRow:

    return msgspec.structs.replace(row, share=share)
