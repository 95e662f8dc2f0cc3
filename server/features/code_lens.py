"""One lens above each class and function that was analysed: its bound and what is left to gain."""

from dataclasses import dataclass

from sollens.analysis.report import TargetReport
from sollens.hardware.units import format_bound_seconds, format_percent, format_seconds
from sollens.server.document import Document
from sollens.server.labels import is_checked
from sollens.server.measurements import sentence
from sollens.server.results import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Lens:
    """A text above a 0-based line that opens the report."""

    line: int
    title: str


def lenses(document: Document, result: Result | None) -> list[Lens]:
    """In the order of lines; none of a target that failed its validation or whose header was edited."""
    if result is None or not result.settings.code_lens_enabled:
        return []
    found = [
        Lens(line=now, title=_title(target, result, document))
        for target in result.report.targets
        if target.validation.status != "failed" and (now := result.line_now(target.line)) is not None
    ]
    return sorted(found, key=lambda lens: lens.line)


def _title(target: TargetReport, result: Result, document: Document) -> str:
    times = target.time_s
    parts = [format_bound_seconds(times.fused) + ("" if is_checked(target) else " ?")]
    headroom = 1 - times.fused / times.unfused if times.unfused > times.fused else 0.0
    if headroom:
        unfused = format_seconds(times.unfused, "down")
        parts.append(f"{format_percent(headroom, 'down')} headroom by fusing (unfused {unfused})")
    else:
        parts.append("no headroom by fusing")
    took_s = result.measured_of(target, document.path).get("")
    if took_s:
        parts.append(sentence(took_s, times.fused))
    return " · ".join([*parts, "report"])
