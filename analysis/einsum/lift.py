"""The einsum DAG: extended einsums (map, reduce, contraction) with exact counts, tensors on the edges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import networkx as nx
from numpy.typing import NDArray

from sollens.analysis.einsum.demand import DemandedProgram, demand
from sollens.analysis.einsum.kernels import BaseTensor, Carry, Item, Kernel, Library
from sollens.analysis.einsum.positions import index_arithmetic
from sollens.analysis.einsum.region import Region
from sollens.analysis.einsum.sharing import Computed
from sollens.analysis.einsum.work import is_contraction
from sollens.analysis.ir.nodes import Apply, Program, Source, reads
from sollens.analysis.ir.scalars import SCALAR_OPS
from sollens.analysis.trace.schema import DTYPE_BITS

Kind: TypeAlias = Literal["contraction", "reduce", "scan", "map", "move", "library", "carry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Einsum:
    """One node of the DAG, with the work its demanded part needs. `reads` and `defines` name base tensors; nodes of one
    `value` compute the same thing.
    """

    position: int
    name: str
    kind: Kind
    source: Source
    macs: int
    operand_dtype: str
    vector_ops: int
    dtype: str
    reads: Mapping[str, Region]
    defines: tuple[str, ...]
    library: str = ""
    value: str = ""
    computed: tuple[Computed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EinsumGraph:
    """The demanded program as a DAG. `demanded` are regions of every base tensor, `returned` those that the program
    returns.
    """

    name: str
    einsums: tuple[Einsum, ...]
    tensors: Mapping[str, BaseTensor]
    demanded: Mapping[str, Region]
    returned: Mapping[str, Region]
    low: tuple[str, ...]
    from_inputs: bool
    unknown_trips: bool
    items: tuple[Item, ...]

    def bytes_of(self, tensor: str, region: Region) -> int:
        """Bytes of a region of a tensor, in the tensor's own dtype (packed 4-bit: two elements a byte)."""
        return tensor_bytes(self.tensors[tensor].dtype, region.count)

    def consumers(self) -> dict[str, list[tuple[int, Region]]]:
        """For every tensor, the einsums (by position in `einsums`) that read it and the region each reads."""
        result: dict[str, list[tuple[int, Region]]] = {}
        for k, einsum in enumerate(self.einsums):
            for tensor, region in einsum.reads.items():
                result.setdefault(tensor, []).append((k, region))
        return result

    def to_networkx(self) -> nx.MultiDiGraph[str]:
        """Nodes are einsums and externals by name; an edge is a tensor read, with its bytes."""
        graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=self.name)
        producer: dict[str, str] = {}
        for einsum in self.einsums:
            graph.add_node(einsum.name, kind=einsum.kind, macs=einsum.macs, vector_ops=einsum.vector_ops)
            for tensor in einsum.defines:
                producer[tensor] = einsum.name
        for einsum in self.einsums:
            for tensor, region in einsum.reads.items():
                origin = producer.get(tensor)
                if origin is None:
                    origin = tensor
                    declaration = self.tensors[tensor].declaration
                    graph.add_node(origin, kind=declaration.role if declaration else "external", macs=0, vector_ops=0)
                graph.add_edge(origin, einsum.name, tensor=tensor, bytes=self.bytes_of(tensor, region))
        return graph


def tensor_bytes(dtype: str, elements: int) -> int:
    """Bytes of so many elements."""
    return -(-elements * DTYPE_BITS[dtype] // 8)


def lift(program: Program, values: Mapping[str, NDArray[Any]] | None = None) -> EinsumGraph:
    """The einsum DAG of the demanded part of a program; einsums that nothing demands are left out."""
    return graph_of(demand(program, values))


def graph_of(demanded: DemandedProgram) -> EinsumGraph:
    """The DAG of a program whose demand is known."""
    flat = demanded.flat
    einsums: list[Einsum] = []
    free = index_arithmetic(demanded)
    for position, (item, work) in enumerate(zip(flat.items, demanded.works, strict=True)):
        defines = item.results if isinstance(item, Library) else (item.name,)
        if all(demanded.demanded.get(t) is None or demanded.demanded[t].is_empty for t in defines):
            continue
        einsums.append(
            Einsum(
                position=position,
                name=defines[0],
                kind=kind_of(item),
                source=item.source,
                macs=work.macs,
                operand_dtype=work.operand_dtype,
                vector_ops=0 if position in free else work.vector_ops,
                dtype=flat.tensors[defines[0]].dtype,
                reads=work.reads,
                defines=defines,
                library=item.call.op if isinstance(item, Library) else "",
                value=demanded.same.get(defines[0], defines[0]),
                computed=tuple(work.computed),
            )
        )
    return EinsumGraph(
        name=flat.name,
        einsums=tuple(einsums),
        tensors=flat.tensors,
        demanded=demanded.demanded,
        returned=demanded.returned,
        low=tuple(demanded.low),
        from_inputs=demanded.from_inputs,
        unknown_trips=flat.unknown_trips,
        items=tuple(flat.items),
    )


def kind_of(item: Item) -> Kind:
    """How an item takes part in the DAG."""
    match item:
        case Library():
            return "library"
        case Carry():
            return "carry"
        case Kernel():
            if is_contraction(item):
                return "contraction"
            if item.reduction is not None:
                return "reduce"
            if item.scan is not None:
                return "scan"
            return "map" if _computes(item) else "move"


def _computes(kernel: Kernel) -> bool:
    computing = any(SCALAR_OPS[a.op].cost or a.op in ("neg", "abs") for a in _applies(kernel.body))
    return computing and next(reads(kernel.body), None) is not None


def _applies(body: object) -> Iterable[Apply]:
    from sollens.analysis.ir.nodes import Select

    if isinstance(body, Apply):
        yield body
        for arg in body.args:
            yield from _applies(arg)
    elif isinstance(body, Select):
        yield from _applies(body.then)
        yield from _applies(body.otherwise)
