"""Every lowering rule of a JAX primitive against JAX itself, on the CPU."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.jax.tracing import check, floats, integers

X = floats(4, 5)
POSITIVE = jnp.abs(X) + 0.5
UNIT = jnp.tanh(X) * 0.9

UNARY = [
    *((f, X) for f in (
        lax.neg, lax.sign, lax.floor, lax.ceil, lax.exp, lax.exp2, lax.expm1, lax.tanh, lax.sin, lax.cos, lax.tan,
        lax.atan, lax.sinh, lax.cosh, lax.asinh, lax.erf, lax.erfc, lax.abs, lax.logistic, lax.is_finite, lax.square,
        lax.cbrt, lax.bessel_i0e, lax.bessel_i1e, jnp.round,
    )),
    *((f, POSITIVE) for f in (lax.log, lax.log1p, lax.sqrt, lax.rsqrt, lax.lgamma, lax.digamma, lax.reciprocal)),
    *((f, UNIT) for f in (lax.asin, lax.acos, lax.atanh, lax.erf_inv)),
    (lax.acosh, POSITIVE + 1),
]  # fmt: skip


@pytest.mark.parametrize(("f", "x"), UNARY, ids=lambda v: getattr(v, "__name__", ""))
def test_a_function_of_one_operand_gives_what_jax_gives(f, x) -> None:
    check(f, x)


@pytest.mark.parametrize(
    "f",
    [lax.add, lax.sub, lax.mul, lax.div, lax.rem, lax.max, lax.min, lax.atan2, lax.eq, lax.ne, lax.lt, lax.le, lax.gt,
     lax.ge, lax.nextafter, lambda x, y: lax.pow(jnp.abs(x), y), lax.complex],
)  # fmt: skip
def test_a_function_of_two_floats_gives_what_jax_gives(f) -> None:
    check(f, X, floats(4, 5, seed=3))


@pytest.mark.parametrize(
    "f",
    [lax.add, lax.sub, lax.mul, lax.div, lax.rem, lax.max, lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor,
     lambda x, y: lax.bitwise_not(x) + y, lambda x, y: lax.shift_left(x, jnp.abs(y) % 8),
     lambda x, y: lax.shift_right_arithmetic(x, jnp.abs(y) % 8),
     lambda x, y: lax.shift_right_logical(x, jnp.abs(y) % 8), lambda x, y: x // y, lambda x, y: x % y],
)  # fmt: skip
def test_integers_divide_shift_and_combine_as_in_jax(f) -> None:
    x, y = integers(6, 7, low=-40, high=40), integers(6, 7, low=1, high=9, seed=2)
    check(f, x, y * jnp.where(x % 2 == 0, 1, -1))


def test_choices_clamps_casts_and_powers() -> None:
    check(lambda x: jnp.where(x > 0, x, 2 * x), X)
    check(lambda x: lax.clamp(-0.5, x, 0.5), X)
    check(lambda x: lax.select_n(jnp.argmax(x, 1, keepdims=True) % 3 + jnp.zeros(x.shape, int), x, -x, x * x), X)
    check(lambda x: (x * 3).astype(jnp.int32), X)
    check(lambda x: x.astype(jnp.bfloat16) * 2, X)
    check(lambda x: lax.reduce_precision(x, 8, 7) + lax.reduce_precision(x, 5, 10), X)
    check(lambda x: [x**2, x**3, POSITIVE**-1, x**0], X)
    check(lambda x: [x + 1j, jnp.real(x * 1j), jnp.conj(x + 2j)], X)
    check(lambda x: [jnp.logaddexp(x, 0.0), jax.nn.softplus(x), jax.nn.gelu(x), jax.nn.log_softmax(x)], X)
    check(lambda b: [~b, b & b[::-1], b ^ True, jnp.any(b, 0), jnp.all(b)], X > 0)


def test_reshapes_broadcasts_slices_pads_and_joins() -> None:
    x = floats(3, 4, 6)
    check(lambda x: [x.reshape(12, 6), x.reshape(2, 6, 3, 2), x.transpose(2, 0, 1), x[:, None], jnp.flip(x, (0, 2))], x)
    check(lambda x: [x[1:, ::2, 1:5:3], jnp.broadcast_to(x[0], (2, 4, 6)), lax.expand_dims(x, (1,)), x.ravel()], x)
    check(lambda x: [jnp.concatenate([x, x[:, :1]], 1), jnp.stack([x, -x], 1), *jnp.split(x, [1, 3], 1)], x)
    check(lambda x: lax.pad(x, 0.5, [(1, 2, 0), (-1, 1, 1), (0, -2, 2)]), x)
    check(
        lambda x: [jnp.tile(x, (2, 1, 3)), jnp.repeat(x, 2, 1), jnp.roll(x, 2, 1), jnp.pad(x[0], 1, mode="reflect")], x
    )
    check(lambda x: [jnp.arange(5) + x[0, 0, 0], jnp.eye(3), jnp.linspace(0, 1, 4), jnp.tril(x[0]), jnp.zeros(2)], x)
    check(lambda x: lax.reshape(x, (6, 12), dimensions=(2, 0, 1)), x)
    check(lambda x: [lax.rev(x, (1,)), lax.iota(jnp.int32, 4), lax.broadcasted_iota(jnp.float32, (2, 3), 1)], x)


@pytest.mark.parametrize(
    ("left", "right", "numbers"),
    [((3, 4), (4, 5), (((1,), (0,)), ((), ()))),
     ((2, 3, 4), (2, 4, 5), (((2,), (1,)), ((0,), (0,)))),
     ((4, 2, 3), (3, 5, 2), (((2,), (0,)), ((1,), (2,)))),
     ((2, 3, 4, 5), (4, 3, 6, 2), (((1, 2), (1, 0)), ((0,), (3,)))),
     ((3,), (4,), (((), ()), ((), ()))),
     ((3, 2), (4, 3), (((), ()), ((0,), (1,))))],
)  # fmt: skip
def test_dot_general_in_every_layout(left, right, numbers) -> None:
    check(lambda x, y: lax.dot_general(x, y, numbers), floats(*left), floats(*right))


def test_dot_general_accumulates_in_the_preferred_dtype() -> None:
    x, y = floats(8, 16, dtype=jnp.bfloat16), floats(16, 4, dtype=jnp.bfloat16)
    check(lambda x, y: lax.dot(x, y, preferred_element_type=jnp.float32), x, y)
    check(lambda x, y: lax.dot(x, y, preferred_element_type=jnp.int32), *(
        integers(4, 4, low=-5, high=5, seed=k).astype(jnp.int8) for k in (0, 1)))  # fmt: skip


CONVOLUTIONS = [
    {"window_strides": (1, 1), "padding": "SAME"},
    {"window_strides": (2, 1), "padding": [(1, 2), (0, 1)]},
    {"window_strides": (1, 2), "padding": [(2, 2), (1, 1)], "rhs_dilation": (2, 1)},
    {"window_strides": (1, 1), "padding": [(2, 2), (2, 3)], "lhs_dilation": (2, 3)},
    {"window_strides": (2, 2), "padding": [(2, 1), (0, 0)], "lhs_dilation": (3, 2), "rhs_dilation": (1, 2)},
    {"window_strides": (1, 1), "padding": [(-1, 0), (1, -1)]},
    {"window_strides": (1, 1), "padding": "VALID", "feature_group_count": 2},
    {"window_strides": (1, 1), "padding": "VALID", "batch_group_count": 2},
]


@pytest.mark.parametrize("given", CONVOLUTIONS)
def test_convolutions_of_every_kind(given) -> None:
    groups = given.get("feature_group_count", 1)
    check(lambda x, w: lax.conv_general_dilated(x, w, **given), floats(2, 4, 7, 6), floats(6, 4 // groups, 3, 2))


def test_convolutions_in_other_layouts_and_ranks() -> None:
    check(lambda x, w: lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
          floats(2, 6, 5, 3), floats(3, 3, 3, 4))  # fmt: skip
    check(lambda x, w: lax.conv_general_dilated(x, w, (2,), "SAME"), floats(2, 3, 9), floats(4, 3, 3))
    check(lambda x, w: lax.conv_general_dilated(x, w, (1, 1, 2), "VALID"), floats(1, 2, 4, 4, 5), floats(3, 2, 2, 3, 2))
    check(lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), floats(1, 4, 4, 3), floats(3, 3, 3, 2))
    check(jax.grad(lambda x, w: (lax.conv_general_dilated(x, w, (2, 2), "SAME") ** 2).sum(), (0, 1)),
          floats(1, 2, 5, 5), floats(3, 2, 3, 3), tolerance=1e-4)  # fmt: skip


def test_reductions_and_prefix_folds() -> None:
    x = floats(3, 4, 5)
    check(lambda x: [x.sum(), x.max((0, 2)), x.min(1), x.prod(2), x.mean((1, 2)), x.var(0), jnp.argmax(x, 1)], x)
    check(lambda x: [jnp.argmin(x, 2), jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cummax(x, 2), lax.cummin(x, 1)], x)
    check(lambda x: [lax.cumsum(x, 1, reverse=True), lax.cumlogsumexp(x, 2), jax.nn.logsumexp(x, 1)], x)
    check(lambda x: lax.reduce(x, 2.0, lambda a, b: a * b, (0,)), x)
    check(lambda x: lax.reduce(x, 2.0, lambda a, b: lax.max(a, b), (0, 1)), x)


WINDOWS = [
    ((1, 2, 2), (1, 2, 2), "VALID", (1, 1, 1), (1, 1, 1)),
    ((1, 3, 3), (1, 2, 1), "SAME", (1, 1, 1), (1, 1, 1)),
    ((1, 2, 3), (1, 1, 1), [(0, 0), (1, 0), (2, 1)], (1, 2, 1), (1, 1, 2)),
]


@pytest.mark.parametrize("window", WINDOWS)
def test_windows_with_padding_and_dilation(window) -> None:
    sizes, strides, padding, base, dilation = window
    more = {"base_dilation": base, "window_dilation": dilation}
    x = floats(2, 7, 6)
    check(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, sizes, strides, padding, **more), x)
    check(lambda x: lax.reduce_window(x, jnp.inf, lax.min, sizes, strides, padding, **more), x)
    check(lambda x: lax.reduce_window(x, 0.0, lax.add, sizes, strides, padding, **more), x)
    check(lambda x: lax.reduce_window(x, 0.5, lambda a, b: a + b, sizes, strides, padding, **more), x)


def test_the_gradient_of_max_pooling() -> None:
    def pooled(x):
        return (lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2), (1, 2, 2), "SAME") ** 2).sum()

    check(jax.grad(pooled), floats(2, 7, 6))


def test_gathers_of_every_kind() -> None:
    x, i, j = floats(6, 5, 4), integers(3, 2, high=6), integers(3, 2, high=5, seed=1)
    check(lambda x, i: x[i], x, i)
    check(lambda x, i: x[:, i % 5], x, i)
    check(lambda x, i, j: x[i, j], x, i, j)
    check(lambda x, i, j: x[i, :, j % 4], x, i, j)
    check(lambda x, i: x[i - 3], x, i)
    check(lambda x, i: jnp.take(x, i, axis=1, mode="clip"), x, i * 3 - 4)
    check(lambda x, i: jnp.take(x, i, axis=1, mode="fill", fill_value=7.0), x, i * 3 - 4)
    check(lambda x, i: x.at[i, 1].get(mode="fill", fill_value=0.0), x, i * 3 - 4)
    check(lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1), x)
    check(lambda x: [x[2], x[-1, 1], x[1:3, 2], x[..., 0], x[::-1][jnp.array([0, 2])]], x)
    check(lambda x, i: jax.vmap(lambda r, k: lax.dynamic_slice(r, (k, 0), (2, 3)))(x, i[:, 0] % 4), x[:3], i)
    check(lambda x, i: jax.vmap(lambda r, k: r[k])(x[:3], i[:, 0] % 5), x, i)


def test_scatters_of_every_kind() -> None:
    x, i, u = floats(6, 5), integers(4, high=6), floats(4, 5, seed=4)
    unique = jnp.array([4, 0, 5, 2], jnp.int32)
    check(lambda x, i, u: x.at[i].add(u), x, i, u)
    check(lambda x, i, u: x.at[i].multiply(u), x, i, u)
    check(lambda x, i, u: x.at[i].max(u), x, i, u)
    check(lambda x, i, u: x.at[i].min(u), x, i, u)
    check(lambda x, i, u: x.at[i].set(u), x, unique, u)
    check(lambda x, i, u: x.at[:, i % 5].add(u.sum()), x, i, u)
    check(lambda x, i, u: x.at[i, i % 5].add(u[:, 0]), x, i, u)
    check(lambda x, i, u: x.at[i + 3].add(u, mode="drop"), x, i, u)
    check(lambda x, i, u: x.at[i].add(u, mode="clip"), x, i + 3, u)
    check(lambda x, i, u: x.at[i + 3, 2].add(u[:, 2], mode="drop"), x, i, u)
    check(lambda x: [x.at[2].set(0.0), x.at[1:3, 2].add(1.0), x.at[-1, -1].multiply(3.0), x.at[::2].set(1.0)], x)
    check(lambda u, i: jax.ops.segment_sum(u, i, 6), u, i)
    check(lambda u, i: jax.ops.segment_max(u, i, 6), u, jnp.array([0, 1, 2, 3, 4, 5, 0, 1], jnp.int32)[:4])
    check(lambda x, u: jax.vmap(lambda r, k: r.at[k].add(1.0))(x, jnp.argmax(x, 1)), x, u)
    check(jax.grad(lambda x: (x[jnp.array([0, 2, 2])] ** 2).sum()), x)


def test_slices_at_computed_places() -> None:
    x, k = floats(6, 5), jnp.int32(2)
    check(lambda x, k: lax.dynamic_slice(x, (k, 1), (3, 2)), x, k)
    check(lambda x, k: lax.dynamic_slice(x, (k + 9, k - 9), (3, 2)), x, k)
    check(lambda x, k: lax.dynamic_update_slice(x, x[:2] * 2, (k, 0)), x, k)
    check(lambda x, k: lax.dynamic_update_slice(x, x[:2, :3] * 2, (k, k)), x, k)
    check(lambda x, k: [x[k], x[k, k], lax.dynamic_index_in_dim(x, k, 1)], x, k)
    check(lambda x: [lax.dynamic_slice(x, (9, 1), (3, 2)), lax.dynamic_update_slice(x, x[:2, :2], (1, 2))], x)


def test_sorts_and_selections() -> None:
    x = floats(4, 7)
    check(lambda x: [jnp.sort(x, 1), jnp.argsort(x, 0), jnp.sort(x, 0, descending=True), *lax.top_k(x, 3)], x)
    check(lambda x: lax.sort((jnp.round(x), x, -x), num_keys=1), x)
    check(lambda x: lax.sort((jnp.round(x), x, -x), dimension=0, num_keys=2), x)
    check(lambda x: [jnp.searchsorted(jnp.sort(x[0]), x[1]), jnp.median(x, 1)], x)


def test_fourier_transforms_and_cholesky_run_but_their_work_is_not_known() -> None:
    x = floats(4, 8)
    lowered = check(lambda x: [jnp.fft.rfft(x), jnp.fft.ifft(x + 1j), jnp.fft.fft2(x), jnp.fft.irfft(x + 0j)], x,
                    partial=True, tolerance=1e-4)  # fmt: skip
    assert {p.operator for p in lowered.partial} == {"jax.fft"}
    check(lambda x: jnp.linalg.cholesky(x @ x.T + 4 * jnp.eye(4)), x, partial=True, tolerance=1e-4)


def test_loops_carry_stack_and_count() -> None:
    x, w = floats(5, 3), floats(3, 3)
    check(lambda x, w: lax.scan(lambda c, r: (jnp.tanh(c @ w + r), c * 2), x[0], x), x, w)
    check(lambda x, w: lax.scan(lambda c, r: (c + r, (c, r @ w)), x[0], x, reverse=True), x, w)
    check(lambda x: lax.fori_loop(0, 4, lambda i, c: c.at[i].set(c[i] + i), x), x)
    check(lambda x: lax.fori_loop(1, 4, lambda i, c: c + x[i] * lax.dynamic_index_in_dim(x, i - 1, 0, False), x[0]), x)
    check(lambda x: lax.while_loop(lambda c: c[0] < 7, lambda c: (c[0] + 2, c[1] * 1.5), (0, x)), x)
    check(jax.grad(lambda x: lax.scan(lambda c, r: (jnp.sin(c * r), None), x[0], x)[0].sum()), x)
    check(lambda x: lax.associative_scan(jnp.multiply, x), x)
    check(lambda x: lax.map(lambda r: (r * r).sum(), x), x)


def test_branches_run_the_side_that_holds() -> None:
    x = floats(4, 3)
    for sign in (1.0, -1.0):
        check(lambda x: lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: jnp.sin(y), x), sign * jnp.abs(x))
    for number in (-1, 0, 1, 2, 5):
        check(lambda x, k: lax.switch(k, [lambda y: y, lambda y: -y, lambda y: y * y], x), x, jnp.int32(number))
    check(lambda x: lax.cond(True, lambda y: y + 1, lambda y: y - 1, x), x)


def test_transformations_change_how_a_program_runs_not_what_it_gives() -> None:
    x, w = floats(4, 3), floats(3, 5)

    @jax.custom_jvp
    def cube(x):
        return x**3

    cube.defjvp(lambda p, t: (cube(p[0]), 3 * p[0] ** 2 * t[0]))

    @jax.custom_vjp
    def clipped(x):
        return x

    clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -0.1, 0.1),))
    check(lambda x, w: jax.vmap(jax.checkpoint(jax.jit(lambda r: jnp.tanh(r @ w))))(x), x, w)
    check(jax.grad(lambda x, w: cube(clipped(x @ w)).sum(), (0, 1)), x, w, tolerance=1e-4)
    check(lambda x, w: jax.jvp(lambda x: cube(x @ w), (x,), (jnp.ones_like(x),)), x, w, tolerance=1e-4)
    check(jax.hessian(lambda r: (jnp.sin(r) ** 2).sum()), x[0], tolerance=1e-4)
    check(lambda x, w: jax.linearize(lambda x: x @ w, x)[1](x), x, w)


def test_random_numbers_cost_nothing_and_are_named() -> None:
    from sollens.analysis.einsum.lift import lift
    from sollens.analysis.lower.lower import lower
    from tests.jax.tracing import record

    def noisy(x):
        key = jax.random.key(3)
        a, b = jax.random.split(key)
        return x + jax.random.normal(a, x.shape) * jax.random.bernoulli(b, 0.5, x.shape)

    lowered = lower(record(noisy, X))
    assert not lowered.partial
    graph = lift(lowered.program, lowered.values)
    assert sum(
        sum(e.vector_ops.values()) if isinstance(e.vector_ops, dict) else e.vector_ops for e in graph.einsums
    ) == (2 * X.size)


def test_constants_keep_their_values() -> None:
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    check(lambda x: x @ table + jnp.array([1.0, 2.0, 3.0, 4.0]), floats(2, 3))
