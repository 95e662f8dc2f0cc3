"""Where the codes of diagnostics are documented; the codes themselves are in analysis/findings.py."""

from sollens.analysis.findings import CODES

DOCUMENTATION_URL = "https://github.com/sollens/sollens/blob/main/docs/diagnostics.md"


def documentation(code: str) -> str:
    """The address of a code's section."""
    return f"{DOCUMENTATION_URL}#{code}"


def is_known(code: str) -> bool:
    return code in CODES
