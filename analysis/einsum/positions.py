"""Index arithmetic: integers that are computed only to say where something is read or written are no work."""

from __future__ import annotations

from collections.abc import Iterator

from sollens.analysis.einsum.demand import DemandedProgram
from sollens.analysis.einsum.kernels import Item, Kernel, Library

# The operands of a call that are positions: from the second on, up to this many from the end.
_INDICES = {"take": 0, "gather": 0, "index": 0, "scatter": 1, "index_add": 1, "index_put": 1}
_INTEGERS = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")


def index_arithmetic(demanded: DemandedProgram) -> frozenset[int]:
    """Positions of the kernels on integers all of whose consumers are such kernels, or calls that index with them."""
    flat = demanded.flat
    otherwise = set(demanded.returned)  # tensors that are used for more than indexing
    found: set[int] = set()
    for position in range(len(flat.items) - 1, -1, -1):
        item, work = flat.items[position], demanded.works[position]
        if not work.reads:
            continue
        if isinstance(item, Kernel) and item.name not in otherwise and flat.tensors[item.name].dtype in _INTEGERS:
            found.add(position)
        else:
            otherwise |= set(work.reads).difference(_only_indices(item))
    return frozenset(found)


def _only_indices(item: Item) -> Iterator[str]:
    """Tensors that an item reads as positions only."""
    if not isinstance(item, Library) or item.call.op not in _INDICES:
        return
    last = len(item.operands) - _INDICES[item.call.op]
    bases = [view.base for view in item.operands]
    for base in bases[1:last]:
        if base not in (bases[0], *bases[last:]):
            yield base
