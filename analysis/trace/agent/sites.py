# pyright: basic
"""Where the sizes of a program stand: integer literals of its source, and the numbers of the request's target."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

_LEAST = 3
# How often something is repeated, by its name: shrinking it gives another program, so it is tried last.
_COUNT = re.compile(r"(^|_)(n|num)?_?(layers?|blocks?|depths?|repeats?|steps|iters|iterations|stages)$", re.IGNORECASE)
_MOST_COUNT = 100
_MOST = 2**40


class Site:
    """One integer that may be made smaller: `node` of the syntax tree, or `path` into the target.

    `inner` ones stand inside a class or a function that is not one of those that give example inputs; a `count` is
    likely how often something is repeated.
    """

    def __init__(
        self,
        name: str,
        value: int,
        node: ast.Constant | None = None,
        path: tuple[Any, ...] = (),
        *,
        inner: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.node = node
        self.path = path
        self.inner = inner
        self.count = False


def find_sites(tree: ast.Module, target: dict[str, Any]) -> list[Site]:
    """Every integer of at least 3, in source order; then those of the target and of pretrained configurations."""
    sites: list[Site] = []
    for statement in tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)) or _is_main(statement):
            continue
        named = _assigned_name(statement)
        inner = isinstance(statement, ast.ClassDef) or (
            isinstance(statement, ast.FunctionDef) and not statement.name.startswith("get_")
        )
        for node in _constants(statement):
            name = named if named and node is getattr(statement, "value", None) else f"{node.lineno}:{node.col_offset}"
            sites.append(Site(name, node.value, node, inner=inner))  # pyright: ignore[reportArgumentType]
    counts = {id(n) for n in _counts(tree)}
    for site in sites:
        site.count = id(site.node) in counts and site.value < _MOST_COUNT
    sites.sort(key=lambda s: (s.node.lineno, s.node.col_offset) if s.node else (0, 0))
    for key in ("inputs", "init", "init_kwargs"):
        _in_target(target.get(key), (key,), key, sites)
    for kind, fields in (target.get("configurations") or {}).items():
        for name, value in fields.items():
            _in_target(value, ("configurations", kind, name), f"{kind}.{name}", sites)
    return sites


def _constants(statement: ast.stmt) -> list[ast.Constant]:
    skipped: set[int] = set()
    found: list[ast.Constant] = []
    for node in ast.walk(statement):
        if isinstance(node, ast.Subscript):  # an index is no size
            skipped.update(id(n) for n in ast.walk(node.slice))
        elif isinstance(node, ast.keyword) and node.arg in _ATTRIBUTES:
            skipped.update(id(n) for n in ast.walk(node.value))
        elif (
            isinstance(node, ast.Constant)
            and type(node.value) is int
            and _LEAST <= node.value <= _MOST
            and id(node) not in skipped
        ):
            found.append(node)
    return [n for n in found if id(n) not in skipped]


def _counts(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.keyword)) and any(_COUNT.search(name) for name in _names_of(node)):
            yield from ast.walk(node.value)
        elif isinstance(node, ast.arguments):
            named = [*zip(reversed([*node.posonlyargs, *node.args]), reversed(node.defaults), strict=False)]
            for argument, default in (*named, *zip(node.kwonlyargs, node.kw_defaults, strict=True)):
                if default is not None and _COUNT.search(argument.arg):
                    yield from ast.walk(default)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            for one, other in ((node.left, node.right), (node.right, node.left)):
                if isinstance(one, (ast.List, ast.Tuple)):
                    yield other
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            yield from node.args


def _names_of(node: ast.Assign | ast.keyword) -> Iterator[str]:
    if isinstance(node, ast.keyword):
        yield node.arg or ""
        return
    for target in node.targets:
        if isinstance(target, ast.Name):
            yield target.id
        elif isinstance(target, ast.Attribute):
            yield target.attr


# Arguments that every twin must keep.
_ATTRIBUTES = {"stride", "padding", "dilation", "dim", "num_layers", "output_padding", "diagonal"}


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)


def _assigned_name(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id
    return ""


def _in_target(value: Any, path: tuple[Any, ...], name: str, sites: list[Site]) -> None:
    if isinstance(value, dict):
        label = value.get("name") or name
        for key, item in value.items():
            if key == "shape":
                _in_target(item, (*path, key), label, sites)
            elif key in ("value", "tuple") or "dtype" not in value:
                _in_target(item, (*path, key), f"{name}.{key}" if key not in ("value", "tuple") else label, sites)
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            _in_target(item, (*path, i), f"{name}[{i}]", sites)
    elif type(value) is int and _LEAST <= value <= _MOST:
        sites.append(Site(name, value, path=path))


def assign(sites: list[Site], values: dict[int, int], target: dict[str, Any]) -> dict[str, Any]:
    """Write values (by position in `sites`) into the syntax tree, others back to their own; the target with its."""
    for number, site in enumerate(sites):
        if site.node is not None:
            site.node.value = values.get(number, site.value)
    changed = {sites[n].path: v for n, v in values.items() if sites[n].node is None}
    return _replaced(target, (), changed) if changed else target


def _replaced(value: Any, path: tuple[Any, ...], changed: dict[tuple[Any, ...], int]) -> Any:
    if path in changed:
        return changed[path]
    if isinstance(value, dict):
        return {k: _replaced(v, (*path, k), changed) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replaced(v, (*path, i), changed) for i, v in enumerate(value)]
    return value
