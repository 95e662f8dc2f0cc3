"""Text of a source file as Python reads it: encoding declaration, byte-order mark, line ends; and places in it.

Lines are 1-based; columns are 0-based UTF-8 bytes. Only "\\n", "\\r\\n" and "\\r" end a line (a form feed or U+2028
does not), so that numbers agree with `ast`.
"""

from __future__ import annotations

import io
import tokenize

from sollens.analysis.report import Problem


class UnreadableSource(Exception):
    """The bytes or the text are no Python; carries the problem to show."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def decode(data: bytes) -> str:
    """The text in a file's bytes, by its byte-order mark or PEP 263 declaration; raises UnreadableSource."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    except SyntaxError as error:
        problem = Problem(code="syntax-error", line=1, severity="error", message=f"{error}: fix the coding line")
        raise UnreadableSource(problem) from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = data[error.start : error.start + 1].hex()
        message = (
            f"expected {error.encoding} text, found the byte 0x{found}: "
            "save the file as UTF-8 or declare its encoding (PEP 263)"
        )
        raise UnreadableSource(Problem(code="syntax-error", line=line, severity="error", message=message)) from None


def normalise(text: str) -> str:
    """The text without byte-order mark and with "\\n" line ends only; line numbers stay as they are."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def byte_column(line: str, column: int) -> int:
    """The UTF-8 byte column of a character column."""
    return len(line[:column].encode("utf-8", "surrogatepass"))


def caret(line: str, column: int, width: int = 1) -> str:
    """The line and, under it, carets below the characters meant.

    >>> print(caret("# sol: x=f99[8]", 9, 3))
    # sol: x=f99[8]
             ^^^
    """
    pad = "".join("\t" if c == "\t" else " " for c in line[:column])
    return f"{line}\n{pad}{'^' * max(1, width)}"


def summarise(line: str, width: int = 48) -> str:
    """A source line for a table's cell: without indentation and comment-free white space, cut to `width` characters."""
    short = " ".join(line.split())
    return short if len(short) <= width else short[: width - 1] + "…"
