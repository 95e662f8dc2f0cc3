"""Source text under construction: lines, indentation, fresh variables. All names are our own."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

# The kinds of a scalar: bool, i64, f32, f64, c64, c128.
CONSTRUCTOR = {"i": "int64", "f": "float32", "d": "float64", "F": "complex64", "D": "complex128"}


class Unsupported(Exception):
    """The code generator has no code for this; the reference interpreter has."""


@dataclass(frozen=True, slots=True)
class Value:
    """A scalar in a variable. `weak`: it came from literals only, and takes the width of what it meets."""

    code: str
    kind: str
    weak: bool = False


@dataclass(slots=True)
class Writer:
    """Collects the lines of a function body."""

    lines: list[str] = field(default_factory=list[str])
    depth: int = 1
    count: int = 0

    def line(self, text: str) -> None:
        """Add a line at the current depth."""
        self.lines.append("    " * self.depth + text)

    def fresh(self) -> str:
        """A variable name that was not used before."""
        self.count += 1
        return f"v{self.count}"

    def let(self, code: str, kind: str, weak: bool = False) -> Value:
        """A new variable with this value."""
        name = self.fresh()
        self.line(f"{name} = {code}")
        return Value(name, kind, weak)

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """An indented block; `else:` and the like follow as further blocks."""
        self.line(head)
        self.depth += 1
        if self.depth > 60:
            raise Unsupported("blocks too deep")
        try:
            yield
        finally:
            self.depth -= 1
