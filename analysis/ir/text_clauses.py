"""The clauses of a logical line: types, dimensions, scans, fields, attribute values and sources."""

from __future__ import annotations

from collections.abc import Sequence

from sollens.analysis.ir.nodes import NO_SOURCE, SCANS, Attribute, Dim, Scan, Source
from sollens.analysis.ir.text_expression import Cursor
from sollens.analysis.ir.text_tokens import Failure


def tensor_type(cursor: Cursor) -> tuple[str, tuple[int, ...]]:
    """`f32[8, 16]`; no brackets is rank 0."""
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


def dims(cursor: Cursor) -> tuple[Dim, ...]:
    """`[i:4, j:T]`, distinct names."""
    cursor.expect("[")
    found: list[Dim] = []
    while not cursor.accept("]"):
        _limit_rank(cursor, found)
        token = cursor.token
        name = cursor.identifier("a dimension NAME:EXTENT")
        if name in cursor.indices or any(d.name == name for d in found):
            raise Failure("duplicate-name", token, "dimension names that are distinct, also from loop indices")
        cursor.expect(":")
        found.append(Dim(name=name, extent=cursor.extent()))
        if not cursor.is_symbol("]") and not cursor.accept(","):
            raise Failure("syntax", cursor.token, "',' or ']'")
    return tuple(found)


def scan_clause(cursor: Cursor, dims: Sequence[Dim]) -> Scan:
    """`scan reverse sum[j]`."""
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


def fields(cursor: Cursor, names: Sequence[str]) -> dict[str, str]:
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


def attribute_value(cursor: Cursor) -> Attribute:
    """A number, string, true, false, none or a list."""
    token = cursor.token
    if token.kind == "string":
        return cursor.string("a string")
    if cursor.accept("["):
        cursor.enter()
        items: list[Attribute] = []
        while not cursor.accept("]"):
            items.append(attribute_value(cursor))
            if not cursor.is_symbol("]") and not cursor.accept(","):
                raise Failure("syntax", cursor.token, "',' or ']'")
        cursor.nesting -= 1
        return tuple(items)
    if token.text == "none":
        cursor.at += 1
        return None
    return cursor.constant("an attribute's value (number, string, true, false, none or a list)")


def source_clause(cursor: Cursor, expected: str) -> Source:
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
        op=op, operator=operator, file=file, line=span[0], column=span[1], end_line=span[2], end_column=span[3],
        module=module, view=view,
    )  # fmt: skip


def _span(cursor: Cursor) -> tuple[int, int, int, int]:
    line = cursor.integer("a line")
    cursor.expect(":")
    column = cursor.integer("a column")
    cursor.expect("-")
    end_line = cursor.integer("a line")
    cursor.expect(":")
    return line, column, end_line, cursor.integer("a column")
