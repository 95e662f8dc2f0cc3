"""The lowering rules: one table from operator to rule.

A rule takes the builder and the decoded call and returns the result's Value (or a tuple of them,
one per output; None for an output that
the trace does not have). One file per operator family under `analysis/lower/`; `load_rules` imports them.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

from sollens.analysis.lower.builder import Builder, OpCall, Value

Results: TypeAlias = "Value | tuple[Value | None, ...] | list[Value]"
Rule: TypeAlias = Callable[[Builder, OpCall], Results]

_RULES: dict[str, Rule] = {}
_FAMILIES = (
    "elementwise", "activations", "arithmetic", "views", "movement", "padding", "creation", "reductions", "scans",
    "contractions", "distances", "convolution", "pooling", "normalization", "softmax", "attention", "losses", "cells",
    "recurrent", "indexing", "scatter", "sorting", "resampling", "library", "patches", "sampling", "backward",
    "backward_rows", "backward_views", "backward_windows",
    "jax_elementwise", "jax_movement", "jax_contractions", "jax_windows", "jax_reductions", "jax_indexing",
    "jax_scatter", "jax_slicing", "jax_control", "jax_library",
)  # fmt: skip


def rule(*targets: str) -> Callable[[Rule], Rule]:
    """Register a rule for these operators, each "aten.NAME" (every overload) or "aten.NAME.OVERLOAD" or "fn.NAME"."""

    def register(function: Rule) -> Rule:
        for target in targets:
            if target in _RULES:
                raise ValueError(f"two lowering rules for {target}: {_RULES[target].__name__} and {function.__name__}")
            _RULES[target] = function
        return function

    return register


@cache
def load_rules() -> None:
    """Import every family once."""
    for family in _FAMILIES:
        if importlib.util.find_spec(f"sollens.analysis.lower.{family}") is not None:
            importlib.import_module(f"sollens.analysis.lower.{family}")


def find(target: str) -> Rule | None:
    """The rule of an operator: by full name, then without the overload."""
    load_rules()
    return _RULES.get(target) or _RULES.get(target.rpartition(".")[0])


def markdown() -> str:
    """The table of operators that have a rule, by family."""
    families: dict[str, set[str]] = {}
    for target in registered():
        if target.startswith("jax."):  # these have a table of their own: `jax_primitives`
            continue
        families.setdefault(_RULES[target].__module__.rpartition(".")[2], set()).add(target)
    rows = (f"| {family} | {' '.join(f'`{t}`' for t in sorted(found))} |" for family, found in sorted(families.items()))
    return "\n".join(("| family | operators |", "|---|---|", *rows))


def registered() -> tuple[str, ...]:
    """Every operator that has a rule, sorted."""
    load_rules()
    return tuple(sorted(_RULES))


if __name__ == "__main__":
    from sollens.analysis.lower import registry  # rules register in the imported module, not in __main__

    if sys.argv[1:] == ["--markdown"]:
        sys.stdout.write(registry.markdown() + "\n")
    else:
        sys.stdout.write("\n".join(registry.registered()) + "\n")
