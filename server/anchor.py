"""Keeps results with their statements while the text is edited.

A result belongs to a line of the text that was analysed. Each edit moves the lines behind it; a result whose
statement was edited is hidden, and comes back when its text does (undo, or typing the same again). Nothing here knows
an editor.
"""

import ast
from collections.abc import Sequence

from sollens.server.document import Document, Region
from sollens.server.positions import content

_GONE = -1
# Parsing holds the interpreter's lock; a longer file has its results anchored by single lines.
_LONGEST_PARSED_TEXT = 150_000


class Anchor:
    """Where the lines of the text that `document` holds now will be after later edits. Lines are 0-based.

    `statements` gives for a line the first and the last line of its statement, where that is more than one line.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._original = [content(line) for line in document.lines]
        self._now = list(range(len(self._original)))
        self._statements: dict[int, tuple[int, int]] = {}
        self._edited = False
        document.watchers.append(self._shift)

    @property
    def original_count(self) -> int:
        """How many lines the analysed text has."""
        return len(self._original)

    def close(self) -> None:
        """Stop following the document."""
        if self._shift in self._document.watchers:
            self._document.watchers.remove(self._shift)

    def set_statements(self, statements: dict[int, tuple[int, int]]) -> None:
        self._statements = statements

    def line_now(self, line: int) -> int | None:
        """Where the statement that began in `line` is, or None when it was edited or deleted."""
        if not 0 <= line < len(self._original):
            return None
        if not self._edited:
            return line
        first, last = self._statements.get(line, (line, line))
        start = self._now[first] - first
        for each in range(first, last + 1):
            now = self._now[each]
            if now == _GONE or now - each != start or self._document.line(now) != self._original[each]:
                return None
        return self._now[line]

    def original_line(self, now: int) -> int | None:
        """The line of the analysed text that is unedited at line `now` of the document, or None."""
        if not self._edited:
            return now if 0 <= now < len(self._original) else None
        for line, where in enumerate(self._now):
            if where == now:
                return line if self.line_now(line) is not None else None
        return None

    def _shift(self, region: Region) -> None:
        self._edited = True
        if self._is_as_analysed():
            self._now = list(range(len(self._original)))
            self._edited = False
            return
        end = region.first + len(region.old)
        delta = len(region.new) - len(region.old)
        moved = _match(region)
        for line, now in enumerate(self._now):
            if now >= end:
                self._now[line] = now + delta
            elif now >= region.first:
                offset = moved[now - region.first]
                self._now[line] = _GONE if offset == _GONE else region.first + offset

    def _is_as_analysed(self) -> bool:
        lines = self._document.lines
        return len(lines) == len(self._original) and all(
            content(line) == original for line, original in zip(lines, self._original, strict=True)
        )


def _match(region: Region) -> list[int]:
    """For each old line of a region its index among the new ones, or _GONE.

    Equal lines are matched from both ends. What is left between is the edit itself: line for line where the count
    stayed, gone where it did not.
    """
    old, new = region.old, region.new
    most = min(len(old), len(new))
    if region.at_line_start:
        tail = _common(old[::-1], new[::-1], most)
        head = _common(old, new, most - tail)
    else:
        head = _common(old, new, most)
        tail = _common(old[::-1], new[::-1], most - head)
    delta = len(new) - len(old)
    middle = range(head, len(old) - tail)
    matched = list(range(len(old)))
    for index in middle:
        matched[index] = index if delta == 0 else _GONE
    for index in range(len(old) - tail, len(old)):
        matched[index] = index + delta
    return matched


def _common(left: Sequence[str], right: Sequence[str], most: int) -> int:
    count = 0
    while count < most and left[count] == right[count]:
        count += 1
    return count


def statements_of(text: str) -> dict[int, tuple[int, int]]:
    """For each 0-based line in a statement (or a header of one) of several lines, its first and last line.

    Empty when the text does not parse here: the user's Python may be newer than the server's.
    """
    if len(text) > _LONGEST_PARSED_TEXT:
        return {}
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    spans: dict[int, tuple[int, int]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        body = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
        if body:
            last = max(first, min(_first_line(child) for child in body) - 2)
        for line in range(first, last + 1):
            spans[line] = (first, last)
    return {line: span for line, span in spans.items() if span[0] != span[1]}


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])
