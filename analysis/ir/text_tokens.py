"""Tokens and logical lines of the IR's text form, and the problems found in it.

A logical line is a line with its continuations: lines indented deeper than its first one that are inside brackets, come
after an operator or a fold, or start with an operator, `if` or `@`. Limits keep hostile text cheap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a text may ask of the parser."""

    characters: int = 4_000_000
    tokens: int = 1_000_000
    symbols: int = 1000
    rank: int = 64
    # Nested brackets and operators of one body, and of one index expression.
    depth: int = 100
    # Height of a body's tree (a chain of additions is as high as it is long).
    height: int = 200
    block_depth: int = 20
    index_tokens: int = 500
    integer: int = 2**64
    string: int = 4096
    identifier: int = 200
    problems: int = 20


# For our own programs, and for text that a model wrote.
LIMITS = Limits()
UNTRUSTED_LIMITS = Limits(characters=200_000, tokens=60_000, depth=40, height=100, block_depth=8, problems=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextProblem:
    """What is wrong with a text, and where.

    Lines and columns are 1-based; `excerpt` is the line with a caret under the place.
    """

    code: str
    line: int
    column: int
    expected: str
    found: str
    excerpt: str = ""

    @property
    def message(self) -> str:
        """One sentence with the excerpt below it."""
        return f"{self.line}:{self.column}: expected {self.expected}, found {self.found}\n{self.excerpt}".rstrip()


class Token(NamedTuple):
    """`kind` is name, number, string, symbol, bad or end; `offset` is the position in the text."""

    kind: str
    text: str
    offset: int


@dataclass(slots=True)
class Line:
    """A logical line: its indentation and tokens; the last token has kind "end"."""

    indent: int
    tokens: list[Token] = field(default_factory=list[Token])


class Failure(Exception):
    """Raised inside the parser at the first problem of a line; never leaves it."""

    def __init__(self, code: str, token: Token, expected: str, found: str | None = None) -> None:
        super().__init__(expected)
        self.code = code
        self.token = token
        self.expected = expected
        self.found = found if found is not None else describe(token)


def describe(token: Token) -> str:
    """How a message names a token."""
    if token.kind == "end":
        return "the end of the line"
    text = token.text if len(token.text) <= 40 else token.text[:37] + "..."
    return f"'{text}'" if token.kind != "bad" else f"{text!r}"


_TOKEN = re.compile(
    r"""(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<string>"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*")
    |(?P<symbol>//|<=|>=|==|!=|[-+*/%<>=()\[\],:;@.])
    |(?P<newline>\n)
    |(?P<space>[ \t\r]+|\#[^\n]*)
    |(?P<bad>.)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
# A guard or source on a line of its own, or an operator that the line before ended at: none of them starts a node.
_CLAUSE = re.compile(r"[ \t]*(?=@|[-+*/%<>]|(?:if|and|or)\b(?!\s*[\[:=,]))")
_NEEDS_MORE = frozenset(("+", "-", "*", "/", "//", "%", "=", ",", "<", "<=", ">", ">=", "==", "!=", "and", "or", "not"))
_FOLDS = frozenset(("sum", "prod", "max", "min", "argmax", "argmin", "any", "all", "logsumexp"))
_INDENT = re.compile(r"[ \t\r]*(?:(?P<empty>\n|\#|\Z))?")


def lines(text: str, limit: int = LIMITS.tokens) -> Iterator[Line]:
    """The logical lines of a text that hold tokens. Raises Failure beyond `limit` tokens."""
    line: Line | None = None
    depth = count = 0
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "bad"
        if kind == "space":
            continue
        offset = match.start()
        if kind == "newline":
            if line is not None and not _continues(
                text, offset + 1, line.indent, depth > 0 or (depth == 0 and _is_unfinished(line.tokens))
            ):
                line.tokens.append(Token("end", "", offset))
                yield line
                line, depth = None, 0
            continue
        token = match.group()
        if line is None:
            start = text.rfind("\n", 0, offset) + 1
            line = Line(len(text[start:offset].expandtabs(8)))
        line.tokens.append(Token(kind, token, offset))
        count += 1
        if count > limit:
            raise Failure("limit", line.tokens[-1], f"at most {limit} tokens")
        if kind == "symbol":
            if token in "([":
                depth += 1
            elif token in ")]":
                depth -= 1
    if line is not None:
        line.tokens.append(Token("end", "", len(text)))
        yield line


def _continues(text: str, offset: int, indent: int, needs_more: bool) -> bool:
    """Whether the line at `offset` belongs to the one before.

    After an unfinished line it is indented deeper or blank, else it starts with a clause or an operator.
    """
    match = (_INDENT if needs_more else _CLAUSE).match(text, offset)
    if match is None:
        return needs_more
    return (needs_more and match.group("empty") is not None) or len(match.group().expandtabs(8)) > indent


def _is_unfinished(tokens: list[Token]) -> bool:
    """Whether a line ends where a value must follow: at an operator, or at the dims of `= sum[k:K]`."""
    if tokens[-1].text != "]":
        return tokens[-1].kind in ("symbol", "name") and tokens[-1].text in _NEEDS_MORE
    depth, at = 0, len(tokens) - 1
    while at > 0:
        depth += {"]": 1, "[": -1}.get(tokens[at].text, 0)
        if depth == 0:
            break
        at -= 1
    return at > 1 and tokens[at - 1].text in _FOLDS and tokens[at - 2].text in ("=", "scan", "reverse")


def locate(text: str, failure: Failure) -> TextProblem:
    """The problem with its line, column and excerpt."""
    offset = min(failure.token.offset, len(text))
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    end = len(text) if end < 0 else end
    column = offset - start
    first = max(0, column - 80)
    shown = text[start + first : min(end, start + first + 160)].expandtabs(1)
    printable = "".join(c if c.isprintable() else "?" for c in shown)
    return TextProblem(
        code=failure.code,
        line=text.count("\n", 0, offset) + 1,
        column=column + 1,
        expected=failure.expected,
        found=failure.found,
        excerpt=f"{printable}\n{' ' * (column - first)}^",
    )
