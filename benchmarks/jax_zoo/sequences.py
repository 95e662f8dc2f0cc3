"""Recurrences: by scan, by associative scan, by a while loop; graphs; state-space models."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax


# sol: xs=f32[T=20, B=4, I=16], h=f32[B, H=32], wx=f32[I, 128], wh=f32[H, 128], b=f32[128]
def lstm(xs, h, wx, wh, b):
    def step(state, x):
        h, c = state
        i, f, g, o = jnp.split(x @ wx + h @ wh + b, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(step, (h, jnp.zeros_like(h)), xs)[1]


# sol: init(24), x=f32[2, 12, 8]
class LinenGRU(nn.Module):
    hidden: int

    @nn.compact
    def __call__(self, x):
        return nn.RNN(nn.GRUCell(self.hidden))(x)


# sol: init(8, 16), xs=f32[12, 8]
class EquinoxGRU(eqx.Module):
    cell: eqx.nn.GRUCell
    hidden: int

    def __init__(self, width, hidden, *, key):
        self.cell = eqx.nn.GRUCell(width, hidden, key=key)
        self.hidden = hidden

    def __call__(self, xs):
        return lax.scan(lambda h, x: (self.cell(x, h), None), jnp.zeros(self.hidden), xs)[0]


# sol: u=f32[T=64, D=16], delta=f32[T, D], a=f32[D, N=8], b=f32[T, N], c=f32[T, N]
def selective_scan(u, delta, a, b, c):
    decay = jnp.exp(delta[..., None] * -jnp.abs(a))
    drive = (delta * u)[..., None] * b[:, None]

    def combine(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    _, states = lax.associative_scan(combine, (decay, drive))
    return jnp.einsum("tdn,tn->td", states, c)


# sol: u=f32[T=32, D=8], a=f32[D], b=f32[D]
def linear_recurrence(u, a, b):
    def step(h, x):
        h = a * h + b * x
        return h, h

    return lax.scan(step, jnp.zeros_like(a), u, reverse=True)[1]


# sol: x=f32[N=40, D=16], senders=i32[E=120], receivers=i32[E], w=f32[D, 8]
def graph_convolution(x, senders, receivers, w):
    messages = (x @ w)[senders]
    degree = jax.ops.segment_sum(jnp.ones(messages.shape[0]), receivers, x.shape[0])
    return jax.ops.segment_sum(messages, receivers, x.shape[0]) / jnp.maximum(degree, 1.0)[:, None]


# sol: x=f32[N=24, D=16], adjacency=f32[N, N], w=f32[D, 8], a=f32[16]
def graph_attention(x, adjacency, w, a):
    h = x @ w
    scores = jax.nn.leaky_relu((h @ a[:8])[:, None] + (h @ a[8:])[None])
    return jax.nn.softmax(jnp.where(adjacency > 0, scores, -1e9)) @ h


# sol: m=f32[N=24, N], v=f32[N]
def power_iteration(m, v):
    m = m @ m.T

    def step(_, v):
        v = m @ v
        return v / jnp.linalg.norm(v)

    return lax.fori_loop(0, 10, step, v)


# sol: x=f32[16, 8], table=f32[100, 8], ids=i32[16]
def embedding_update(x, table, ids):
    return table.at[ids].add(-0.1 * x)


# sol: emissions=f32[T=20, S=6], transitions=f32[S, S]
def viterbi(emissions, transitions):
    def step(score, emission):
        best = score[:, None] + transitions
        return best.max(0) + emission, best.argmax(0)

    final, back = lax.scan(step, emissions[0], emissions[1:])
    last = final.argmax()
    _, path = lax.scan(lambda s, b: (b[s], s), last, back, reverse=True)
    return path, final.max()


# sol: x=f32[64, 32]
def top_and_sorted(x):
    values, places = lax.top_k(x, 5)
    return values.sum(), jnp.sort(x, 0)[-1], places, jnp.cumsum(x, 1)[:, -1], jnp.median(x)


# sol: pairs=f32[16, 3]
def pairwise_energy(pairs):
    def energy(a, b):
        return 1.0 / (1.0 + jnp.sum((a - b) ** 2))

    return jax.vmap(lambda a: jax.vmap(lambda b: energy(a, b))(pairs))(pairs).sum()


# sol: x=f32[16], threshold=f32[]
def branching(x, threshold):
    return lax.cond(x.sum() > threshold, lambda v: jnp.sin(v) @ v, lambda v: v.max(), x)
