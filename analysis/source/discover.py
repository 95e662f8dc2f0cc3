"""The targets of a file and their example inputs: pragma, then KernelBench's convention, then pyproject.

Runs nothing of the file.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from sollens.analysis.report import Problem
from sollens.analysis.source import pragma
from sollens.analysis.source.candidates import Candidate, Parameter, candidates, referenced
from sollens.analysis.source.constants import module_integers
from sollens.analysis.source.model import Discovery, Shapes, Target
from sollens.analysis.source.project import Project
from sollens.analysis.source.text import byte_column, caret, normalise

MARK = "# sol:"
_MODEL_NAMES = ("Model", "ModelNew")
_ENTRY_NAMES = ("model", "forward", "apply", "reference", "kernel")


def discover(text: str, path: str | Path = "", project: Project | None = None) -> Discovery:
    """The targets in a file's text; problems (syntax, pragmas, missing shapes) come with them, never instead."""
    source = normalise(text)
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        return Discovery(targets=(), problems=(_syntax_problem(error, source),))
    except (ValueError, RecursionError, MemoryError) as error:
        message = f"expected Python source, found text that its parser refuses: {error or type(error).__name__}"
        return Discovery(
            targets=(), problems=(Problem(code="syntax-error", line=1, severity="error", message=message),)
        )
    return _Discoverer(source, tree, Path(path), project or Project()).run()


@dataclass(frozen=True, slots=True)
class _Comment:
    line: int
    column: int  # characters
    text: str
    own_line: bool


def _comments(source: str) -> list[_Comment]:
    found: list[_Comment] = []
    lines = source.split("\n")
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT and token.string.replace(" ", "").startswith("#sol:"):
                line, column = token.start
                found.append(_Comment(line, column, token.string, not lines[line - 1][:column].strip()))
    except (tokenize.TokenError, SyntaxError):
        pass  # ast has accepted the file; what tokenize still refuses has no more comments for us
    return found


def _syntax_problem(error: SyntaxError, source: str) -> Problem:
    line = error.lineno or 1
    lines = source.split("\n")
    shown = lines[line - 1] if 0 < line <= len(lines) else ""
    column = max(0, (error.offset or 1) - 1)
    end_line, end_offset = error.end_lineno or line, max(1, error.end_offset or 1)
    end_shown = lines[end_line - 1] if 0 < end_line <= len(lines) else ""
    return Problem(
        code="syntax-error",
        line=line,
        column=byte_column(shown, column),
        severity="error",
        message=f"{error.msg}: analysis resumes when the file is valid Python",
        detail=caret(shown, column),
        end_line=end_line,
        end_column=byte_column(end_shown, end_offset - 1),
    )


class _Discoverer:
    def __init__(self, source: str, tree: ast.Module, path: Path, project: Project) -> None:
        self.source = source
        self.lines = source.split("\n")
        self.tree = tree
        self.path = path
        self.project = project
        self.integers = module_integers(tree)
        self.candidates = candidates(tree)
        self.problems: list[Problem] = list(project.problems)
        self.targets: dict[str, Target] = {}
        self.failed: set[str] = set()

    def run(self) -> Discovery:
        self.from_pragmas()
        self.from_kernelbench()
        self.from_project()
        self.report_missing()
        targets = sorted(self.targets.values(), key=lambda target: target.line)
        return Discovery(targets=tuple(targets), problems=tuple(self.problems))

    # --- pragmas ---

    def from_pragmas(self) -> None:
        comments = {c.line: c for c in _comments(self.source) if c.own_line}
        owners = {c.first_line: c for c in self.candidates}
        used: set[int] = set()
        for first_line, candidate in owners.items():
            block: list[_Comment] = []
            line = first_line - 1
            while line in comments:
                block.insert(0, comments[line])
                line -= 1
            if block:
                used |= {c.line for c in block}
                self.from_pragma(candidate, block)
        for line, comment in comments.items():
            if line not in used:
                found = self.lines[line].strip() if line < len(self.lines) else "the end of the file"
                expected = "a top-level class or def on the next line"
                self.bad_pragma(comment, comment.column, len(comment.text), expected, repr(found))

    def from_pragma(self, candidate: Candidate, block: list[_Comment]) -> None:
        """Read consecutive pragma lines as one, and report an error at its own line."""
        joined, starts = "", list[tuple[int, _Comment, int]]()
        for comment in block:
            body = comment.text[comment.text.index(":") + 1 :].rstrip().rstrip(",")
            starts.append((len(joined), comment, comment.column + comment.text.index(":") + 1))
            joined += body + ","
        joined = joined.removesuffix(",")
        try:
            shapes = pragma.parse(joined, self.integers)
            if (
                candidate.module
                and self.has_get_inputs
                and not (shapes.inputs or shapes.init_args or shapes.init_kwargs or shapes.is_described)
            ):
                self.add(candidate, "kernelbench", shapes)  # settings alone: `# sol: mode=train` above the Model
                return
            shapes = self.checked(candidate, shapes, joined)
        except pragma.PragmaError as error:
            start, comment, column = max((s for s in starts if s[0] <= error.column), key=lambda s: s[0])
            self.bad_pragma(comment, column + error.column - start, error.width, error.expected, error.found)
            self.failed.add(candidate.name)
            return
        self.add(candidate, "pragma", shapes)

    def checked(self, candidate: Candidate, shapes: Shapes, text: str) -> Shapes:
        """Bind the pragma's names to the callable's arguments; raises PragmaError for a wrong or missing one.

        Arrays of a described source need not be its arguments: a kernel takes pointers, a module has parameters.
        """
        if shapes.is_described:
            return shapes
        bound = dict(shapes.names)
        inputs = shapes.inputs
        if candidate.parameters is not None:
            known = [p.name for p in candidate.parameters]
            for name, value in inputs:
                if name not in known and not (isinstance(value, int) and name in bound):
                    raise _error_at(
                        text, name, f"an argument of {candidate.name} ({', '.join(known) or 'it has none'})"
                    )
            inputs = tuple((name, value) for name, value in inputs if name in known)
            given = {name for name, _ in inputs}
            # A JAX module's random key and equinox's state are made with it.
            made = ("key", "state") if candidate.frontend == "jax" and candidate.kind == "class" else ()
            missing = [p.name for p in candidate.parameters if p.required and p.name not in {*given, *made}]
            if missing:
                raise pragma.PragmaError(len(text), 1, f"a value for {', '.join(missing)} of {candidate.name}", "none")
        if candidate.kind == "function" and (shapes.init_args or shapes.init_kwargs):
            raise _error_at(text, "init", f"no init(...): {candidate.name} is a function")
        if candidate.init_parameters is not None:
            allowed = [p.name for p in candidate.init_parameters]
            for name, _ in shapes.init_kwargs:
                if name not in allowed:
                    raise _error_at(
                        text,
                        name,
                        f"a constructor argument of {candidate.name} ({', '.join(allowed) or 'it has none'})",
                    )
        return replace(shapes, inputs=inputs)

    def bad_pragma(self, comment: _Comment, column: int, width: int, expected: str, found: str) -> None:
        line = self.lines[comment.line - 1]
        self.problems.append(
            Problem(
                code="bad-pragma",
                line=comment.line,
                end_line=comment.line,
                column=byte_column(line, column),
                end_column=byte_column(line, column + width),
                severity="warning",
                message=f"pragma: expected {expected}, found {found}",
                detail=caret(line, column, width),
            )
        )

    # --- conventions ---

    @property
    def has_get_inputs(self) -> bool:
        """Whether the file follows KernelBench's convention."""
        return any(c.name == "get_inputs" and c.kind == "function" for c in self.candidates)

    def from_kernelbench(self) -> None:
        if not self.has_get_inputs:
            return
        modules = [c for c in self.candidates if c.module]
        named = [c for name in _MODEL_NAMES for c in self.candidates if c.name == name and c.kind == "class"]
        tops = [c for c in modules if c.name not in referenced(self.tree, {m.name for m in modules})]
        chosen = named[:1] or (modules if len(modules) == 1 else tops if len(tops) == 1 else [])
        if not chosen and not modules:
            chosen = self.functional()
        for candidate in chosen:
            if candidate.name not in self.targets and candidate.name not in self.failed:
                self.add(candidate, "kernelbench", None)

    def functional(self) -> list[Candidate]:
        """The function that `get_inputs` is for in a JAX file without modules: the one with an entry's name, else the
        only one that no other uses."""
        functions = [
            c for c in self.candidates
            if c.kind == "function" and c.frontend == "jax" and not c.name.startswith(("get_", "_"))
        ]  # fmt: skip
        named = [c for name in _ENTRY_NAMES for c in functions if c.name == name]
        tops = [c for c in functions if c.name not in referenced(self.tree, {f.name for f in functions})]
        return named[:1] or (tops if len(tops) == 1 else [])

    def from_project(self) -> None:
        by_name = {c.name: c for c in self.candidates}
        for entry in self.project.targets_of(self.path):
            candidate = by_name.get(entry.name)
            where = f"{self.project.root}/pyproject.toml, target {entry.name!r}"
            if candidate is None:
                known = ", ".join(by_name) or "the file has none"
                message = f"{where}: expected a top-level class or function ({known}), found {entry.name!r}"
                self.problems.append(Problem(code="bad-config", line=1, message=message))
                continue
            if entry.name in self.targets:
                continue
            try:
                shapes = self.checked(candidate, pragma.parse(entry.inputs, self.integers), entry.inputs)
            except pragma.PragmaError as error:
                detail = caret(entry.inputs, error.column, error.width)
                self.problems.append(
                    Problem(code="bad-config", line=candidate.line, message=f"{where}: {error}", detail=detail)
                )
                self.failed.add(entry.name)
                continue
            self.add(candidate, "pyproject", shapes)

    def add(self, candidate: Candidate, convention: str, shapes: Shapes | None) -> None:
        assert convention in ("pragma", "kernelbench", "pyproject")
        self.targets[candidate.name] = Target(
            name=candidate.name,
            kind=candidate.kind,
            frontend="llm" if shapes is not None and shapes.is_described else candidate.frontend,
            line=candidate.line,
            convention=convention,
            shapes=shapes,
        )

    # --- nothing said ---

    def report_missing(self) -> None:
        if any(target.convention == "kernelbench" for target in self.targets.values()):
            return
        parts = referenced(self.tree, {c.name for c in self.candidates}) if self.targets else set[str]()
        for candidate in self.candidates:
            if not (candidate.module or candidate.jitted) or candidate.name in {*self.targets, *self.failed, *parts}:
                continue
            suggestion = suggest(candidate)
            self.problems.append(
                Problem(
                    code="missing-shapes",
                    line=candidate.line,
                    end_line=candidate.line,
                    column=candidate.column,
                    end_column=len(self.lines[candidate.line - 1].encode().rstrip()),
                    severity="information",
                    pragma=suggestion,
                    message=f"{candidate.name}: expected example shapes, found none: put a line such as `{suggestion}` "
                    "above it and fill in the question marks, or define get_inputs() and get_init_inputs()",
                )
            )


def suggest(candidate: Candidate) -> str:
    """A pragma line for a candidate, with a question mark wherever only the author knows: shapes are never invented."""
    items: list[str] = []
    init = [p for p in candidate.init_parameters or () if p.required]
    if init:
        items.append(f"init({', '.join(f'{p.name}=?' for p in init)})")
    parameters = candidate.parameters if candidate.parameters is not None else (Parameter("x", True, ""),)
    items += [f"{p.name}={_placeholder(p.annotation)}" for p in _required(parameters)]
    return f"{MARK} {', '.join(items) or 'mode=inference'}"


def _required(parameters: Iterable[Parameter]) -> list[Parameter]:
    return [p for p in parameters if p.required]


def _placeholder(annotation: str) -> str:
    if annotation in ("int", "float", "bool", "str"):
        return "?"
    if "bool" in annotation.lower():
        return "bool[?]"
    return "i64[?]" if "LongTensor" in annotation or "Int[" in annotation else "f32[?]"


def _error_at(text: str, name: str, expected: str) -> pragma.PragmaError:
    """An error at the first place where `name` stands as an item's name."""
    column = next((i for i in range(len(text)) if text.startswith(name, i) and not text[i - 1 : i].isalnum()), 0)
    return pragma.PragmaError(column, len(name), expected, repr(name))
