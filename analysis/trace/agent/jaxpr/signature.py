# pyright: basic
"""What two traces of one JAX program share when they are the same program at other sizes.

The same primitives in the same order at the same places. Sizes among their parameters may differ, and extents, but not
where one is 1 and the other is not; strides, dilations, axes and counters may not.
"""

from __future__ import annotations

from typing import Any

from ..differs import Differs

# Parameters that are sizes.
_SIZES = {
    "new_sizes", "shape", "slice_sizes", "limit_indices", "start_indices", "sizes", "length", "k", "fft_lengths",
    "window_dimensions_of_input", "dims_in",
}  # fmt: skip
_SIGNS = {"padding", "padding_config"}


class Signature:
    """Of one trace."""

    def __init__(self, trace: dict[str, Any]) -> None:
        self.targets = [op["target"] for op in trace["ops"]]
        shapes = {t["id"]: t["shape"] for t in trace["tensors"]}
        self._ops = _operators(trace["ops"], shapes)
        used = {n for op in self._ops for n in op[-1]}
        self._table = [
            (t["id"], t["dtype"], t["kind"], t["name"], [n if n < 2 else 2 for n in t["shape"]])
            for t in trace["tensors"]
            if t["id"] in used
        ]
        self._frame = (
            trace["outputs"],
            [(s["file"], s["line"], s["column"], s["end_line"], s["end_column"]) for s in trace["spans"]],
            [(m["path"], m["type"]) for m in trace["modules"]],
        )

    def check(self, trace: dict[str, Any]) -> None:
        """Raise Differs unless `trace` is the same program."""
        other = Signature(trace)
        if len(self._ops) != len(other._ops):
            raise Differs(f"{len(other._ops)} operators for {len(self._ops)}")
        for number, (mine, theirs) in enumerate(zip(self._ops, other._ops, strict=True)):
            if mine != theirs:
                raise Differs(f"operator {number}: {mine} became {theirs}")
        if self._frame != other._frame:
            raise Differs("other outputs, places or modules")
        if self._table != other._table:
            raise Differs("other tensors")


def _operators(ops: list[dict[str, Any]], shapes: dict[int, list[int]]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for op in ops:
        kwargs = {name: _parameter(name, value, op, shapes) for name, value in op["kwargs"].items()}
        args = [_number(v) for v in op["args"]]
        used = [n for v in (*op["args"], *op["outputs"]) if (n := _tensor(v)) is not None]
        found.append((op["target"], args, kwargs, op["outputs"], op.get("span"), op.get("module"), op["group"], used))
        for block in op.get("blocks", ()):
            found += _operators(block["ops"], shapes)
            outputs = [_number(v) for v in block["outputs"]]
            found.append(("block", block["inputs"], outputs, list(block["inputs"])))
    return found


def _tensor(value: Any) -> int | None:
    return value["tensor"] if isinstance(value, dict) and isinstance(value.get("tensor"), int) else None


def _number(value: Any) -> Any:
    """Numbers in a tensor's place may be computed from sizes, but not turn into 0 or change their sign."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return type(value).__name__, (value > 0) - (value < 0)
    return value


def _parameter(name: str, value: Any, op: dict[str, Any], shapes: dict[int, list[int]]) -> Any:
    if name in _SIZES:
        return _form(value, lambda n: (n > 0) - (n < 0) if name == "start_indices" else "size")
    if name in _SIGNS:
        return _form(value, lambda n: (n > 0) - (n < 0))
    if name in ("feature_group_count", "batch_group_count") and value > 1:
        spec = dict(op["kwargs"]["dimension_numbers"]["dict"])["lhs_spec"]
        number = _tensor(op["args"][0])
        if number is not None and shapes[number][spec[1]] == value:
            return "depthwise"
    if name == "window_dimensions":
        number = _tensor(op["args"][0])
        whole = shapes[number] if number is not None else []
        return ["whole" if n == m and n > 1 else n for n, m in zip(value, whole, strict=False)]
    if name in ("window_strides",) and "window_dimensions" in op["kwargs"]:
        sizes = op["kwargs"]["window_dimensions"]
        return ["window" if n == m and n > 1 else n for n, m in zip(value, sizes, strict=False)]
    return value


def _form(value: Any, of_number: Any) -> Any:
    """A value with something coarser in place of its numbers."""
    if isinstance(value, int) and not isinstance(value, bool):
        return of_number(value)
    return [_form(v, of_number) for v in value] if isinstance(value, list) else value
