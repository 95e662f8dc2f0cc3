"""Sorting, random numbers, and library routines of JAX whose work is not counted."""

from __future__ import annotations

from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.pointwise import converted
from sollens.analysis.lower.registry import rule


@rule("jax.sort")
def sort(b: Builder, call: OpCall) -> tuple[Value, ...]:
    """All operands along `dimension`, by the first `num_keys` of them."""
    axis, keys = call.kwargs["dimension"], call.kwargs["num_keys"]
    operands: list[Value] = list(call.args)
    if len(operands) == 1:
        return (_sorted(b, operands[0], axis)[0],)
    order: Value | None = None
    for key in reversed(operands[:keys]):  # stable: the most important key last
        moved = key if order is None else _along(b, key, order, axis)
        values, places = _sorted(b, moved, axis)
        order = places if order is None else _along(b, order, places, axis)
        if keys == 1:
            return (values, *(_along(b, o, order, axis) for o in operands[1:]))
    assert order is not None
    return tuple(_along(b, o, order, axis) for o in operands)


def _sorted(b: Builder, x: Value, axis: int) -> tuple[Value, ...]:
    both = [(x.dtype, x.shape), ("i64", x.shape)]
    return b.call("sort", [x], both, "sorted", axis=axis, descending=False, stable=True)


def _along(b: Builder, x: Value, order: Value, axis: int) -> Value:
    return b.call("gather", [x, order], [(x.dtype, x.shape)], "moved", axis=axis)[0]


@rule("jax.top_k")
def top_k(b: Builder, call: OpCall) -> tuple[Value, ...]:
    """The k largest along an axis and where they are."""
    x: Value = call.args[0]
    axis: int = call.kwargs.get("axis", x.rank - 1) % x.rank
    both = [(x.dtype, call.out_shape), ("i64", call.out_shape)]
    values, places = b.call("topk", [x], both, "top", k=call.out_shape[axis], axis=axis, largest=True)
    spec = call.outputs[1]
    return values, converted(b, "places", spec[0] if spec else "i32", places)


@rule(
    "jax.random", "jax.random_bits", "jax.random_seed", "jax.random_split", "jax.random_fold_in", "jax.random_gamma",
    "jax.threefry2x32", "jax.threefry4x32", "jax.rng_bit_generator", "jax.rng_uniform", "jax.philox2x32",
    "jax.philox4x32",
)  # fmt: skip
def random(b: Builder, call: OpCall) -> tuple[Value, ...]:
    """Random values and keys: free, and read nothing but the tensors that parametrise them."""
    operands = [v for v in call.args if isinstance(v, Value)]
    specs = [s for s in call.outputs if s is not None]
    name = str(call.kwargs.get("name") or call.target.split(".")[1])
    return b.call("random", operands, specs, "random", distribution=f"jax {name}")


_FFT = ("fft", "ifft", "rfft", "irfft")


@rule("jax.fft")
def fft(b: Builder, call: OpCall) -> Value:
    """Over the last axes."""
    kind = call.kwargs["fft_type"]
    kind = _FFT[kind] if isinstance(kind, int) else str(kind).lower().removeprefix("fft_")
    rank = call.args[0].rank
    axes = tuple(range(rank - len(call.kwargs["fft_lengths"]), rank))
    results = [(call.out_dtype, call.out_shape)]
    return b.call("fft", [call.args[0]], results, kind, kind=kind, axes=axes, norm="backward")[0]


_ROUTINES = {
    "cholesky": "cholesky", "cholesky_update": "cholesky_update", "eig": "eig_general", "eigh": "eigh_swapped",
    "geqp3": "geqp3", "geqrf": "geqrf", "hessenberg": "hessenberg", "householder_product": "householder_product",
    "lu": "lu", "lu_pivots_to_permutation": "lu_pivots_to_permutation", "ormqr": "ormqr", "qr": "qr_full",
    "schur": "schur", "svd": "svd_full", "symmetric_product": "symmetric_product",
    "triangular_solve": "triangular_solve", "tridiagonal": "tridiagonal", "tridiagonal_solve": "tridiagonal_solve",
}  # fmt: skip


@rule(*(f"jax.{name}" for name in _ROUTINES))
def linalg(b: Builder, call: OpCall) -> tuple[Value, ...]:
    """A routine over the last two axes: its operands are read, its results written, its work is not counted."""
    operands = [v for v in call.args if isinstance(v, Value)]
    specs = [s for s in call.outputs if s is not None]
    name = call.target.split(".")[1]
    if name == "cholesky":  # the lower triangle of an operand that is taken for symmetric
        (result,) = b.call("linalg", operands, specs, name, routine="cholesky")
        return (result,)
    return b.call("linalg", operands, specs, name, routine=_ROUTINES[name])
