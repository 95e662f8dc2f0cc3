"""The codes of diagnostics. Each has a section in docs/diagnostics.md; a test holds that."""

DOCUMENTATION_URL = "https://github.com/sollens/sollens/blob/main/docs/diagnostics.md"

# Why a file could not be analysed, or not wholly.
PROBLEMS = (
    "syntax-error",
    "import-error",
    "interpreter-missing",
    "framework-missing",
    "missing-shapes",
    "constructor-failed",
    "inputs-failed",
    "forward-failed",
    "deadline",
    "memory-limit",
    "process-exit",
    "process-crash",
    "needs-gpu",
    "data-dependent",
    "file-missing",
    "too-many-operators",
    "config-missing",
    "worker-died",
    "internal-error",
    "partial",
    "validation-failed",
)

# What a program could gain.
FINDINGS = (
    "fusion-headroom",
    "precision",
)


def documentation(code: str) -> str:
    """The address of a code's section."""
    return f"{DOCUMENTATION_URL}#{code}"
