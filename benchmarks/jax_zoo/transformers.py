"""Attention in the styles people write it: functions, linen, nnx, equinox."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax


# sol: q=f32[B=2, H=4, T=64, D=16], k=f32[B, H, T, D], v=f32[B, H, T, D]
def causal_attention(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / jnp.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(jnp.where(mask, scores, -jnp.inf)), v)


# sol: q=f32[B=2, T=64, H=4, D=16], k=f32[B, T, K=2, D], v=f32[B, T, K, D]
def grouped_query_attention(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def rotary(x, positions):
    half = x.shape[-1] // 2
    angle = positions[:, None] * 1e4 ** (-jnp.arange(half) / half)
    sin, cos = jnp.sin(angle)[:, None], jnp.cos(angle)[:, None]
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


# sol: x=f32[D=64], wq=f32[D, D], wk=f32[D, D], wv=f32[D, D], cache_k=f32[T=128, H=4, 16], cache_v=f32[T, H, 16],
# sol: position=i32[]
def decode_step(x, wq, wk, wv, cache_k, cache_v, position):
    q, k, v = (rotary((x @ w).reshape(1, 4, -1), position[None]) for w in (wq, wk, wv))
    cache_k = lax.dynamic_update_slice(cache_k, k, (position, 0, 0))
    cache_v = lax.dynamic_update_slice(cache_v, v, (position, 0, 0))
    scores = jnp.einsum("hd,thd->ht", q[0], cache_k) / 4.0
    scores = jnp.where(jnp.arange(cache_k.shape[0]) <= position, scores, -1e9)
    return jnp.einsum("ht,thd->hd", jax.nn.softmax(scores), cache_v).reshape(-1), cache_k, cache_v


class Block(nn.Module):
    heads: int

    @nn.compact
    def __call__(self, x, mask=None):
        h = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(self.heads)(h, h, mask=mask)
        h = nn.LayerNorm()(x)
        return x + nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(4 * x.shape[-1])(h)))


# sol: init(vocabulary=256, width=32, heads=4, depth=2), ids=i32[2, 32]
class GPT(nn.Module):
    vocabulary: int
    width: int
    heads: int
    depth: int

    @nn.compact
    def __call__(self, ids):
        table = nn.Embed(self.vocabulary, self.width)
        x = table(ids) + nn.Embed(64, self.width, name="positions")(jnp.arange(ids.shape[1]))
        for _ in range(self.depth):
            x = Block(self.heads)(x, nn.make_causal_mask(ids))
        return table.attend(nn.LayerNorm()(x))


# sol: init(patch=8, width=32, heads=4, classes=10), image=f32[2, 32, 32, 3]
class ViT(nn.Module):
    patch: int
    width: int
    heads: int
    classes: int

    @nn.compact
    def __call__(self, image):
        x = nn.Conv(self.width, (self.patch, self.patch), (self.patch, self.patch), padding="VALID")(image)
        x = x.reshape(x.shape[0], -1, self.width)
        head = self.param("head", nn.initializers.zeros, (1, 1, self.width))
        x = jnp.concatenate([jnp.broadcast_to(head, (x.shape[0], 1, self.width)), x], 1)
        x = x + self.param("positions", nn.initializers.normal(), (1, x.shape[1], self.width))
        for _ in range(2):
            x = Block(self.heads)(x)
        return nn.Dense(self.classes)(nn.LayerNorm()(x)[:, 0])


# sol: init(32, 64), x=f32[2, 16, 32]
class NnxEncoder(nnx.Module):
    def __init__(self, width, hidden, *, rngs):
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(4, width, decode=False, rngs=rngs)
        self.up = nnx.Linear(width, hidden, rngs=rngs)
        self.down = nnx.Linear(hidden, width, rngs=rngs)
        self.drop = nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.drop(self.down(nnx.gelu(self.up(x))))


# sol: init(32, 4), x=f32[16, 32]
class EquinoxEncoder(eqx.Module):
    attention: eqx.nn.MultiheadAttention
    mlp: eqx.nn.MLP
    norm: eqx.nn.LayerNorm

    def __init__(self, width, heads, *, key):
        a, b = jax.random.split(key)
        self.attention = eqx.nn.MultiheadAttention(heads, width, key=a)
        self.mlp = eqx.nn.MLP(width, width, 4 * width, 1, key=b)
        self.norm = eqx.nn.LayerNorm(width)

    def __call__(self, x):
        h = jax.vmap(self.norm)(x)
        x = x + self.attention(h, h, h)
        return x + jax.vmap(self.mlp)(x)


# sol: x=f32[T=32, D=32], router=f32[D, E=4], up=f32[E, D, 64], down=f32[E, 64, D]
def mixture_of_experts(x, router, up, down):
    gates, chosen = lax.top_k(jax.nn.softmax(x @ router), 2)
    weights = (jax.nn.one_hot(chosen, router.shape[1]) * gates[..., None]).sum(1)
    hidden = jax.nn.silu(jnp.einsum("td,edh->teh", x, up))
    return jnp.einsum("teh,ehd,te->td", hidden, down, weights)


# sol: layers={"qkv": f32[L=3, D=32, 96], "out": f32[L, D, D]}, x=f32[16, D]
def scanned_layers(layers, x):
    @jax.checkpoint
    def layer(x, p):
        q, k, v = jnp.split(x @ p["qkv"], 3, -1)
        return x + jax.nn.softmax(q @ k.T / 5.0) @ v @ p["out"], None

    return lax.scan(layer, x, layers)[0]


# sol: layers={"qkv": f32[L=3, D=16, 48], "out": f32[L, D, D]}, x=f32[8, D]
def scanned_gradients(layers, x):
    return jax.grad(lambda p: (scanned_layers(p, x) ** 2).sum())(layers)
