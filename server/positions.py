"""Lines and columns in the three ways that meet here: the editor's, Python's `ast` and code points.

A line ends at "\\n", "\\r\\n" or "\\r", as the protocol and Python's own parser have it; not at form feeds or U+2028,
where `str.splitlines` ends one too. Columns are code points inside; editors count UTF-8, UTF-16 or UTF-32 units,
`ast` UTF-8 bytes.
"""

import re
from typing import Literal

Encoding = Literal["utf-8", "utf-16", "utf-32"]

_LINE_END = re.compile(r"\r\n|\r|\n")


def split_lines(text: str) -> list[str]:
    """The lines of `text` with their ends; the last has none, so there is always one line more than line ends.

    >>> split_lines("a\\r\\nb\\x0cc\\n")
    ['a\\r\\n', 'b\\x0cc\\n', '']
    """
    lines: list[str] = []
    start = 0
    for end in _LINE_END.finditer(text):
        lines.append(text[start : end.end()])
        start = end.end()
    lines.append(text[start:])
    return lines


def content(line: str) -> str:
    """A line without its end."""
    return line.rstrip("\r\n")


def line_end(lines: list[str]) -> str:
    """The line end that the text uses: that of its first line, or a newline."""
    return lines[0][len(content(lines[0])) :] or "\n"


def to_client(line: str, column: int, encoding: Encoding) -> int:
    """Code points to the editor's units; a column behind the end counts as the end."""
    before = line[: max(column, 0)]
    if encoding == "utf-32" or before.isascii():
        return len(before)
    return sum(_width(character, encoding) for character in before)


def from_client(line: str, character: int, encoding: Encoding) -> int:
    """The editor's units to code points; a column inside a character goes to its start, one behind the end to the end.

    >>> from_client("a😋b", 3, "utf-16")
    2
    """
    if encoding == "utf-32" or line.isascii():
        return min(max(character, 0), len(line))
    units = 0
    for column, each in enumerate(line):
        units += _width(each, encoding)
        if units > character:
            return column
    return len(line)


def from_utf8(line: str, byte_column: int) -> int:
    """A column of `ast` to code points."""
    return from_client(line, byte_column, "utf-8")


def _width(character: str, encoding: Encoding) -> int:
    point = ord(character)
    if encoding == "utf-16":
        return 2 if point > 0xFFFF else 1
    return 1 if point < 0x80 else 2 if point < 0x800 else 3 if point < 0x10000 else 4
