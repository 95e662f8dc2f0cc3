"""Classes and functions of a file that could be analysed, found in its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from sollens.analysis.source.model import Frontend, Kind

_JAX_MODULES = ("jax", "flax", "equinox", "haiku", "optax")
_JIT = ("torch.compile", "torch.jit.script", "jax.jit", "equinox.filter_jit", "flax.nnx.jit", "flax.nnx.nnx.jit")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a callable, without `self`."""

    name: str
    required: bool
    annotation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A top-level class or function. `parameters` is None where it takes anything, or its definition is elsewhere.

    `module`: a framework module with a forward of its own or inherited. `jitted`: a function with a jit or compile
    decorator.
    """

    name: str
    kind: Kind
    frontend: Frontend
    line: int
    first_line: int  # of the first decorator
    end_line: int
    column: int
    module: bool
    jitted: bool
    parameters: tuple[Parameter, ...] | None
    init_parameters: tuple[Parameter, ...] | None


@dataclass(frozen=True, slots=True)
class Imports:
    """Local name to dotted name, of every import in the file."""

    names: dict[str, str]

    def dotted(self, node: ast.expr) -> str:
        """The imported dotted name of an expression such as `nn.Module`; "" for anything else."""
        match node:
            case ast.Name(id=name):
                return self.names.get(name, name)
            case ast.Attribute(value=value, attr=attr):
                base = self.dotted(value)
                return f"{base}.{attr}" if base else ""
            case ast.Call(func=func):
                return self.dotted(func)
            case ast.Subscript(value=value):
                return self.dotted(value)
            case _:
                return ""

    def uses(self, *packages: str) -> bool:
        """Whether any of these packages is imported."""
        return any(dotted.partition(".")[0] in packages for dotted in self.names.values())


def imports_of(tree: ast.Module) -> Imports:
    """Every import of the file, also those inside functions."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                local = alias.asname or alias.name.partition(".")[0]
                names[local] = alias.name if alias.asname else local
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return Imports(names)


def candidates(tree: ast.Module) -> tuple[Candidate, ...]:
    """Top-level classes and functions in source order, also those under a top-level `if` or `try`."""
    imports = imports_of(tree)
    classes = {node.name: node for node in _top_level(tree.body) if isinstance(node, ast.ClassDef)}
    found: list[Candidate] = []
    for node in _top_level(tree.body):
        first_line = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        is_class = isinstance(node, ast.ClassDef)
        frontend = _frontend(node, imports, classes)
        entries = ("forward",) if frontend == "torch" else ("__call__", "forward")
        method = _method(node, entries, classes)
        init = _method(node, ("__init__",), classes)
        runs = isinstance(node, ast.ClassDef) and (
            method is not None or not _bases_lack_forward(node, imports, classes)
        )
        module = runs and _is_module(node, imports, classes)
        if is_class:
            parameters = _parameters(method, bound=True) if method else None
            init_parameters = _parameters(init, bound=True) if init else _fields(node) if frontend == "jax" else None
        else:
            parameters, init_parameters = _parameters(node, bound=False), None
        found.append(
            Candidate(
                name=node.name,
                kind="class" if is_class else "function",
                frontend=frontend,
                line=node.lineno,
                first_line=first_line,
                end_line=node.end_lineno or node.lineno,
                column=node.col_offset,
                module=module,
                jitted=not is_class and any(_is_jit(d, imports) for d in node.decorator_list),
                parameters=parameters,
                init_parameters=init_parameters,
            )
        )
    return tuple(found)


def referenced(tree: ast.Module, names: set[str]) -> set[str]:
    """Those of the names that another top-level class or function uses: they are parts of something larger."""
    used: set[str] = set()
    for node in _top_level(tree.body):
        used |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in names and n.id != node.name}
    return used


_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _top_level(body: list[ast.stmt]) -> Iterator[_Definition]:
    for statement in body:
        match statement:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield statement
            case ast.If(body=inner, orelse=other) | ast.Try(body=inner, orelse=other):
                yield from _top_level(inner)
                yield from _top_level(other)
            case _:
                pass


def _bases(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> Iterator[tuple[ast.ClassDef, ast.expr]]:
    """(class, base expression) of the class and of its ancestors in this file."""
    seen: set[str] = set()
    queue = [node]
    while queue:
        current = queue.pop()
        if current.name in seen:
            continue
        seen.add(current.name)
        for base in current.bases:
            yield current, base
            if isinstance(base, ast.Name) and base.id in classes:
                queue.append(classes[base.id])


def _is_module(node: _Definition, imports: Imports, classes: dict[str, ast.ClassDef]) -> bool:
    if not isinstance(node, ast.ClassDef):
        return False
    for _, base in _bases(node, classes):
        dotted = imports.dotted(base)
        if dotted in classes or dotted.endswith("autograd.Function"):
            continue
        last = dotted.rpartition(".")[2]
        if last.endswith(("Module", "Model")) or dotted.startswith("torch.nn."):
            return True
        if dotted in imports.names.values() and _own(node, "forward"):
            return True
    return False


def _own(node: ast.ClassDef, name: str) -> bool:
    return any(isinstance(item, ast.FunctionDef) and item.name == name for item in node.body)


def _bases_lack_forward(node: ast.ClassDef, imports: Imports, classes: dict[str, ast.ClassDef]) -> bool:
    """Whether every base is a class of this file or the framework's Module itself, which has no forward to inherit."""
    return all(
        (isinstance(base, ast.Name) and base.id in classes) or imports.dotted(base).endswith(".Module")
        for _, base in _bases(node, classes)
    )


def _method(
    node: ast.stmt, names: tuple[str, ...], classes: dict[str, ast.ClassDef]
) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    if not isinstance(node, ast.ClassDef):
        return None
    owners = [node, *(classes[b.id] for _, b in _bases(node, classes) if isinstance(b, ast.Name) and b.id in classes)]
    for owner in owners:
        for item in owner.body:
            if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and item.name in names:
                return item
    return None


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef, *, bound: bool) -> tuple[Parameter, ...] | None:
    arguments = node.args
    if arguments.kwarg or arguments.vararg:
        return None
    positional = [*arguments.posonlyargs, *arguments.args]
    required = [True] * (len(positional) - len(arguments.defaults)) + [False] * len(arguments.defaults)
    named = [*zip(positional, required, strict=True)][1 if bound else 0 :]
    keyword = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return tuple(
        Parameter(a.arg, needed, ast.unparse(a.annotation) if a.annotation else "")
        for a, needed in [*named, *((a, default is None) for a, default in keyword)]
    )


def _fields(node: ast.ClassDef) -> tuple[Parameter, ...]:
    """Dataclass-like fields, as flax and equinox modules have them."""
    return tuple(
        Parameter(item.target.id, item.value is None, ast.unparse(item.annotation))
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    )


def _is_jit(decorator: ast.expr, imports: Imports) -> bool:
    dotted = imports.dotted(decorator)
    if dotted == "functools.partial" and isinstance(decorator, ast.Call) and decorator.args:
        dotted = imports.dotted(decorator.args[0])
    return dotted in _JIT


def _frontend(node: _Definition, imports: Imports, classes: dict[str, ast.ClassDef]) -> Frontend:
    has_jax, has_torch = imports.uses(*_JAX_MODULES), imports.uses("torch")
    if has_jax and not has_torch:
        return "jax"
    if not has_jax:
        return "torch"
    if isinstance(node, ast.ClassDef):
        packages = {imports.dotted(base).partition(".")[0] for _, base in _bases(node, classes)}
        if packages & {*_JAX_MODULES, "torch"}:
            return "torch" if "torch" in packages else "jax"
    roots = {imports.names.get(n.id, "").partition(".")[0] for n in ast.walk(node) if isinstance(n, ast.Name)}
    return "jax" if roots & {*_JAX_MODULES} and "torch" not in roots else "torch"
