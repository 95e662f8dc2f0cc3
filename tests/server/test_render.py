"""Markdown of hovers, read back by a Markdown reader; labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from sollens.analysis.report import LineRow, twin_sizes
from sollens.server.labels import hint_label
from sollens.server.render import code, escape, operators, table

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
SPECIAL = st.text(st.sampled_from(r"\`*_{}[]()<>#|~!&;:=+-.1a x/^"), max_size=20)


def read(markdown: str) -> list[str]:
    """The texts of a document that has no other element than paragraphs, lists and tables."""
    texts: list[str] = []
    for token in READER.parse(markdown):
        assert token.type.partition("_")[0] in {
            *("paragraph", "inline", "bullet", "list", "table", "thead", "tbody", "tr", "th", "td")
        }
        if token.type == "inline":
            assert {child.type for child in token.children or []} <= {"text", "text_special", "code_inline"}
            texts.append("".join(child.content for child in token.children or []))
    return texts


@given(SPECIAL | st.text(st.characters(exclude_categories=["C"]), max_size=20))
def test_escaped_text_is_shown_as_it_is(text: str) -> None:
    shown = " ".join(text.split())
    assert read(f"- {escape(text)}") == ([shown] if shown else [])
    assert read(f"a\n\n{escape(text)}") == (["a", shown] if shown else ["a"])


@pytest.mark.parametrize("text", ["inputs x: f32[8, 1024, 768]", "max_rel_error 1e-3", "/home/me/my_env/bin/python"])
def test_usual_text_needs_no_escapes(text: str) -> None:
    assert escape(text) == text


def test_tables_stand_in_columns() -> None:
    assert table(("name", "b"), [("x", "12.5 GB")]) == "```text\nname  b\nx     12.5 GB\n```"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("aten._softmax.default", "softmax"),
        ("aten.masked_fill_.Scalar", "masked_fill_"),
        ("fn.matmul", "matmul"),
        ("my.op", "my.op"),
    ],
)
def test_operators_have_the_names_of_pytorch(name: str, shown: str) -> None:
    assert operators(row(operators=[name, name])) == f"Operators: `{shown}`"


def test_code_stays_on_its_line() -> None:
    assert read(code("a`b\n#c")) == ["a'b #c"]


def test_sizes_of_a_twin_name_their_lines() -> None:
    assert twin_sizes({"8:31": 4, "8:37": 32, "dim": 16, "9:1": 2}) == "dim=16; 4, 32 on line 8; 2 on line 9"
    assert twin_sizes({}) == ""


def row(**changes: object) -> LineRow:
    values = {"line": 1, "time_s": 41.29e-6, "limit": "memory", "share": 0.5, "macs": 0, "bytes": 0, "vector_ops": 0}
    return LineRow(**(values | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "checked", "label"),
    [
        ({}, True, "≥ 41.2 µs · HBM"),
        ({}, False, "≥ 41.2 µs · HBM"),
        ({"kind": "total"}, False, "≥ 41.2 µs · HBM ?"),
        ({"kind": "total"}, True, "≥ 41.2 µs · HBM"),
        ({"count": 12, "limit": "matmul:tf32"}, True, "≥ 41.2 µs · TF32 ×12"),
        ({"count": 123456789, "limit": "matmul:tf32"}, True, "≥ 41.2 µs · TF32"),
        ({"time_s": 0.0, "limit": ""}, True, "free"),
    ],
)
def test_labels(changes: dict[str, object], checked: bool, label: str) -> None:
    assert hint_label(row(**changes), memory="HBM", checked=checked) == label
