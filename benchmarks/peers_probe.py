"""Runs in the interpreter that has the other tools: counts of one problem by each of them, as lines of JSON.

A line of stdin is `{"path": ..., "tools": [...], "limit_s": ...}`. Every tool runs in a forked child of its own, with a
time limit; what it cannot do is its answer's `error`. Nothing here imports sollens.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

MEMORY_BYTES = 6 << 30
SOLAR_ARCHITECTURE = "H100_PCIe"


def load(path: str) -> tuple[Any, list[Any]]:
    """The problem's model and inputs, on the meta device."""
    spec = importlib.util.spec_from_file_location("problem", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    torch.set_default_device("meta")
    spec.loader.exec_module(module)
    model = module.Model(*module.get_init_inputs()).eval()
    return model, [x.to("meta") if isinstance(x, torch.Tensor) else x for x in module.get_inputs()]


def part(name: str, attribute: str) -> Any:
    """Something of another tool, which type checkers do not see."""
    return getattr(importlib.import_module(name), attribute)


def flop_counter(path: str) -> dict[str, Any]:
    """torch.utils.flop_counter; it counts FLOP, two a MAC."""
    from torch.utils.flop_counter import FlopCounterMode

    model, inputs = load(path)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*inputs)
    return {"macs": counter.get_total_flops() / 2}


def fvcore(path: str) -> dict[str, Any]:
    """fvcore's "flops" are MACs."""
    model, inputs = load(path)
    analysis = (
        part("fvcore.nn", "FlopCountAnalysis")(model, tuple(inputs))
        .unsupported_ops_warnings(False)
        .uncalled_modules_warnings(False)
    )
    return {"macs": float(analysis.total())}


def ptflops(path: str) -> dict[str, Any]:
    """ptflops' "MACs", its default (PyTorch) back end."""
    model, inputs = load(path)
    names = list(model.forward.__code__.co_varnames[1:])

    def given(_: object) -> dict[str, Any]:
        return dict(zip(names, inputs, strict=False))

    macs, _ = part("ptflops", "get_model_complexity_info")(
        model,
        (1,),
        input_constructor=given,
        as_strings=False,
        print_per_layer_stat=False,
        backend="pytorch",
    )
    if macs is None:
        raise RuntimeError("no count")
    return {"macs": float(macs)}


def calflops(path: str) -> dict[str, Any]:
    """calflops' MACs."""
    model, inputs = load(path)
    _, macs, _ = part("calflops", "calculate_flops")(
        model=model, args=inputs, print_results=False, print_detailed=False, output_as_string=False
    )
    return {"macs": float(macs)}


def solar(path: str) -> dict[str, Any]:
    """NVlabs/SOLAR, its five stages but the export: inputs on the meta device, float32."""
    torch.set_default_device("meta")
    with tempfile.TemporaryDirectory() as folder:
        graph, einsum, analysis = (Path(folder) / n for n in ("graph", "einsum", "analysis"))
        processor = part("solar.graph", "PyTorchProcessor")(
            part("solar.common.types", "ProcessingConfig")(output_dir=str(graph), force_rerun=True)
        )
        if not processor.process_model_file(path, str(graph)):
            raise RuntimeError("no graph")
        if (
            part("solar.einsum", "PyTorchToEinsum")().convert(graph / "pytorch_graph.yaml", einsum, copy_graph=False)
            is None
        ):
            raise RuntimeError("no einsum graph")
        found = part("solar.analysis", "EinsumGraphAnalyzer")().analyze_graph(
            einsum / "einsum_graph.yaml", analysis, precision="fp32", copy_graph=False
        )
        if found is None:
            raise RuntimeError("no analysis")
        model = part("solar.perf", "EinsumGraphPerfModel")()
        times: dict[str, dict[str, Any]] = {}
        for precision in ("fp32", "tf32"):
            done = model.predict(
                analysis / "analysis.yaml",
                Path(folder) / precision,
                arch_config=SOLAR_ARCHITECTURE,
                precision=precision,
                copy_analysis=False,
            )
            if done is None:
                raise RuntimeError("no prediction")
            times[precision] = done
    fp32 = times["fp32"]
    return {
        "macs": float(found["total"]["macs"]),
        "bytes": float(fp32["fused"]["memory_bytes"]),
        "unfused_bytes": float(fp32["unfused"]["memory_bytes"]),
        "fused_s": fp32["fused"]["runtime_ms"] / 1e3,
        "unfused_s": fp32["unfused"]["runtime_ms"] / 1e3,
        "fused_tf32_s": times["tf32"]["fused"]["runtime_ms"] / 1e3,
    }


TOOLS: dict[str, Callable[[str], dict[str, Any]]] = {
    "solar": solar, "flop_counter": flop_counter, "fvcore": fvcore, "ptflops": ptflops, "calflops": calflops,
}  # fmt: skip


def in_child(tool: Callable[[str], dict[str, Any]], path: str, limit_s: float) -> dict[str, Any]:
    """The tool's answer, or its error, and the seconds it took (imports excluded: the parent has made them)."""
    start = time.perf_counter()
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(receive)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                answer = tool(path)
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:120]}
        os.write(send, json.dumps(answer).encode())
        os._exit(0)
    os.close(send)
    ready, _, _ = select.select([receive], [], [], limit_s)
    text = os.read(receive, 1 << 16) if ready else b""
    if not ready:
        os.killpg(child, signal.SIGKILL)
    os.close(receive)
    os.waitpid(child, 0)
    answer = json.loads(text) if text else {"error": f"over {limit_s:g} s" if not ready else "died"}
    return {**answer, "seconds": time.perf_counter() - start}


def imported(names: list[str]) -> None:
    """Pay for the imports once."""
    for name in names:
        with contextlib.suppress(ImportError), contextlib.redirect_stdout(io.StringIO()):
            if name == "solar":
                for part in ("analysis", "einsum", "graph", "perf"):
                    importlib.import_module(f"solar.{part}")
            elif name == "fvcore":
                importlib.import_module("fvcore.nn")
            elif name == "flop_counter":
                importlib.import_module("torch.utils.flop_counter")
            else:
                importlib.import_module(name)


def main() -> None:
    """Answer requests until stdin ends."""
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    imported(list(TOOLS))
    for line in sys.stdin:
        request = json.loads(line)
        row = {name: in_child(TOOLS[name], request["path"], request["limit_s"]) for name in request["tools"]}
        answers.write(json.dumps(row) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
