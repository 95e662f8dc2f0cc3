"""A user who types at random, and an oracle that knows which hint may stand where.

Every statement that gets a hint names its own time: `y17 = f(y16)  #= 17e-6 memory` is shown as "≥ 17.0 µs · HBM". So a
hint can be held against the text of the line that it stands on, without knowing how the server follows edits.
Positions, lines and statements are worked out here anew, from the whole text.
"""

import ast
import asyncio
import random
import re
from collections import Counter

from editor import Editor
from lsprotocol import types as t

_LINE_END = re.compile(r"\r\n|\r|\n")
_MARK = re.compile(r"#= (\d{1,3})e-(\d) memory$")
_ANY_MARK = re.compile(r"#= \d+(?:\.\d+)?(?:e-\d{1,2})? (?:memory|vector|matmul:\w+)")
_ANALYSABLE = re.compile(r"\b(?:torch|jax|flax|equinox)\b|#\s*sol:")
_UNITS = {"3": "ms", "6": "µs", "9": "ns"}
_HEAD = "import torch\nclass Model(torch.nn.Module):  #= 900e-3 memory\n    def forward(self, x):\n"
_TYPED = (
    "a",
    "é",
    "😋",
    "\t",
    " ",
    "\n",
    "\r\n",
    "\f",
    "\u2028",
    "x = 1\n",
    "# note 😋\n",
    "𝔸" * 3,
    "z" * 3000,
    '"""',
    "(",
    ")",
)


class Typist:
    """One user of one server; `check` after each step."""

    def __init__(self, editor: Editor, seed: int) -> None:
        self.editor = editor
        self.random = random.Random(seed)
        self.steps: Counter[str] = Counter()
        self.hints_seen = 0
        self.number = 0
        self.file = 0
        self.utf8 = False
        self.uri = ""
        self.text = ""
        # Edits that were made and can be undone, and those undone: the text before and after.
        self.done: list[tuple[str, str]] = []
        self.undone: list[tuple[str, str]] = []
        self.analysed: set[tuple[str, ...]] = set()
        self.is_pending = True
        self.before: Counter[str] = Counter()

    async def begin(self) -> None:
        """Open a first file. The server has said which units it counts in."""
        self.utf8 = self.editor.encoding == "utf-8"
        self._open(_HEAD + "".join(self._statement("\n") for _ in range(8)))
        await self._settle()

    async def step(self) -> None:
        """One edit or save, and the check of what is shown then."""
        moves = {
            self._type: 30, self._delete: 14, self._replace: 8, self._statements: 16, self._duplicate: 4, self._move: 4,
            self._undo: 12, self._redo: 5, self._several: 4, self._whole: 1, self._convert: 1,
            self._save: 8, self._storm: 2, self._settle: 5, self._reopen: 1, self._rename: 1,
        }  # fmt: skip
        [move] = self.random.choices(list(moves), weights=list(moves.values()))
        # A text that was typed to pieces shows nothing: on to the next file.
        if not self.before and self.random.random() < 0.3:
            move = self._rename
        name = move.__name__.removeprefix("_")
        self.steps[name] += 1
        unchanged = self.text
        result = move()
        if result is not None:
            await result
        kept = self._kept(unchanged) if name in ("type", "delete", "replace", "statements") else Counter()
        await self._check(f"step {sum(self.steps.values())}, {name}", kept)

    # What is shown

    async def _check(self, where: str, kept: Counter[str]) -> None:
        """Every hint is that of the statement on its line; those of untouched statements are still there."""
        hints = await self.editor.hints(self.uri, 0, 1_000_000)
        lines = _lines(self.text)
        seen: list[int] = []
        for hint in hints:
            number, label = hint.position.line, str(hint.label)
            assert number < len(lines), f"{where}: a hint behind the end: {hint}"
            line = lines[number]
            assert hint.position.character == self._units(line), f"{where}: not at the end of {line!r}: {hint}"
            expected = _label(line)
            assert expected in (label, None), f"{where}: {label!r} on {line!r}"
            assert _ANY_MARK.search(line), f"{where}: {label!r} on {line!r}"
            candidates = [each for each in self.analysed if each[0] == line]
            assert any(tuple(lines[number : number + len(each)]) == each for each in candidates), (
                f"{where}: {label!r} on {line!r}, which was never analysed like this"
            )
            seen.append(number)
        assert seen == sorted(set(seen)), f"{where}: two hints on a line, or out of order: {seen}"
        shown = Counter(lines[number] for number in seen)
        assert not (lost := kept - shown), f"{where}: hints that flickered away: {lost}"
        self.before = shown
        self.hints_seen += len(seen)

    def _kept(self, before: str) -> Counter[str]:
        """Shown statements, on single lines, that the edit from `before` to the text cannot have touched."""
        if self.is_pending:
            return Counter()
        old, new = _lines(before), _lines(self.text)
        head = 0
        while head < min(len(old), len(new)) and old[head] == new[head]:
            head += 1
        tail = 0
        while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
            tail += 1
        # Lines that are there once, one line away from the edit on both sides.
        untouched = old[: max(head - 1, 0)] + old[len(old) - max(tail - 1, 0) :]
        once = Counter(old) + Counter(new)
        several = {line for each in self.analysed if len(each) > 1 for line in each}
        return Counter(line for line in untouched if line in self.before and once[line] == 2 and line not in several)

    async def _settle(self) -> None:
        """Save, and wait until the hints are those of the whole text, and no others."""
        self._write()
        expected = _expected(self.text)
        found: list[int] = []
        try:
            async with asyncio.timeout(30):
                while (found := await self._shown_lines()) != expected:
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"after a save: hints on {found}, expected {expected}, in {self.text!r}") from None
        self.is_pending = False

    async def _shown_lines(self) -> list[int]:
        return [hint.position.line for hint in await self.editor.hints(self.uri, 0, 1_000_000)]

    # What a user does

    def _statement(self, end: str) -> str:
        self.number = self.number % 999 + 1
        n, indent = self.number, self.random.choice(["        ", "\t\t"])
        unit = self.random.choice("369")
        name = self.random.choice(["y", "ÿ", "𝑦"])
        if self.random.random() < 0.25:
            return f"{indent}{name}{n} = f(  #= {n}e-{unit} memory{end}{indent}    x{n},{end}{indent}){end}"
        tail = self.random.choice(["", "'😋' + ", "'" + "é" * 40 + "' + "])
        return f"{indent}{name}{n} = {tail}x  #= {n}e-{unit} memory{end}"

    def _type(self) -> None:
        self._edit(self._place(), 0, self.random.choice(_TYPED))

    def _delete(self) -> None:
        self._edit(self._place(), self.random.choice([1, 1, 2, 10, 60]), "")

    def _replace(self) -> None:
        self._edit(self._place(), self.random.choice([1, 5, 30]), self.random.choice(_TYPED))

    def _statements(self) -> None:
        starts = [0, *(found.end() for found in _LINE_END.finditer(self.text))]
        end = self.random.choice(["\n", "\n", "\r\n"])
        self._edit(
            self.random.choice(starts), 0, "".join(self._statement(end) for _ in range(self.random.choice([1, 1, 2])))
        )

    def _duplicate(self) -> None:
        start, end = self._some_line()
        self._edit(end, 0, self.text[start:end])

    def _move(self) -> None:
        start, end = self._some_line()
        line = self.text[start:end]
        self._edit(start, end - start, "")
        self._edit(self._some_line()[0], 0, line)

    def _several(self) -> None:
        """One message with several changes, each in terms of the text that the one before made."""
        changes: list[t.TextDocumentContentChangeEvent] = []
        before = self.text
        for _ in range(self.random.choice([2, 3])):
            at = self._place()
            changes.append(self._change(at, self._end(at, self.random.choice([0, 1, 8])), self.random.choice(_TYPED)))
        self._did(before)
        self._send(changes)

    def _whole(self) -> None:
        lines = _LINE_END.split(self.text)
        del lines[self.random.randrange(len(lines))]
        self._become("\n".join(lines))

    def _convert(self) -> None:
        """The line ends of the whole text, as an editor does on request."""
        self._become(_LINE_END.sub(self.random.choice(["\n", "\r\n"]), self.text))

    def _undo(self) -> None:
        if self.done:
            before, after = self.done.pop()
            self.undone.append((before, after))
            self._towards(before)

    def _redo(self) -> None:
        if self.undone:
            before, after = self.undone.pop()
            self.done.append((before, after))
            self._towards(after)

    def _save(self) -> None:
        self._write()

    def _storm(self) -> None:
        for _ in range(5):
            self._edit(self._place(), 0, "a")
            self._write()

    async def _reopen(self) -> None:
        self.editor.close(self.uri)
        self._open(self.text)
        await self.editor.heard(self.uri)

    async def _rename(self) -> None:
        """As editors tell it: the old name is closed, the new one opened. The text starts anew, so it stays small."""
        self.editor.close(self.uri)
        self._open(_HEAD + "".join(self._statement("\n") for _ in range(self.random.choice([2, 8, 20]))))
        await self.editor.heard(self.uri)

    # How it is sent

    def _open(self, text: str) -> None:
        self.file += 1
        self.text, self.done, self.undone, self.before = text, [], [], Counter()
        self.analysed, self.is_pending = _statements(text), True
        self.uri = self.editor.open(text, name=f"model{self.file}.py")

    def _write(self) -> None:
        self.analysed |= _statements(self.text)
        self.is_pending = True
        self.editor.save(self.uri, self.text)

    def _edit(self, at: int, length: int, new: str) -> None:
        before = self.text
        change = self._change(at, self._end(at, length), new)
        self._did(before)
        self._send([change])

    def _become(self, text: str) -> None:
        before, self.text = self.text, text
        self._did(before)
        self._send([t.TextDocumentContentChangeWholeDocument(text=text)])

    def _towards(self, text: str) -> None:
        """The smallest change that gives `text`, as undo sends it."""
        head = 0
        while head < min(len(text), len(self.text)) and text[head] == self.text[head]:
            head += 1
        tail = 0
        while tail < min(len(text), len(self.text)) - head and text[-1 - tail] == self.text[-1 - tail]:
            tail += 1
        # Never between the two halves of a line end.
        while head and (text[head - 1 : head + 1] == "\r\n" or self.text[head - 1 : head] == "\r"):
            head -= 1
        while tail and "\n" in (text[len(text) - tail], self.text[len(self.text) - tail]):
            tail -= 1
        self._send([self._change(head, len(self.text) - tail, text[head : len(text) - tail])])

    def _did(self, before: str) -> None:
        self.done = [*self.done[-40:], (before, self.text)]
        self.undone = []

    def _change(self, start: int, end: int, new: str) -> t.TextDocumentContentChangeEvent:
        span = t.Range(start=self._position(start), end=self._position(end))
        self.text = self.text[:start] + new + self.text[end:]
        return t.TextDocumentContentChangePartial(range=span, text=new)

    def _send(self, changes: list[t.TextDocumentContentChangeEvent]) -> None:
        self.editor.versions[self.uri] += 1
        identifier = t.VersionedTextDocumentIdentifier(uri=self.uri, version=self.editor.versions[self.uri])
        self.editor.client.text_document_did_change(t.DidChangeTextDocumentParams(identifier, changes))

    # Places

    def _place(self) -> int:
        """A place in the text: anywhere, or near a hint's line, where it hurts."""
        at = self.random.randint(0, len(self.text))
        if self.random.random() < 0.5 and (marks := [found.end() for found in _ANY_MARK.finditer(self.text)]):
            at = min(max(self.random.choice(marks) + self.random.choice([-30, -3, 0, 0, 1, 2]), 0), len(self.text))
        return at - 1 if self.text[at - 1 : at + 1] == "\r\n" else at

    def _end(self, at: int, length: int) -> int:
        end = min(at + length, len(self.text))
        return end + 1 if self.text[end - 1 : end + 1] == "\r\n" else end

    def _some_line(self) -> tuple[int, int]:
        starts = [0, *(found.end() for found in _LINE_END.finditer(self.text))]
        index = self.random.randrange(len(starts))
        return starts[index], starts[index + 1] if index + 1 < len(starts) else len(self.text)

    def _position(self, offset: int) -> t.Position:
        lines = _LINE_END.split(self.text[:offset])
        return t.Position(line=len(lines) - 1, character=self._units(lines[-1]))

    def _units(self, text: str) -> int:
        return len(text.encode("utf-8")) if self.utf8 else len(text.encode("utf-16-le")) // 2


def _lines(text: str) -> list[str]:
    return _LINE_END.split(text)


def _label(line: str) -> str | None:
    """What the hint of a statement says; None where an edit has made another mark of it."""
    first, found = _ANY_MARK.search(line), _MARK.search(line)
    if (
        first is None
        or found is None
        or first.start() != found.start()
        or found[2] not in _UNITS
        or found[1].startswith("0")
    ):
        return None
    digits = {1: f"{found[1]}.00", 2: f"{found[1]}.0", 3: found[1]}[len(found[1])]
    return f"≥ {digits} {_UNITS[found[2]]} · HBM"


def _expected(text: str) -> list[int]:
    """The lines that get a hint: marked ones from the first marked class on."""
    if not _ANALYSABLE.search(text):
        return []
    found: list[int] = []
    for number, line in enumerate(_lines(text)):
        if _ANY_MARK.search(line) and (found or line.lstrip().startswith("class ")):
            found.append(number)
    return found


def _statements(text: str) -> set[tuple[str, ...]]:
    """Each marked line with the rest of its statement; alone where the text is no Python."""
    lines = _lines(text)
    ends: dict[int, int] = {}
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError):
        nodes = []
    for node in nodes:
        if isinstance(node, ast.Assign):
            ends[node.lineno - 1] = max(node.end_lineno or 0, ends.get(node.lineno - 1, 0))
    return {tuple(lines[n : ends.get(n, n + 1)]) for n, line in enumerate(lines) if _ANY_MARK.search(line)}
