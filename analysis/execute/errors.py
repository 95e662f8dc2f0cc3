"""Why a program could not be executed."""

from __future__ import annotations


class NotExecutable(Exception):
    """The program holds an operator without executable semantics, or a size that depends on other data."""


class TooLarge(Exception):
    """The program asks for more points than the limit."""


class OutOfBounds(Exception):
    """A statement or call reads outside a tensor at a point that is live."""


class MissingInput(Exception):
    """A declaration has neither an input nor a known value, or the input has another shape."""
