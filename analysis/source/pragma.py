"""The pragma language: `# sol: x=f32[B=8, 512, dim], k=3, init(dim, heads=12), target=2ms, hw=h100-sxm, mode=train`.

    items    = item {"," item}
    item     = "init" "(" [argument {"," argument}] ")" | name "=" value
    argument = value | name "=" value
    value    = dtype "[" [extent {"," extent}] "]" | number | string | True | False | None | sum
             | "[" values "]" | "(" values ")" | "{" string ":" value {"," string ":" value} "}"
    extent   = [name "="] sum            sum = integers and known names with + - * // % and parentheses

`target`, `hw`, `mode`, `golden` and `llm` are options where their value reads as a duration, a chip, a mode, a file or
a truth value, else arguments of that name. A top-level `name=integer` binds the name for extents too; so does `B=8`
inside a shape. Errors carry the column, what was expected and what was found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from sollens.analysis.source.model import DictSpec, ListSpec, Mode, Shapes, Spec, TensorSpec, TupleSpec
from sollens.analysis.trace.schema import DTYPE_BITS
from sollens.hardware.units import UnitError, parse_seconds

_LONG_DTYPES = {
    "float": "f32", "float16": "f16", "half": "f16", "bfloat16": "bf16", "float32": "f32", "double": "f64",
    "float64": "f64", "int": "i64", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "long": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "complex64": "c64",
    "complex128": "c128", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
}  # fmt: skip
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<duration>\d+(?:\.\d+)?\s*(?:ns|us|µs|μs|ms|s|min)\b)
      | (?P<float>\d[\d_]*(?:\.\d*(?:[eE][+-]?\d+)?|[eE][+-]?\d+)|\.\d+(?:[eE][+-]?\d+)?)
      | (?P<int>\d[\d_]*)
      | (?P<string>"[^"\\]*"|'[^'\\]*')
      | (?P<name>[^\W\d]\w*)
      | (?P<punctuation>//|[\[\](){},:=+\-*%?./])
    )""",
    re.VERBOSE,
)
_MODES: Mapping[str, Mode] = {"train": "train", "inference": "inference", "eval": "inference"}
_MAX_EXTENT = 2**48


class PragmaError(Exception):
    """A pragma that cannot be read; columns are characters of the text given to `parse`."""

    def __init__(self, column: int, width: int, expected: str, found: str) -> None:
        super().__init__(f"expected {expected}, found {found}")
        self.column = column
        self.width = max(1, width)
        self.expected = expected
        self.found = found


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    column: int


def parse(text: str, known: Mapping[str, int], *, start: int = 0) -> Shapes:
    """Read the items of a pragma from `start`; `known` are the integers of the module. Raises PragmaError.

    >>> parse("x=f32[B=8, dim], k=3", {"dim": 64}).inputs
    (('x', TensorSpec(dtype='f32', shape=(8, 64))), ('k', 3))
    """
    return _Parser(_tokens(text, start), dict(known)).shapes()


def integer(text: str, known: Mapping[str, int]) -> int:
    """The value of an extent such as `2*B + 1`; raises PragmaError."""
    parser = _Parser(_tokens(text, 0), dict(known))
    value = parser.sum("an extent")
    if parser.token.kind != "end":
        parser.fail("the end of the extent")
    return value


def _tokens(text: str, start: int) -> list[_Token]:
    tokens: list[_Token] = []
    position, end = start, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            column = position + len(text[position:]) - len(text[position:].lstrip())
            raise PragmaError(column, 1, "a name, a number, a shape or one of [ ] ( ) , =", repr(text[column]))
        tokens.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
        position = match.end()
    tokens.append(_Token("end", "", end))
    return tokens


@dataclass(slots=True)
class _Parser:
    tokens: list[_Token]
    names: dict[str, int]
    at: int = 0
    bound: dict[str, int] = field(default_factory=dict[str, int])
    inputs: dict[str, Spec] = field(default_factory=dict[str, Spec])
    init_args: list[Spec] = field(default_factory=list[Spec])
    init_kwargs: dict[str, Spec] = field(default_factory=dict[str, Spec])
    mode: Mode = "inference"
    target_s: float | None = None
    hardware: str | None = None
    golden: str = ""
    llm: bool = False
    dims: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    # --- tokens ---

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def peek(self, offset: int = 1) -> _Token:
        return self.tokens[min(self.at + offset, len(self.tokens) - 1)]

    def take(self) -> _Token:
        token = self.token
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def has(self, text: str) -> bool:
        if self.token.kind == "punctuation" and self.token.text == text:
            self.take()
            return True
        return False

    def need(self, text: str, where: str) -> None:
        if not self.has(text):
            self.fail(f"{text!r} {where}")

    def fail(self, expected: str, token: _Token | None = None) -> NoReturn:
        raise self.error(expected, token)

    def error(self, expected: str, token: _Token | None = None) -> PragmaError:
        token = token or self.token
        if token.text == "?":
            return PragmaError(token.column, 1, f"{expected} in place of the question mark", "'?'")
        found = repr(token.text) if token.text else "the end of the pragma"
        return PragmaError(token.column, len(token.text), expected, found)

    # --- items ---

    def shapes(self) -> Shapes:
        if self.token.kind == "end":
            self.fail("an argument such as x=f32[8, 512]")
        while True:
            self.item()
            if self.token.kind == "end":
                break
            self.need(",", "between two items")
            if self.token.kind == "end":
                break
        return Shapes(
            inputs=tuple(self.inputs.items()),
            init_args=tuple(self.init_args),
            init_kwargs=tuple(self.init_kwargs.items()),
            mode=self.mode,
            target_s=self.target_s,
            hardware=self.hardware,
            names=tuple(self.bound.items()),
            golden=self.golden,
            llm=self.llm,
            dims=tuple(self.dims.items()),
        )

    def item(self) -> None:
        if self.token.kind != "name":
            self.fail("an argument name, init(...), target=, hw= or mode=")
        name = self.take()
        if name.text == "init" and self.has("("):
            self.init()
            return
        self.need("=", f"after {name.text!r}")
        if self.option(name):
            return
        if name.text in self.inputs:
            self.fail("every argument once", name)
        start = self.at
        value = self.value(f"the value of {name.text!r}")
        self.inputs[name.text] = value
        if isinstance(value, TensorSpec):
            self.dims[name.text] = _dims(self.tokens[start + 2 : self.at - 1])
        if isinstance(value, int) and not isinstance(value, bool):
            self.bind(name, value)

    def option(self, name: _Token) -> bool:
        token = self.token
        if name.text == "target" and token.kind in ("duration", "int", "float"):
            if token.kind != "duration":
                self.fail("a duration such as 2ms, 41.2us or 1.5s")
            try:
                self.target_s = parse_seconds(self.take().text.replace("μ", "µ"))
            except UnitError as error:
                self.fail(error.expected, token)
            if self.target_s == 0:
                self.fail("a duration above zero", token)
            return True
        if name.text == "hw" and (token.kind == "string" or (token.kind == "name" and self.peek().text != "[")):
            self.hardware = self.bare()
            return True
        if name.text == "golden" and (token.kind == "string" or (token.text and self.peek().text != "[")):
            self.golden = self.bare()
            return True
        if name.text == "llm" and token.text in ("true", "True", "false", "False"):
            self.llm = self.take().text in ("true", "True")
            return True
        if name.text == "mode" and token.text in _MODES:
            self.mode = _MODES[self.take().text]
            return True
        return False

    def bare(self) -> str:
        """A quoted text, or a bare word with digits, dashes, dots and slashes in it."""
        first = last = self.take()
        text = first.text.strip("\"'")
        while self.token.column == last.column + len(last.text) and self.token.text not in (",", ""):
            last = self.take()
            text += last.text
        return text

    def init(self) -> None:
        while not self.has(")"):
            if self.token.kind == "name" and self.peek().text == "=":
                name = self.take()
                self.take()
                if name.text in self.init_kwargs:
                    self.fail("every constructor argument once", name)
                self.init_kwargs[name.text] = self.value(f"the value of {name.text!r}")
            elif self.init_kwargs:
                self.fail("a constructor argument with its name (positional ones come first)")
            else:
                self.init_args.append(self.value("a constructor argument"))
            if not self.has(","):
                self.need(")", "to close init(")
                return

    def bind(self, name: _Token, value: int) -> None:
        if self.bound.get(name.text, value) != value:
            self.fail(f"{name.text} = {self.bound[name.text]}, as bound before", name)
        self.bound[name.text] = self.names[name.text] = value

    # --- values ---

    def value(self, what: str) -> Spec:
        token = self.token
        if token.kind == "name":
            if self.peek().text == "[" and self.peek().kind == "punctuation":
                return self.tensor()
            if token.text in ("True", "False", "None"):
                return {"True": True, "False": False, "None": None}[self.take().text]
        if token.kind == "string":
            return self.take().text[1:-1]
        if token.kind == "float" or (token.text == "-" and self.peek().kind == "float"):
            sign = -1.0 if self.has("-") else 1.0
            return sign * float(self.take().text.replace("_", ""))
        if self.has("["):
            return ListSpec(self.values("]"))
        if token.text == "(" and token.kind == "punctuation":
            return self.tuple_or_sum()
        if self.has("{"):
            return self.dictionary()
        if token.kind in ("int", "name") or token.text == "-":
            return self.sum(what)
        raise self.error(f"{what}: a shape such as f32[8, 512], a number, a string, True, False or None")

    def tuple_or_sum(self) -> Spec:
        start = self.at
        self.take()
        items = self.values(")")
        comma = self.tokens[self.at - 2].text == ","
        if len(items) == 1 and not comma:
            self.at = start
            return self.sum("a number")
        return TupleSpec(items)

    def values(self, close: str) -> tuple[Spec, ...]:
        items: list[Spec] = []
        while not self.has(close):
            items.append(self.value("an item"))
            if not self.has(","):
                self.need(close, "after the last item")
                break
        return tuple(items)

    def dictionary(self) -> DictSpec:
        items: dict[str, Spec] = {}
        while not self.has("}"):
            if self.token.kind != "string":
                self.fail("a string as key")
            key = self.take().text[1:-1]
            self.need(":", f"after the key {key!r}")
            items[key] = self.value(f"the value of {key!r}")
            if not self.has(","):
                self.need("}", "after the last item")
                break
        return DictSpec(tuple(items.items()))

    def tensor(self) -> TensorSpec:
        token = self.take()
        dtype = _LONG_DTYPES.get(token.text, token.text)
        if dtype not in DTYPE_BITS:
            self.fail(f"a dtype ({', '.join(DTYPE_BITS)})", token)
        self.take()
        shape: list[int] = []
        while not self.has("]"):
            shape.append(self.extent())
            if not self.has(","):
                self.need("]", "to close the shape")
                break
        return TensorSpec(dtype, tuple(shape))

    def extent(self) -> int:
        token = self.token
        name = token if token.kind == "name" and self.peek().text == "=" else None
        if name:
            self.at += 2
        value = self.sum("an extent")
        if not 0 <= value <= _MAX_EXTENT:
            self.fail(f"an extent from 0 to {_MAX_EXTENT}", token)
        if name:
            self.bind(name, value)
        return value

    # --- integers ---

    def sum(self, what: str) -> int:
        value = self.product(what)
        while self.token.kind == "punctuation" and self.token.text in "+-":
            sign = 1 if self.take().text == "+" else -1
            value += sign * self.product(what)
        return value

    def product(self, what: str) -> int:
        value = self.atom(what)
        while self.token.kind == "punctuation" and self.token.text in ("*", "//", "%"):
            operator, right = self.take(), self.token
            other = self.atom(what)
            if operator.text != "*" and other == 0:
                self.fail("a divisor other than 0", right)
            match operator.text:
                case "*":
                    value *= other
                case "//":
                    value //= other
                case _:
                    value %= other
            if abs(value) > 2**63:
                self.fail("an integer below 2**63", right)
        return value

    def atom(self, what: str) -> int:
        token = self.token
        if self.has("-"):
            return -self.atom(what)
        if self.has("("):
            value = self.sum(what)
            self.need(")", "to close the parenthesis")
            return value
        if token.kind == "int":
            return int(self.take().text)
        if token.kind == "name":
            if token.text in self.names:
                return self.names[self.take().text]
            known = ", ".join(sorted(self.names)[:8]) or "none so far"
            self.fail(f"a name bound to an integer in this pragma or at the top of the module ({known})")
        raise self.error(f"{what}: an integer or a name bound to one")


def _dims(tokens: list[_Token]) -> tuple[str, ...]:
    """The extents between the brackets of a shape, each as text over the bound names: `B=8, 2*D` is ("B", "2*D")."""
    found: list[list[str]] = [[]]
    for token in tokens:
        if token.text == ",":
            found.append([])
        elif token.text == "=":
            found[-1] = found[-1][:1]
            found[-1].append("=")
        else:
            found[-1].append(token.text)
    return tuple(dim[0] if "=" in dim else " ".join(dim) for dim in found if dim)
