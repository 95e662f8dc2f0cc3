"""Reads at computed coordinates: grid_sample over two spatial axes."""

from __future__ import annotations

from sollens.analysis.ir.nodes import Expr
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.elementwise import clamp_formula
from sollens.analysis.lower.expressions import apply, cast, iota
from sollens.analysis.lower.pointwise import accumulator
from sollens.analysis.lower.registry import rule

_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


@rule("aten.grid_sampler_2d", "aten.grid_sampler", "aten.cudnn_grid_sampler", "fn.grid_sample")
def grid_sample(b: Builder, call: OpCall) -> Value:
    """x [N, C, H, W] read at grid [N, Ho, Wo, (x, y)], bilinear or nearest, zeros or the border outside."""
    x, grid = call.args[:2]
    mode, padding = call.arg(2, "mode", 0), call.arg(3, "padding_mode", 0)
    mode, padding = _MODES.get(mode, mode), _PADDINGS.get(padding, padding)
    aligned = bool(call.arg(4, "align_corners", False))
    if x.rank != 4 or mode not in (0, 1) or padding not in (0, 1):
        raise NotImplementedError("grid_sample: bicubic, reflection or three spatial axes")
    at = [_coordinate(b, grid, k, x.shape[3 - k], aligned, padding == 1) for k in (1, 0)]  # row, column
    if mode == 1:
        corners = [tuple(_rounded(b, c, "round", 0) for c in at)]
    else:
        starts = [_rounded(b, c, "floor", 0) for c in at]
        ends = [_rounded(b, c, "floor", 1) for c in at]
        corners = [(r, c) for r in (starts[0], ends[0]) for c in (starts[1], ends[1])]
    n, c, height, width = call.out_shape
    sample = b.statement("sample", _points(grid), iota("n"), "i64")
    wide = accumulator(x.dtype)
    dims = [("n", n), ("c", c), ("i", height), ("j", width)]
    body: Expr | None = None
    for row, column in corners:
        inside = [_inside(b, v, extent) for v, extent in ((row, x.shape[2]), (column, x.shape[3]))]
        (read,) = b.call(
            "index", [x, sample, *inside], [(x.dtype, (n, height, width, c))], "corner", axes=(0, 2, 3), position=0
        )  # fmt: skip
        term: Expr = read["n", "i", "j", "c"]
        if mode == 0:
            weight = b.statement("weight", _points(grid), apply("mul", _share(at[0], row), _share(at[1], column)), wide)
            term = apply("mul", term, weight["n", "i", "j"])
        if padding == 0:
            term = apply("where", _same(row, inside[0]), apply("where", _same(column, inside[1]), term, 0.0), 0.0)
        body = term if body is None else apply("add", body, term)
    assert body is not None
    return b.statement("grid_sample", dims, body, call.out_dtype)


def _points(grid: Value) -> list[tuple[str, int]]:
    return list(zip("nij", grid.shape[:3], strict=True))


def _coordinate(b: Builder, grid: Value, which: int, extent: int, aligned: bool, clamp: bool) -> Value:
    """Grid values in [-1, 1] as positions of an axis."""
    value = grid["n", "i", "j", which]
    scale = (extent - 1) / 2 if aligned else extent / 2
    body: Expr = apply("add", apply("mul", value, scale), (extent - 1) / 2)
    return b.statement(
        "at", _points(grid), clamp_formula(body, 0, extent - 1) if clamp else body, accumulator(grid.dtype)
    )


def _rounded(b: Builder, at: Value, how: str, plus: int) -> Value:
    element = at["n", "i", "j"]
    body = cast(apply(how, element), "i64")
    return b.statement(
        "position", list(zip("nij", at.shape, strict=True)), apply("add", body, plus) if plus else body, "i64"
    )


def _inside(b: Builder, position: Value, extent: int) -> Value:
    """The position moved into the axis."""
    body = clamp_formula(position["n", "i", "j"], 0, extent - 1)
    return b.statement("inside", list(zip("nij", position.shape, strict=True)), body, "i64")


def _same(position: Value, inside: Value) -> Expr:
    return apply("eq", position["n", "i", "j"], inside["n", "i", "j"])


def _share(at: Value, position: Value) -> Expr:
    """1 - |at - position|: the bilinear weight of a corner along an axis."""
    return apply("sub", 1.0, apply("abs", apply("sub", at["n", "i", "j"], position["n", "i", "j"])))
