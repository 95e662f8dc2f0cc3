"""Index expressions, conditions and scalar bodies from tokens, by recursive descent with bounded depth."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Collection, Mapping

from sollens.analysis.ir.affine import Affine, Constraint, at_least, dim, equals, less
from sollens.analysis.ir.nodes import Apply, Expr, IndexValue, Literal, Read, Select
from sollens.analysis.ir.scalars import SCALAR_OPS
from sollens.analysis.ir.text_print import COMPARISON, INFIX, NOT
from sollens.analysis.ir.text_tokens import Failure, Limits, Line, Token
from sollens.analysis.trace.schema import DTYPE_BITS

_BINARY = {symbol: (op, binding) for op, (symbol, binding) in INFIX.items()}
_RELATIONS: dict[str, Callable[[Affine, Affine], Constraint]] = {
    ">=": at_least, "<": less, "==": equals,
    "<=": lambda a, b: at_least(b, a), ">": lambda a, b: less(b, a),
}  # fmt: skip
_MEANT = {"max": "maximum", "min": "minimum", "power": "pow", "if": "select", "float": "cast<f32>", "int": "cast<i64>"}
_CONSTANTS: dict[str, float | bool] = {"true": True, "false": False, "inf": math.inf, "nan": math.nan}


class Cursor:
    """Reads the tokens of one logical line. Every method raises `Failure` at the first token that does not fit."""

    def __init__(self, line: Line, symbols: Mapping[str, int], indices: Collection[str], limits: Limits) -> None:
        self.tokens = line.tokens
        self.at = 0
        self.symbols = symbols
        self.indices: set[str] = set(indices)
        self.limits = limits
        self.nesting = 0
        self.index_start = 0

    # --- tokens

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.at]

    def peek(self, ahead: int = 1) -> Token:
        """A later token; the end token beyond the end."""
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def is_symbol(self, text: str) -> bool:
        """The next token is this symbol."""
        token = self.tokens[self.at]
        return token.text == text and token.kind == "symbol"

    def accept(self, text: str) -> bool:
        """Step over this symbol or word if it is next."""
        token = self.tokens[self.at]
        if token.text != text or token.kind == "string":
            return False
        self.at += 1
        return True

    def expect(self, text: str) -> None:
        """Step over this symbol or word."""
        if not self.accept(text):
            raise Failure("syntax", self.token, f"'{text}'")

    def end(self, expected: str = "the end of the line") -> None:
        """Nothing may follow."""
        if self.token.kind != "end":
            raise Failure("syntax", self.token, expected)

    def identifier(self, what: str) -> str:
        """A name: ASCII letters, digits and underscores, no leading double underscore."""
        token = self.token
        if token.kind != "name":
            raise Failure("syntax", token, what)
        if token.text.startswith("__"):
            raise Failure("identifier", token, f"{what} without a leading double underscore")
        if len(token.text) > self.limits.identifier:
            raise Failure("limit", token, f"{what} of at most {self.limits.identifier} characters")
        self.at += 1
        return token.text

    def dtype(self) -> str:
        """A dtype's short name."""
        token = self.token
        if token.kind != "name" or token.text not in DTYPE_BITS:
            raise Failure("dtype", token, f"a dtype ({', '.join(DTYPE_BITS)})")
        self.at += 1
        return token.text

    def string(self, what: str) -> str:
        """A string in double quotes, escapes as in JSON."""
        token = self.token
        if token.kind != "string":
            raise Failure("syntax", token, what)
        if len(token.text) > self.limits.string:
            raise Failure("limit", token, f"a string of at most {self.limits.string} characters")
        self.at += 1
        return json.loads(token.text)

    def number(self) -> int | float:
        """A number without sign; it is a float when it has a point or an exponent."""
        token = self.token
        if token.kind != "number":
            raise Failure("syntax", token, "a number")
        if len(token.text) > 40:
            raise Failure("limit", token, "a number of at most 40 characters")
        self.at += 1
        if token.text.isdigit():
            value = int(token.text)
            if value > self.limits.integer:
                raise Failure("limit", token, f"an integer of at most {self.limits.integer}")
            return value
        return float(token.text)

    def integer(self, what: str) -> int:
        """An integer, perhaps negative."""
        negative = self.accept("-")
        token = self.token
        if token.kind != "number" or not token.text.isdigit():
            raise Failure("syntax", token, what)
        value = int(self.number())
        return -value if negative else value

    def enter(self) -> None:
        """Count one more level of nesting."""
        self.nesting += 1
        if self.nesting > self.limits.depth:
            raise Failure("limit", self.token, f"at most {self.limits.depth} levels of nesting")

    # --- index expressions

    def extent(self) -> int:
        """An integer expression of symbols, at least 0."""
        token = self.token
        indices, self.indices = self.indices, set()
        try:
            value = self.affine()
        finally:
            self.indices = indices
        if value.terms or value.constant < 0:
            raise Failure("extent", token, "an extent of at least 0", str(value.constant))
        return value.constant

    def affine(self) -> Affine:
        """An index expression: sums, integer multiples, `//` and `%` by positive integers."""
        self.index_start = self.at
        return self._sum()

    def _sum(self) -> Affine:
        self.enter()
        value = self._term()
        while self.token.kind == "symbol" and self.token.text in "+-":
            negative = self.token.text == "-"
            self.at += 1
            right = self._term()
            value = self._bounded(value - right if negative else value + right)
        self.nesting -= 1
        return value

    def _term(self) -> Affine:
        value = self._factor()
        while (operator := self.token).kind == "symbol" and operator.text in ("*", "//", "%"):
            self.at += 1
            right_at = self.token
            right = self._factor()
            if operator.text == "*":
                if value.terms and right.terms:
                    raise Failure(
                        "affine", right_at, "a constant factor (an index must be affine)", "a product of two names"
                    )
                value = value * right.constant if value.terms else right * value.constant
            elif right.terms or right.constant <= 0:
                raise Failure("affine", right_at, f"a positive constant after {operator.text}")
            else:
                value = value // right.constant if operator.text == "//" else value % right.constant
            value = self._bounded(value)
        return value

    def _factor(self) -> Affine:
        token = self.token
        if self.at - self.index_start > self.limits.index_tokens:
            raise Failure("limit", token, f"at most {self.limits.index_tokens} tokens in one index expression")
        if token.kind == "number":
            if not token.text.isdigit():
                raise Failure("affine", token, "an integer")
            return Affine(int(self.number()))
        if token.kind == "name" and self.peek().text != "[":
            self.at += 1
            if token.text in self.indices:
                return dim(token.text)
            if token.text in self.symbols:
                return Affine(self.symbols[token.text])
            known = [*sorted(self.indices), *self.symbols]
            raise Failure(
                "unknown-name", token, f"a dimension or symbol ({', '.join(known[:20]) or 'none is in scope'})"
            )
        if self.accept("-"):
            self.enter()
            value = -self._factor()
            self.nesting -= 1
            return value
        if self.accept("("):
            value = self._sum()
            self.expect(")")
            return value
        if token.kind == "name":
            raise Failure(
                "affine", token, "an affine index (an index read from a tensor is a call: take, gather, index)"
            )
        raise Failure("affine", token, "an index expression (dimensions, symbols and integers with + - * // %)")

    def _bounded(self, value: Affine) -> Affine:
        if abs(value.constant) > self.limits.integer or any(abs(c) > self.limits.integer for _, c in value.terms):
            raise Failure("limit", self.token, f"integers of at most {self.limits.integer}")
        return value

    def condition(self) -> tuple[Constraint, ...]:
        """`i >= j and 0 <= i + k < 8`; `true` is the empty conjunction."""
        if self.token.text == "true" and "true" not in self.indices:
            self.at += 1
            return ()
        constraints: list[Constraint] = []
        while True:
            left = self.affine()
            if self.token.text not in _RELATIONS:
                raise Failure("condition", self.token, "a relation (>=, <=, <, >, ==) between index expressions")
            while self.token.text in _RELATIONS:
                relation = _RELATIONS[self.token.text]
                self.at += 1
                right = self.affine()
                constraints.append(relation(left, right))
                left = right
            if not self.accept("and"):
                return tuple(constraints)

    # --- bodies

    def body(self) -> Expr:
        """A scalar body."""
        return self._operators(0)[0]

    def _operators(self, binding: int) -> tuple[Expr, int]:
        """Operators that bind at least as tightly as `binding`, with the height of the tree."""
        self.enter()
        left, height = self._unary()
        compared = False
        while (found := _BINARY.get(self.token.text)) is not None and self.token.kind != "string":
            op, own = found
            if own < binding:
                break
            if own == COMPARISON and compared:
                raise Failure("syntax", self.token, "one comparison (join two with `and`, or use parentheses)")
            self.at += 1
            right, right_height = self._operators(own + 1)
            left, height = Apply(op, (left, right)), self._height(max(height, right_height))
            compared = own == COMPARISON
        self.nesting -= 1
        return left, height

    def _height(self, below: int) -> int:
        if below >= self.limits.height:
            raise Failure("limit", self.token, f"a body at most {self.limits.height} operations high")
        return below + 1

    def _unary(self) -> tuple[Expr, int]:
        token = self.token
        if token.text == "not" and token.kind == "name" and self.peek().text != "[":
            self.at += 1
            operand, height = self._operators(NOT)
            return Apply("not", (operand,)), self._height(height)
        if self.accept("-"):
            if self.token.kind == "number":
                return Literal(-self.number()), 1
            if self.token.text == "inf" and self.peek().text != "[":
                self.at += 1
                return Literal(-math.inf), 1
            self.enter()
            operand, height = self._unary()
            self.nesting -= 1
            return Apply("neg", (operand,)), self._height(height)
        return self._primary()

    def _primary(self) -> tuple[Expr, int]:
        token = self.token
        if token.kind == "number":
            return Literal(self.number()), 1
        if self.accept("("):
            inner = self._operators(0)
            self.expect(")")
            return inner
        if token.kind != "name":
            raise Failure("syntax", token, "a value (a read like x[i], a number, a function or parentheses)")
        following = self.peek().text
        if following == "[":
            return self._read(), 1
        if following == "(" or token.text == "cast":
            return self._function()
        self.at += 1
        if token.text in _CONSTANTS:
            return Literal(_CONSTANTS[token.text]), 1
        if token.text in self.symbols and token.text not in self.indices:
            return Literal(self.symbols[token.text]), 1
        if token.text in self.indices:
            raise Failure("syntax", token, f"a value: write index({token.text}) for the index as a number")
        raise Failure("syntax", token, f"a value: a scalar tensor is read as {token.text[:40]}[]")

    def _read(self) -> Read:
        name = self.identifier("a tensor")
        self.expect("[")
        index: list[Affine] = []
        while not self.accept("]"):
            index.append(self.affine())
            if not self.is_symbol("]") and not self.accept(","):
                raise Failure("syntax", self.token, "',' or ']'")
        return Read(name, tuple(index))

    def _function(self) -> tuple[Expr, int]:
        token = self.token
        self.at += 1
        match token.text:
            case "select":
                return self._select()
            case "index":
                self.expect("(")
                expr = self.affine()
                self.expect(")")
                return IndexValue(expr), 1
            case "literal":
                self.expect("(")
                real = self.constant("a number")
                self.expect(",")
                imaginary = self.constant("a number")
                self.expect(")")
                return Literal(complex(real, imaginary)), 1
            case name if name not in SCALAR_OPS:
                close = _MEANT.get(name) or next(iter(difflib.get_close_matches(name[:40], SCALAR_OPS, 1)), None)
                raise Failure(
                    "unknown-function", token, f"'{close}'" if close else "a scalar function of the reference"
                )
            case name:
                pass
        dtype = ""
        if name == "cast":
            self.expect("<")
            dtype = self.dtype()
            self.expect(">")
        self.expect("(")
        args: list[Expr] = []
        below = 0
        while not self.accept(")"):
            argument, height = self._operators(0)
            args.append(argument)
            below = max(below, height)
            if not self.is_symbol(")") and not self.accept(","):
                raise Failure("syntax", self.token, "',' or ')'")
        arity = SCALAR_OPS[name].arity
        if len(args) != arity:
            raise Failure("arity", token, f"{arity} argument{'s' * (arity != 1)} of {name}", str(len(args)))
        return Apply(name, tuple(args), dtype), self._height(below)

    def _select(self) -> tuple[Expr, int]:
        self.expect("(")
        condition = self.condition()
        self.expect(",")
        then, height = self._operators(0)
        self.expect(",")
        otherwise, other_height = self._operators(0)
        self.expect(")")
        return Select(condition, then, otherwise), self._height(max(height, other_height))

    def constant(self, what: str) -> float | int | bool:
        """A number with optional sign, inf, nan, true or false."""
        negative = self.accept("-")
        token = self.token
        if token.kind == "number":
            value = self.number()
        elif token.text in _CONSTANTS:
            value = _CONSTANTS[token.text]
            self.at += 1
        else:
            raise Failure("syntax", token, what)
        return -value if negative else value
