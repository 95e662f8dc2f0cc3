"""The text of an IR program: `parse(to_text(program))` gives the program back. Grammar: docs/ir.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from sollens.analysis.ir.affine import Affine, Constraint, FloorDiv, Mod
from sollens.analysis.ir.nodes import (
    NO_SOURCE,
    REDUCTIONS,
    Apply,
    Attribute,
    Branch,
    Call,
    Declaration,
    Dim,
    Expr,
    IndexValue,
    Literal,
    Loop,
    Node,
    Program,
    Read,
    Select,
    Source,
    Statement,
)

# Operator text and how tightly it binds; `not` binds at 3, unary minus at 7, everything else is an atom.
INFIX: dict[str, tuple[str, int]] = {
    "or": ("or", 1), "and": ("and", 2),
    "eq": ("==", 4), "ne": ("!=", 4), "lt": ("<", 4), "le": ("<=", 4), "gt": (">", 4), "ge": (">=", 4),
    "add": ("+", 5), "sub": ("-", 5), "mul": ("*", 6), "div": ("/", 6), "floordiv": ("//", 6), "mod": ("%", 6),
}  # fmt: skip
NOT, COMPARISON, UNARY = 3, 4, 7

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DOTTED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_SOURCE_WORDS = ("op", "operator", "module", "view")
_LOOKS_LIKE_REDUCTION = re.compile(rf"({'|'.join(REDUCTIONS)})\[\]")


def to_text(program: Program) -> str:
    """The program's canonical text, with a final newline."""
    symbols = ", ".join(f"{name}={value}" for name, value in program.symbols)
    name = program.name if _IDENTIFIER.fullmatch(program.name) else json.dumps(program.name)
    out = [f"program {name}({symbols})"]
    out += [f"  {declaration_text(d)}" for d in program.declarations]
    if program.setup:
        out.append("  setup")
        out += _block(program.setup, "    ")
    out += _block(program.nodes, "  ")
    out.append(f"  output {', '.join(program.outputs)}".rstrip())
    return "\n".join(out) + "\n"


def declaration_text(d: Declaration) -> str:
    """One line: role, name, type, label and the setup tensor that holds the value."""
    label = f" {json.dumps(d.label)}" if d.label else ""
    value = f" = {d.defined_by}" if d.defined_by is not None else ""
    return f"{d.role} {d.name}: {d.dtype}[{_list(map(str, d.shape))}]{label}{value}"


def node_text(node: Node) -> str:
    """One node; several lines for a loop or a branch."""
    return "\n".join(_block((node,), ""))


def _block(nodes: Iterable[Node], indent: str) -> Iterator[str]:
    deeper = indent + "  "
    for node in nodes:
        source = "" if node.source == NO_SOURCE else f" {source_text(node.source)}"
        match node:
            case Statement():
                yield f"{indent}{_statement(node)}{source}"
            case Call():
                yield f"{indent}{_call(node)}{source}"
            case Loop():
                unknown = " unknown_trips" if node.unknown_trips else ""
                yield f"{indent}loop {node.index.name}:{node.index.extent}{unknown}{source}"
                for c in node.carried:
                    yield f"{deeper}carry {c.name}(initial={c.initial}, next={c.next}, final={c.final})"
                yield from _block(node.body, deeper)
                for c in node.collected:
                    yield f"{deeper}collect {c.name}(inner={c.inner})"
            case Branch():
                yield f"{indent}branch {node.condition}{source}"
                yield f"{deeper}then"
                yield from _block(node.then, deeper + "  ")
                yield f"{deeper}else"
                yield from _block(node.otherwise, deeper + "  ")
                for m in node.results:
                    yield f"{deeper}merge {m.name}(then={m.then}, otherwise={m.otherwise})"


def _statement(node: Statement) -> str:
    fold = ""
    if node.reduction is not None:
        fold = f"{node.reduction.kind}[{_dims(node.reduction.dims)}] "
    elif node.scan is not None:
        fold = f"scan {'reverse ' if node.scan.reverse else ''}{node.scan.kind}[{node.scan.dim}] "
    body = body_text(node.body)
    if not fold and _LOOKS_LIKE_REDUCTION.match(body):
        body = f"({body})"
    guard = f" if {condition_text(node.guard)}" if node.guard else ""
    return f"{node.name}[{_dims(node.dims)}]: {node.dtype} = {fold}{body}{guard}"


def _dims(dims: Sequence[Dim]) -> str:
    return ", ".join(f"{d.name}:{d.extent}" for d in dims)


def _list(items: Iterable[str]) -> str:
    return ", ".join(items)


def _call(node: Call) -> str:
    names = _list(r.name for r in node.results)
    types = _list(f"{r.dtype}[{_list(map(str, r.shape))}]" for r in node.results)
    attributes = _list(f"{name}={attribute_text(value)}" for name, value in node.attributes)
    return f"{names} = {node.op}({_list(node.operands)}{'; ' if attributes else ''}{attributes}): {types}"


def attribute_text(value: Attribute) -> str:
    """An attribute's value; tuples stand in square brackets."""
    match value:
        case None:
            return "none"
        case bool() | int() | float():
            return number_text(value)
        case str():
            return json.dumps(value)
        case tuple():
            return f"[{_list(attribute_text(v) for v in value)}]"


def source_text(source: Source) -> str:
    """`@ "file.py":12:4-12:30 op=7 aten.softmax.int module="layer.0" view`, without the parts that are not known."""
    parts = ["@"]
    span = (source.line, source.column, source.end_line, source.end_column)
    if source.file or any(span):
        where = ":{}:{}-{}:{}".format(*span) if any(span) else ""
        parts.append(json.dumps(source.file) + where)
    if source.op != -1:
        parts.append(f"op={source.op}")
    if source.operator:
        bare = _DOTTED.fullmatch(source.operator) and source.operator not in _SOURCE_WORDS
        parts.append(source.operator if bare else f"operator={json.dumps(source.operator)}")
    if source.module:
        parts.append(f"module={json.dumps(source.module)}")
    if source.view:
        parts.append("view")
    return " ".join(parts)


def number_text(value: float | int | bool | complex) -> str:
    """The shortest text that reads back as the same number."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return float.__repr__(float(value))
        case complex():
            return f"literal({number_text(value.real)}, {number_text(value.imag)})"


def affine_text(expr: Affine) -> str:
    """`i + 2*(j // 3) - 1`."""
    if (name := expr.single_name) is not None:
        return name
    parts: list[str] = []
    for atom, coefficient in sorted(expr.terms, key=lambda term: term[1] < 0):
        if coefficient < 0 and not parts and expr.constant > 0:
            parts.append(str(expr.constant))
        size = abs(coefficient)
        match atom:
            case str():
                text = atom if size == 1 else f"{size}*{atom}"
            case FloorDiv() | Mod():
                operand = affine_text(atom.operand)
                operand = operand if atom.operand.single_name else f"({operand})"
                text = f"{operand} {'//' if isinstance(atom, FloorDiv) else '%'} {atom.divisor}"
                # A leading minus would bind tighter than the division.
                text = text if size == 1 and (parts or coefficient > 0) else f"{size}*({text})"
        sign = "-" if coefficient < 0 else "+"
        parts.append(f" {sign} {text}" if parts else (f"-{text}" if coefficient < 0 else text))
    if (expr.constant and parts[:1] != [str(expr.constant)]) or not parts:
        sign = "-" if expr.constant < 0 else "+"
        parts.append(f" {sign} {abs(expr.constant)}" if parts else str(expr.constant))
    return "".join(parts)


def condition_text(constraints: Sequence[Constraint]) -> str:
    """`i >= j and i + k < 9`; "true" when there are none."""
    return " and ".join(map(constraint_text, constraints)) or "true"


def constraint_text(constraint: Constraint) -> str:
    """The constraint with positive terms on each side of the relation."""
    constant = constraint.expr.constant
    plus = Affine(0, tuple((a, c) for a, c in constraint.expr.terms if c > 0))
    minus = Affine(0, tuple((a, -c) for a, c in constraint.expr.terms if c < 0))
    if constraint.equal:
        return f"{affine_text(plus + max(constant, 0))} == {affine_text(minus + max(-constant, 0))}"
    if minus.terms and not plus.terms:
        return f"{affine_text(minus)} < {constant + 1}"
    if minus.terms and constant == -1:
        return f"{affine_text(minus)} < {affine_text(plus)}"
    return f"{affine_text(plus + max(constant, 0))} >= {affine_text(minus + max(-constant, 0))}"


def body_text(expr: Expr, binding: int = 0) -> str:
    """A scalar body, in parentheses when it binds less tightly than `binding`."""
    match expr:
        case Read():
            return f"{expr.tensor}[{_list(map(affine_text, expr.index))}]"
        case Literal():
            return number_text(expr.value)
        case IndexValue():
            return f"index({affine_text(expr.expr)})"
        case Select():
            return f"select({condition_text(expr.condition)}, {body_text(expr.then)}, {body_text(expr.otherwise)})"
        case Apply(op, (left, right)) if op in INFIX:
            symbol, own = INFIX[op]
            text = f"{body_text(left, own + (own == COMPARISON))} {symbol} {body_text(right, own + 1)}"
        case Apply("not", (operand,)):
            text, own = f"not {body_text(operand, NOT)}", NOT
        case Apply("neg", (operand,)) if not isinstance(operand, Literal):
            text, own = f"-{body_text(operand, UNARY)}", UNARY
        case Apply():
            target = f"<{expr.dtype}>" if expr.dtype else ""
            return f"{expr.op}{target}({_list(map(body_text, expr.args))})"
    return f"({text})" if own < binding else text
