"""A program from its text: `parse(text)` gives the program or the problems, and never raises. Grammar: docs/ir.md."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sollens.analysis.ir.calls import CALLS
from sollens.analysis.ir.nodes import (
    NO_SOURCE,
    REDUCTIONS,
    ROLES,
    SCANS,
    Attribute,
    Branch,
    Call,
    Carried,
    Collected,
    Declaration,
    Dim,
    Loop,
    Merged,
    Node,
    Program,
    Reduction,
    Result,
    Scan,
    Source,
    Statement,
)
from sollens.analysis.ir.text_expression import Cursor
from sollens.analysis.ir.text_tokens import LIMITS, Failure, Limits, Line, TextProblem, Token, lines, locate

_NO_BIND: Mapping[str, int] = {}


def parse(
    text: str, *, bind: Mapping[str, int] = _NO_BIND, limits: Limits = LIMITS
) -> tuple[Program | None, tuple[TextProblem, ...]]:
    """The program that a text stands for, or None with at least one problem.

    `bind` overrides the header's symbols, so that one text serves several sizes. The result's structure is checked, its meaning (names,
    shapes, bounds) is what `verify` checks.
    """
    if len(text) > limits.characters:
        found = f"{len(text)} characters"
        problem = TextProblem(code="limit", line=1, column=1, expected=f"at most {limits.characters} characters", found=found)
        return None, (problem,)
    return _Parser(text, bind, limits).program()


class _Parser:
    def __init__(self, text: str, bind: Mapping[str, int], limits: Limits) -> None:
        self.text = text
        self.bind = bind
        self.limits = limits
        self.symbols: dict[str, int] = {}
        self.problems: list[TextProblem] = []
        self.lines: list[Line] = []
        try:
            self.lines = list(lines(text, limits.tokens))
        except Failure as failure:
            self.fail(failure)

    def program(self) -> tuple[Program | None, tuple[TextProblem, ...]]:
        name = "program"
        declarations: list[Declaration] = []
        setup: list[Node] = []
        outputs: list[str] = []
        if self.problems:
            return None, tuple(self.problems)
        if not self.lines:
            self.fail(Failure("syntax", Token("end", "", 0), "program NAME(...)", "an empty text"))
            return None, tuple(self.problems)
        try:
            name = self.header(self.lines[0])
        except Failure as failure:
            self.fail(failure)
        block = _Block(self, 1, len(self.lines), self.lines[0].indent, ())
        nodes = block.top(declarations, setup, outputs)
        if not any(_keyword(line) == "output" for line in self.lines):
            self.fail(Failure("syntax", self.lines[-1].tokens[-1], "a line `output NAME`", "the end of the text"))
        if self.problems:
            return None, tuple(sorted(self.problems, key=lambda p: (p.line, p.column))[: self.limits.problems])
        program = Program(
            name=name,
            declarations=tuple(declarations),
            nodes=tuple(nodes),
            outputs=tuple(outputs),
            setup=tuple(setup),
            symbols=tuple(self.symbols.items()),
        )
        return program, ()

    def cursor(self, line: Line, indices: Collection[str] = ()) -> Cursor:
        return Cursor(line, self.symbols, indices, self.limits)

    def fail(self, failure: Failure) -> None:
        """Record the problem; beyond the limit only the count would grow."""
        if len(self.problems) < self.limits.problems:
            self.problems.append(locate(self.text, failure))

    def header(self, line: Line) -> str:
        cursor = self.cursor(line)
        cursor.expect("program")
        name = cursor.string("a name") if cursor.token.kind == "string" else cursor.identifier("a name")
        if not cursor.accept("("):
            cursor.end("'(' or the end of the line")
            return name
        while not cursor.accept(")"):
            token = cursor.token
            symbol = cursor.identifier("a symbol")
            if symbol in self.symbols:
                raise Failure("duplicate-name", token, "each symbol bound once")
            if len(self.symbols) >= self.limits.symbols:
                raise Failure("limit", token, f"at most {self.limits.symbols} symbols")
            cursor.expect("=")
            value = cursor.extent()
            self.symbols[symbol] = self.bind.get(symbol, value)
            if not cursor.is_symbol(")") and not cursor.accept(","):
                raise Failure("syntax", cursor.token, "',' or ')'")
        cursor.end()
        unknown = [s for s in self.bind if s not in self.symbols]
        if unknown:
            raise Failure("unknown-name", line.tokens[0], f"symbols to bind among {list(self.symbols)}", str(unknown[:10]))
        return name


def _keyword(line: Line) -> str | None:
    """The word that starts a line, unless the line defines a tensor of that name."""
    first, second = line.tokens[0], line.tokens[min(1, len(line.tokens) - 1)]
    starts_definition = second.kind == "symbol"
    return first.text if first.kind == "name" and not starts_definition else None


@dataclass(slots=True)
class _Block:
    """The lines of one block: those from `at` that are indented deeper than `indent`."""

    parser: _Parser
    at: int
    stop: int
    indent: int
    indices: tuple[str, ...]
    depth: int = 0

    def lines(self) -> Iterator[Line]:
        """Each line of this block; the nested blocks of a line must have been taken by `nested` before the next."""
        lines = self.parser.lines
        own: int | None = None
        problems, enough = self.parser.problems, self.parser.limits.problems
        while self.at < self.stop and lines[self.at].indent > self.indent and len(problems) < enough:
            line = lines[self.at]
            own = line.indent if own is None else own
            self.at += 1
            if line.indent != own:
                self.parser.fail(Failure("indentation", line.tokens[0], f"{own} columns of indentation", str(line.indent)))
                continue
            yield line
        if self.depth == 0 and self.at < self.stop and lines[self.at].indent <= self.indent:
            self.parser.fail(Failure("indentation", lines[self.at].tokens[0], "lines indented below the program's header"))

    def nested(self, line: Line, indices: tuple[str, ...]) -> _Block:
        """The block below a line; this block goes on after it."""
        lines = self.parser.lines
        start = self.at
        while self.at < self.stop and lines[self.at].indent > line.indent:
            self.at += 1
        if self.depth >= self.parser.limits.block_depth:
            raise Failure("limit", line.tokens[0], f"at most {self.parser.limits.block_depth} nested blocks")
        return _Block(self.parser, start, self.at, line.indent, indices, self.depth + 1)

    # --- the program's own block

    def top(self, declarations: list[Declaration], setup: list[Node], outputs: list[str]) -> list[Node]:
        nodes: list[Node] = []
        for line in self.lines():
            try:
                match _keyword(line):
                    case "setup":
                        cursor = self.parser.cursor(line)
                        cursor.at += 1
                        block = self.nested(line, ())
                        cursor.end()
                        setup += block.nodes()
                    case "output":
                        outputs += self.names(line)
                    case role if role in ROLES:
                        declarations.append(self.declaration(line))
                    case _:
                        nodes.append(self.node(line))
            except Failure as failure:
                self.parser.fail(failure)
        return nodes

    def names(self, line: Line) -> list[str]:
        cursor = self.parser.cursor(line)
        cursor.at += 1
        found: list[str] = []
        while cursor.token.kind != "end":
            found.append(cursor.identifier("an output"))
            if cursor.token.kind != "end":
                cursor.expect(",")
        return found

    def declaration(self, line: Line) -> Declaration:
        cursor = self.parser.cursor(line)
        role = cursor.identifier("a role")
        name = cursor.identifier("a name")
        cursor.expect(":")
        dtype, shape = _type(cursor)
        label = cursor.string("a label") if cursor.token.kind == "string" else ""
        defined_by = cursor.identifier("a setup tensor") if cursor.accept("=") else None
        cursor.end("a label, = SETUP_TENSOR or the end of the line")
        return Declaration(name=name, dtype=dtype, shape=shape, role=role, label=label, defined_by=defined_by)

    # --- nodes

    def nodes(self) -> list[Node]:
        """The nodes of a block that holds nothing else."""
        found: list[Node] = []
        for line in self.lines():
            try:
                found.append(self.node(line))
            except Failure as failure:
                self.parser.fail(failure)
        return found

    def node(self, line: Line) -> Node:
        match _keyword(line):
            case "loop":
                return self.loop(line)
            case "branch":
                return self.branch(line)
            case _:
                pass
        first, second = line.tokens[0], line.tokens[1]
        if first.kind == "name" and second.text in ("[", ":"):
            return self.statement(line)
        if first.kind == "name" and second.text in (",", "="):
            return self.call(line)
        known = "NAME[dims]: dtype = body, NAME = call(...): type, loop, branch"
        raise Failure("syntax", first if first.kind != "name" else second, f"{known}{', a declaration' if not self.depth else ''}")

    def statement(self, line: Line) -> Statement:
        cursor = self.parser.cursor(line, self.indices)
        name = cursor.identifier("a name")
        dims = _dims(cursor) if cursor.is_symbol("[") else ()
        cursor.expect(":")
        dtype = cursor.dtype()
        cursor.expect("=")
        cursor.indices.update(d.name for d in dims)
        reduction: Reduction | None = None
        scan: Scan | None = None
        token, following, third = cursor.token, cursor.peek(), cursor.peek(2)
        if token.text == "scan" and following.kind == "name":
            scan = _scan(cursor, dims)
        elif token.text in REDUCTIONS and following.text == "[" and (cursor.peek(3).text == ":" or third.text == "]"):
            cursor.at += 1
            reduction = Reduction(kind=token.text, dims=_dims(cursor))
            cursor.indices.update(d.name for d in reduction.dims)
        body = cursor.body()
        guard = cursor.condition() if cursor.accept("if") else ()
        if cursor.token.text == "else":
            raise Failure("syntax", cursor.token, "the end of the line (a choice is written select(condition, then, otherwise))")
        source = _source(cursor, "an operator, `if` CONDITION, `@` SOURCE or the end of the line")
        return Statement(
            name=name, dtype=dtype, dims=dims, body=body, reduction=reduction, scan=scan, guard=guard, source=source
        )

    def call(self, line: Line) -> Call:
        cursor = self.parser.cursor(line)
        names = [cursor.identifier("a name")]
        while cursor.accept(","):
            names.append(cursor.identifier("a name"))
        cursor.expect("=")
        op_token = cursor.token
        op = cursor.identifier("a call")
        if op not in CALLS:
            raise Failure("unknown-function", op_token, f"a call ({', '.join(CALLS)})")
        cursor.expect("(")
        operands: list[str] = []
        attributes: list[tuple[str, Attribute]] = []
        while not cursor.accept(")"):
            if cursor.accept(";"):
                continue
            if cursor.peek().text == "=":
                attribute = cursor.identifier("an attribute")
                cursor.expect("=")
                attributes.append((attribute, _attribute(cursor)))
            else:
                operands.append(cursor.identifier("a tensor or ATTRIBUTE=VALUE"))
            if not cursor.is_symbol(")") and not cursor.is_symbol(";") and not cursor.accept(","):
                raise Failure("syntax", cursor.token, "',', ';' or ')'")
        cursor.expect(":")
        types = [_type(cursor)]
        while cursor.accept(","):
            types.append(_type(cursor))
        if len(types) != len(names):
            raise Failure("arity", op_token, f"{len(names)} result types, one a name", str(len(types)))
        source = _source(cursor, "`@` SOURCE or the end of the line")
        results = tuple(Result(name=n, dtype=d, shape=s) for n, (d, s) in zip(names, types, strict=True))
        return Call(op=op, results=results, operands=tuple(operands), attributes=tuple(attributes), source=source)

    def loop(self, line: Line) -> Loop:
        cursor = self.parser.cursor(line)
        cursor.at += 1
        name = cursor.identifier("the loop's index")
        block = self.nested(line, (*self.indices, name))
        cursor.expect(":")
        index = Dim(name=name, extent=cursor.extent())
        unknown = cursor.accept("unknown_trips")
        source = _source(cursor, "unknown_trips, `@` SOURCE or the end of the line")
        carried: list[Carried] = []
        collected: list[Collected] = []
        body: list[Node] = []
        for inner in block.lines():
            try:
                match _keyword(inner):
                    case "carry":
                        carried.append(Carried(**_fields(self.parser.cursor(inner), ("initial", "next", "final"))))
                    case "collect":
                        collected.append(Collected(**_fields(self.parser.cursor(inner), ("inner",))))
                    case _:
                        body.append(block.node(inner))
            except Failure as failure:
                self.parser.fail(failure)
        return Loop(
            index=index, carried=tuple(carried), body=tuple(body), collected=tuple(collected), unknown_trips=unknown, source=source
        )

    def branch(self, line: Line) -> Branch:
        cursor = self.parser.cursor(line)
        cursor.at += 1
        block = self.nested(line, self.indices)
        condition = cursor.identifier("a one-element tensor")
        source = _source(cursor, "`@` SOURCE or the end of the line")
        sides: dict[str, list[Node]] = {}
        results: list[Merged] = []
        for inner in block.lines():
            try:
                match _keyword(inner):
                    case ("then" | "else") as side if side not in sides:
                        nested = block.nested(inner, self.indices)
                        self.parser.cursor(Line(inner.indent, inner.tokens[1:])).end()
                        sides[side] = nested.nodes()
                    case "merge":
                        results.append(Merged(**_fields(self.parser.cursor(inner), ("then", "otherwise"))))
                    case _:
                        raise Failure("syntax", inner.tokens[0], "one block `then`, one block `else` and lines `merge`")
            except Failure as failure:
                self.parser.fail(failure)
        return Branch(
            condition=condition,
            then=tuple(sides.get("then", ())),
            otherwise=tuple(sides.get("else", ())),
            results=tuple(results),
            source=source,
        )


# --- parts of a line


def _type(cursor: Cursor) -> tuple[str, tuple[int, ...]]:
    dtype = cursor.dtype()
    shape: list[int] = []
    if cursor.accept("["):
        while not cursor.accept("]"):
            _limit_rank(cursor, shape)
            shape.append(cursor.extent())
            if not cursor.is_symbol("]") and not cursor.accept(","):
                raise Failure("syntax", cursor.token, "',' or ']'")
    return dtype, tuple(shape)


def _limit_rank(cursor: Cursor, found: Sequence[object]) -> None:
    if len(found) >= cursor.limits.rank:
        raise Failure("limit", cursor.token, f"at most {cursor.limits.rank} axes")


def _dims(cursor: Cursor) -> tuple[Dim, ...]:
    cursor.expect("[")
    dims: list[Dim] = []
    while not cursor.accept("]"):
        _limit_rank(cursor, dims)
        token = cursor.token
        name = cursor.identifier("a dimension NAME:EXTENT")
        if name in cursor.indices or any(d.name == name for d in dims):
            raise Failure("duplicate-name", token, "dimension names that are distinct, also from loop indices")
        cursor.expect(":")
        dims.append(Dim(name=name, extent=cursor.extent()))
        if not cursor.is_symbol("]") and not cursor.accept(","):
            raise Failure("syntax", cursor.token, "',' or ']'")
    return tuple(dims)


def _scan(cursor: Cursor, dims: Sequence[Dim]) -> Scan:
    cursor.expect("scan")
    reverse = cursor.token.text == "reverse" and cursor.accept("reverse")
    kind = cursor.token
    if kind.text not in SCANS:
        raise Failure("unknown-function", kind, f"a scan ({', '.join(SCANS)})")
    cursor.at += 1
    cursor.expect("[")
    token = cursor.token
    dim = cursor.identifier("a dimension of the statement")
    if all(d.name != dim for d in dims):
        raise Failure("unknown-name", token, f"a dimension of the statement ({', '.join(d.name for d in dims)})")
    cursor.expect("]")
    return Scan(kind=kind.text, dim=dim, reverse=reverse)


def _fields(cursor: Cursor, names: Sequence[str]) -> dict[str, str]:
    """`KEYWORD name(field=tensor, ...)` with every field once, in any order."""
    cursor.at += 1
    found = {"name": cursor.identifier("a name")}
    cursor.expect("(")
    while not cursor.accept(")"):
        token = cursor.token
        key = cursor.identifier("a field")
        if key not in names or key in found:
            raise Failure("syntax", token, f"each of {', '.join(n + '=' for n in names)} once")
        cursor.expect("=")
        found[key] = cursor.identifier("a tensor")
        if not cursor.is_symbol(")") and not cursor.accept(","):
            raise Failure("syntax", cursor.token, "',' or ')'")
    missing = [n for n in names if n not in found]
    if missing:
        raise Failure("syntax", cursor.token, ", ".join(n + "=" for n in missing))
    cursor.end()
    return found


def _attribute(cursor: Cursor) -> Attribute:
    token = cursor.token
    if token.kind == "string":
        return cursor.string("a string")
    if cursor.accept("["):
        cursor.enter()
        items: list[Attribute] = []
        while not cursor.accept("]"):
            items.append(_attribute(cursor))
            if not cursor.is_symbol("]") and not cursor.accept(","):
                raise Failure("syntax", cursor.token, "',' or ']'")
        cursor.nesting -= 1
        return tuple(items)
    if token.text == "none":
        cursor.at += 1
        return None
    return cursor.constant("an attribute's value (number, string, true, false, none or a list)")


def _source(cursor: Cursor, expected: str) -> Source:
    """The optional `@ ...` that ends a line."""
    if not cursor.accept("@"):
        cursor.end(expected)
        return NO_SOURCE
    file, span = "", (0, 0, 0, 0)
    if cursor.token.kind == "string":
        file = cursor.string("a file")
        if cursor.accept(":"):
            span = _span(cursor)
    op, operator, module, view = -1, "", "", False
    while cursor.token.kind != "end":
        word = cursor.identifier("an operator, op=, operator=, module= or view")
        if word in ("op", "operator", "module") and cursor.accept("="):
            match word:
                case "op":
                    op = cursor.integer("the operator's position")
                case "operator":
                    operator = cursor.string("an operator")
                case _:
                    module = cursor.string("a module path")
        elif word == "view":
            view = True
        else:
            operator = word
            while cursor.accept("."):
                if cursor.token.kind != "name" or len(operator) > cursor.limits.string:
                    raise Failure("syntax", cursor.token, f"a name, {cursor.limits.string} characters in all")
                operator += f".{cursor.token.text}"
                cursor.at += 1
    return Source(
        op=op, operator=operator, file=file, line=span[0], column=span[1], end_line=span[2], end_column=span[3], module=module, view=view
    )  # fmt: skip


def _span(cursor: Cursor) -> tuple[int, int, int, int]:
    line = cursor.integer("a line")
    cursor.expect(":")
    column = cursor.integer("a column")
    cursor.expect("-")
    end_line = cursor.integer("a line")
    cursor.expect(":")
    return line, column, end_line, cursor.integer("a column")
