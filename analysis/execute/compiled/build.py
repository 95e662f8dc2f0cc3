"""Source to machine code by Numba: without fast math, without Python objects, nothing that can raise.

Only this module imports Numba, and only when a kernel is not on disk: importing takes longer
than running most programs.
"""
# Numba's compiler interface has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Code:
    """An object file, the function's symbol in it, and what it needs from outside."""

    symbol: str
    externals: tuple[str, ...]
    object: bytes


def build(source: str, signature: Sequence[str], integers: int, floats: int, name: str) -> Code:
    """The machine code of `def k(...)` over pointers to these element types, then i64 and f64 by value.

    Call it from one thread at a time. `name` must be unique to the source: it becomes part of the symbol.
    """
    from numba.core import compiler, types

    typing, target = _contexts()
    # The text comes from `emit`, which composes it of its own names only.
    scope = dict(_namespace())
    exec(compile(source, "<sollens kernel>", "exec"), scope)
    function: Any = scope["k"]
    function.__name__ = function.__qualname__ = name
    flags: Any = compiler.Flags()
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.nrt = flags.enable_looplift = flags.enable_pyobject = flags.fastmath = False
    flags.error_model = "numpy"
    arguments = [types.CPointer(getattr(types, s)) for s in signature]
    arguments += [types.int64] * integers + [types.float64] * floats
    library = target.codegen().create_library(name)
    library.enable_object_caching()
    result = compiler.compile_extra(
        typing, target, function, tuple(arguments), types.void, flags, {}, library=library, pipeline_class=_pipeline()
    )
    machine_code = bytes(library._get_compiled_object())
    externals = tuple(
        f.name for f in library._final_module.functions if f.is_declaration and not f.name.startswith("llvm.")
    )
    return Code(result.fndesc.mangled_name, externals, machine_code)


@functools.cache
def _contexts() -> tuple[Any, Any]:
    from numba.core import registry

    cpu: Any = registry.cpu_target
    typing, target = cpu.typing_context, cpu.target_context
    typing.refresh()
    target.refresh()
    return typing, target


@functools.cache
def _pipeline() -> Any:
    """Numba's passes without those for closures, rewrites, overloads and objects, of which generated code has none."""
    from numba.core import compiler, compiler_machinery, typed_passes, untyped_passes

    passes = (
        untyped_passes.TranslateByteCode, untyped_passes.FixupArgs, untyped_passes.IRProcessing,
        untyped_passes.ReconstructSSA, typed_passes.NopythonTypeInference, typed_passes.PreLowerStripPhis,
        typed_passes.NoPythonSupportedFeatureValidation, typed_passes.IRLegalization, typed_passes.AnnotateTypes,
        typed_passes.NativeLowering, typed_passes.NoPythonBackend,
    )  # fmt: skip

    class Pipeline(compiler.CompilerBase):
        def define_pipelines(self) -> Any:
            manager = compiler_machinery.PassManager("kernel")
            for one in passes:
                manager.add_pass(one, one.__name__)
            manager.finalize()
            return [manager]

    return Pipeline


@functools.cache
def _namespace() -> dict[str, Any]:
    """Every name that generated code may use."""
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def exponent_of(typingctx: Any, x: Any) -> Any:
        """The biased-free exponent in the bits of a f64; -1023 for zero."""

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            integer = context.get_value_type(types.int64)
            bits = builder.lshr(builder.bitcast(args[0], integer), integer(52))
            return builder.sub(builder.and_(bits, integer(0x7FF)), integer(1023))

        return types.int64(types.float64), code

    @intrinsic
    def power_of_two(typingctx: Any, e: Any) -> Any:
        """2.0 ** e for e in the range of normal f64."""

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            integer = context.get_value_type(types.int64)
            bits = builder.shl(builder.add(args[0], integer(1023)), integer(52))
            return builder.bitcast(bits, context.get_value_type(types.float64))

        return types.float64(types.int64), code

    functions = [
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sqrt",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "erf",
        "erfc",
        "lgamma",
        "fmod",
        "atan2",
        "copysign",
        "hypot",
        "pow",
    ]
    scalars = [
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float32",
        "float64",
        "complex64",
        "complex128",
    ]
    return {
        **{f: getattr(math, f) for f in functions},
        **{s: getattr(np, s) for s in (*scalars, "floor", "ceil", "trunc", "rint", "fmod")},
        "inf": math.inf, "nan": math.nan, "exponent_of": exponent_of, "power_of_two": power_of_two,
    }  # fmt: skip
