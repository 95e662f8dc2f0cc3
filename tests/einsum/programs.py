"""Hypothesis strategies for small programs: every way of moving, masking and folding that lowering produces."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from math import prod
from typing import Any

from hypothesis import strategies as st

from sollens.analysis.ir.affine import Constraint, at_least, dim, equals, less, within
from sollens.analysis.ir.nodes import (
    Apply,
    Declaration,
    Dim,
    Expr,
    IndexValue,
    Literal,
    Node,
    Program,
    Read,
    Reduction,
    Scan,
    Select,
    Source,
    Statement,
)

LARGEST = 240


@dataclass
class Builder:
    """A program under construction; methods add one node and return the new tensor's name."""

    draw: Any
    nodes: list[Node] = field(default_factory=list)
    declarations: list[Declaration] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)

    def pick(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def external(self, shape: tuple[int, ...], dtype: str = "f32", role: str = "input") -> str:
        name = f"x{len(self.declarations)}"
        self.declarations.append(Declaration(name=name, dtype=dtype, shape=shape, role=role))
        self.shapes[name], self.dtypes[name] = shape, dtype
        return name

    def add(
        self,
        dims: list[Dim],
        body: Expr,
        dtype: str = "f32",
        view: bool = False,
        reduction: Reduction | None = None,
        scan: Scan | None = None,
        guard: tuple[Constraint, ...] = (),
    ) -> str:
        name = f"t{len(self.nodes)}"
        source = Source(op=len(self.nodes), operator="aten.op", view=view)
        self.nodes.append(
            Statement(
                name=name,
                dtype=dtype,
                dims=tuple(dims),
                body=body,
                reduction=reduction,
                scan=scan,
                guard=guard,
                source=source,
            )
        )
        self.shapes[name], self.dtypes[name] = tuple(d.extent for d in dims), dtype
        return name

    def operand(self, rank: int | None = None, least: int = 0) -> str:
        """An existing float tensor, or a new external one."""
        fits = [
            n
            for n, s in self.shapes.items()
            if self.dtypes[n] == "f32" and (len(s) >= least if rank is None else len(s) == rank) and 0 not in s
        ]
        if fits and self.integer(0, 3):
            return self.pick(*fits[-4:])
        return self.external(
            tuple(self.integer(1, 4) for _ in range(self.integer(max(least, 1), 3) if rank is None else rank))
        )


def dims_of(shape: tuple[int, ...], prefix: str = "i") -> list[Dim]:
    return [Dim(name=f"{prefix}{k}", extent=e) for k, e in enumerate(shape)]


def read_all(name: str, dims: list[Dim]) -> Read:
    return Read(name, tuple(dim(d.name) for d in dims))


# --- elementwise


def unary(b: Builder) -> str:
    x = b.operand()
    dims = dims_of(b.shapes[x])
    return b.add(dims, Apply(b.pick("exp", "neg", "tanh", "sqrt"), (read_all(x, dims),)))


def binary(b: Builder) -> str:
    """Broadcast along any axes, or against a number."""
    x = b.operand()
    dims = dims_of(b.shapes[x])
    op = b.pick("add", "mul", "sub", "div", "maximum")
    if b.integer(0, 3) == 0:
        return b.add(dims, Apply(op, (read_all(x, dims), Literal(b.pick(0.5, 1.0, 2.0)))))
    keep = [b.integer(0, 2) > 0 for _ in dims]
    other = [n for n, s in b.shapes.items() if s == tuple(d.extent for d in dims) and b.dtypes[n] == "f32"]
    if other and b.integer(0, 1):
        return b.add(dims, Apply(op, (read_all(x, dims), read_all(b.pick(*other), dims))))
    y = b.external(tuple(d.extent for d, k in zip(dims, keep, strict=True) if k), role="parameter")
    index = tuple(dim(d.name) for d, k in zip(dims, keep, strict=True) if k)
    return b.add(dims, Apply(op, (read_all(x, dims), Read(y, index))))


# --- views and copies


def moved(b: Builder) -> str:
    kind = b.pick("transpose", "slice", "expand", "flip", "split", "merge", "diagonal", "repeat", "interleave", "copy")
    x = b.operand(least=2 if kind in ("merge", "transpose") else 1)
    shape = b.shapes[x]
    axis = b.integer(0, len(shape) - 1)
    out = list(shape)
    dims = dims_of(shape)
    index = [dim(d.name) for d in dims]
    if kind == "transpose":
        order = b.draw(st.permutations(range(len(shape))))
        out = [shape[k] for k in order]
        index = [dim(f"i{order.index(k)}") for k in range(len(shape))]
    elif kind == "slice":
        start, step = b.integer(0, shape[axis] - 1), b.integer(1, 3)
        out[axis] = b.integer(1, (shape[axis] - 1 - start) // step + 1)
        index[axis] = index[axis] * step + start
    elif kind == "flip":
        index[axis] = shape[axis] - 1 - index[axis]
    elif kind == "expand":
        out.insert(axis, b.integer(1, 4))
        index = [dim(f"i{k if k < axis else k + 1}") for k in range(len(shape))]
    elif kind == "split":
        factors = [f for f in range(1, shape[axis] + 1) if shape[axis] % f == 0]
        f = b.pick(*factors)
        out[axis : axis + 1] = [shape[axis] // f, f]
        index = [dim(f"i{k if k < axis else k + 1}") for k in range(len(shape))]
        index[axis] = dim(f"i{axis}") * f + dim(f"i{axis + 1}")
    elif kind == "merge":
        axis = b.integer(0, len(shape) - 2)
        inner = shape[axis + 1]
        out[axis : axis + 2] = [shape[axis] * inner]
        index = [dim(f"i{k if k <= axis else k - 1}") for k in range(len(shape))]
        index[axis], index[axis + 1] = dim(f"i{axis}") // inner, dim(f"i{axis}") % inner
    elif kind == "diagonal":
        axis, other = 0, len(shape) - 1
        if axis != other:
            out = [*shape[1:-1], min(shape[0], shape[-1])]
            last = dim(f"i{len(out) - 1}")
            index = [last, *(dim(f"i{k}") for k in range(len(out) - 1)), last]
    elif kind == "repeat":
        out[axis] = shape[axis] * b.integer(1, 3)
        index[axis] = index[axis] % shape[axis]
    elif kind == "interleave":
        times = b.integer(1, 3)
        out[axis] = shape[axis] * times
        index[axis] = index[axis] // times
    if prod(out) > LARGEST:
        return x
    view = kind not in ("repeat", "interleave") and b.integer(0, 2) > 0
    new = dims_of(tuple(out))
    extents = {d.name: d.extent for d in new}
    return b.add(new, Read(x, tuple(i.simplify(extents) for i in index)), view=view)


def padded(b: Builder) -> str:
    x = b.operand(least=1)
    shape = list(b.shapes[x])
    axis = b.integer(0, len(shape) - 1)
    before, after = b.integer(0, 2), b.integer(0, 2)
    size = shape[axis]
    shape[axis] += before + after
    dims = dims_of(tuple(shape))
    index = [dim(d.name) for d in dims]
    index[axis] = index[axis] - before
    return b.add(dims, Select(within(index[axis], size), Read(x, tuple(index)), Literal(b.pick(0.0, 0.0, -math.inf))))


def concatenated(b: Builder) -> str:
    x = b.operand(least=1)
    shape = list(b.shapes[x])
    axis = b.integer(0, len(shape) - 1)
    more = b.integer(1, 3)
    other = list(shape)
    other[axis] = more
    y = b.external(tuple(other))
    size = shape[axis]
    shape[axis] += more
    dims = dims_of(tuple(shape))
    index = [dim(d.name) for d in dims]
    shifted = list(index)
    shifted[axis] = index[axis] - size
    return b.add(dims, Select((less(index[axis], size),), Read(x, tuple(index)), Read(y, tuple(shifted))))


def masked(b: Builder) -> str:
    """tril or triu as a Select, as a where over a computed mask, or as an additive mask."""
    x = b.operand(least=2)
    shape = b.shapes[x]
    dims = dims_of(shape)
    i, j = dim(dims[-2].name), dim(dims[-1].name)
    shift = b.integer(-1, 1)
    fill = b.pick(0.0, 0.0, -math.inf, 5.0)
    upper = b.integer(0, 1)
    kind = b.pick("select", "where", "inline", "additive")
    difference = (j - i if upper else i - j) + shift
    if kind == "select":
        return b.add(dims, Select((at_least(difference, 0),), read_all(x, dims), Literal(fill)))
    condition = (
        Apply("ge", (IndexValue(i + shift), IndexValue(j)))
        if not upper
        else Apply("ge", (IndexValue(j + shift), IndexValue(i)))
    )
    if kind == "inline":
        return b.add(dims, Apply("where", (condition, read_all(x, dims), Literal(fill))))
    mask = b.add([*dims[-2:]], condition, dtype="bool")
    chosen = Read(mask, (i, j))
    if kind == "where":
        return b.add(dims, Apply("where", (chosen, read_all(x, dims), Literal(fill))))
    additive = b.add([*dims[-2:]], Apply("where", (chosen, Literal(0.0), Literal(b.pick(-math.inf, -1e9)))))
    return b.add(dims, Apply("add", (read_all(x, dims), Read(additive, (i, j)))))


# --- folds


def reduced(b: Builder) -> str:
    x = b.operand(least=1)
    dims = dims_of(b.shapes[x])
    over = [d for d in dims if b.integer(0, 1)]
    kind = b.pick("sum", "sum", "max", "max", "min", "prod", "argmax")
    if kind == "argmax":
        over = over[:1]
    if not over:
        return x
    kept = [d for d in dims if d not in over]
    dtype = "i64" if kind == "argmax" else "f32"
    return b.add(kept, read_all(x, dims), dtype=dtype, reduction=Reduction(kind=kind, dims=tuple(over)))


def scanned(b: Builder) -> str:
    x = b.operand(least=1)
    dims = dims_of(b.shapes[x])
    along = b.pick(*dims).name
    return b.add(
        dims, read_all(x, dims), scan=Scan(kind=b.pick("sum", "prod", "max"), dim=along, reverse=bool(b.integer(0, 1)))
    )


def softmax(b: Builder) -> str:
    x = b.operand(least=1)
    dims = dims_of(b.shapes[x])
    kept, last = dims[:-1], dims[-1]
    top = b.add(kept, read_all(x, dims), reduction=Reduction(kind="max", dims=(last,)))
    e = b.add(dims, Apply("exp", (Apply("sub", (read_all(x, dims), read_all(top, kept))),)))
    total = b.add(kept, read_all(e, dims), reduction=Reduction(kind="sum", dims=(last,)))
    return b.add(dims, Apply("div", (read_all(e, dims), read_all(total, kept))))


# --- contractions


def matmul(b: Builder) -> str:
    x = b.operand(least=1)
    dims = dims_of(b.shapes[x])
    k, n = dims[-1], Dim(name="n", extent=b.integer(1, 4))
    batch = dims[:-2] if len(dims) > 2 and b.integer(0, 1) else []
    right = [*batch, k, n]
    same = [t for t, s in b.shapes.items() if s == tuple(d.extent for d in right) and b.dtypes[t] == "f32" and t != x]
    w = b.pick(*same) if same and b.integer(0, 1) else b.external(tuple(d.extent for d in right), role="parameter")
    body = Apply("mul", (read_all(x, dims), read_all(w, right)))
    return b.add([*dims[:-1], n], body, reduction=Reduction(kind="sum", dims=(k,)))


def convolution(b: Builder) -> str:
    """Padding by a guard, stride, dilation and groups."""
    groups = b.pick(1, 1, 2)
    c, m, p, r = b.integer(1, 2), b.integer(1, 2), b.integer(3, 6), b.integer(1, 3)
    known = [
        n for n, s in b.shapes.items() if len(s) == 2 and b.dtypes[n] == "f32" and s[0] == c * groups and s[1] >= 3
    ]
    x = b.pick(*known) if known else b.external((c * groups, p))
    p = b.shapes[x][1]
    stride, dilation, padding = b.integer(1, 2), b.integer(1, 2), b.integer(0, 2)
    size = (p + 2 * padding - dilation * (r - 1) - 1) // stride + 1
    if size < 1:
        return x
    w = b.external((m * groups, c, r), role="parameter")
    dims = [Dim(name="m", extent=m * groups), Dim(name="p", extent=size)]
    inner = (Dim(name="c", extent=c), Dim(name="r", extent=r))
    at = dim("p") * stride + dim("r") * dilation - padding
    channel = dim("c") + (dim("m") // m) * c if groups > 1 else dim("c")
    body = Apply("mul", (Read(x, (channel, at)), Read(w, (dim("m"), dim("c"), dim("r")))))
    return b.add(dims, body, reduction=Reduction(kind="sum", dims=inner), guard=within(at, p) if padding else ())


def transposed_convolution(b: Builder) -> str:
    """Every input position scatters over taps: y[p] sums x[q] w[r] where p = stride * q + r - padding."""
    p, r, stride = b.integer(1, 4), b.integer(1, 3), b.integer(1, 3)
    x = b.external((p,))
    w = b.external((r,), role="parameter")
    padding = b.integer(0, r - 1)
    size = (p - 1) * stride + r - 2 * padding
    if size < 1:
        return x
    inner = (Dim(name="q", extent=p), Dim(name="r", extent=r))
    guard = (equals(dim("p"), dim("q") * stride + dim("r") - padding),)
    body = Apply("mul", (Read(x, (dim("q"),)), Read(w, (dim("r"),))))
    return b.add([Dim(name="p", extent=size)], body, reduction=Reduction(kind="sum", dims=inner), guard=guard)


def pooled(b: Builder) -> str:
    """Windows that may leave gaps."""
    x = b.operand(least=1)
    shape = b.shapes[x]
    window, stride = b.integer(1, 3), b.integer(1, 4)
    padding = b.integer(0, window // 2)
    size = (shape[-1] + 2 * padding - window) // stride + 1
    if size < 1:
        return x
    dims = [*dims_of(shape[:-1]), Dim(name="p", extent=size)]
    at = dim("p") * stride + dim("r") - padding
    body = Read(x, (*(dim(d.name) for d in dims[:-1]), at))
    fold = Reduction(kind=b.pick("max", "sum"), dims=(Dim(name="r", extent=window),))
    return b.add(dims, body, reduction=fold, guard=within(at, shape[-1]) if padding else ())


STEPS = (
    unary, binary, moved, moved, padded, concatenated, masked, reduced, scanned, softmax, matmul, convolution,
    transposed_convolution, pooled,
)  # fmt: skip


@st.composite
def programs(draw: Any, steps: tuple[Any, ...] = STEPS, longest: int = 5) -> Program:
    """A chain of a few steps; one or two results are returned, the rest may be dead."""
    b = Builder(draw)
    b.external(tuple(b.integer(1, 4) for _ in range(b.integer(1, 3))))
    for _ in range(b.integer(1, longest)):
        name = draw(st.sampled_from(steps))(b)
        if prod(b.shapes[name]) > LARGEST:
            break
    return finish(b)


def finish(b: Builder) -> Program:
    """The program that returns its last tensor and perhaps another."""
    names = [n.name for n in b.nodes if isinstance(n, Statement)]
    last = list(b.shapes)[-1] if not names else names[-1]
    outputs = [last]
    if len(names) > 1 and b.integer(0, 3) == 0:
        outputs.append(b.pick(*names[:-1]))
    return Program(name="p", declarations=tuple(b.declarations), nodes=tuple(b.nodes), outputs=tuple(outputs))
