"""Results stay with their statements, whatever is typed."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sollens.server.anchor import Anchor, statements_of
from sollens.server.document import Document, Edit
from sollens.server.positions import content, split_lines, to_client

ENDS = st.sampled_from(["\n", "\r\n", "\r"])
# Few and short: equal lines, joined lines and split ends are the cases that matter.
BODY = st.text(st.sampled_from("ab😋"), max_size=3)
INSERTED = st.text(st.sampled_from("ab\n\r😋"), max_size=6)


def document(text: str, encoding: str = "utf-16") -> Document:
    return Document(uri="file:///m.py", path=Path("/m.py"), version=1, encoding=encoding, lines=split_lines(text))


@st.composite
def texts(draw: st.DrawFn) -> str:
    end = draw(ENDS)
    return end.join(draw(st.lists(BODY, min_size=1, max_size=8)))


def span(draw: st.DataObject, of: Document) -> tuple[tuple[int, int], tuple[int, int]]:
    positions = []
    for _ in range(2):
        line = draw.draw(st.integers(0, len(of.lines) - 1))
        column = draw.draw(st.integers(0, len(content(of.lines[line]))))
        positions.append((line, column))
    first, last = sorted(positions)
    return first, last


def client(of: Document, position: tuple[int, int]) -> tuple[int, int]:
    line, column = position
    return line, to_client(of.line(line), column, of.encoding)


def offset(of: Document, position: tuple[int, int]) -> int:
    return sum(map(len, of.lines[: position[0]])) + position[1]


@given(texts(), st.data(), st.sampled_from(["utf-8", "utf-16", "utf-32"]))
@settings(max_examples=150)
def test_edits_make_the_text_that_the_editor_has(text, data, encoding):
    ours = document(text, encoding)
    for _ in range(data.draw(st.integers(1, 5))):
        start, end = span(data, ours)
        inserted = data.draw(INSERTED)
        text = text[: offset(ours, start)] + inserted + text[offset(ours, end) :]
        ours.apply(Edit(text=inserted, start=client(ours, start), end=client(ours, end)))
        assert ours.lines == split_lines(text)


@given(texts(), st.data())
@settings(max_examples=300)
def test_a_shown_line_has_its_text_and_lines_keep_their_order(text, data):
    ours = document(text)
    original = [content(line) for line in ours.lines]
    anchor = Anchor(ours)
    for _ in range(data.draw(st.integers(1, 6))):
        start, end = span(data, ours)
        inserted = data.draw(INSERTED)
        ours.apply(Edit(text=inserted, start=client(ours, start), end=client(ours, end)))
    shown = [anchor.line_now(line) for line in range(len(original))]
    for line, now in enumerate(shown):
        assert now is None or ours.line(now) == original[line]
    visible = [now for now in shown if now is not None]
    assert visible == sorted(set(visible))


@given(texts(), st.data())
@settings(max_examples=200)
def test_distinct_untouched_lines_are_always_found(text, data):
    """Lines made distinct: those that no edit touches stay shown, exactly where they are."""
    lines = [f"{number}:{line}" for number, line in enumerate(text.replace("\r", "\n").split("\n"))]
    ours = document("\n".join(lines))
    anchor = Anchor(ours)
    for _ in range(data.draw(st.integers(1, 6))):
        start, end = span(data, ours)
        ours.apply(Edit(text=data.draw(INSERTED), start=client(ours, start), end=client(ours, end)))
    now_at: dict[str, list[int]] = {}
    for index in range(len(ours.lines)):
        # An edit may make a line that reads as another does.
        now_at.setdefault(ours.line(index), []).append(index)
    for number, line in enumerate(lines):
        where = anchor.line_now(number)
        assert where is None or ours.line(where) == line
        if where is not None:
            assert where in now_at[line]


def test_a_single_edit_elsewhere_never_hides_a_line():
    lines = [f"x{number} = 1" for number in range(6)]
    for first in range(6):
        for last in range(first, 6):
            for inserted in ("", "y", "y\n", "\n", "y\nz"):
                ours = document("\n".join(lines))
                anchor = Anchor(ours)
                ours.apply(Edit(text=inserted, start=(first, 2), end=(last, 3)))
                untouched = [*range(first), *range(last + 1, 6)]
                delta = len(ours.lines) - 6
                assert [anchor.line_now(line) for line in untouched] == [
                    line if line < first else line + delta for line in untouched
                ]


@pytest.mark.parametrize("column", [0, 5])
def test_a_line_pushed_down_by_its_double_keeps_its_place_in_order(column):
    ours = document("x = 1\nx = 1\n")
    anchor = Anchor(ours)
    inserted = "x = 1\n" if column == 0 else "\nx = 1"
    ours.apply(Edit(text=inserted, start=(0, column), end=(0, column)))
    assert anchor.line_now(0) == (1 if column == 0 else 0)
    assert anchor.line_now(1) == 2


def test_undoing_everything_brings_all_lines_back():
    ours = document("a\nb\nc\nd")
    anchor = Anchor(ours)
    ours.apply(Edit(text="", start=(1, 0), end=(3, 0)))
    assert [anchor.line_now(line) for line in range(4)] == [0, None, None, 1]
    ours.apply(Edit(text="b\nc\n", start=(1, 0), end=(1, 0)))
    assert [anchor.line_now(line) for line in range(4)] == [0, 1, 2, 3]


def test_typing_and_deleting_in_a_line_brings_it_back_though_others_changed():
    ours = document("a\nb\nc")
    anchor = Anchor(ours)
    ours.apply(Edit(text="new\n", start=(0, 0), end=(0, 0)))
    ours.apply(Edit(text="x", start=(2, 1), end=(2, 1)))
    assert anchor.line_now(1) is None
    assert anchor.original_line(2) is None
    ours.apply(Edit(text="", start=(2, 1), end=(2, 2)))
    assert anchor.line_now(1) == 2
    assert anchor.original_line(2) == 1


def test_replacing_the_whole_text_keeps_what_is_the_same_at_both_ends():
    ours = document("a\nb\nc\nd")
    anchor = Anchor(ours)
    ours.apply(Edit(text="a\nx\ny\nc\nd"))
    assert [anchor.line_now(line) for line in range(4)] == [0, None, 3, 4]


def test_an_edit_anywhere_in_a_statement_hides_its_line():
    text = "y = f(\n    a,\n    b,\n)\nz = 1\n"
    ours = document(text)
    anchor = Anchor(ours)
    anchor.set_statements(statements_of(text))
    ours.apply(Edit(text="c", start=(2, 4), end=(2, 5)))
    assert anchor.line_now(0) is None
    assert anchor.line_now(4) == 4


def test_a_header_is_a_statement_of_its_own():
    text = "@d\nclass A(\n    B,\n):\n    x = 1\n    def f(\n        self\n    ): pass\n"
    text += "match a:\n    case 1:\n        y = (2,\n    3)\n"
    spans = statements_of(text)
    assert spans[1] == (1, 3)
    assert 4 not in spans
    assert spans[5] == (5, 6)
    assert spans[10] == (10, 11)
    assert statements_of("def f(:\n") == {}


def test_a_closed_anchor_no_longer_follows():
    ours = document("a")
    anchor = Anchor(ours)
    anchor.close()
    assert ours.watchers == []
