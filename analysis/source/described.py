"""Targets of files that are no Python: every pragma in a comment of its own describes what follows it.

A pragma is written as in Python behind the comment mark of the language: `// sol: x=f32[N=1024], golden=case.npz`.
"""

from __future__ import annotations

import re
from pathlib import Path

from sollens.analysis.report import Problem
from sollens.analysis.source import pragma
from sollens.analysis.source.model import Discovery, Shapes, Target
from sollens.analysis.source.text import byte_column, caret, normalise

_PRAGMA = re.compile(r"^\s*(?:#|//+|/\*+|\*|--|;+|%+|!|\(\*)\s*sol:(?P<items>.*?)(?:\*/|\*\))?\s*$")
_DEFINITION = re.compile(r"\b(?!if\b|for\b|while\b|switch\b|return\b|sizeof\b|defined\b)([A-Za-z_]\w*)\s*\(")
_COMMENT = re.compile(r"^\s*(?:#(?!define)|//|/\*|\*|--|;|%|!)")
_ALGORITHM = re.compile(r"\b(?:algorithm|function|procedure|subroutine|kernel)\s+([A-Za-z_][\w-]*)", re.IGNORECASE)
_LOOK_LINES = 12

LANGUAGES = {
    ".py": "Python", ".cu": "CUDA C++", ".cuh": "CUDA C++", ".c": "C", ".h": "C or C++", ".cpp": "C++", ".cc": "C++",
    ".cxx": "C++", ".hpp": "C++", ".hip": "HIP C++", ".jl": "Julia", ".f90": "Fortran", ".f": "Fortran", ".m": "MATLAB",
    ".rs": "Rust", ".txt": "pseudo-code", ".md": "pseudo-code", ".cl": "OpenCL C", ".metal": "Metal",
}  # fmt: skip


def language_of(path: Path) -> str:
    """The language that a file's name says."""
    return LANGUAGES.get(path.suffix.lower(), "unknown language")


def is_described(text: str) -> bool:
    """Whether a text has a pragma in one of the comment styles."""
    return "sol:" in text and any(_PRAGMA.match(line) for line in text.split("\n"))


def discover(text: str, path: Path) -> Discovery:
    """The targets that the pragmas of a text describe, and what is wrong with the others."""
    lines = normalise(text).split("\n")
    targets: list[Target] = []
    problems: list[Problem] = []
    at = 0
    while at < len(lines):
        block = _block(lines, at)
        if not block:
            at += 1
            continue
        found = _read(lines, at, block)
        if isinstance(found, Problem):
            problems.append(found)
        else:
            name, line = _named(lines, at + len(block), path)
            if any(t.name == name for t in targets):
                name = f"{name}_{at + 1}"
            targets.append(
                Target(name=name, kind="function", frontend="llm", line=line, convention="pragma", shapes=found)
            )
        at += len(block)
    return Discovery(targets=tuple(targets), problems=tuple(problems))


def source_of(lines: list[str], target: Target, others: tuple[Target, ...]) -> tuple[str, int]:
    """The text that belongs to a target, and its first line: the whole file, up to the next target's pragma.

    What stands above belongs to it too (constants, helpers), but not what an earlier pragma describes.
    """
    later = [t.line for t in others if t.line > target.line]
    end = len(lines)
    if later:
        end = min(later) - 1
        while end > target.line and (not lines[end - 1].strip() or _COMMENT.match(lines[end - 1])):
            end -= 1
    earlier = [t.line for t in others if t.line < target.line]
    start = target.line - 1 if earlier else 0
    while earlier and start > max(earlier) and _COMMENT.match(lines[start - 1]):
        start -= 1
    return "\n".join(lines[start:end]), start + 1


def _block(lines: list[str], at: int) -> list[re.Match[str]]:
    found: list[re.Match[str]] = []
    while at + len(found) < len(lines) and (match := _PRAGMA.match(lines[at + len(found)])) is not None:
        found.append(match)
    return found


def _read(lines: list[str], at: int, block: list[re.Match[str]]) -> Shapes | Problem:
    joined, starts = "", list[int]()
    for match in block:
        starts.append(len(joined))
        joined += match["items"].rstrip().rstrip(",") + ","
    try:
        return pragma.parse(joined.removesuffix(","), {})
    except pragma.PragmaError as error:
        number = max(k for k, start in enumerate(starts) if start <= error.column)
        line = lines[at + number]
        column = block[number].start("items") + error.column - starts[number]
        return Problem(
            code="bad-pragma", line=at + number + 1, end_line=at + number + 1, column=byte_column(line, column),
            end_column=byte_column(line, column + error.width), severity="warning",
            message=f"pragma: expected {error.expected}, found {error.found}", detail=caret(line, column, error.width),
        )  # fmt: skip


def _named(lines: list[str], at: int, path: Path) -> tuple[str, int]:
    """The name and line of what a pragma stands above: the first definition below it."""
    for number, line in enumerate(lines[at : at + _LOOK_LINES], at + 1):
        if _COMMENT.match(line):
            continue
        found = _ALGORITHM.search(line) or _DEFINITION.search(line)
        if found is not None:
            return found[1], number
    return path.stem, min(at + 1, len(lines)) or 1
