"""The IR text in a reply: models write sentences around it, several blocks, or none."""

from __future__ import annotations

import re

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n`]*$", re.MULTILINE)
_PROGRAM = re.compile(r'^[ \t]*program[ \t]+["\w]', re.MULTILINE)


def extract(reply: str) -> str | None:
    """The program that a reply means: the last fenced block that holds one, else the text from its `program` on.

    Models that correct themselves do so further down. None where there is no program.
    """
    found = [block for block in _blocks(reply) if _PROGRAM.search(block)]
    if found:
        return _from_header(found[-1])
    starts = list(_PROGRAM.finditer(reply))
    if not starts:
        return None
    return _until_prose(reply[starts[-1].start() :])


def _blocks(reply: str) -> list[str]:
    blocks: list[str] = []
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(reply):
        if opened is None:
            opened = fence
        elif fence[1][:3] == opened[1][:3] and len(fence[1]) >= len(opened[1]):
            blocks.append(reply[opened.end() + 1 : fence.start()])
            opened = None
    if opened is not None:  # a reply that was cut
        blocks.append(reply[opened.end() + 1 :])
    return blocks


def _from_header(block: str) -> str:
    start = _PROGRAM.search(block)
    assert start is not None
    return block[start.start() :].rstrip() + "\n"


def _until_prose(text: str) -> str:
    """An unfenced program ends before the next line that is not indented below its header."""
    lines = text.rstrip().split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    kept = lines[:1]
    for line in lines[1:]:
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        kept.append(line)
    return "\n".join(kept).rstrip() + "\n"
