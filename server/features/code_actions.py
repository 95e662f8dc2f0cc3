"""Edits and commands offered for a range of lines."""

from collections.abc import Sequence
from dataclasses import dataclass

from sollens.server.document import Document
from sollens.server.features.diagnostics import Fix, Mark
from sollens.server.positions import line_end


@dataclass(frozen=True, slots=True, kw_only=True)
class Insertion:
    """Text put at the start of a 0-based line; holds for one version of the document only."""

    line: int
    text: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickFix:
    """A fix for a mark; `insertion` is worked out for the document as it is."""

    title: str
    mark: Mark
    insertion: Insertion


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAction:
    """A command for the file."""

    title: str
    kind: str
    command: str
    arguments: tuple[str, ...] = ()


def quick_fixes(document: Document, marks: Sequence[Mark], lines: tuple[int, int]) -> list[QuickFix]:
    """The fixes of the marks that touch `lines` (both included)."""
    return [
        QuickFix(title=mark.fix.title, mark=mark, insertion=insertion(document, mark.start[0], mark.fix))
        for mark in marks
        if mark.fix is not None and mark.start[0] <= lines[1] and mark.end[0] >= lines[0]
    ]


def insertion(document: Document, line: int, fix: Fix) -> Insertion:
    """Put the fix above the line and its decorators, indented as the line is, with the document's line ends."""
    text = document.line(line)
    indentation = text[: len(text) - len(text.lstrip())]
    while line > 0 and document.line(line - 1).startswith(f"{indentation}@"):
        line -= 1
    return Insertion(
        line=line, text=f"{indentation}{fix.text.strip()}{line_end(document.lines)}", version=document.version
    )


def source_actions(uri: str) -> list[SourceAction]:
    return [
        SourceAction(
            title="sollens: choose hardware",
            kind="source.sollens.chooseHardware",
            command="sollens.server.chooseHardware",
        ),
        SourceAction(
            title="sollens: analyse this file",
            kind="source.sollens.analyse",
            command="sollens.server.analyse",
            arguments=(uri,),
        ),
        SourceAction(
            title="sollens: restart analysis", kind="source.sollens.restart", command="sollens.server.restartAgent"
        ),
    ]
