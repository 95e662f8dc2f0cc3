# pyright: basic
"""From an exception to a problem of the catalogue, with the place in the user's file and what to do."""

from __future__ import annotations

import re
import traceback
from typing import Any

from .frames import Frames

_GPU = re.compile(
    r"not compiled with CUDA|No CUDA GPUs|NVIDIA driver|CUDA (error|driver|runtime)|torch_cuda|nvcc|CUDA_HOME|"
    r"requires? (a )?(CUDA|GPU)|cuda.* not available|0 active drivers|triton", re.IGNORECASE
)  # fmt: skip
_MEMORY = re.compile(
    r"can't allocate memory|DefaultCPUAllocator|not enough memory|std::bad_alloc|Cannot allocate memory", re.IGNORECASE
)
_STAGES = {
    "import": ("import-error", "importing the file"),
    "constructor": ("constructor-failed", "building the model"),
    "inputs": ("inputs-failed", "building the example inputs"),
    "forward": ("forward-failed", "running it on the example inputs"),
}


class TooManyOperators(RuntimeError):
    """The trace is longer than the limit."""


class DataDependent(RuntimeError):
    """Control flow or a shape depends on the values of tensors that are not known."""


class Unusable(Exception):
    """A request that cannot be traced, with its problem."""

    def __init__(self, code: str, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.line = line


def problem_of(error: BaseException, stage: str, frames: Frames) -> dict[str, Any]:
    """The problem that an exception of a stage amounts to."""
    file, line, column = frames.innermost(error.__traceback__)
    if isinstance(error, Unusable):
        return _problem(error.code, str(error), frames.path, error.line or line, 0, "")
    detail = "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=-12))[-4000:]
    if isinstance(error, SyntaxError) and error.filename:
        text = (error.text or "").rstrip("\n")
        message = f"{error.msg}; expected Python source, found: {text.strip()}. Correct the line and save."
        return _problem("syntax-error", message, error.filename, error.lineno or 0, max(0, (error.offset or 1) - 1), "")
    code, doing = _STAGES.get(stage, ("forward-failed", stage))
    told = f"{type(error).__name__}: {_first_lines(str(error))}"
    where = file or frames.path
    chain = _chain(error)
    if isinstance(error, TooManyOperators):
        return _problem(
            "too-many-operators", f"{error}; trace a smaller part or fewer loop steps.", where, line, column, detail
        )
    if isinstance(error, (SystemExit, KeyboardInterrupt)):
        return _problem(
            "process-exit",
            f"{doing} ended the process ({told}); expected it to return. Guard the call.",
            where,
            line,
            column,
            "",
        )
    if any(isinstance(e, DataDependent) or type(e).__name__ in _DATA for e in chain):
        message = (
            f"{_data_text(chain)}: expected control flow and shapes that follow from shapes alone. "
            "Rewrite it with masks (where), or move it out of the traced callable."
        )
        return _problem("data-dependent", message, where, line, column, detail)
    if any(isinstance(e, MemoryError) or _MEMORY.search(str(e)) for e in chain):
        return _problem(
            "memory-limit", f"{doing} ran out of the memory allowed to a trace ({told}).", where, line, column, detail
        )
    if any(_GPU.search(str(e)) for e in chain) and not isinstance(error, ModuleNotFoundError):
        message = (
            f"{doing} needs an accelerator ({told}); a trace has none. "
            "Write the operator in plain PyTorch, or guard the call."
        )
        return _problem("needs-gpu", message, where, line, column, detail)
    if isinstance(error, ModuleNotFoundError) and error.name:
        message = (
            f"module {error.name!r} is not installed in this interpreter; "
            "install it, or choose the interpreter that has it."
        )
        return _problem("import-error", message, where, line, column, detail)
    if _is_missing_config(error):
        message = (
            f"the model's configuration is not on this disk ({told}); "
            "download it once: traces run offline and need no weights."
        )
        return _problem("config-missing", message, where, line, column, detail)
    return _problem(code, f"{doing} raised {told}", where, line, column, detail)


_DATA = {
    "DataDependentOutputException", "DynamicOutputShapeException", "GuardOnDataDependentSymNode",
    "ConcretizationTypeError", "TracerBoolConversionError", "TracerIntegerConversionError",
    "TracerArrayConversionError", "NonConcreteBooleanIndexError",
}  # fmt: skip


def _data_text(chain: list[BaseException]) -> str:
    for error in chain:
        if isinstance(error, DataDependent):
            return str(error)
    told = str(chain[0]).partition("\n")[0]
    return f"{told} depends on the values of a tensor, which a trace does not have"


def _is_missing_config(error: BaseException) -> bool:
    text = str(error)
    return isinstance(error, (OSError, ValueError)) and (
        "config.json" in text or "huggingface.co" in text or "offline mode" in text
    )


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found and len(found) < 8:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _first_lines(text: str, limit: int = 400) -> str:
    text = text.strip()
    return text if len(text) <= limit else text[:limit] + " ..."


def _problem(code: str, message: str, file: str, line: int, column: int, detail: str) -> dict[str, Any]:
    return {"code": code, "message": message, "file": file, "line": line, "column": column, "detail": detail}
