"""The catalogue of Calls: data movement that is not affine, and library calls.

Semantics are NumPy's unless said. `x` is the first operand. Axes are never negative. The demand of each (which elements
of which operand a set of result elements needs) stands in `einsum/calls.py`, the execution in `execute/library.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallOp:
    """A call: what it means, its attributes, whether its cost is known (False: zero work, the result is partial)."""

    name: str
    meaning: str
    attributes: tuple[str, ...] = ()
    known: bool = True


CALLS: dict[str, CallOp] = {
    op.name: op
    for op in (
        CallOp(
            "take",
            "x, idx -> x.shape[:axis] + idx.shape + x.shape[axis+1:]; rows of x along axis (embedding, index_select)",
            ("axis",),
        ),
        CallOp("gather", "x, idx -> idx.shape; torch.gather along axis", ("axis",)),
        CallOp(
            "index",
            "x, idx... -> advanced indexing: one index tensor per entry of axes (broadcast together); "
            "the result's index dims start at position",
            ("axes", "position"),
        ),
        CallOp(
            "scatter",
            "x, idx, src -> x with src written at idx along axis; reduce in none add mul amax amin mean",
            ("axis", "reduce", "include_self"),
        ),
        CallOp(
            "index_add",
            "x, idx (1-D), src -> x with src's rows combined into x's rows idx along axis; reduce as in scatter",
            ("axis", "reduce", "include_self"),
        ),
        CallOp(
            "index_put",
            "x, idx..., values -> x with values written at the advanced index; accumulate adds",
            ("axes", "accumulate"),
        ),
        CallOp("sort", "x -> values, indices (i64) along axis", ("axis", "descending", "stable")),
        CallOp(
            "topk",
            "x -> values, indices (i64), the k largest (or smallest) along axis, sorted",
            ("k", "axis", "largest"),
        ),
        CallOp("searchsorted", "sorted, values -> i64 positions", ("right",)),
        CallOp(
            "random",
            "no operands (or a tensor of parameters) -> random values; distribution names it",
            ("distribution",),
        ),
        CallOp("nonzero", "x -> i64[n, rank]; n as traced", ()),
        CallOp("masked_select", "x, mask -> 1-D; length as traced", ()),
        CallOp("fft", "x -> transform over axes; kind in fft ifft rfft irfft", ("kind", "axes", "norm"), known=False),
        CallOp(
            "linalg",
            "library routine named by routine (cholesky, inv, qr, svd, eigh, solve, ...)",
            ("routine",),
            known=False,
        ),
        CallOp(
            "opaque",
            "an operator without a rule: compulsory traffic, zero work, partial; operator names it",
            ("operator",),
            known=False,
        ),
    )
}
