"""The case that a pragma's `golden=` names: an archive of arrays, or a reference function that the agent runs."""

from __future__ import annotations

import threading
from pathlib import Path

from sollens.analysis.llm.task import Argument, BadGolden, Case, case_of, random_inputs, read_npz, small_sizes
from sollens.analysis.trace.reference_host import ReferenceFailed, run_reference

_SEED = 20


def golden_case(
    named: str, folder: Path, arguments: tuple[Argument, ...], symbols: dict[str, int], *, interpreter: str,
    deadline_s: float, memory_bytes: int, paths: tuple[str, ...] = (), cancel: threading.Event | None = None,
) -> Case:  # fmt: skip
    """`case.npz` or `reference.py:function`, beside the source; raises BadGolden.

    A reference runs on seeded random inputs at small sizes of the symbols.
    """
    file, colon, function = named.rpartition(":")
    if not colon or not file.endswith(".py"):
        if not named.endswith(".npz"):
            raise BadGolden(f"golden: expected FILE.npz or FILE.py:FUNCTION, found {named!r}")
        return read_npz(folder / named, arguments, symbols)
    sizes = small_sizes(symbols)
    inputs = random_inputs(arguments, sizes, _SEED)
    try:
        outputs = run_reference(
            interpreter, folder / file, function, inputs, deadline_s=deadline_s, memory_bytes=memory_bytes,
            paths=paths, cancel=cancel,
        )  # fmt: skip
    except ReferenceFailed as error:
        raise BadGolden(str(error)) from None
    if not outputs:
        raise BadGolden(f"{named}: expected at least one array, found none")
    arrays = {name or f"result {k}": value for k, (name, value) in enumerate(outputs)}
    return case_of({**inputs, **arrays}, arguments, symbols, f"{Path(file).name}:{function}")


def files_of(named: str, folder: Path) -> Path:
    """The file that golden data depend on."""
    file, colon, _ = named.rpartition(":")
    return folder / (file if colon and file.endswith(".py") else named)
