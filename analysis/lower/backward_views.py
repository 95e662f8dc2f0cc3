"""Gradients of operators that choose a part: the part's gradient in a tensor of zeros."""

from __future__ import annotations

from sollens.analysis.ir.affine import Constraint, dim, equals, within
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import normalize, select
from sollens.analysis.lower.pointwise import dims_of
from sollens.analysis.lower.registry import rule
from sollens.analysis.lower.views import slice_start


@rule("aten.slice_backward")
def slice_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, input sizes, dim, start, end, step)`."""
    grad, shape, axis, start, _, step = call.args[:6]
    axis = normalize(axis, len(shape))
    first = slice_start(start, shape[axis])
    point = [dim(n) for n, _ in dims_of(shape)]
    offset = point[axis] - first
    inside: list[Constraint] = [equals(offset % step, 0)] if step > 1 else []
    place = offset // step
    inside += within(place, grad.shape[axis])
    element = grad[(*point[:axis], place, *point[axis + 1 :])]
    return b.statement("slice_backward", dims_of(shape), select(inside, element, 0), grad.dtype)


@rule("aten.select_backward")
def select_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, input sizes, dim, index)`."""
    grad, shape, axis, index = call.args[:4]
    axis = normalize(axis, len(shape))
    point = [dim(n) for n, _ in dims_of(shape)]
    element = grad[(*point[:axis], *point[axis + 1 :])]
    body = select(equals(point[axis], index % max(shape[axis], 1)), element, 0)
    return b.statement("select_backward", dims_of(shape), body, grad.dtype)


@rule("aten.diagonal_backward")
def diagonal_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, input sizes, offset, dim1, dim2)`: the diagonal is the last axis of the gradient."""
    grad, shape, offset = call.args[:3]
    first, second = (normalize(a, len(shape)) for a in call.args[3:5])
    point = [dim(n) for n, _ in dims_of(shape)]
    rest = [p for k, p in enumerate(point) if k not in (first, second)]
    along = point[first] if offset >= 0 else point[second]
    inside = [equals(point[second], point[first] + offset), *within(along, grad.shape[-1])]
    return b.statement("diagonal_backward", dims_of(shape), select(inside, grad[(*rest, along)], 0), grad.dtype)


@rule("aten.unfold_backward")
def unfold_backward(b: Builder, call: OpCall) -> Value:
    """`(grad, input sizes, dim, size, step)`: every element sums what the windows over it got."""
    grad, shape, axis, size, step = call.args[:5]
    axis = normalize(axis, len(shape))
    point = [dim(n) for n, _ in dims_of(shape)]
    offset = point[axis] - dim("k")
    place = offset // step
    guard: list[Constraint] = [equals(offset % step, 0)] if step > 1 else []
    guard += within(place, grad.shape[axis])
    element = grad[(*point[:axis], place, *point[axis + 1 :], dim("k"))]
    over = [("k", size)]
    return b.statement("unfold_backward", dims_of(shape), element, grad.dtype, reduce=("sum", over), guard=guard)
