"""The one place that runs loop programs for validation."""

from __future__ import annotations

from collections.abc import Mapping

from sollens.analysis.execute import reference
from sollens.analysis.execute.storage import Array
from sollens.analysis.ir.nodes import Program


def execute(program: Program, inputs: Mapping[str, Array], *, limit_points: int) -> Mapping[str, Array]:
    """Every tensor of the program by name; raises the errors of `execute/errors.py`."""
    return reference.run_all(program, inputs, limit_points=limit_points)
