"""Compiled functions by kernel: in memory, else on disk, else compiled now. Safe between threads and processes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from sollens.analysis.execute.compiled import disk, native
from sollens.analysis.execute.compiled.build import build
from sollens.analysis.execute.compiled.emit import Kernel
from sollens.analysis.execute.compiled.writer import Unsupported

Function = Callable[..., int]


@dataclass(slots=True)
class Counters:
    """How many kernels this process has compiled, read from disk, and failed to compile."""

    compiled: int = 0
    loaded: int = 0
    refused: int = 0


counters = Counters()
_functions: dict[tuple[str, tuple[str, ...]], Function] = {}
_spared: dict[tuple[str, tuple[str, ...]], float] = {}  # seconds of NumPy that a kernel not compiled would have saved
_lock = threading.Lock()


def find(kernel: Kernel, saves_s: float, worth_s: float) -> Function | None:
    """The kernel's function; None where it would have to be compiled and that is not worth it yet.

    It is once all that asked for this kernel would have saved `worth_s` together.
    """
    identity = (kernel.source, kernel.signature)
    if (function := _functions.get(identity)) is not None:
        return function
    with _lock:
        if (function := _functions.get(identity)) is not None:
            return function
        asked_before = identity in _spared
        _spared[identity] = _spared.get(identity, 0.0) + saves_s
        compiling = _spared[identity] > worth_s
        if asked_before and not compiling:
            return None
        function = _obtain(kernel, compiling)
        if function is not None:
            _functions[identity] = function
    return function


def _obtain(kernel: Kernel, compiling: bool) -> Function | None:
    name = disk.key(kernel.source, kernel.signature)
    shape = (len(kernel.signature), len(kernel.integers), len(kernel.floats))
    code = disk.read(name)
    function = native.load(code, *shape) if code else None
    if function is not None:
        counters.loaded += 1
        return function
    if not compiling:
        return None
    try:
        code = build(kernel.source, kernel.signature, *shape[1:], f"k{name}")
    except Exception as error:  # Numba refuses it, or is another version: the interpreter remains
        counters.refused += 1
        raise Unsupported(f"not compiled: {type(error).__name__}") from error
    counters.compiled += 1
    disk.write(name, code)
    function = native.load(code, *shape)
    if function is None:
        counters.refused += 1
        raise Unsupported(f"needs {', '.join(code.externals)}")
    return function


def forget() -> None:
    """Drop the functions in memory, as a new process would start."""
    with _lock:
        _functions.clear()
        _spared.clear()
