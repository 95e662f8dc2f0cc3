"""The one place that runs loop programs for validation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from sollens.analysis.execute import reference
from sollens.analysis.execute.storage import Array
from sollens.analysis.ir.nodes import Program

Executor = Literal["compiled", "reference"]


def execute(
    program: Program, inputs: Mapping[str, Array], want: Iterable[str], *, executor: Executor, limit_points: int,
    stop: Callable[[], bool] | None = None,
) -> Mapping[str, Array]:  # fmt: skip
    """The tensors in `want` by name; raises the errors of `execute/errors.py`."""
    if executor == "reference":
        everything = reference.run_all(program, inputs, limit_points=limit_points)
        return {name: everything[name] for name in want if name in everything}
    from sollens.analysis.execute.compiled.executor import Limits, run

    return run(program, inputs, limits=Limits(max_points=limit_points, stop=stop), want=want)
