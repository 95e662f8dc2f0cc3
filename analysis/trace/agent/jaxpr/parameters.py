# pyright: basic
"""An equation's parameters as values of the trace's schema."""

from __future__ import annotations

import enum
import math
from typing import Any

import numpy as np

from .dtypes import short_name

# What a primitive's name needs beside it, and what says nothing about the computation.
_DROPPED = {
    "sharding", "out_sharding", "in_shardings", "out_shardings", "ctx_mesh", "weak_type", "update_jaxpr", "jvp",
    "computation", "update_consts", "precision", "jaxpr", "branches", "cond_jaxpr", "body_jaxpr", "call_jaxpr", "impl",
    "jaxprs", "unroll", "linear", "callback", "effect", "out_type",
}  # fmt: skip


def encoded_parameters(params: dict[str, Any]) -> dict[str, Any]:
    """Every parameter that is data."""
    return {k: encoded(v) for k, v in params.items() if k not in _DROPPED and not callable(v)}


def encoded(value: Any) -> Any:
    """A parameter: numbers, texts, dtypes, enumerations by name, named tuples and dataclasses as mappings."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (np.bool_,)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return number(float(value))
    if isinstance(value, (complex, np.complexfloating)):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return {"dtype": short_name(value)}
    fields = getattr(value, "_fields", None) or getattr(type(value), "__dataclass_fields__", None)
    if fields:
        return {"dict": [[name, encoded(getattr(value, name))] for name in fields]}
    if isinstance(value, (tuple, list)):
        return [encoded(v) for v in value]
    return {"opaque": repr(value)[:80]}


def number(value: float) -> Any:
    """A float, tagged where JSON has none."""
    return value if math.isfinite(value) else {"float": str(value)}


def scalar(value: Any) -> Any:
    """A literal of an equation."""
    item = np.asarray(value).item()
    if isinstance(item, float):
        return number(item)
    return {"complex": [item.real, item.imag]} if isinstance(item, complex) else item


def precision_suffix(params: dict[str, Any]) -> str:
    """ ".highest" for a contraction that asks for it; "" for the back end's default.

    Of two precisions the higher one holds. Presets are named as they are: ".tf32_tf32_f32".
    """
    given = params.get("precision")
    if given is None:
        return ""
    names = [str(getattr(p, "name", p)).lower() for p in (given if isinstance(given, tuple) else (given,)) if p]
    for name in ("highest", "high"):
        if name in names:
            return f".{name}"
    named = [n for n in names if n != "default"]
    return f".{named[0]}" if named else ""
