# pyright: basic
"""What is traced: a function of flat external arrays, made from a function, a module, or KernelBench's convention."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

if TYPE_CHECKING:
    from .run import Run


@dataclass
class External:
    """An array that the program is given: its abstract value, what it is and what it is called."""

    value: Any
    kind: str
    name: str


@dataclass
class Subject:
    """`call(*arrays)` runs the target and returns its arrays; `externals` are abstract, in order."""

    externals: list[External]
    call: Callable[..., Any]
    # How many of the last arrays returned are a module's own state, handed on.
    state: int = 0


@dataclass
class Inputs:
    """Example arguments; arrays among them are abstract."""

    args: list[Any]
    kwargs: dict[str, Any]

    def split(self, call: Any) -> tuple[list[External], Callable[[Any], Any]]:
        """Their arrays, named by the parameters of `call`, and how to put others in their places."""
        return split_arrays((self.args, self.kwargs), lambda path: _input_name(path, call, self), "input")


def subject_of(run: Run, found: Any, module: types.ModuleType) -> Subject:
    """The subject of a request."""
    if isinstance(found, type):
        from .frameworks import class_subject

        return class_subject(run, found, module)
    return function_subject(found, inputs_of(run, found, module))


def function_subject(call: Callable[..., Any], inputs: Inputs) -> Subject:
    """A function of its arguments; what is no array keeps its value."""
    arrays, rebuild = inputs.split(call)

    def flat(*values: Any) -> Any:
        args, kwargs = rebuild(values)
        return arrays_of(call(*args, **kwargs))

    return Subject(arrays, flat)


def inputs_of(run: Run, call: Any, module: types.ModuleType) -> Inputs:
    """The request's inputs, or what `get_inputs` gives."""
    run.enter("inputs")
    if run.target.get("kind", "kernelbench") == "kernelbench":
        return as_inputs(abstractly(module.get_inputs))
    specs = run.target.get("inputs") or []
    values = [(s.get("name") or "" if isinstance(s, dict) else "", run.value(s)) for s in specs]
    by_name = {n: p for n, p in parameters(call).items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    if values and all(n in by_name and by_name[n].kind is not inspect.Parameter.POSITIONAL_ONLY for n, _ in values):
        return _by_position(by_name, dict(values))
    return Inputs([v for _, v in values], {})


def _by_position(named: dict[str, inspect.Parameter], values: dict[str, Any]) -> Inputs:
    """Positional as far as that goes: transformed functions often take no keywords."""
    args: list[Any] = []
    for name, p in named.items():
        if name not in values or p.kind is p.KEYWORD_ONLY:
            break
        args.append(values.pop(name))
    return Inputs(args, values)


def as_inputs(given: Any) -> Inputs:
    """What KernelBench's functions give: a list, a mapping, or both."""
    if isinstance(given, dict):
        return Inputs([], given)
    if is_array(given):
        return Inputs([given], {})
    items = list(given)
    if len(items) == 2 and isinstance(items[0], (list, tuple)) and isinstance(items[1], dict):
        return Inputs(list(items[0]), items[1])
    return Inputs(items, {})


def abstractly(function: Callable[[], Any]) -> Any:
    """The value of a function, its arrays abstract: none is made."""
    kept: list[Any] = []

    def probe() -> Any:
        leaves, tree = jax.tree_util.tree_flatten(function(), is_leaf=lambda v: v is None)
        kept[:] = [tree, [None if is_array(leaf) else leaf for leaf in leaves], [is_array(leaf) for leaf in leaves]]
        return [leaf for leaf in leaves if is_array(leaf)]

    arrays = iter(jax.eval_shape(probe))
    tree, leaves, dynamic = kept
    full = [next(arrays) if d else leaf for leaf, d in zip(leaves, dynamic, strict=True)]
    return jax.tree_util.tree_unflatten(tree, full)


def _input_name(path: Any, call: Any, inputs: Inputs) -> str:
    """`params['w'][0]` of a path below (args, kwargs)."""
    side, first, *rest = path
    if side.idx == 1:
        return str(first.key) + jax.tree_util.keystr(tuple(rest))
    named = list(parameters(call).items())
    name, p = named[first.idx] if first.idx < len(named) else (named[-1] if named else ("", None))
    if p is not None and p.kind is inspect.Parameter.VAR_POSITIONAL:
        name = f"{name}[{first.idx - [n for n, _ in named].index(name)}]"
    return (name or f"input{first.idx}") + jax.tree_util.keystr(tuple(rest))


def split_arrays(value: Any, name_of: Callable[[Any], str], kind: str) -> tuple[list[External], Callable[[Any], Any]]:
    """The arrays of a pytree, named by their paths, and how to put other arrays in their places."""
    leaves, tree = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda v: v is None)
    at = [k for k, (_, leaf) in enumerate(leaves) if is_array(leaf)]
    externals = [External(abstract(leaves[k][1]), kind, name_of(leaves[k][0])) for k in at]
    plain = [leaf for _, leaf in leaves]

    def rebuild(values: Any) -> Any:
        full = list(plain)
        for k, v in zip(at, values, strict=True):
            full[k] = v
        return jax.tree_util.tree_unflatten(tree, full)

    return externals, rebuild


def dotted(path: Any) -> str:
    """ "layers.0.weight" of a pytree path."""
    return ".".join(_key(k) for k in path)


def _key(key: Any) -> str:
    for attribute in ("name", "key", "idx"):
        if hasattr(key, attribute):
            return _key(getattr(key, attribute))
    return ".".join(map(_key, key)) if isinstance(key, tuple) else str(key)


def is_array(value: Any) -> bool:
    """An array, or what stands for one."""
    return isinstance(value, (jax.Array, jax.ShapeDtypeStruct, np.ndarray))


def abstract(value: Any) -> Any:
    """Shape and dtype of an array."""
    return jax.ShapeDtypeStruct(value.shape, jax.dtypes.canonicalize_dtype(value.dtype, allow_extended_dtype=True))


def arrays_of(value: Any) -> list[Any]:
    """The arrays and numbers that a program returns, in order."""
    numbers = (jax.Array, np.ndarray, np.generic, int, float, complex)
    return [v for v in jax.tree_util.tree_leaves(value) if isinstance(v, numbers) and not isinstance(v, bool)]


def parameters(call: Any) -> dict[str, inspect.Parameter]:
    """The parameters of a callable by name; none where it does not say."""
    try:
        return dict(inspect.signature(call).parameters)
    except (TypeError, ValueError):
        return {}
