# pyright: basic
"""Modules of flax (linen and nnx), equinox, and plain classes as functions of their arrays and inputs.

Constructors run on abstract values: no weight is ever made. Keys that a constructor or a call needs and nobody gave
are made inside the program, from a number.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jax

from .modules import linen_scopes, watch_making
from .subjects import (
    External,
    Inputs,
    Subject,
    abstractly,
    arrays_of,
    as_inputs,
    dotted,
    inputs_of,
    is_array,
    parameters,
    split_arrays,
)

if TYPE_CHECKING:
    from .run import Run

_RNGS = ("params", "dropout", "sample", "carry", "noise", "default")


def class_subject(run: Run, cls: type, module: types.ModuleType) -> Subject:
    """The subject of a class: the call of its instance."""
    run.enter("constructor")
    if run.target.get("kind", "kernelbench") == "kernelbench":
        init = as_inputs(abstractly(module.get_init_inputs)) if hasattr(module, "get_init_inputs") else Inputs([], {})
    else:
        init = Inputs(
            [run.value(v) for v in run.target.get("init") or []],
            {k: run.value(v) for k, v in (run.target.get("init_kwargs") or {}).items()},
        )
    inputs = inputs_of(run, _bound(cls), module)
    run.enter("constructor")
    for library, kind, make in (("flax.linen", "Module", _linen), ("flax.nnx", "Module", _nnx),
                                ("equinox", "Module", _equinox)):  # fmt: skip
        loaded = sys.modules.get(library)
        if loaded is not None and issubclass(cls, getattr(loaded, kind)):
            return make(run, cls, init, inputs)
    return _plain(run, cls, init, inputs)


def _bound(cls: type) -> Any:
    """The instance's call without its first parameter."""
    call: Any = cls.__call__

    def bound(*args: Any, **kwargs: Any) -> Any:
        return None

    given = list(parameters(call).values())[1:]
    import inspect

    bound.__signature__ = inspect.Signature(given)  # type: ignore[attr-defined]
    return bound


# --- flax.linen -------------------------------------------------------------------------------------------------------


def _linen(run: Run, cls: type, init: Inputs, inputs: Inputs) -> Subject:
    model = cls(*init.args, **init.kwargs)
    arrays, rebuild = inputs.split(_bound(cls))

    def variables_of(*values: Any) -> Any:
        args, kwargs = rebuild(values)
        return model.init(_rngs(), *args, **kwargs)

    abstract = jax.eval_shape(variables_of, *[a.value for a in arrays])
    variables, rebuild_variables = split_arrays(abstract, lambda path: dotted(path[1:]), "parameter")
    leaves = jax.tree_util.tree_flatten_with_path(abstract)[0]
    for external, (path, _) in zip(variables, leaves, strict=True):
        external.kind = "parameter" if path[0].key == "params" else "buffer"
    mutable = [name for name in abstract if name != "params"]
    errors = sys.modules["flax.errors"]

    def call(*values: Any) -> Any:
        own = rebuild_variables(values[: len(variables)])
        args, kwargs = rebuild(values[len(variables) :])
        with linen_scopes():
            try:
                return arrays_of(model.apply(own, *args, rngs=_rngs(), **kwargs))
            except errors.ModifyScopeVariableError:
                out, state = model.apply(own, *args, rngs=_rngs(), mutable=mutable, **kwargs)
                subject.state = len(arrays_of(state))
                return arrays_of(out) + arrays_of(state)

    subject = Subject([*variables, *arrays], call)
    return subject


def _rngs() -> dict[str, Any]:
    return {name: jax.random.PRNGKey(k) for k, name in enumerate(_RNGS)}


# --- flax.nnx ---------------------------------------------------------------------------------------------------------


def _nnx(run: Run, cls: type, init: Inputs, inputs: Inputs) -> Subject:
    nnx = sys.modules["flax.nnx"]
    watch_making(type(cls))
    needs_rngs = _needs(cls.__init__, "rngs", init)

    kept: list[Any] = []

    def make() -> Any:
        kwargs = {**init.kwargs, "rngs": nnx.Rngs(0)} if needs_rngs else init.kwargs
        made = cls(*init.args, **kwargs)
        run.modules.built(dict(_nnx_modules(nnx, made)))
        getattr(made, "train" if run.train else "eval")()
        graph, state = nnx.split(made)
        kept[:] = [graph]
        return state

    state = jax.eval_shape(make)
    (graph,) = kept
    leaves = jax.tree_util.tree_flatten_with_path(state)[0]
    variables, rebuild_state = split_arrays(state, lambda path: _nnx_name(path), "parameter")
    kinds = {_nnx_name(path): type(v).__name__ for path, v in nnx.to_flat_state(state)} if leaves else {}
    for external in variables:
        external.kind = "parameter" if kinds.get(external.name, "Param") in ("Param", "LoRAParam") else "buffer"
    arrays, rebuild = inputs.split(_bound(cls))

    def call(*values: Any) -> Any:
        model = nnx.merge(graph, rebuild_state(values[: len(variables)]))
        args, kwargs = rebuild(values[len(variables) :])
        run.modules.name_all(dict(_nnx_modules(nnx, model)))
        out = arrays_of(model(*args, **kwargs))
        updated = arrays_of(nnx.state(model, nnx.BatchStat)) if run.train else []
        subject.state = len(updated)
        return out + updated

    subject = Subject([*variables, *arrays], call)
    return subject


def _nnx_name(path: Any) -> str:
    return ".".join(name for key in path if (name := dotted((key,))) not in ("value", "raw_value"))


def _nnx_modules(nnx: Any, model: Any) -> Iterator[tuple[str, Any]]:
    for path, node in nnx.iter_graph(model):
        if isinstance(node, nnx.Module):
            yield ".".join(map(str, path)), node


# --- equinox ----------------------------------------------------------------------------------------------------------


def _equinox(run: Run, cls: type, init: Inputs, inputs: Inputs) -> Subject:
    eqx = sys.modules["equinox"]
    watch_making(type(cls))
    needs_key = _needs(cls.__init__, "key", init)
    needs_state = _needs(_bound(cls), "state", inputs)

    def make() -> Any:
        kwargs = {**init.kwargs, "key": jax.random.PRNGKey(0)} if needs_key else init.kwargs
        made = (eqx.nn.make_with_state(cls) if needs_state else cls)(*init.args, **kwargs)
        run.modules.built(dict(_equinox_modules(eqx, made[0] if needs_state else made)))
        return made

    abstract = eqx.filter_eval_shape(make)
    variables, rebuild_model = split_arrays(
        abstract, lambda path: dotted(path[1:] if needs_state else path), "parameter"
    )
    arrays, rebuild = inputs.split(_bound(cls))
    wants_key = run.train and "key" in parameters(_bound(cls)) and "key" not in inputs.kwargs
    keyed = wants_key or _needs(_bound(cls), "key", inputs)

    def call(*values: Any) -> Any:
        made = rebuild_model(values[: len(variables)])
        args, kwargs = rebuild(values[len(variables) :])
        if keyed:
            kwargs = {**kwargs, "key": jax.random.PRNGKey(1)}
        model, state = made if needs_state else (made, None)
        if not run.train:
            model = eqx.nn.inference_mode(model)
        run.modules.name_all(dict(_equinox_modules(eqx, model)))
        return arrays_of(model(*args, state=state, **kwargs) if needs_state else model(*args, **kwargs))

    return Subject([*variables, *arrays], call)


def _equinox_modules(eqx: Any, value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, eqx.Module):
        yield path, value
        for name in getattr(type(value), "__dataclass_fields__", {}):
            below = f"{path}.{name}" if path else name
            yield from _equinox_modules(eqx, getattr(value, name, None), below)
    elif isinstance(value, (list, tuple)):
        for k, item in enumerate(value):
            yield from _equinox_modules(eqx, item, f"{path}.{k}" if path else str(k))
    elif isinstance(value, dict):
        for k, item in value.items():
            yield from _equinox_modules(eqx, item, f"{path}.{k}" if path else str(k))


def _needs(call: Any, name: str, given: Inputs) -> bool:
    """A parameter of this name without a default that nobody gave."""
    named = parameters(call)
    parameter = named.get(name)
    if parameter is None or parameter.default is not parameter.empty or name in given.kwargs:
        return False
    skip = 1 if "self" in named else 0
    position = list(named).index(name) - skip
    return parameter.kind is parameter.KEYWORD_ONLY or position >= len(given.args)


# --- classes of no framework ------------------------------------------------------------------------------------------


def _plain(run: Run, cls: type, init: Inputs, inputs: Inputs) -> Subject:
    """An object whose attributes hold arrays: they are its parameters."""
    kept: list[Any] = []

    def make() -> Any:
        made = cls(*init.args, **init.kwargs)
        kept[:] = [made, *_slots(made, "", set())]
        return [get() for _, get, _ in kept[1:]]

    abstract = jax.eval_shape(make)
    model, slots = kept[0], kept[1:]
    variables = [External(value, "parameter", name) for (name, _, _), value in zip(slots, abstract, strict=True)]
    arrays, rebuild = inputs.split(_bound(cls))

    def call(*values: Any) -> Any:
        for (_, _, put), value in zip(slots, values, strict=False):
            put(value)
        args, kwargs = rebuild(values[len(slots) :])
        run.modules.name_all({name: found for name, found in _objects(model, "", set()) if callable(found)})
        return arrays_of(model(*args, **kwargs))

    return Subject([*variables, *arrays], call)


Slot = tuple[str, Callable[[], Any], Callable[[Any], None]]


def _children(value: Any) -> Iterator[tuple[str, Any, Callable[[Any], None]]]:
    if isinstance(value, dict):
        for key in value:
            yield str(key), value[key], lambda v, k=key: value.__setitem__(k, v)
    elif isinstance(value, list):
        for k, item in enumerate(value):
            yield str(k), item, lambda v, k=k: value.__setitem__(k, v)
    elif hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType, types.FunctionType)):
        for name, item in list(vars(value).items()):
            yield name, item, lambda v, n=name: setattr(value, n, v)


def _slots(value: Any, path: str, seen: set[int]) -> Iterator[Slot]:
    """Where an object and what it holds keep arrays."""
    if id(value) in seen:
        return
    seen.add(id(value))
    for name, item, put in _children(value):
        below = f"{path}.{name}" if path else name
        if is_array(item):
            yield below, lambda item=item: item, put
        else:
            yield from _slots(item, below, seen)


def _objects(value: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if id(value) in seen or is_array(value):
        return
    seen.add(id(value))
    if hasattr(value, "__dict__") and type(value).__module__ != "builtins":
        yield path, value
    for name, item, _ in _children(value):
        yield from _objects(item, f"{path}.{name}" if path else name, seen)
