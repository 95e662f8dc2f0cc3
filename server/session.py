"""The state of one editor: open documents, their last results, settings and trust. Methods are called on the event
loop.

Nothing here blocks: files are read in threads, analyses run in the worker.
"""

import asyncio
import itertools
import re
from collections.abc import Mapping, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from sollens.analysis.report import FileReport
from sollens.server import pages
from sollens.server.analyse import Analysed, Source, analyse, program_text, verdicts
from sollens.server.anchor import Anchor, statements_of
from sollens.server.chips import known_chips
from sollens.server.client import Client, State, Status
from sollens.server.configuration import Configuration, Surroundings, root_of
from sollens.server.document import Document, Edit
from sollens.server.features import code_actions, code_lens, diagnostics, hover, inlay_hints
from sollens.server.jobs import Jobs
from sollens.server.positions import Encoding, split_lines
from sollens.server.results import Result
from sollens.server.worker import Progress, Worker

Trigger = Literal["open", "save", "request"]

_ANALYSABLE = re.compile(r"\b(?:torch|jax|flax|equinox)\b|#\s*sol:")
# In a comment of any language: a model translates what follows (analysis/source/described.py).
_DESCRIBED = re.compile(r"^[ \t]*[#/*;%!(-]+[ \t]*sol:", re.MULTILINE)
_PARALLEL_OPENED = 2
_UNTRUSTED = "This workspace is not trusted: nothing of it is run."


class NotAnalysable(LookupError):
    """A request about a document that is not open or that is never analysed; the text says why."""


class Session:
    """One editor's documents and results."""

    def __init__(self, client: Client, worker: Worker) -> None:
        self._client = client
        self._worker = worker
        self.encoding: Encoding = "utf-16"
        self.folders: list[Path] = []
        self.configuration = Configuration()
        self.is_trusted = True
        self._documents: dict[str, Document] = {}
        self._results: dict[str, Result] = {}
        self._published: dict[str, list[str]] = {}
        self._jobs = Jobs()
        self._opened = asyncio.Semaphore(_PARALLEL_OPENED)
        self._serial = itertools.count(1)
        self._warned: set[str] = set()

    # Documents

    def open(self, uri: str, path: Path | None, text: str, version: int, language: str) -> None:
        self._forget(uri)
        self._documents[uri] = Document(
            uri=uri,
            path=path,
            version=version,
            encoding=self.encoding,
            lines=split_lines(text),
            language=language,
        )
        self._start(uri, "open")

    def change(self, uri: str, version: int, edits: Sequence[Edit]) -> None:
        """Apply edits. Results move along; marks are sent again when one was edited away or came back."""
        document = self._documents.get(uri)
        if document is None:
            return
        for edit in edits:
            document.apply(edit)
        document.version = version
        shown = diagnostics.marks(document, self._results.get(uri))
        if [mark.key for mark in shown] != self._published.get(uri, []):
            self._publish(document, shown)

    def save(self, uri: str) -> None:
        self._start(uri, "save")

    def close(self, uri: str) -> None:
        self._forget(uri)
        self._client.publish(uri, None, [])

    def document(self, uri: str) -> Document | None:
        return self._documents.get(uri)

    def _forget(self, uri: str) -> None:
        self._jobs.cancel(uri)
        self._jobs.cancel(_verdict_key(uri))
        self._documents.pop(uri, None)
        self._published.pop(uri, None)
        result = self._results.pop(uri, None)
        if result is not None:
            result.anchor.close()

    # Settings

    def configure(self, table: Mapping[str, Any], of_folder: Mapping[Path, Mapping[str, Any]] | None = None) -> None:
        """Take over the editor's settings; analyse again what they change, show the rest anew."""
        self.configuration.update(table, of_folder)
        self._apply_configuration()

    def choose_hardware(self, chip_id: str) -> None:
        """Use a chip of the catalog until the editor's settings name another one."""
        self.configuration.hardware = chip_id
        self._apply_configuration()

    def announce(self) -> None:
        """Tell the editor how things stand before anything is analysed."""
        state: State = "idle" if self.is_trusted else "untrusted"
        self._jobs.start("announce", self._tell(None, state, "Ready." if self.is_trusted else _UNTRUSTED))

    def trust(self, trusted: bool) -> None:
        if trusted != self.is_trusted:
            self.is_trusted = trusted
            self._start_all()

    def _apply_configuration(self) -> None:
        for uri in tuple(self._documents):
            if uri in self._results:
                self._jobs.start(f"configure {uri}", self._reconfigure(uri))
            else:
                self._start(uri, "open")
        if not self._documents:
            self.announce()

    async def _reconfigure(self, uri: str) -> None:
        document, result = self._documents[uri], self._results[uri]
        surroundings = await self._surroundings(document)
        # A verdict that came meanwhile has made another result of this one.
        current = self._results.get(uri)
        if current is None or current.anchor is not result.anchor or self._jobs.is_running(uri):
            return
        if surroundings.asks_same_as(current.surroundings):
            self._show(document, replace(current, surroundings=surroundings))
        else:
            self._start(uri, "open")

    # What the features show

    def hints(self, uri: str, lines: tuple[int, int]) -> list[inlay_hints.Hint]:
        document = self._documents.get(uri)
        return inlay_hints.hints(document, self._results.get(uri), lines) if document else []

    def tooltip(self, uri: str, *, serial: int, row_line: int) -> str | None:
        return inlay_hints.tooltip(self._results.get(uri), serial=serial, row_line=row_line)

    def hover(self, uri: str, line: int) -> str | None:
        document = self._documents.get(uri)
        return hover.hover(self._results.get(uri), line, document.path if document else None)

    def lenses(self, uri: str) -> list[code_lens.Lens]:
        document = self._documents.get(uri)
        return code_lens.lenses(document, self._results.get(uri)) if document else []

    def quick_fixes(self, uri: str, lines: tuple[int, int]) -> list[code_actions.QuickFix]:
        document = self._documents.get(uri)
        if document is None:
            return []
        return code_actions.quick_fixes(document, diagnostics.marks(document, self._results.get(uri)), lines)

    # Commands

    def analyse(self, uri: str) -> None:
        """Analyse the text as it is in the editor; raises NotAnalysable."""
        self._required(uri)
        self._start(uri, "request")

    async def program_text(self, method: Literal["ir", "einsum"], uri: str, form: str = "text") -> str:
        """The program of a document in one of its textual forms; raises NotAnalysable and what the worker raises."""
        document = self._required(uri)
        source = _source(document, "request")
        surroundings = await self._surroundings(document)
        return await program_text(self._worker, method, source, surroundings, self._root(document), form)

    async def report_page(self, uri: str) -> str:
        """The report of a document as a page; raises NotAnalysable."""
        document, result = self._required(uri), self._results.get(uri)
        if result is None or not result.report.targets:
            raise NotAnalysable(f"expected an analysed file, found none: {_why_no_report(result)}")
        return await asyncio.to_thread(pages.report, result, document.path)

    async def graph_page(self, uri: str) -> str:
        """The einsum graph of a document as a page; raises NotAnalysable and what the worker raises."""
        text = await self.program_text("einsum", uri, form="json")
        return await asyncio.to_thread(pages.graph, Path(self._required(uri).path or uri).name, text)

    async def restart_worker(self) -> None:
        """End the worker and its agents, and analyse the open documents again."""
        await self._worker.restart()
        self._start_all()

    async def clear_cache(self) -> None:
        await self._worker.request("clear_cache", {})

    async def end(self) -> None:
        await self._jobs.close()
        await self._worker.close()

    def _required(self, uri: str) -> Document:
        document = self._documents.get(uri)
        if document is None:
            raise NotAnalysable(f"expected an open document, found none with the address {uri}")
        reason = _UNTRUSTED if not self.is_trusted else why_never(document)
        if reason:
            raise NotAnalysable(reason)
        return document

    # Analyses

    def _start_all(self) -> None:
        for uri in tuple(self._documents):
            self._start(uri, "open")

    def _start(self, uri: str, trigger: Trigger) -> None:
        document = self._documents.get(uri)
        if document is None:
            return
        self._jobs.cancel(uri)
        self._jobs.cancel(_verdict_key(uri))
        if not self.is_trusted:
            self._show(document, None)
            self._jobs.start(uri, self._tell(document, "untrusted", _UNTRUSTED))
        elif reason := why_not(document):
            self._show(document, None)
            self._jobs.start(uri, self._tell(document, "idle", reason))
        else:
            self._jobs.start(uri, self._run(document, trigger))

    async def _run(self, document: Document, trigger: Trigger) -> None:
        """Analyse the text that the document holds now, and show the result wherever its lines have gone by then."""
        anchor = Anchor(document)
        source = _source(document, trigger)
        analysed: Analysed | None = None
        progress = self._client.progress("Speed of light", lambda: self._stop(document))
        try:
            surroundings = await self._surroundings(document)
            self._tell_now(document, surroundings, "tracing", f"Tracing {source.path.name}.")

            def on_progress(step: Progress) -> None:
                text = step.message or f"{step.stage}: {source.path.name}"
                self._tell_now(document, surroundings, "tracing" if step.stage == "trace" else "analysing", text)
                progress.report(text)

            # Many files opened at once wait for each other, so that a save does not wait for all of them.
            async with self._opened if trigger == "open" else nullcontext():
                analysed = await analyse(self._worker, source, surroundings, self._root(document), on_progress)
            result = await asyncio.to_thread(self._result, source, analysed.report, anchor, surroundings)
        except BaseException:
            anchor.close()
            if analysed is not None and analysed.updates is not None:
                analysed.updates.close()
            raise
        finally:
            progress.end()
        self._show(document, result)
        self._tell_now(document, surroundings, *_outcome(analysed.report))
        if (updates := analysed.updates) is not None:
            job = self._jobs.start(_verdict_key(document.uri), self._follow(document, anchor, analysed))
            # Also where the job is cancelled before it begins.
            job.add_done_callback(lambda _: updates.close())

    async def _follow(self, document: Document, anchor: Anchor, analysed: Analysed) -> None:
        """Put each verdict that follows into the result, while it is this analysis's."""
        async with aclosing(verdicts(analysed)) as reports:
            async for report in reports:
                while (current := self._results.get(document.uri)) is not None and current.anchor is anchor:
                    result = await asyncio.to_thread(replace(current, report=report).prepare)
                    if self._results.get(document.uri) is current:
                        self._show(document, result, is_new=False)
                        break

    def _result(self, source: Source, report: FileReport, anchor: Anchor, surroundings: Surroundings) -> Result:
        anchor.set_statements(statements_of(source.text))
        return Result(
            serial=next(self._serial),
            version=source.version,
            report=report,
            anchor=anchor,
            surroundings=surroundings,
            chips=known_chips({target.hardware for target in report.targets}),
        ).prepare()

    def _stop(self, document: Document) -> None:
        """Give up the analysis, as the user asked."""
        if self._jobs.is_running(document.uri):
            self._jobs.start(document.uri, self._tell(document, "idle", "Cancelled."))

    def _show(self, document: Document, result: Result | None, *, is_new: bool = True) -> None:
        """Put `result` in the place of the document's last one, and tell the editor what changed.

        The marks of a new one are sent even where they are the same: they belong to another version.
        """
        last = self._results.pop(document.uri, None)
        before = _labels(inlay_hints.hints(document, last))
        lenses_before = code_lens.lenses(document, last)
        marks_before = diagnostics.marks(document, last)
        if last is not None and (result is None or last.anchor is not result.anchor):
            last.anchor.close()
        if result is not None:
            self._results[document.uri] = result
        if _labels(inlay_hints.hints(document, result)) != before:
            self._client.refresh_hints()
        if code_lens.lenses(document, result) != lenses_before:
            self._client.refresh_lenses()
        shown = diagnostics.marks(document, result)
        if (result is not None or self._published.get(document.uri)) and (is_new or shown != marks_before):
            self._publish(document, shown)

    def _publish(self, document: Document, marks: Sequence[diagnostics.Mark]) -> None:
        self._published[document.uri] = [mark.key for mark in marks]
        self._client.publish(document.uri, document.version, marks)

    def _root(self, document: Document) -> Path | None:
        return root_of(document.path, self.folders) if document.path is not None else None

    async def _surroundings(self, document: Document | None) -> Surroundings:
        root = self._root(document) if document is not None else next(iter(self.folders), None)
        surroundings = await asyncio.to_thread(self.configuration.resolve, root)
        for warning in surroundings.warnings:
            if warning not in self._warned:
                self._client.warn(warning)
        self._warned.update(surroundings.warnings)
        return surroundings

    async def _tell(self, document: Document | None, state: State, text: str) -> None:
        self._tell_now(document, await self._surroundings(document), state, text)

    def _tell_now(self, document: Document | None, surroundings: Surroundings, state: State, text: str) -> None:
        status = Status(
            state=state,
            text=text,
            hardware=surroundings.chip.id,
            hardware_name=surroundings.chip.name,
            interpreter=surroundings.interpreter.path or None,
            uri=document.uri if document is not None else None,
        )
        self._client.send_status(status)


def why_never(document: Document) -> str:
    """Why a document of this kind is never analysed; empty for a Python file."""
    if document.uri.startswith("vscode-notebook-cell:") or document.uri.split("#")[0].endswith(".ipynb"):
        return "Notebooks are not analysed: sollens reads Python files."
    if document.path is None:
        return "Not analysed: save it to a file first."
    is_python = document.language == "python" or document.path.suffix in (".py", ".pyi")
    if not is_python and not _DESCRIBED.search(document.text):
        return "Not analysed: this is no Python file, and it has no `sol:` pragma (docs/llm.md)."
    return ""


def why_not(document: Document) -> str:
    """Why a document is not analysed now; empty for a Python file that seems to hold a model."""
    return why_never(document) or (
        ""
        if _ANALYSABLE.search(document.text) or _DESCRIBED.search(document.text)
        else "Nothing to analyse: no torch, no jax and no `# sol:` pragma."
    )


def _why_no_report(result: Result | None) -> str:
    if result is None:
        return "save the file to analyse it"
    return result.report.problems[0].message if result.report.problems else "it holds nothing to analyse"


def _source(document: Document, trigger: Trigger) -> Source:
    assert document.path is not None
    return Source(path=document.path, text=document.text, version=document.version, must_exist=trigger == "save")


def _verdict_key(uri: str) -> str:
    return f"verdict {uri}"


def _labels(hints: Sequence[inlay_hints.Hint]) -> list[tuple[int, str]]:
    return [(hint.line, hint.label) for hint in hints]


def _outcome(report: FileReport) -> tuple[State, str]:
    errors = [problem for problem in report.problems if problem.severity == "error"]
    if errors and not report.targets:
        return "error", errors[0].message
    names = ", ".join(target.name for target in report.targets)
    return "idle", f"Analysed {names}." if names else "Ready."
