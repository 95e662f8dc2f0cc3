"""Lines and columns, between editors, ast and code points."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sollens.server.positions import content, from_client, from_utf8, line_end, split_lines, to_client

ENCODINGS = ("utf-8", "utf-16", "utf-32")
TEXT = st.text(st.sampled_from("ab é\t\x0c\x0b\u2028\x85😋"), max_size=12)


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(line=TEXT, column=st.integers(0, 14))
def test_a_column_survives_the_way_to_the_editor_and_back(encoding, line, column):
    inside = min(column, len(line))
    assert from_client(line, to_client(line, column, encoding), encoding) == inside


@given(line=TEXT, character=st.integers(0, 60))
def test_a_column_inside_a_character_goes_to_its_start(line, character):
    column = from_client(line, character, "utf-16")
    assert to_client(line, column, "utf-16") <= character
    assert column == len(line) or to_client(line, column + 1, "utf-16") > character


def test_columns_of_ast_are_bytes():
    text = 'x = "😋é"; f(x)'
    call = ast.parse(text).body[1].value
    assert text[from_utf8(text, call.col_offset) : from_utf8(text, call.end_col_offset)] == "f(x)"


@given(st.text(st.sampled_from("a\r\n\x0c\u2028"), max_size=12))
def test_lines_are_those_of_the_protocol_and_of_python(text):
    lines = split_lines(text)
    assert "".join(lines) == text
    assert len(lines) == len(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    assert all(not set(content(line)) & {"\r", "\n"} for line in lines)
    assert all(line != content(line) for line in lines[:-1])


@pytest.mark.parametrize(("text", "end"), [("a\r\nb\n", "\r\n"), ("a\nb", "\n"), ("a", "\n"), ("a\rb", "\r")])
def test_new_lines_end_as_the_first_one_does(text, end):
    assert line_end(split_lines(text)) == end
