"""Constant folding of the brute force: what follows from known numbers (bounds.md section 1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

# Adding a number below this to a score removes it.
MASKED = -9.0e3

# identity, fold
FOLDS: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "sum": (0, lambda a, b: a + b),
    "prod": (1, lambda a, b: a * b),
    "max": (-math.inf, max),
    "min": (math.inf, min),
    "any": (False, lambda a, b: bool(a) or bool(b)),
    "all": (True, lambda a, b: bool(a) and bool(b)),
    "logsumexp": (-math.inf, lambda a, b: math.nan),
    "argmax": (-math.inf, lambda a, b: math.nan),
    "argmin": (math.inf, lambda a, b: math.nan),
}

NEUTRAL: dict[str, Callable[[Any], bool]] = {
    "sum": lambda v: v == 0,
    "prod": lambda v: v == 1,
    "max": lambda v: v <= MASKED,
    "min": lambda v: v == math.inf,
    "any": lambda v: v == 0,
    "all": lambda v: v == 1,
}

_SCALARS: dict[str, Callable[..., Any]] = {
    "neg": lambda a: -a,
    "abs": abs,
    "exp": math.exp,
    "sqrt": math.sqrt,
    "not": lambda a: not a,
    "reciprocal": lambda a: 1.0 / a,
    "sigmoid": lambda a: 0.0 if a < -700 else 1 / (1 + math.exp(-a)),
    "tanh": math.tanh,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "maximum": max,
    "minimum": min,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "and": lambda a, b: bool(a) and bool(b),
    "or": lambda a, b: bool(a) or bool(b),
}


def fold_constants(op: str, numbers: Sequence[Any], dtype: str = "") -> Any:
    """The number, or nan where nobody needs it; nothing but a nan follows from one."""
    if any(isinstance(n, float) and math.isnan(n) for n in numbers):
        return math.nan
    try:
        if op in FOLDS and op not in _SCALARS:
            result, fold = FOLDS[op]
            for number in numbers:
                result = fold(result, number)
            return result
        if op == "cast":
            if dtype == "bool":
                return bool(numbers[0])
            return int(numbers[0]) if dtype[0] in "iu" else float(numbers[0])
        if op in _SCALARS:
            return _SCALARS[op](*numbers)
    except (ValueError, OverflowError, ZeroDivisionError, TypeError):
        pass
    return math.nan


def absorbed(op: str, position: int, number: Any) -> Any:
    """The result when one argument has this value, whatever the other (finite) one is."""
    match op:
        case "mul" | "and" if number == 0:
            return number
        case "or" if number:
            return True
        case "div" if position == 0 and number == 0:
            return number
        case "add" if number <= MASKED:
            return -math.inf
        case "sub" if position == 0 and number <= MASKED:
            return -math.inf
        case "minimum" if number == -math.inf:
            return number
    return None


def is_identity(op: str, position: int, number: Any) -> bool:
    """Whether the argument leaves the other one as it is."""
    match op:
        case "add":
            return number == 0
        case "sub":
            return position == 1 and number == 0
        case "mul":
            return number == 1
        case "div":
            return position == 1 and number == 1
        case "maximum":
            return number == -math.inf
    return False
