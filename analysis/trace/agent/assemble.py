# pyright: basic
"""From what was recorded to the trace: number the tensors the program uses, keep the setup they follow from."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import torch

from .tensors import Info, encode_values, no_modes, table_entry, values_fit

if TYPE_CHECKING:
    from .target import Run

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def assemble(run: Run, outputs: Any) -> dict[str, Any]:
    """The trace of a run as JSON values in the order of `schema.Trace`."""
    recorder = run.recorder
    used: dict[int, Info] = {}
    produced: set[int] = set()
    for op in recorder.ops:
        for info in op["_in"]:
            used.setdefault(id(info), info)
        for info in op["_out"]:
            used.setdefault(id(info), info)
            produced.add(id(info))
    for info in recorder.outputs:
        used.setdefault(id(info), info)
    for info in recorder.tensors.marked:
        used.setdefault(id(info), info)
    for info in used.values():
        if info.kind == "intermediate" and id(info) not in produced:
            info.kind = "constant"
    setup = _setup(recorder.setup, [i for i in used.values() if i.kind in ("buffer", "input", "constant")])
    sent = set(used)
    made = {id(i) for op in recorder.setup for i in op["_out"]}
    for op in setup:
        sent.update(id(i) for i in op["_in"] if id(i) not in made)
        for info in (*op["_in"], *op["_out"]):
            used.setdefault(id(info), info)
    tensors = _table(list(used.values()), sent)
    for op in (*setup, *recorder.ops):
        op.pop("_in")
        op.pop("_out")
        written = op.pop("_written")
        if written:
            op["mutates"] = [i.ref["tensor"] for i in written]
    if recorder.shadows.used_parameters:
        run.assumptions.append("control flow follows the initial values of parameters")
    return {
        "name": run.target.get("name") or ("Model" if run.target.get("kind", "kernelbench") == "kernelbench" else ""),
        "frontend": "torch",
        "tensors": tensors,
        "ops": recorder.ops,
        "outputs": outputs,
        "spans": run.frames.spans,
        "modules": run.modules.table,
        "setup": setup,
        "line": run.line,
        "forward_line": run.forward_line,
        "settings": settings() | ({} if run.gradients_of is None else {"gradients_of": run.gradients_of}),
        "assumptions": list(run.assumptions),
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "schema": 1,
    }


def _table(infos: list[Info], sent: set[int]) -> list[dict[str, Any]]:
    stores: dict[int, int] = {}
    entries: list[dict[str, Any]] = []
    for number, info in enumerate(infos):
        info.ref["tensor"] = number
        storage = stores.setdefault(id(info.store), len(stores))
        entry = table_entry(info, number, storage)
        if (
            info.kind != "parameter"
            and id(info) in sent
            and info.at_start is not None
            and info.name.rsplit(".", 1)[-1] not in _STATISTICS
        ):
            with no_modes():
                values = encode_values(info.at_start, brief=info.kind == "intermediate")
            if values is not None:
                entry["values"] = values
        entries.append(entry)
    return entries


def _setup(recorded: list[dict[str, Any]], wanted: list[Info]) -> list[dict[str, Any]]:
    """The setup operators that the wanted tensors follow from, in order; none for those that depend on chance."""
    by_store: dict[int, list[dict[str, Any]]] = {}
    for op in recorded:
        for store in {id(i.store) for i in (*op["_out"], *op["_written"])}:
            by_store.setdefault(store, []).append(op)
    needed: dict[int, list[dict[str, Any]] | None] = {}
    kept: set[int] = set()
    for info in wanted:
        if info.known_at_start and info.name.rsplit(".", 1)[-1] not in _STATISTICS:
            kept.update(id(op) for op in _needs(info, by_store, needed) or ())
    return [op for op in recorded if id(op) in kept]


def _needs(
    info: Info, by_store: dict[int, list[dict[str, Any]]], needed: dict[int, list[dict[str, Any]] | None]
) -> list[dict[str, Any]] | None:
    """The operators that a tensor follows from, or None when one of its sources has too many values to send."""
    store = id(info.store)
    if store in needed:
        return needed[store]
    writers = by_store.get(store)
    if writers is None:
        sendable = info.at_start is not None and values_fit(info)
        needed[store] = [] if sendable else None
        return needed[store]
    needed[store] = []  # a store written in place is among its own sources
    found: list[dict[str, Any]] = list(writers)
    for op in writers:
        for source in op["_in"]:
            more = _needs(source, by_store, needed)
            if more is None:
                needed[store] = None
                return None
            found.extend(more)
    needed[store] = found
    return found


def settings() -> dict[str, Any]:
    """Framework settings that change a number, as the program left them."""
    return {
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "cudnn_allow_tf32": bool(torch.backends.cudnn.allow_tf32),
        "cuda_matmul_allow_tf32": bool(torch.backends.cuda.matmul.allow_tf32),
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
    }
