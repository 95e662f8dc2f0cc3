"""Matrix products: each is one statement, a sum over a product of two reads, with scalings and biases apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sollens.analysis.ir.affine import Affine
from sollens.analysis.ir.nodes import Apply, Read
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.einsum import contract_equation, contract_terms
from sollens.analysis.lower.expressions import apply
from sollens.analysis.lower.pointwise import Dims, broadcast_read, converted, dims_of, pointwise
from sollens.analysis.lower.registry import rule


def contraction(
    b: Builder,
    hint: str,
    dims: Sequence[tuple[str, int]],
    over: Sequence[tuple[str, int]],
    left: Read,
    right: Read,
    dtype: str,
) -> Value:
    """`name[dims] = sum[over] left * right`."""
    return b.statement(hint, dims, Apply("mul", (left, right)), dtype, reduce=("sum", over))


def matrix_product(b: Builder, left: Value, right: Value, dtype: str, hint: str = "mm") -> Value:
    """`torch.matmul`: vectors, matrices, and batches of them that broadcast (an axis of extent 1 is read at 0)."""
    if left.rank == 0 or right.rank == 0:
        raise ValueError(f"matmul: expected at least one axis each, found shapes {left.shape} and {right.shape}")
    rows = [("i", left.shape[-2])] if left.rank > 1 else []
    columns = [("j", right.shape[-1])] if right.rank > 1 else []
    shapes = (left.shape[:-2], right.shape[:-2])
    rank = max(map(len, shapes))
    aligned = [(1,) * (rank - len(s)) + s for s in shapes]
    batch = dims_of([x if y == 1 else y for x, y in zip(*aligned, strict=True)], "b")
    inner = ("k", left.shape[-1])
    over = [inner]
    return contraction(
        b, hint, [*batch, *rows, *columns], over,
        broadcast_read(left, [*batch, *rows, inner]) if left.rank > 1 else left["k"],
        _right_read(right, batch, columns), dtype,
    )  # fmt: skip


def _right_read(right: Value, batch: Dims, columns: Dims) -> Read:
    if right.rank == 1:
        return right["k"]
    own = batch[len(batch) - (right.rank - 2) :]
    lead: list[Affine | str] = [Affine() if e == 1 else n for (n, _), e in zip(own, right.shape, strict=False)]
    return right[(*lead, "k", columns[0][0])]


def linear(b: Builder, x: Value, weight: Value, bias: Value | None, dtype: str) -> Value:
    """`x @ weight.T + bias` over the last axis of `x`; a vector weight gives no output axis."""
    lead = dims_of(x.shape[:-1])
    columns = [("o", weight.shape[0])] if weight.rank == 2 else []
    read = weight["o", "k"] if weight.rank == 2 else weight["k"]
    names = tuple(n for n, _ in lead)
    y = contraction(b, "linear", [*lead, *columns], [("k", x.shape[-1])], x[(*names, "k")], read, dtype)
    return y if bias is None else add(b, y, bias)


def add(b: Builder, x: Value, y: Value) -> Value:
    """`x + y` with `y` broadcast to `x`."""
    return pointwise(b, "biased", x.dtype, x.shape, "add", x, y)


def scaled(b: Builder, x: Value, factor: Any) -> Value:
    """`factor * x`; nothing is emitted for 1."""
    if factor == 1:
        return x
    return pointwise(b, "scaled", x.dtype, x.shape, "mul", x, factor)


def _combined(b: Builder, call: OpCall, product: Value, beta: Any, alpha: Any) -> Value:
    """`beta * first argument + alpha * product`; a zero beta ignores the argument."""
    product = scaled(b, product, alpha)
    if beta == 0:
        return product
    return add(b, product, scaled(b, call.args[0], beta))


@rule("aten.mm", "aten.bmm", "aten.mv", "aten.dot", "aten.vdot", "fn.matmul", "aten.matmul", "aten._int_mm")
def matmul(b: Builder, call: OpCall) -> Value:
    """Real vdot is dot; `mm` with an out dtype accumulates and stores in it."""
    return matrix_product(b, call.arg(0, "input"), call.arg(1, "other"), call.out_dtype)


@rule("aten.addmm", "aten.baddbmm", "aten.addmv")
def addmm(b: Builder, call: OpCall) -> Value:
    """`beta * input + alpha * (a @ b)`."""
    product = matrix_product(b, call.args[1], call.args[2], call.out_dtype)
    return _combined(b, call, product, call.arg(3, "beta", 1), call.arg(4, "alpha", 1))


@rule("aten.addbmm")
def addbmm(b: Builder, call: OpCall) -> Value:
    """`beta * input + alpha * sum over the batch of a @ b`."""
    left, right = call.args[1], call.args[2]
    batch, rows, inner = left.shape
    dims, over = [("i", rows), ("j", right.shape[2])], [("b", batch), ("k", inner)]
    product = contraction(b, "addbmm", dims, over, left["b", "i", "k"], right["b", "k", "j"], call.out_dtype)
    return _combined(b, call, product, call.arg(3, "beta", 1), call.arg(4, "alpha", 1))


@rule("aten.addr")
def addr(b: Builder, call: OpCall) -> Value:
    """`beta * input + alpha * outer(u, v)`."""
    product = outer_product(b, call.args[1], call.args[2], call.out_dtype)
    return _combined(b, call, product, call.arg(3, "beta", 1), call.arg(4, "alpha", 1))


@rule("aten.outer", "aten.ger")
def outer(b: Builder, call: OpCall) -> Value:
    """A map, not a contraction: nothing is summed."""
    return outer_product(b, call.args[0], call.args[1], call.out_dtype)


def outer_product(b: Builder, left: Value, right: Value, dtype: str) -> Value:
    """`left[i] * right[j]`."""
    return b.statement("outer", [("i", left.size), ("j", right.size)], apply("mul", left["i"], right["j"]), dtype)


@rule("aten.kron")
def kron(b: Builder, call: OpCall) -> Value:
    """Axis by axis `left[i floordiv n] * right[i mod n]`."""
    dims = dims_of(call.out_shape)
    left, right = call.args[0], call.args[1]

    def read(value: Value, outer_side: bool) -> Read:
        skipped = len(dims) - value.rank
        index: list[Affine] = []
        for axis in range(value.rank):
            position = Affine.make(0, {dims[skipped + axis][0]: 1})
            other = right.rank - len(dims) + skipped + axis
            period = right.shape[other] if other >= 0 else 1
            index.append(position // max(period, 1) if outer_side else position % max(period, 1))
        return value[tuple(index)]

    return b.statement("kron", dims, apply("mul", read(left, True), read(right, False)), call.out_dtype)


@rule("fn.linear", "aten.linear")
def linear_rule(b: Builder, call: OpCall) -> Value:
    """`fn.linear(input, weight, bias=None)`."""
    return linear(b, call.arg(0, "input"), call.arg(1, "weight"), call.arg(2, "bias"), call.out_dtype)


@rule("fn.einsum", "aten.einsum")
def einsum(b: Builder, call: OpCall) -> Value:
    """Operands come as one list or one by one."""
    operands: tuple[Any, ...] = call.args[1:]
    if len(operands) == 1 and not isinstance(operands[0], Value):
        operands = tuple(operands[0])
    return contract_equation(b, call.args[0], operands, call.out_dtype)


@rule("aten._trilinear")
def trilinear(b: Builder, call: OpCall) -> Value:
    """The product of three tensors, each expanded along its own list of axes, summed over `sumdim`."""
    tensors = call.args[:3]
    rank = tensors[0].rank + len(call.args[3])
    terms = [[axis for axis in range(rank) if axis not in expand] for expand in call.args[3:6]]
    summed = set(call.args[6])
    return contract_terms(b, tensors, terms, [axis for axis in range(rank) if axis not in summed], call.out_dtype)


@rule("aten.bilinear")
def bilinear(b: Builder, call: OpCall) -> Value:
    """`y[..., o] = sum[i, j] x1[..., i] * weight[o, i, j] * x2[..., j] + bias[o]`."""
    x1, x2, weight = call.args[:3]
    lead = list(range(x1.rank - 1))
    o, i, j = range(x1.rank, x1.rank + 3)
    y = contract_terms(b, (x1, weight, x2), ([*lead, i], [o, i, j], [*lead, j]), [*lead, o], call.out_dtype)
    bias = call.arg(3, "bias")
    return y if bias is None else add(b, y, bias)


@rule("aten._weight_int8pack_mm")
def weight_int8pack_mm(b: Builder, call: OpCall) -> Value:
    """`x @ weight.T` with int8 weights, scaled per output column."""
    x, weight, scales = call.args[:3]
    dims, over = [("i", x.shape[0]), ("o", weight.shape[0])], [("k", x.shape[1])]
    y = contraction(b, "int8_mm", dims, over, x["i", "k"], weight["o", "k"], call.out_dtype)
    return pointwise(b, "scaled", call.out_dtype, call.out_shape, "mul", y, scales)


@rule("aten._scaled_mm")
def scaled_mm(b: Builder, call: OpCall) -> Value:
    """`(a @ b) * scale_a * scale_b + bias`; scales hold one element, or one a row and one a column."""
    left, right, scale_a, scale_b = call.args[:4]
    y = matrix_product(b, left, right, "f32")
    for scale in (scale_a, scale_b):
        if any(e not in (1, n) for e, n in zip(scale.shape[::-1], y.shape[::-1], strict=False)):
            raise ValueError(f"_scaled_mm: expected scales of one element, a row or a column, found {scale.shape}")
        y = pointwise(b, "scaled", "f32", y.shape, "mul", y, scale)
    bias = call.arg(4, "bias")
    if bias is not None:
        return pointwise(b, "biased", call.out_dtype, y.shape, "add", y, bias)
    return converted(b, "stored", call.out_dtype, y)
