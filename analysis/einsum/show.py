"""The einsum DAG as text, Graphviz and JSON."""

from __future__ import annotations

import json
from typing import Any

from sollens.analysis.einsum.kernels import Kernel, Library
from sollens.analysis.einsum.lift import Einsum, EinsumGraph
from sollens.analysis.ir.affine import Affine, FloorDiv
from sollens.analysis.ir.nodes import reads


def to_text(graph: EinsumGraph) -> str:
    """One line an einsum: equation, kind, exact MACs and vector operations, bytes read, source line."""
    lines = [f"einsum graph {graph.name}: {len(graph.einsums)} einsums"]
    for einsum in graph.einsums:
        read = sum(graph.bytes_of(t, r) for t, r in einsum.reads.items())
        where = f"  @ line {einsum.source.line}" if einsum.source.line else ""
        lines.append(
            f"  {equation(graph, einsum)}  [{einsum.kind}] macs={einsum.macs} vector_ops={einsum.vector_ops} "
            f"read_bytes={read}{where}"
        )
    return "\n".join(lines) + "\n"


def to_json(graph: EinsumGraph) -> str:
    """Nodes and edges with exact integers."""
    nodes: list[dict[str, Any]] = [
        {
            "name": e.name,
            "kind": e.kind,
            "equation": equation(graph, e),
            "operator": e.source.operator,
            "line": e.source.line,
            "module": e.source.module,
            "macs": e.macs,
            "vector_ops": e.vector_ops,
            "dtype": e.dtype,
        }
        for e in graph.einsums
    ]
    tensors = [
        {
            "name": name,
            "dtype": graph.tensors[name].dtype,
            "shape": list(graph.tensors[name].shape),
            "role": declaration.role if (declaration := graph.tensors[name].declaration) else "intermediate",
            "demanded_bytes": graph.bytes_of(name, region),
        }
        for name, region in graph.demanded.items()
    ]
    edges = [
        {"tensor": tensor, "to": e.name, "bytes": graph.bytes_of(tensor, region)}
        for e in graph.einsums
        for tensor, region in e.reads.items()
    ]
    return json.dumps({"name": graph.name, "einsums": nodes, "tensors": tensors, "edges": edges}, indent=1)


def to_dot(graph: EinsumGraph) -> str:
    """Graphviz: boxes are einsums, ellipses externals, edges tensors with their bytes."""
    shapes = {
        "contraction": "box",
        "reduce": "invtrapezium",
        "map": "box",
        "move": "box",
        "scan": "cds",
        "library": "component",
        "carry": "box",
    }
    whole = graph.to_networkx()
    lines = [f'digraph "{_quoted(graph.name)}" {{', "  rankdir=TB;"]
    for name, data in whole.nodes(data=True):
        kind = data["kind"]
        label = f"{name}\\n{kind}" + (f"\\n{data['macs']} MAC" if data["macs"] else "")
        lines.append(f'  "{_quoted(name)}" [shape={shapes.get(kind, "ellipse")}, label="{_quoted(label)}"];')
    for origin, target, data in whole.edges(data=True):
        lines.append(f'  "{_quoted(origin)}" -> "{_quoted(target)}" [label="{data["bytes"]} B"];')
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return text.replace('"', '\\"')


def equation(graph: EinsumGraph, einsum: Einsum) -> str:
    """An extended einsum: `s[b,i,j] = sum q[b,i,d] k[b,j,d]`."""
    item = graph.items[einsum.position]
    if isinstance(item, Kernel):
        dims = ",".join(f"{d.name}:{d.extent}" for d in item.dims)
        operands = " ".join(
            dict.fromkeys(f"{r.tensor}[{','.join(index_text(i) for i in r.index)}]" for r in reads(item.body))
        )
        folded = ",".join(f"{d.name}:{d.extent}" for d in item.reduced)
        head = (
            f"{item.reduction}[{folded}] "
            if item.reduction
            else f"scan {item.scan[0]}[{item.scan[1]}] "
            if item.scan
            else ""
        )
        return f"{einsum.name}[{dims}] = {head}{operands}"
    if isinstance(item, Library):
        return f"{', '.join(einsum.defines)} = {item.call.op}({', '.join(item.call.operands)})"
    return f"{einsum.name} = carried value"


def index_text(index: Affine) -> str:
    """An affine index as a person writes it."""
    parts: list[str] = []
    for atom, c in index.terms:
        if isinstance(atom, str):
            text = atom
        else:
            text = f"({index_text(atom.operand)} {'//' if isinstance(atom, FloorDiv) else '%'} {atom.divisor})"
        parts.append(text if c == 1 else f"-{text}" if c == -1 else f"{c}*{text}")
    if index.constant or not parts:
        parts.append(str(index.constant))
    return " + ".join(parts).replace("+ -", "- ")
