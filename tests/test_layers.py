"""Layers: a module imports only from its own row or rows above it; one place formats numbers; data is never run."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
# From the ground up. A name covers what lies below it; the longest one that fits counts.
ROWS = (
    "hardware",
    "analysis.report",
    "analysis.page",
    "analysis.atomic",
    "analysis.stages",
    "analysis.trace.schema",
    "analysis.source",
    "analysis.trace",
    "analysis.ir",
    "analysis.lower",
    "analysis.execute",
    "analysis.validate",
    "analysis.llm",
    "analysis.einsum",
    "analysis.bounds",
    "analysis.rewrite",
    "analysis.findings",
    "analysis.cache",
    "analysis.interpreter",
    "analysis.tracing",
    "analysis.translating",
    "analysis.pipeline",
    "analysis.channel",
    "analysis.validator",
    "analysis.worker",
    "analysis.commands",
    "analysis.cli",
    "server",
)
# The command line's own parts belong together.
SAME_ROW = {"analysis.commands": "analysis.cli"}
PROTOCOL = ("lsprotocol", "pygls")
# to_lsp converts data; the others are the wire itself: handlers, the server object, the client behind it.
KNOWS_THE_PROTOCOL = {f"server/{name}.py" for name in ("to_lsp", "app", "handlers", "language_server", "lsp_client")}
# What the server takes from the analysis: data, and nothing that imports torch, numba or user code.
SERVER_MAY_IMPORT = (
    "sollens.server",
    "sollens.hardware",
    "sollens.analysis.report",
    "sollens.analysis.findings",
    "sollens.analysis.page",
)
UNIT = re.compile(
    r"(?:\{[^{}]*(?::[^{}]*[efg%])\}|%\.\d[efg])\s*(?:[kMGTPmnuµ]?(?:s|B|FLOP|MAC|byte|Hz)(?:/s)?\b)|\{[^{}]*:[^{}]*[.\d]%\}"
)


def modules() -> list[Path]:
    return sorted(
        path for folder in ("hardware", "analysis", "server") for path in (ROOT / folder).rglob("*.py") if path.name
    )


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def row(module: str) -> int | None:
    fitting = [name for name in ROWS if module == name or module.startswith(f"{name}.")]
    if not fitting:
        return None
    name = max(fitting, key=len)
    return ROWS.index(SAME_ROW.get(name, name))


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Absolute names of what a file imports when it runs (not for type checking only)."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in runtime_nodes(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                below = ROOT / Path(*node.module.split(".")[1:]) / alias.name
                is_module = below.with_suffix(".py").is_file() or below.is_dir()
                yield f"{node.module}.{alias.name}" if is_module else node.module


def runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from runtime_nodes(child)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_agent(path: Path) -> bool:
    return name_of(path).startswith("analysis/trace/agent/")


def test_a_module_imports_only_from_its_row_or_below_it_in_the_flow() -> None:
    for path in modules():
        own = dotted(path)
        own_row = row(own)
        if own in ("analysis", "hardware"):
            continue
        assert own_row is not None, f"{name_of(path)} is in no row of tests/test_layers.py: say where it belongs"
        for imported in imports(path):
            if not imported.startswith("sollens."):
                continue
            theirs = row(imported.removeprefix("sollens."))
            assert theirs is not None and theirs <= own_row, (
                f"{name_of(path)} imports {imported}, which is further down the flow"
            )


def test_the_server_takes_only_data_from_the_analysis() -> None:
    for path in [p for p in modules() if name_of(p).startswith("server/")]:
        for imported in imports(path):
            if imported.startswith("sollens."):
                assert imported.startswith(SERVER_MAY_IMPORT), f"{name_of(path)} imports {imported}"
            assert imported.partition(".")[0] not in ("torch", "jax", "numba", "pulp", "numpy"), name_of(path)


def test_only_one_place_knows_the_protocol() -> None:
    for path in modules():
        if name_of(path) not in KNOWS_THE_PROTOCOL:
            assert not [name for name in imports(path) if name.partition(".")[0] in PROTOCOL]


def test_the_agent_imports_nothing_that_users_may_not_have() -> None:
    allowed = {*sys.stdlib_module_names, "torch", "jax", "numpy", "flax", "equinox", "transformers"}
    for path in [p for p in modules() if is_agent(p)]:
        for imported in imports(path):
            assert imported.partition(".")[0] in allowed, f"{name_of(path)} imports {imported}"


def test_only_units_formats_numbers() -> None:
    # The agent has only the standard library, and its host says the same sentences.
    found = [
        f"{name_of(path)}:{number}"
        for path in modules()
        if name_of(path) != "hardware/units.py" and not name_of(path).startswith("analysis/trace/")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if UNIT.search(line)
    ]
    assert not found, f"use sollens.hardware.units to format a number: {', '.join(found)}"


def test_a_file_is_short_enough_to_read() -> None:
    for path in modules():
        count = len(path.read_text(encoding="utf-8").splitlines())
        assert count <= 500, f"{name_of(path)} has {count} lines: expected about 400 at most; split it"


def test_nothing_executes_or_unpickles_data() -> None:
    """Only the agent compiles the user's file, and only the code generator what it made itself."""
    may = ("analysis/trace/agent/", "analysis/execute/")
    for path in modules():
        if name_of(path).startswith(may):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("exec", "eval", "compile", "__import__"), f"{name_of(path)}:{node.lineno}"
        assert not {"pickle", "marshal", "shelve", "dill"} & {n.partition(".")[0] for n in imports(path)}, name_of(path)


def test_every_code_has_a_section_and_every_section_a_code() -> None:
    from sollens.analysis.findings import CODES

    sections = re.findall(
        r"^## ([a-z-]+)$", (ROOT / "docs" / "diagnostics.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert set(sections) == set(CODES)


def test_every_code_that_the_analysis_states_is_in_the_catalogue() -> None:
    from sollens.analysis.findings import CODES

    stated = {
        code
        for path in modules()
        if not name_of(path).startswith("analysis/ir/")  # its codes are of IR text, not of the user's file
        for code in re.findall(r"""\bcode=["']([a-z-]+)["']""", path.read_text(encoding="utf-8"))
    }
    stated.discard("cancelled")  # shown to nobody
    assert stated and stated <= set(CODES), stated - set(CODES)
