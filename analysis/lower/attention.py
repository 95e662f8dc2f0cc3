"""Scaled dot-product attention: two contractions around a softmax, whichever back end the trace names.

The program is the cheapest known form: the scale goes to the smallest of queries, keys and scores, and the sum of the
exponentials divides the result, not the probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod, sqrt
from typing import Any

from sollens.analysis.ir.affine import Affine, at_least, dim
from sollens.analysis.ir.nodes import Read
from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.contractions import contraction, scaled
from sollens.analysis.lower.expressions import apply, select
from sollens.analysis.lower.pointwise import Dims, accumulator, broadcast_read, dims_of, filled, names_of, pointwise
from sollens.analysis.lower.registry import rule


@dataclass(frozen=True, slots=True)
class Attention:
    """What the steps share: batch dims (heads last), the row, the key position, and the operator's options."""

    batch: Dims
    row: tuple[str, int]
    key: tuple[str, int]
    mask: Value | None
    causal: bool
    dropout: float

    @property
    def score_dims(self) -> Dims:
        """Dims of the scores."""
        return [*self.batch, self.row, self.key]

    @property
    def row_dims(self) -> Dims:
        """Dims of a row's statistics."""
        return [*self.batch, self.row]

    def read(self, x: Value, *last: str) -> Read:
        """`x` at the batch point: an axis of extent 1 is shared, and key heads serve consecutive query heads."""
        own = self.batch[len(self.batch) - (x.rank - 2) :]
        lead = [_shared(name, wanted, extent) for (name, wanted), extent in zip(own, x.shape, strict=False)]
        return x[(*lead, *last)]


def _shared(name: str, wanted: int, extent: int) -> Affine:
    if extent == wanted:
        return dim(name)
    return Affine() if extent == 1 else dim(name) // (wanted // extent)


@dataclass(frozen=True, slots=True)
class Weights:
    """The unnormalised probabilities of every row, with what was folded along it."""

    shape: Attention
    powers: Value
    total: Value
    divisor: Value  # `total`, but 1 where the mask empties the row
    largest: Value
    scale: float


def weigh(b: Builder, q: Value, k: Value, batch: Dims, options: dict[str, Any]) -> Weights:
    """Scores, masked, as exponentials below each row's maximum."""
    rows, keys, dtype = q.shape[-2], k.shape[-2], q.dtype
    a = Attention(
        batch, ("i", rows), ("j", keys), options.get("mask"), options.get("causal", False), options.get("dropout", 0.0)
    )
    wide = accumulator(dtype)
    scale: float | None = options.get("scale")
    if scale is None:
        scale = 1 / sqrt(max(q.shape[-1], 1))
    scores = prod(e for _, e in batch) * (sum(min(i + 1, keys) for i in range(rows)) if a.causal else rows * keys)
    sizes = {"query": q.size, "key": k.size, "scores": scores}
    smallest = b.chosen(min(sizes, key=sizes.__getitem__))
    if smallest == "query":
        q = scaled(b, q, scale)
    elif smallest == "key":
        k = scaled(b, k, scale)
    s = contraction(b, "scores", a.score_dims, [("d", q.shape[-1])], a.read(q, "i", "d"), a.read(k, "j", "d"), wide)
    if smallest == "scores":
        s = scaled(b, s, scale)
    s = _masked(b, s, a)
    largest = _folded(b, "row_max", "max", s, a)
    empty = None
    if a.mask is not None:  # a row that the mask empties gives zeros
        empty = pointwise(b, "empty_row", "bool", largest.shape, "eq", largest, -inf)
        largest = pointwise(b, "row_max", wide, largest.shape, "where", empty, 0.0, largest)
    difference = apply("sub", s[names_of(a.score_dims)], largest[names_of(a.row_dims)])
    powers = b.statement("powers", a.score_dims, apply("exp", difference), dtype)
    total = _folded(b, "row_sum", "sum", powers, a)
    divisor = total if empty is None else pointwise(b, "row_sum", wide, total.shape, "where", empty, 1.0, total)
    return Weights(a, powers, total, divisor, largest, scale)


def attend(b: Builder, call: OpCall, q: Value, k: Value, v: Value, options: dict[str, Any]) -> tuple[Value, ...]:
    """The output, the natural logarithm of the sum of exponentials of each row, and the probabilities."""
    weights = weigh(b, q, k, dims_of(call.out_shape[:-2], "b"), options)
    a, factor, divisor = weights.shape, weights.powers, weights.divisor
    largest, total, wide = weights.largest, weights.total, accumulator(q.dtype)
    if a.dropout > 0:
        factor = _dropped(b, factor, a.dropout)
        divisor = scaled(b, divisor, 1 - a.dropout)
    out_dims = [*a.batch, a.row, ("e", v.shape[-1])]
    o = contraction(b, "attended", out_dims, [a.key], factor[names_of(a.score_dims)], a.read(v, "j", "e"), wide)
    quotient = apply("div", o[names_of(out_dims)], divisor[names_of(a.row_dims)])
    y = b.statement("attention", out_dims, quotient, call.out_dtype)
    log_sum = apply("add", largest[names_of(a.row_dims)], apply("log", total[names_of(a.row_dims)]))
    lse = b.statement("logsumexp", a.row_dims, log_sum, wide)
    share = apply("div", factor[names_of(a.score_dims)], divisor[names_of(a.row_dims)])
    return y, lse, b.statement("probabilities", a.score_dims, share, q.dtype)


def _folded(b: Builder, hint: str, kind: str, x: Value, a: Attention) -> Value:
    return b.statement(hint, a.row_dims, x[names_of(a.score_dims)], accumulator(x.dtype), reduce=(kind, [a.key]))


def _masked(b: Builder, s: Value, a: Attention) -> Value:
    element, dims = s[names_of(a.score_dims)], a.score_dims
    if a.causal:
        s = b.statement("causal", dims, select(at_least(dim(a.row[0]), dim(a.key[0])), element, -inf), s.dtype)
        element = s[names_of(dims)]
    if a.mask is None:
        return s
    mask = broadcast_read(a.mask, dims)
    body = apply("where", mask, element, -inf) if a.mask.dtype == "bool" else apply("add", element, mask)
    return b.statement("masked", dims, body, s.dtype)


def _dropped(b: Builder, powers: Value, probability: float) -> Value:
    chance = filled(b, "keep_probability", "f32", powers.shape, 1 - probability)
    (kept,) = b.call("random", [chance], [("bool", powers.shape)], "kept", distribution="bernoulli")
    return pointwise(b, "dropped", powers.dtype, powers.shape, "where", kept, powers, 0.0)


# The positional arguments behind query, key and value of each back end.
_FUNCTION = "mask dropout causal"
_WITH_BIAS = "mask log_sum dropout causal"
_SIGNATURES = {
    "fn.scaled_dot_product_attention": "mask dropout causal scale gqa",
    "aten.scaled_dot_product_attention": _FUNCTION,
    "aten._scaled_dot_product_attention_math": _FUNCTION,
    "aten._scaled_dot_product_attention_math_for_mps": _FUNCTION,
    "aten._scaled_dot_product_flash_attention": "dropout causal",
    "aten._scaled_dot_product_flash_attention_for_cpu": "dropout causal",
    "aten._scaled_dot_product_efficient_attention": _WITH_BIAS,
    "aten._scaled_dot_product_cudnn_attention": _WITH_BIAS,
    "aten._scaled_dot_product_fused_attention_overrideable": _FUNCTION,
}
_KEYWORDS = {"attn_mask": "mask", "attn_bias": "mask", "dropout_p": "dropout", "is_causal": "causal", "scale": "scale"}


@rule(*_SIGNATURES)
def attention(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """Any back end of `scaled_dot_product_attention`; what it saves besides logarithms and probabilities is blank."""
    signature = _SIGNATURES.get(call.target) or _SIGNATURES[call.target.rpartition(".")[0]]
    q, k, v = (call.arg(n, name) for n, name in enumerate(("query", "key", "value")))
    options: dict[str, Any] = dict(zip(signature.split(), call.args[3:], strict=False))
    options.update({_KEYWORDS[key]: value for key, value in call.kwargs.items() if key in _KEYWORDS})
    y, lse, probabilities = attend(b, call, q, k, v, options)
    saved: list[Value | None] = []
    for spec in call.outputs[1:]:
        known = next((x for x in (lse, probabilities) if (x.dtype, x.shape) == spec), None)
        saved.append(known if known is not None else filled(b, "saved", *spec) if spec else None)
    return (y, *saved)


@rule("aten._scaled_dot_product_flash_attention_for_cpu_backward")
def attention_backward(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """`(grad, q, k, v, out, logsumexp, dropout, causal, *, attn_mask, scale)` -> gradients of q, k and v.

    With p the probabilities: `dv = p^T g`, `ds = p * (g v^T - rowsum(g out))`, `dq = scale ds k`, `dk = scale ds^T q`.
    The scores are the forward's own statements, so what a kernel recomputes is counted once; each row's divisor meets
    the gradient, not the scores.
    """
    grad, q, k, v, out = call.args[:5]
    if call.args[6]:
        raise NotImplementedError("the gradient of attention with dropout")
    options = {"mask": call.kwargs.get("attn_mask"), "causal": call.args[7], "scale": call.kwargs.get("scale")}
    weights = weigh(b, q, k, dims_of(q.shape[:-2], "b"), options)
    a, powers, wide = weights.shape, weights.powers, accumulator(q.dtype)
    batch, row, key, channel, width = a.batch, a.row, a.key, ("e", v.shape[-1]), ("d", q.shape[-1])
    lead = names_of(batch)
    share = apply("div", grad[(*lead, "i", "e")], weights.divisor[(*lead, "i")])
    g = b.statement("grad_each", [*batch, row, channel], share, wide)
    element = powers[(*lead, "i", "j")]
    of_v = contraction(b, "grad_v", [*batch, key, channel], [row], element, g[(*lead, "i", "e")], v.dtype)
    reach = contraction(b, "grad_weights", a.score_dims, [channel], g[(*lead, "i", "e")], v[(*lead, "j", "e")], wide)
    mean = contraction(b, "row_mean", a.row_dims, [channel], g[(*lead, "i", "e")], out[(*lead, "i", "e")], wide)
    difference = apply("sub", reach[(*lead, "i", "j")], mean[(*lead, "i")])
    of_s = b.statement("grad_scores", a.score_dims, apply("mul", element, difference), wide)
    slope = of_s[(*lead, "i", "j")]
    of_q = contraction(b, "grad_q", [*batch, row, width], [key], slope, k[(*lead, "j", "d")], q.dtype)
    of_k = contraction(b, "grad_k", [*batch, key, width], [row], slope, q[(*lead, "i", "d")], k.dtype)
    return scaled(b, of_q, weights.scale), scaled(b, of_k, weights.scale), of_v
