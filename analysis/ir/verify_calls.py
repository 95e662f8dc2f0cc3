"""What the catalogue of calls asks of operands, attributes and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from sollens.analysis.ir.calls import CALLS
from sollens.analysis.ir.nodes import Call
from sollens.analysis.ir.tensors import TensorType

# (code, expected, found)
Complaint: TypeAlias = tuple[str, str, str]
Shape: TypeAlias = tuple[int, ...]

_OPTIONAL = {
    "include_self", "stable", "largest", "descending", "right", "accumulate", "norm", "reduce", "operator", "position",
}  # fmt: skip
_REDUCES = ("none", "add", "mul", "amax", "amin", "mean")
_INDEX_DTYPES = ("i64", "i32", "i16", "i8", "u8")
# Calls whose first result has the first operand's dtype.
_SAME_DTYPE = {"take", "gather", "index", "scatter", "index_add", "index_put", "sort", "topk", "masked_select"}
_OPERANDS = {
    "take": (2, 2), "gather": (2, 2), "index": (2, 64), "scatter": (3, 3), "index_add": (3, 3), "index_put": (3, 65),
    "sort": (1, 1), "topk": (1, 1), "searchsorted": (2, 2), "nonzero": (1, 1), "masked_select": (2, 2), "fft": (1, 1),
}  # fmt: skip
_RESULTS = {"sort": 2, "topk": 2, "linalg": None, "opaque": None}


class _Wrong(Exception):
    """The first complaint about a call's operands or attributes."""

    def __init__(self, code: str, expected: str, found: object) -> None:
        super().__init__(expected)
        self.complaint: Complaint = (code, expected, str(found))


def complaints(node: Call, operands: Sequence[TensorType]) -> Iterator[Complaint]:
    """What is wrong with a call, given its operands' types."""
    spec = CALLS.get(node.op)
    if spec is None:
        yield "unknown-call", f"a call ({', '.join(CALLS)})", node.op
        return
    if not node.results:
        yield "arity", "at least one result", "none"
        return
    try:
        _check_counts(node, operands)
        _check_attributes(node)
        rule = _RULES.get(node.op)
        if rule is not None:
            for result, shape in zip(node.results, rule(node, operands), strict=False):
                if result.shape != shape:
                    yield "shape", f"{result.name} of shape {list(shape)}", str(list(result.shape))
    except _Wrong as wrong:
        yield wrong.complaint
        return
    if node.op in _SAME_DTYPE and node.results[0].dtype != operands[0].dtype:
        yield "dtype", f"{node.results[0].name} of dtype {operands[0].dtype}", node.results[0].dtype
    positions = {"sort": 1, "topk": 1, "searchsorted": 0, "nonzero": 0}.get(node.op)
    if positions is not None and node.results[positions].dtype not in _INDEX_DTYPES:
        yield "dtype", f"{node.results[positions].name} of dtype i64", node.results[positions].dtype


def _check_counts(node: Call, operands: Sequence[TensorType]) -> None:
    low, high = _OPERANDS.get(node.op, (0, 10_000))
    if not low <= len(operands) <= high:
        raise _Wrong("arity", f"{low} operand{'s' * (low != 1)}{'' if low == high else ' or more'}", len(operands))
    results = _RESULTS.get(node.op, 1)
    if results is not None and len(node.results) != results:
        raise _Wrong("arity", f"{results} result{'s' * (results != 1)}", len(node.results))


def _check_attributes(node: Call) -> None:
    spec = CALLS[node.op]
    given = [name for name, _ in node.attributes]
    if len(set(given)) != len(given):
        raise _Wrong("attribute", "each attribute once", given)
    missing = [a for a in spec.attributes if a not in given and a not in _OPTIONAL]
    if missing:
        raise _Wrong("attribute", f"the attribute {missing[0]} of {node.op}", f"{given or 'none'}")
    unknown = [a for a in given if a not in spec.attributes]
    if unknown and spec.known and node.op != "random":
        raise _Wrong("attribute", f"attributes of {node.op} ({', '.join(spec.attributes) or 'none'})", unknown[0])
    if node.attribute("reduce", "none") not in _REDUCES:
        raise _Wrong("attribute", f"reduce in {', '.join(_REDUCES)}", node.attribute("reduce"))


def _axis(node: Call, rank: int) -> int:
    axis = node.attribute("axis")
    if not isinstance(axis, int) or not 0 <= axis < rank:
        raise _Wrong("attribute", f"axis in 0..{rank - 1}", axis)
    return axis


def _axes(node: Call, rank: int) -> Shape:
    axes = node.attribute("axes")
    found = [a for a in axes if isinstance(a, int) and 0 <= a < rank] if isinstance(axes, tuple) else []
    if not isinstance(axes, tuple) or not found or len(found) != len(axes) or len(set(found)) != len(found):
        raise _Wrong("attribute", f"a list of distinct axes in 0..{rank - 1}", axes)
    return tuple(found)


def _indexes(*types: TensorType) -> None:
    for kind in types:
        if kind.dtype not in _INDEX_DTYPES:
            raise _Wrong("dtype", "an integer index (i64)", kind.dtype)


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    result: list[int] = []
    for position in range(1, max(map(len, shapes), default=0) + 1):
        extents = {s[-position] for s in shapes if len(s) >= position} - {1}
        if len(extents) > 1:
            raise _Wrong("shape", "shapes that broadcast together", [list(s) for s in shapes])
        result.append(extents.pop() if extents else 1)
    return tuple(reversed(result))


def _take(node: Call, operands: Sequence[TensorType]) -> list[Shape]:
    x, index = operands
    axis = _axis(node, len(x.shape))
    _indexes(index)
    return [x.shape[:axis] + index.shape + x.shape[axis + 1 :]]


def _fits(inner: Shape, outer: Shape, but: int, what: str) -> None:
    if len(inner) != len(outer) or any(a > b for k, (a, b) in enumerate(zip(inner, outer, strict=True)) if k != but):
        raise _Wrong("shape", f"{what} within {list(outer)}{f' except along {but}' if but >= 0 else ''}", list(inner))


def _gather(node: Call, operands: Sequence[TensorType]) -> list[Shape]:
    x, index = operands
    _indexes(index)
    _fits(index.shape, x.shape, _axis(node, len(x.shape)), "an index")
    return [index.shape]


def _index(node: Call, operands: Sequence[TensorType]) -> list[Shape]:
    x, *indices = operands
    rest, broadcast = _indexed(node, x, indices)
    position = node.attribute("position", 0)
    if not isinstance(position, int) or not 0 <= position <= len(rest):
        raise _Wrong("attribute", f"position in 0..{len(rest)}", position)
    return [rest[:position] + broadcast + rest[position:]]


def _indexed(node: Call, x: TensorType, indices: Sequence[TensorType]) -> tuple[Shape, Shape]:
    """The axes of x that are not indexed, and the shape of the index."""
    axes = _axes(node, len(x.shape))
    if len(axes) != len(indices):
        raise _Wrong("arity", f"{len(axes)} index tensors, one an axis", len(indices))
    _indexes(*indices)
    return tuple(e for a, e in enumerate(x.shape) if a not in axes), _broadcast([i.shape for i in indices])


def _scatter(node: Call, operands: Sequence[TensorType]) -> list[Shape]:
    x, index, source = operands
    axis = _axis(node, len(x.shape))
    _indexes(index)
    _fits(index.shape, x.shape, axis, "an index")
    if source.shape:
        _fits(index.shape, source.shape, -1, "an index")
    return [x.shape]


def _index_add(node: Call, operands: Sequence[TensorType]) -> list[Shape]:
    x, index, source = operands
    axis = _axis(node, len(x.shape))
    _indexes(index)
    if len(index.shape) != 1:
        raise _Wrong("shape", "a one-dimensional index", list(index.shape))
    wanted = x.shape[:axis] + index.shape + x.shape[axis + 1 :]
    if source.shape != wanted:
        raise _Wrong("shape", f"a source of shape {list(wanted)}", list(source.shape))
    return [x.shape]


def _index_put(node: Call, operands: Sequence[TensorType]) -> list[Shape]:
    x, *indices, values = operands
    rest, broadcast = _indexed(node, x, indices)
    axes = _axes(node, len(x.shape))
    position = axes[0] if axes == tuple(range(axes[0], axes[0] + len(axes))) else 0
    wanted = rest[:position] + broadcast + rest[position:]
    if _broadcast([values.shape, wanted]) != wanted:
        raise _Wrong("shape", f"values that broadcast to {list(wanted)}", list(values.shape))
    return [x.shape]


def _sort(node: Call, operands: Sequence[TensorType]) -> list[Shape]:
    _axis(node, len(operands[0].shape))
    return [operands[0].shape] * 2


def _topk(node: Call, operands: Sequence[TensorType]) -> list[Shape]:
    shape = operands[0].shape
    axis = _axis(node, len(shape))
    k = node.attribute("k")
    if not isinstance(k, int) or not 0 <= k <= shape[axis]:
        raise _Wrong("attribute", f"k in 0..{shape[axis]}", k)
    return [(*shape[:axis], k, *shape[axis + 1 :])] * 2


def _searchsorted(node: Call, operands: Sequence[TensorType]) -> list[Shape]:
    table, values = operands
    if not table.shape or (len(table.shape) > 1 and table.shape[:-1] != values.shape[:-1]):
        raise _Wrong("shape", "a sorted vector, or rows as many as the values have", list(table.shape))
    return [values.shape]


def _nonzero(node: Call, operands: Sequence[TensorType]) -> list[Shape]:
    found = node.results[0].shape
    rank = len(operands[0].shape)
    count = min(found[0], operands[0].size) if found else 0
    return [(count, rank)]


def _masked_select(node: Call, operands: Sequence[TensorType]) -> list[Shape]:
    shape = _broadcast([o.shape for o in operands])
    found = node.results[0].shape
    size = 1
    for extent in shape:
        size *= extent
    return [(min(found[0], size) if found else 0,)]


def _fft(node: Call, operands: Sequence[TensorType]) -> list[Shape]:
    rank = len(operands[0].shape)
    _axes(node, rank)
    if len(node.results[0].shape) != rank:
        raise _Wrong("shape", f"a result of rank {rank}", list(node.results[0].shape))
    return []


_RULES: dict[str, Callable[[Call, Sequence[TensorType]], list[Shape]]] = {
    "take": _take, "gather": _gather, "index": _index, "scatter": _scatter, "index_add": _index_add,
    "index_put": _index_put, "sort": _sort, "topk": _topk, "searchsorted": _searchsorted, "nonzero": _nonzero,
    "masked_select": _masked_select, "fft": _fft,
}  # fmt: skip
