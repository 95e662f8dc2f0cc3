"""The roofline chart of a target as SVG: log-log, one dot a module, the roofs of the chips."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from sollens.analysis.page.scale import LogAxis
from sollens.analysis.page.scopes import Scope
from sollens.analysis.report import TargetReport
from sollens.hardware.limits import PIPES, limit_name, memory_name
from sollens.hardware.target import Target
from sollens.hardware.units import (
    format_bound_seconds,
    format_decade,
    format_intensity,
    format_rate,
    format_seconds,
)

WIDTH, HEIGHT = 820, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 28, 18, 46
# Dots nearer than this are drawn as one.
_TOUCHING = 7.0
_COLORS = 8
_RATE = "FLOP/s"


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A flat part of a roof: a pipe's peak in FLOP/s."""

    name: str
    peak: float


@dataclass(frozen=True, slots=True)
class Roof:
    """The limits of one chip for the pipes that a program uses, highest ceiling first."""

    chip: Target
    bandwidth: float
    ceilings: tuple[Ceiling, ...]


def roof_of(target: TargetReport, chip: Target) -> Roof:
    """The roof of `chip` for the pipes that `target` uses: its matmul pipes and vector operations."""
    pipes = [name.partition(":")[2] for resource in target.resources if (name := resource.name).startswith("matmul:")]
    ceilings = {PIPES.get(pipe, pipe.upper()): chip.matmul_peak(pipe) for pipe in pipes}
    if target.vector_ops or not ceilings:
        ceilings["vector"] = chip.vector_peak("float32")
    # Pipes of one rate are one line.
    names: dict[float, list[str]] = {}
    for name, peak in ceilings.items():
        names.setdefault(peak, []).append(name)
    flat = tuple(Ceiling(", ".join(names[peak]), peak) for peak in sorted(names, reverse=True))
    return Roof(chip, chip.bandwidth_bytes_per_s.value, flat)


def chart(target: TargetReport, shown: Sequence[Scope], roofs: Sequence[Roof], key: str) -> str:
    """The chart; `roofs` begins with that of the report's own chip, the others are hidden until chosen.

    `key` tells the charts of a page apart.
    """
    own = roofs[0]
    name = escape(target.name)
    dots = [scope for scope in shown if scope.intensity and scope.bound_rate]
    ridge = own.ceilings[0].peak / own.bandwidth
    x = LogAxis.around([*_known(scope.intensity for scope in dots), ridge * 2, ridge / 50], _LEFT, WIDTH - _RIGHT)
    rates = [*_known(rate for s in dots for rate in (s.bound_rate, s.unfused_rate, s.measured_rate))]
    highest = max(roof.ceilings[0].peak for roof in roofs)
    y = LogAxis.around([*rates, highest, own.ceilings[-1].peak / 12], HEIGHT - _BOTTOM, _TOP)
    return "\n".join(
        (
            f'<svg class="roofline" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Roofline of {name}">',
            f'<clipPath id="plot-{key}"><rect x="{_LEFT}" y="{_TOP}" width="{WIDTH - _LEFT - _RIGHT}" '
            f'height="{HEIGHT - _TOP - _BOTTOM}"/></clipPath>',
            *_grid(x, y),
            f'<g clip-path="url(#plot-{key})">',
            *(_roof(roof, number, x, y) for number, roof in enumerate(roofs)),
            "</g>",
            *_dots(dots, memory_name(own.chip), x, y),
            "</svg>",
        )
    )


def _known(values: Iterable[float | None]) -> Iterator[float]:
    return (value for value in values if value)


def _grid(x: LogAxis, y: LogAxis) -> Iterator[str]:
    for value in x.minor():
        yield f'<path class="minor" d="M{x.at(value):.1f} {_TOP}V{HEIGHT - _BOTTOM}"/>'
    for value in y.minor():
        yield f'<path class="minor" d="M{_LEFT} {y.at(value):.1f}H{WIDTH - _RIGHT}"/>'
    for value in x.decades():
        at = x.at(value)
        yield f'<path class="major" d="M{at:.1f} {_TOP}V{HEIGHT - _BOTTOM}"/>'
        yield _text("tick", at, HEIGHT - _BOTTOM + 16, "middle", format_decade(value))
    for value in y.decades():
        at = y.at(value)
        yield f'<path class="major" d="M{_LEFT} {at:.1f}H{WIDTH - _RIGHT}"/>'
        yield _text("tick", _LEFT - 8, at + 4, "end", format_decade(value, _RATE).removesuffix(_RATE))
    middle = (_TOP + HEIGHT - _BOTTOM) / 2
    yield f'<text class="axis" transform="translate(16 {middle:.0f}) rotate(-90)" text-anchor="middle">{_RATE}</text>'
    yield _text("axis", (_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 8, "middle", "arithmetic intensity (FLOP/B)")


def _text(kind: str, x: float, y: float, anchor: str, text: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _roof(roof: Roof, number: int, x: LogAxis, y: LogAxis) -> str:
    """The slope of the memory and the ceilings, each from where it leaves the slope, with their names."""
    parts: list[str] = []
    top = roof.ceilings[0].peak
    ridge = top / roof.bandwidth
    left = x.low / 10
    parts.append(
        f'<path d="M{x.at(left):.1f} {y.at(left * roof.bandwidth):.1f}L{x.at(ridge):.1f} {y.at(top):.1f}H{x.end:.1f}"/>'
    )
    for ceiling in roof.ceilings:
        at = y.at(ceiling.peak)
        if ceiling.peak < top:
            parts.append(f'<path class="lower" d="M{x.at(ceiling.peak / roof.bandwidth):.1f} {at:.1f}H{x.end:.1f}"/>')
        text = f"{ceiling.name} {format_rate(ceiling.peak, _RATE)}"
        if number and ceiling.peak == top:
            text = f"{roof.chip.name} · {text}"
        parts.append(f'<text x="{x.end - 6:.1f}" y="{at - 13:.1f}" text-anchor="end">{escape(text)}</text>')
    # The slope's name lies along it, in the middle of its visible part.
    begin = max(x.low, y.low / roof.bandwidth)
    where = 10 ** (math.log10(begin) + (math.log10(ridge) - math.log10(begin)) / 2)
    at_x, at_y = x.at(where), y.at(where * roof.bandwidth)
    rise = (y.start - y.end) / math.log10(y.high / y.low)
    run = (x.end - x.start) / math.log10(x.high / x.low)
    angle = -math.degrees(math.atan2(rise, run))
    text = f"{memory_name(roof.chip)} {format_rate(roof.bandwidth, 'byte/s')}"
    place = f"translate({at_x:.1f} {at_y:.1f}) rotate({angle:.1f})"
    # The other chips' below, so that theirs and the report's do not meet.
    parts.append(f'<text transform="{place}" dy="{14 if number else -6}" text-anchor="middle">{escape(text)}</text>')
    hidden = "" if number == 0 else " hidden"
    return f'<g class="roof c{number % _COLORS}{hidden}" data-chip="{escape(roof.chip.id)}">{"".join(parts)}</g>'


def _dots(dots: Sequence[Scope], memory: str, x: LogAxis, y: LogAxis) -> Iterator[str]:
    """A dot a scope at its bound, on a line that begins where it is unfused; dots that touch are one."""
    for group in _grouped(dots, x, y):
        first = group[0]
        assert first.intensity and first.bound_rate
        at_x, at_y = x.at(first.intensity), y.at(first.bound_rate)
        kind = "dot whole" if not first.path else "dot"
        rows = " ".join(str(scope.number) for scope in group)
        yield f'<g class="{kind}" data-rows="{rows}" data-line="{first.line}" tabindex="0">'
        yield f"<title>{escape(chr(10).join(_tooltip(scope, memory) for scope in group))}</title>"
        if first.unfused_rate and y.at(first.unfused_rate) - at_y > 9:
            foot = y.at(first.unfused_rate)
            yield f'<path class="gap" d="M{at_x:.1f} {foot:.1f}V{at_y:.1f}M{at_x - 4:.1f} {foot:.1f}h8"/>'
        if first.measured_rate:
            foot = y.at(first.measured_rate)
            yield f'<path class="measured" d="M{at_x - 5:.1f} {foot - 5:.1f}l10 10m0 -10l-10 10"/>'
        radius = 9 if not first.path else 8
        label = "Σ" if not first.path else str(first.number)
        yield f'<circle cx="{at_x:.1f}" cy="{at_y:.1f}" r="{radius}"/>'
        yield f'<text x="{at_x:.1f}" y="{at_y + 3.5:.1f}" text-anchor="middle">{label}</text>'
        if len(group) > 1:
            yield f'<text class="more" x="{at_x + radius + 2:.1f}" y="{at_y + 3.5:.1f}">+{len(group) - 1}</text>'
        yield "</g>"


def _grouped(dots: Sequence[Scope], x: LogAxis, y: LogAxis) -> list[list[Scope]]:
    groups: list[tuple[float, float, list[Scope]]] = []
    for scope in dots:
        assert scope.intensity and scope.bound_rate
        at = (x.at(scope.intensity), y.at(scope.bound_rate))
        near = next((group for *where, group in groups if math.dist(where, at) < _TOUCHING), None)
        if near is not None and scope.path:
            near.append(scope)
        else:
            groups.append((*at, [scope]))
    return [group for *_, group in groups]


def _tooltip(scope: Scope, memory: str) -> str:
    assert scope.intensity and scope.bound_rate
    facts = [format_bound_seconds(scope.bound_s), limit_name(scope.limit, memory), format_intensity(scope.intensity)]
    if scope.unfused_s:
        facts.append(f"unfused {format_seconds(scope.unfused_s, 'down')}")
    if scope.measured_s:
        facts.append(f"measured {format_seconds(scope.measured_s)}")
    name = f"{scope.number} {scope.path} ({scope.type})" if scope.path else scope.type
    return f"{name}: {' · '.join(facts)}"
