"""An open document: its text as the editor has it, and the edits that made it so.

pygls keeps documents too, but splits lines at form feeds and U+2028 and so applies edits behind one in the wrong place.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sollens.server.positions import Encoding, content, from_client, split_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A replacement in the editor's units (0-based); without a start, of the whole text."""

    text: str
    start: tuple[int, int] | None = None
    end: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """The lines that an edit replaced: `old` became `new`, from line `first`, contents without line ends.

    `at_line_start`: the edit began in column 0, so a line that is on both sides is one that was pushed down.
    """

    first: int
    old: tuple[str, ...]
    new: tuple[str, ...]
    at_line_start: bool


@dataclass(slots=True, kw_only=True)
class Document:
    """What the editor shows for `uri`; `lines` keep their ends and are changed in place."""

    uri: str
    path: Path | None
    version: int
    encoding: Encoding
    lines: list[str]
    language: str = "python"
    watchers: list[Callable[[Region], None]] = field(default_factory=list[Callable[[Region], None]])

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def line(self, index: int) -> str:
        """A line without its end; empty behind the end of the text."""
        return content(self.lines[index]) if 0 <= index < len(self.lines) else ""

    def apply(self, edit: Edit) -> None:
        """Change the text and tell the watchers which lines were replaced."""
        region = self._replace(edit)
        for watcher in tuple(self.watchers):
            watcher(region)

    def _replace(self, edit: Edit) -> Region:
        lines = self.lines
        start_line, start_column = self._position(edit.start or (0, 0))
        end_line, end_column = self._position(edit.end or (len(lines), 0))
        if edit.start is None:
            start_line, start_column, end_line, end_column = 0, 0, len(lines) - 1, len(lines[-1])
        if (end_line, end_column) < (start_line, start_column):
            end_line, end_column = start_line, start_column
        text = lines[start_line][:start_column] + edit.text + lines[end_line][end_column:]
        # "\r" and "\n" that come together are one line end: take in the neighbour that holds the other half.
        first, last = start_line, end_line
        if first > 0 and lines[first - 1].endswith("\r"):
            first -= 1
            text = lines[first] + text
        if last + 1 < len(lines) and text.endswith("\r"):
            last += 1
            text += lines[last]
        new = split_lines(text)
        if last + 1 < len(lines) and new[-1] == "":
            new.pop()
        old = lines[first : last + 1]
        lines[first : last + 1] = new
        return Region(
            first=first,
            old=tuple(map(content, old)),
            new=tuple(map(content, new)),
            at_line_start=start_column == 0,
        )

    def _position(self, position: tuple[int, int]) -> tuple[int, int]:
        line, character = position
        if line >= len(self.lines):
            return len(self.lines) - 1, len(self.lines[-1])
        return line, from_client(content(self.lines[line]), character, self.encoding)
