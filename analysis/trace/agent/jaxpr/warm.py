# pyright: basic
"""A small program that loads what JAX imports lazily, traced once before the first request."""

import jax
import jax.numpy as jnp


def Model(image: jax.Array, kernel: jax.Array, ids: jax.Array, table: jax.Array) -> jax.Array:
    x = jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME")
    x = jax.nn.gelu(jax.nn.relu(x)).mean((2, 3))
    y = table[ids] + jnp.where(x > 0, x, 0.0)[:, None, :]
    scores = jax.nn.softmax(jnp.einsum("bid,bjd->bij", y, y) / 2.0)
    scores = jnp.tril(scores) @ y

    def step(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        carry = jnp.tanh(carry + row)
        return carry, carry

    def loss(w: jax.Array) -> jax.Array:
        return jax.scipy.special.logsumexp(scores @ w, axis=-1).sum() + jnp.var(w)

    state, states = jax.lax.scan(step, scores[:, 0], scores.swapaxes(0, 1))
    noise = jax.random.normal(jax.random.key(0), state.shape)
    grads = jax.grad(loss)(table.T)
    order = jnp.argsort(state, axis=-1)
    return states.sum() + grads.sum() + (state * noise).sum() + jnp.concatenate([state, y[:, 0]]).max() + order[0, 0]


def get_inputs() -> list[jax.Array]:
    return [jnp.ones((2, 3, 8, 8)), jnp.ones((4, 3, 3, 3)), jnp.ones((2, 4), int), jnp.ones((8, 4))]
