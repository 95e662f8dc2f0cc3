"""Where the codes of diagnostics are documented; the codes themselves are in analysis/findings.py."""

import re
from functools import cache
from pathlib import Path

from sollens.analysis.findings import CODES

# Beside the packages, in a checkout as in a wheel: an address on the web would be a promise that somebody keeps it up.
_PAGE = Path(__file__).resolve().parent.parent / "docs" / "diagnostics.md"


@cache  # read with the first mark, not when the server starts
def _sections() -> dict[str, int]:
    """The 1-based line of each code's section; empty where the page was not installed."""
    try:
        lines = _PAGE.read_text(encoding="utf-8").split("\n")
    except OSError:
        return {}
    return {found[1]: number for number, line in enumerate(lines, 1) if (found := re.fullmatch("## ([a-z-]+)", line))}


def documentation(code: str) -> str | None:
    """The address of a code's section in the page on this machine, None where there is none."""
    line = _sections().get(code)
    return None if line is None else f"{_PAGE.as_uri()}#L{line}"


def is_known(code: str) -> bool:
    return code in CODES
