"""The pages that an editor opens beside a file. They take a moment: not on the event loop."""

from pathlib import Path

from sollens.analysis.page.graph_page import decode_graphs, graph_page
from sollens.analysis.page.report_page import report_page
from sollens.server.render import provenance
from sollens.server.results import Result


def report(result: Result, path: Path | None) -> str:
    """The report with its roofline chart, as HTML."""
    targets = result.report.targets
    measured = {target.name: result.measured_of(target, path) for target in targets}
    verdicts = {target.name: provenance(target) for target in targets}
    return report_page(result.report, measured, verdicts)


def graph(name: str, text: str) -> str:
    """The einsum graphs of a file, from the worker's JSON, as HTML."""
    return graph_page(name, decode_graphs(text))
