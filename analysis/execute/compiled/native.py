"""Object code to callable functions, by LLVM alone."""
# llvmlite has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false

from __future__ import annotations

import ctypes
import functools
import importlib
import sys
import threading
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm

from sollens.analysis.execute.compiled.build import Code

Function = Callable[..., int]

_lock = threading.Lock()
_loaded: dict[str, Function] = {}


@functools.cache
def _engine() -> Any:
    if sys.platform == "win32":  # there the C library's functions are known to LLVM only once Numba has named them
        importlib.import_module("numba")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def processor() -> str:
    """The name and features of this machine's processor: code for one is not for another."""
    return f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def load(code: Code, pointers: int, integers: int, floats: int) -> Function | None:
    """The function, to be called with so many addresses, i64 and f64; None when this process lacks something it needs.

    Calls release the GIL. The function returns 0.
    """
    with _lock:
        if code.symbol in _loaded:
            return _loaded[code.symbol]
        engine = _engine()
        if any(llvm.address_of_symbol(name) is None for name in code.externals):
            return None
        engine.add_object_file(llvm.ObjectFileRef.from_data(code.object))
        engine.finalize_object()
        address: int = engine.get_function_address(code.symbol)
        if not address:
            return None
        # Numba's calling convention: where a result and an exception would go, then the arguments.
        kinds = [ctypes.c_void_p] * (2 + pointers) + [ctypes.c_int64] * integers + [ctypes.c_double] * floats
        native = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(address)
        function = _loaded[code.symbol] = functools.partial(_call, native)
    return function


def _call(native: Any, *arguments: float) -> int:
    result, exception = ctypes.c_void_p(), ctypes.c_void_p()
    return int(native(ctypes.addressof(result), ctypes.addressof(exception), *arguments))
