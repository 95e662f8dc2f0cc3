"""A program from its text: `parse(text)` gives the program or the problems, and never raises. Grammar: docs/ir.md."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from sollens.analysis.ir import text_clauses as clauses
from sollens.analysis.ir.calls import CALLS
from sollens.analysis.ir.nodes import (
    REDUCTIONS,
    ROLES,
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
    Statement,
)
from sollens.analysis.ir.text_expression import Cursor
from sollens.analysis.ir.text_tokens import LIMITS, Failure, Limits, Line, TextProblem, Token, lines, locate

_NO_BIND: Mapping[str, int] = {}


def parse(
    text: str, *, bind: Mapping[str, int] = _NO_BIND, limits: Limits = LIMITS
) -> tuple[Program | None, tuple[TextProblem, ...]]:
    """The program that a text stands for, or None with at least one problem.

    `bind` overrides the header's symbols, so that one text serves several sizes. The result's structure is checked, its
    meaning (names, shapes, bounds) is what `verify` checks.
    """
    if len(text) > limits.characters:
        found = f"{len(text)} characters"
        problem = TextProblem(
            code="limit", line=1, column=1, expected=f"at most {limits.characters} characters", found=found
        )
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
            raise Failure(
                "unknown-name", line.tokens[0], f"symbols to bind among {list(self.symbols)}", str(unknown[:10])
            )
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
                self.parser.fail(
                    Failure("indentation", line.tokens[0], f"{own} columns of indentation", str(line.indent))
                )
                continue
            yield line
        if self.depth == 0 and self.at < self.stop and lines[self.at].indent <= self.indent:
            self.parser.fail(
                Failure("indentation", lines[self.at].tokens[0], "lines indented below the program's header")
            )

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
        dtype, shape = clauses.tensor_type(cursor)
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
        raise Failure(
            "syntax", first if first.kind != "name" else second, f"{known}{', a declaration' if not self.depth else ''}"
        )

    def statement(self, line: Line) -> Statement:
        cursor = self.parser.cursor(line, self.indices)
        name = cursor.identifier("a name")
        dims = clauses.dims(cursor) if cursor.is_symbol("[") else ()
        cursor.expect(":")
        dtype = cursor.dtype()
        cursor.expect("=")
        cursor.indices.update(d.name for d in dims)
        reduction: Reduction | None = None
        scan: Scan | None = None
        token, following, third = cursor.token, cursor.peek(), cursor.peek(2)
        if token.text == "scan" and following.kind == "name":
            scan = clauses.scan_clause(cursor, dims)
        elif token.text in REDUCTIONS and following.text == "[" and (cursor.peek(3).text == ":" or third.text == "]"):
            cursor.at += 1
            reduction = Reduction(kind=token.text, dims=clauses.dims(cursor))
            cursor.indices.update(d.name for d in reduction.dims)
        body = cursor.body()
        guard = cursor.condition() if cursor.accept("if") else ()
        if cursor.token.text == "else":
            raise Failure(
                "syntax", cursor.token, "the end of the line (a choice is written select(condition, then, otherwise))"
            )
        source = clauses.source_clause(cursor, "an operator, `if` CONDITION, `@` SOURCE or the end of the line")
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
                attributes.append((attribute, clauses.attribute_value(cursor)))
            else:
                operands.append(cursor.identifier("a tensor or ATTRIBUTE=VALUE"))
            if not cursor.is_symbol(")") and not cursor.is_symbol(";") and not cursor.accept(","):
                raise Failure("syntax", cursor.token, "',', ';' or ')'")
        cursor.expect(":")
        types = [clauses.tensor_type(cursor)]
        while cursor.accept(","):
            types.append(clauses.tensor_type(cursor))
        if len(types) != len(names):
            raise Failure("arity", op_token, f"{len(names)} result types, one a name", str(len(types)))
        source = clauses.source_clause(cursor, "`@` SOURCE or the end of the line")
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
        source = clauses.source_clause(cursor, "unknown_trips, `@` SOURCE or the end of the line")
        carried: list[Carried] = []
        collected: list[Collected] = []
        body: list[Node] = []
        for inner in block.lines():
            try:
                match _keyword(inner):
                    case "carry":
                        carried.append(
                            Carried(**clauses.fields(self.parser.cursor(inner), ("initial", "next", "final")))
                        )
                    case "collect":
                        collected.append(Collected(**clauses.fields(self.parser.cursor(inner), ("inner",))))
                    case _:
                        body.append(block.node(inner))
            except Failure as failure:
                self.parser.fail(failure)
        return Loop(
            index=index,
            carried=tuple(carried),
            body=tuple(body),
            collected=tuple(collected),
            unknown_trips=unknown,
            source=source,
        )

    def branch(self, line: Line) -> Branch:
        cursor = self.parser.cursor(line)
        cursor.at += 1
        block = self.nested(line, self.indices)
        condition = cursor.identifier("a one-element tensor")
        source = clauses.source_clause(cursor, "`@` SOURCE or the end of the line")
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
                        results.append(Merged(**clauses.fields(self.parser.cursor(inner), ("then", "otherwise"))))
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
