"""Code for every scalar operation, with the promotions of `execute/scalar_table.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sollens.analysis.execute.compiled.writer import CONSTRUCTOR, Unsupported, Value, Writer

_RANK = {"b": 0, "i": 1, "f": 2, "d": 2, "F": 3, "D": 3}
_STORED_KIND = {
    "bool": "b", **dict.fromkeys(("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "i4", "u4"), "i"),
    **dict.fromkeys(("f16", "bf16", "f32", "f8e4m3", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f4e2m1"), "f"),
    "f64": "d", "c32": "F", "c64": "F", "c128": "D",
}  # fmt: skip
_WRAPS = {"u8": "uint8", "i8": "int8", "u16": "uint16", "i16": "int16", "u32": "uint32", "i32": "int32"}
# mantissa bits, smallest normal exponent, largest finite value, what is beyond it: as in execute/storage.py
_NARROW = {
    "bf16": (7, -126, 3.3895313892515355e38, "inf"), "f16": (10, -14, 65504.0, "inf"),
    "f8e4m3": (3, -6, 448.0, "nan"), "f8e5m2": (2, -14, 57344.0, "inf"), "f8e4m3fnuz": (3, -7, 240.0, "nan"),
    "f8e5m2fnuz": (2, -15, 57344.0, "nan"), "f4e2m1": (1, 0, 6.0, "max"),
}  # fmt: skip


def kind_of(dtype: str) -> str:
    """The kind in which bodies compute with values of this dtype."""
    kind = _STORED_KIND.get(dtype)
    if kind is None:
        raise Unsupported(dtype)
    return kind


def cast(w: Writer, value: Value, kind: str) -> Value:
    """The value in another kind, by plain conversion (not from complex to real)."""
    if value.kind == kind:
        return value
    if kind == "b":
        return w.let(f"{value.code} != 0", "b")
    return Value(f"{CONSTRUCTOR[kind]}({value.code})", kind, value.weak)


def promote(w: Writer, values: Sequence[Value], at_least: int = 0) -> tuple[str, list[str]]:
    """The kind that all take, and their code in it."""
    rank = max(at_least, *(_RANK[v.kind] for v in values))
    if rank < 2:
        kind = "bi"[rank]
    else:
        wide = all(v.weak for v in values) or any(v.kind in "dD" for v in values if not v.weak)
        kind = ("fd" if rank == 2 else "FD")[wide]
    return kind, [cast(w, v, kind).code for v in values]


def convert(w: Writer, value: Value, dtype: str) -> Value:
    """`storage.store`: the value rounded to a dtype, in the kind that bodies compute in."""
    kind = kind_of(dtype)
    if kind == "b":
        return w.let(f"{value.code} != 0", "b")
    if value.kind in "FD" and kind not in "FD":
        value = w.let(f"{value.code}.real", "f" if value.kind == "F" else "d")
    if kind == "i":
        return _to_integer(w, value, dtype)
    if dtype in _NARROW:
        return _round_narrow(w, value, dtype)
    return cast(w, value, kind)


def _to_integer(w: Writer, value: Value, dtype: str) -> Value:
    if value.kind in "fd":
        x = w.let(f"float64({value.code})", "d").code
        low = "int64(-9223372036854775807) - int64(1)"
        # The reference clips infinity to what its own width holds below 2**63: for f32 that is beyond.
        endless = "int64(9223372036854774784)" if value.kind == "d" else low
        beyond = f"({endless} if {x} == inf else {low})"
        inside = f"(int64({x}) if abs({x}) < 9.2233720368547748e18 else {beyond})"
        value = w.let(f"int64(0) if {x} != {x} else {inside}", "i")
    else:
        value = cast(w, value, "i")
    if dtype in ("i64", "u64"):
        return value
    if dtype == "i4":
        return w.let(f"(({value.code} + 8) & 15) - 8", "i")
    if dtype == "u4":
        return w.let(f"{value.code} & 15", "i")
    return w.let(f"int64({_WRAPS[dtype]}({value.code}))", "i")


def _round_narrow(w: Writer, value: Value, dtype: str) -> Value:
    mantissa, smallest, largest, beyond = _NARROW[dtype]
    x = w.let(f"float64(float32({value.code}))" if dtype == "bf16" else f"float64({value.code})", "d").code
    quantum = w.let(f"power_of_two(max(exponent_of({x}), int64({smallest})) - int64({mantissa}))", "d").code
    rounded = w.let(f"rint({x} / {quantum}) * {quantum}", "d").code
    limit = {"inf": "inf", "nan": "nan", "max": repr(largest)}[beyond]
    over = f"copysign({limit}, {x}) if abs({rounded}) > {largest!r} else {rounded}"
    return w.let(f"float32(({over}) if {x} - {x} == 0.0 else {_not_finite(x, beyond, largest)})", "f")


def _not_finite(x: str, beyond: str, largest: float) -> str:
    """An infinity is over every limit; a nan stays."""
    return x if beyond == "inf" else f"({x} if {x} != {x} else copysign({'nan' if beyond == 'nan' else largest}, {x}))"


def apply(w: Writer, op: str, args: Sequence[Value], dtype: str) -> Value:
    """The value of an operation of the catalogue; raises Unsupported."""
    weak = all(a.weak for a in args)
    if op == "cast":
        return convert(w, args[0], dtype)
    if op == "where":
        kind, (then, otherwise) = promote(w, args[1:])
        test = args[0].code if args[0].kind == "b" else f"({args[0].code} != 0)"
        return w.let(f"{then} if {test} else {otherwise}", kind, args[1].weak and args[2].weak)
    if op == "complex":
        kind, (real, imaginary) = promote(w, args, 2)
        target = "D" if kind == "d" else "F"
        if kind not in "fd":
            raise Unsupported(op)
        return w.let(f"{CONSTRUCTOR[target]}(complex({real}, {imaginary}))", target, weak)
    for table, rank in ((_ARITHMETIC, 1), (_FLOATING, 2), (_AS_THEY_ARE, 0)):
        if op in table:
            kind, codes = promote(w, args, rank)
            code, result = table[op](w, kind, *(_named(w, c) for c in codes))
            return w.let(code, result, weak)
    raise Unsupported(op)


def _named(w: Writer, code: str) -> str:
    """A variable for it, as templates use their arguments several times."""
    if code.isidentifier():
        return code
    name = w.fresh()
    w.line(f"{name} = {code}")
    return name


Template = Callable[..., tuple[str, str]]


def _only(kinds: str, text: str, result: str = "") -> Template:
    def template(w: Writer, kind: str, *args: str) -> tuple[str, str]:
        if kind not in kinds:
            raise Unsupported(text)
        cast_to = "" if result == "b" else CONSTRUCTOR.get(kind, "")
        return f"{cast_to}({text.format(*args, T=CONSTRUCTOR.get(kind))})", result or kind

    return template


def _closed(kinds: str, text: str) -> Template:
    """Operations whose result has the type of the arguments, so that nothing is to be converted."""

    def template(w: Writer, kind: str, *args: str) -> tuple[str, str]:
        if kind not in kinds:
            raise Unsupported(text)
        return text.format(*args, T=CONSTRUCTOR[kind]), kind

    return template


def _double(function: str) -> Template:
    """Evaluated in f64, as the reference does."""
    return _only("fd", f"{function}(float64({{0}}))")


def _per_kind(**templates: Template) -> Template:
    """One template for integers, floats and complex numbers each."""

    def template(w: Writer, kind: str, *args: str) -> tuple[str, str]:
        group = {"b": "bools", "i": "integers", "f": "floats", "d": "floats"}.get(kind, "complexes")
        if group not in templates:
            raise Unsupported(group)
        return templates[group](w, kind, *args)

    return template


def _power(w: Writer, kind: str, x: str, y: str) -> tuple[str, str]:
    base, exponent, result = w.fresh(), w.fresh(), w.fresh()
    w.line(f"{base} = {x}")
    w.line(f"{exponent} = {y}")
    w.line(f"{result} = int64(1)")
    with w.block(f"if {exponent} < 0:"):
        odd = f"int64(1 - 2 * ({exponent} & 1))"
        w.line(f"{result} = int64(1) if {base} == 1 else ({odd} if {base} == -1 else int64(0))")
    with w.block(f"while {exponent} > 0:"):
        with w.block(f"if {exponent} & 1:"):
            w.line(f"{result} = {result} * {base}")
        w.line(f"{base} = {base} * {base}")
        w.line(f"{exponent} = {exponent} >> 1")
    return result, "i"


def _float_division(w: Writer, kind: str, x: str, y: str) -> tuple[str, str]:
    """The quotient of npy_divmod: floored, with the sign of zero of the exact quotient."""
    rest = _float_remainder_raw(w, kind, x, y)
    quotient = w.let(f"({x} - {rest}) / {y}", kind).code
    with w.block(f"if {rest} != 0 and ({y} < 0) != ({rest} < 0):"):
        w.line(f"{quotient} = {quotient} - {CONSTRUCTOR[kind]}(1)")
    whole = w.let(f"floor({quotient})", kind).code
    with w.block(f"if {quotient} - {whole} > 0.5:"):
        w.line(f"{whole} = {whole} + {CONSTRUCTOR[kind]}(1)")
    zero = f"copysign({CONSTRUCTOR[kind]}(0), {x} / {y})"
    return f"({x} / {y}) if {y} == 0 else ({whole} if {quotient} != 0 else {zero})", kind


def _float_remainder_raw(w: Writer, kind: str, x: str, y: str) -> str:
    return w.let(f"{CONSTRUCTOR[kind]}(fmod({x}, {y}))", kind).code


def _float_remainder(w: Writer, kind: str, x: str, y: str) -> tuple[str, str]:
    rest = _float_remainder_raw(w, kind, x, y)
    shifted = f"({rest} + {y}) if ({y} < 0) != ({rest} < 0) else {rest}"
    return f"({shifted}) if {rest} != 0 else ({rest} if {y} == 0 else copysign({rest}, {y}))", kind


def _logaddexp(w: Writer, kind: str, x: str, y: str) -> tuple[str, str]:
    gap = w.let(f"{x} - {y}", kind).code
    upper = f"{x} + log1p(exp(-{gap}))"
    lower = f"{y} + log1p(exp({gap}))"
    equal = f"{x} + {CONSTRUCTOR[kind]}(0.6931471805599453)"
    return f"({equal}) if {x} == {y} else (({upper}) if {gap} > 0 else ({lower} if {gap} <= 0 else {gap}))", kind


def _integer_remainder(w: Writer, kind: str, x: str, y: str) -> tuple[str, str]:
    """Truncated, as C has it; 0 for a zero divisor; the smallest integer over -1 must not trap."""
    safe = w.let(f"int64(1) if ({y} == 0 or {y} == -1) else {y}", "i").code
    rest = w.let(f"{x} % {safe}", "i").code
    return f"({rest} - {safe}) if ({rest} != 0 and ({x} < 0) != ({safe} < 0)) else {rest}", "i"


def _floor_remainder(w: Writer, kind: str, x: str, y: str) -> tuple[str, str]:
    safe = w.let(f"int64(1) if ({y} == 0 or {y} == -1) else {y}", "i").code
    return f"{x} % {safe}", "i"


def _floor_division(w: Writer, kind: str, x: str, y: str) -> tuple[str, str]:
    safe = w.let(f"int64(1) if ({y} == 0 or {y} == -1) else {y}", "i").code
    return f"int64(0) if {y} == 0 else (-{x} if {y} == -1 else {x} // {safe})", "i"


def _same(text: str) -> Template:
    """A rounding function leaves integers as they are."""
    return _per_kind(integers=_only("i", "{0}"), floats=_only("fd", text))


def _comparison(sign: str) -> Template:
    return _only("bifd", f"{{0}} {sign} {{1}}", "b")


def _bitwise(sign: str) -> Template:
    return _only("bi", f"{{0}} {sign} {{1}}")


_ARITHMETIC: dict[str, Template] = {
    "neg": _closed("ifdFD", "-{0}"),
    "abs": _per_kind(integers=_only("i", "-{0} if {0} < 0 else {0}"), floats=_only("fd", "abs({0})")),
    "sign": _per_kind(
        integers=_only("i", "({0} > 0) - ({0} < 0)"), floats=_only("fd", "{0} if {0} != {0} else ({0} > 0) - ({0} < 0)")
    ),
    "floor": _same("floor({0})"), "ceil": _same("ceil({0})"), "round": _same("rint({0})"), "trunc": _same("trunc({0})"),
    "add": _closed("ifdFD", "{0} + {1}"), "sub": _closed("ifdFD", "{0} - {1}"), "mul": _closed("ifdFD", "{0} * {1}"),
    "floordiv": _per_kind(integers=_floor_division, floats=_float_division),
    "mod": _per_kind(integers=_floor_remainder, floats=_float_remainder),
    "fmod": _per_kind(integers=_integer_remainder, floats=_only("fd", "fmod({0}, {1})")),
    "pow": _per_kind(integers=_power, floats=_only("fd", "pow({0}, {1})")),
    "maximum": _closed("ifd", "{0} if ({0} >= {1} or {0} != {0}) else {1}"),
    "minimum": _closed("ifd", "{0} if ({0} <= {1} or {0} != {0}) else {1}"),
    "shl": _only("i", "({0} << {1}) if 0 <= {1} < 64 else 0"),
    "shr": _only("i", "{0} >> ({1} if 0 <= {1} < 64 else 63)"),
    "conj": _per_kind(
        integers=_only("i", "{0}"), floats=_only("fd", "{0}"), complexes=_only("FD", "complex({0}.real, -{0}.imag)")
    ),
}  # fmt: skip


def _complex_part(part: str, of_real: str) -> Template:
    def template(w: Writer, kind: str, x: str) -> tuple[str, str]:
        if kind in "FD":
            return f"{x}.{part}", "f" if kind == "F" else "d"
        return of_real.format(CONSTRUCTOR[kind], x), kind

    return template


_FLOATING: dict[str, Template] = {
    **{f: _closed("fd", f"{f}({{0}})") for f in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin",
        "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh")},
    "rsqrt": _closed("fd", "{T}(1) / sqrt({0})"), "reciprocal": _closed("fd", "{T}(1) / {0}"),
    "erf": _double("erf"), "erfc": _double("erfc"), "lgamma": _double("lgamma"),
    "sigmoid": _closed("fd", "{T}(1) / ({T}(1) + exp(-{0}))"),
    "isnan": _only("fd", "{0} != {0}", "b"), "isinf": _only("fd", "abs({0}) == inf", "b"),
    "isfinite": _only("fd", "{0} - {0} == 0", "b"),
    "div": _closed("fd", "{0} / {1}"), "atan2": _only("fd", "atan2({0}, {1})"),
    "copysign": _only("fd", "copysign({0}, {1})"), "hypot": _only("fd", "hypot({0}, {1})"),
    "xlogy": _only("fd", "{T}(0) if ({0} == 0 and {1} == {1}) else {0} * log({1})"), "logaddexp": _logaddexp,
    "real": _complex_part("real", "{1}"), "imag": _complex_part("imag", "{0}(0)"),
}  # fmt: skip

_TRUTH = {"and": "({0} != 0) & ({1} != 0)", "or": "({0} != 0) | ({1} != 0)", "xor": "({0} != 0) ^ ({1} != 0)"}
_AS_THEY_ARE: dict[str, Template] = {
    "eq": _only("bifdFD", "{0} == {1}", "b"), "ne": _only("bifdFD", "{0} != {1}", "b"),
    "lt": _comparison("<"), "le": _comparison("<="), "gt": _comparison(">"), "ge": _comparison(">="),
    **{op: _only("bifd", text, "b") for op, text in _TRUTH.items()},
    "not": _only("bifdFD", "{0} == 0", "b"),
    "bitnot": _per_kind(bools=_only("b", "not {0}"), integers=_only("i", "~{0}")),
    "bitand": _bitwise("&"), "bitor": _bitwise("|"), "bitxor": _bitwise("^"),
}  # fmt: skip
