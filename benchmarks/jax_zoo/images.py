"""Convolutional networks as functions and with flax.linen."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax


def conv(x, w, stride=1, padding="SAME"):
    return lax.conv_general_dilated(x, w, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


# sol: x=f32[B=4, 32, 32, 3], w1=f32[3, 3, 3, 16], w2=f32[3, 3, 16, 32], w3=f32[2048, 10]
def cnn(x, w1, w2, w3):
    for w in (w1, w2):
        x = lax.reduce_window(jax.nn.relu(conv(x, w)), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.reshape(x.shape[0], -1) @ w3


class ResidualBlock(nn.Module):
    features: int
    stride: int = 1

    @nn.compact
    def __call__(self, x, train: bool = False):
        y = nn.Conv(self.features, (3, 3), (self.stride, self.stride), use_bias=False)(x)
        y = nn.relu(nn.BatchNorm(use_running_average=not train)(y))
        y = nn.Conv(self.features, (3, 3), use_bias=False)(y)
        y = nn.BatchNorm(use_running_average=not train)(y)
        if x.shape != y.shape:
            x = nn.Conv(self.features, (1, 1), (self.stride, self.stride), name="shortcut")(x)
        return nn.relu(x + y)


# sol: init(stages=(16, 32), classes=10), x=f32[2, 32, 32, 3]
class ResNet(nn.Module):
    stages: tuple
    classes: int

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(self.stages[0], (3, 3))(x)
        for k, features in enumerate(self.stages):
            x = ResidualBlock(features, 1 if k == 0 else 2)(x)
        return nn.Dense(self.classes)(x.mean((1, 2)))


# sol: init(8), x=f32[1, 32, 32, 3]
class UNet(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x):
        skips = []
        for k in range(2):
            x = nn.silu(nn.GroupNorm(4)(nn.Conv(self.width * 2**k, (3, 3))(x)))
            skips.append(x)
            x = nn.max_pool(x, (2, 2), (2, 2))
        x = nn.silu(nn.Conv(self.width * 4, (3, 3))(x))
        for k in reversed(range(2)):
            x = nn.ConvTranspose(self.width * 2**k, (2, 2), (2, 2))(x)
            x = nn.silu(nn.Conv(self.width * 2**k, (3, 3))(jnp.concatenate([x, skips[k]], -1)))
        return nn.Conv(3, (1, 1))(x)


# sol: init(32, 4), x=f32[2, 16, 16, 16], t=f32[2]
class DiffusionBlock(nn.Module):
    features: int
    heads: int

    @nn.compact
    def __call__(self, x, t):
        frequencies = jnp.exp(-jnp.log(1e4) * jnp.arange(8) / 8)
        embedding = jnp.concatenate([jnp.sin(t[:, None] * frequencies), jnp.cos(t[:, None] * frequencies)], -1)
        scale, shift = jnp.split(nn.Dense(2 * self.features)(nn.silu(embedding)), 2, -1)
        h = nn.Conv(self.features, (3, 3))(nn.silu(nn.GroupNorm(8)(x)))
        h = nn.GroupNorm(8)(h) * (1 + scale[:, None, None]) + shift[:, None, None]
        h = nn.Conv(self.features, (3, 3))(nn.silu(h)) + nn.Conv(self.features, (1, 1))(x)
        flat = h.reshape(h.shape[0], -1, self.features)
        return (flat + nn.MultiHeadDotProductAttention(self.heads)(nn.LayerNorm()(flat))).reshape(h.shape)


# sol: x=f32[2, 16, 16, 8], depth=f32[3, 3, 1, 8], point=f32[1, 1, 8, 16]
def separable(x, depth, point):
    y = lax.conv_general_dilated(
        x, depth, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=8
    )
    return jax.nn.relu6(conv(jax.nn.relu6(y), point))


# sol: x=f32[2, 16, 16, 4], w=f32[3, 3, 4, 8]
def upsampled(x, w):
    x = jax.image.resize(x, (x.shape[0], 32, 32, x.shape[3]), "nearest")
    return nn.avg_pool(conv(x, w), (2, 2), (2, 2))


# sol: x=f32[2, 16, 16, 3], w=f32[3, 3, 3, 8], v=f32[8, 10], labels=i32[2]
def cnn_gradients(x, w, v, labels):
    def loss(w, v):
        y = nn.max_pool(jax.nn.relu(conv(x, w)), (2, 2), (2, 2)).mean((1, 2)) @ v
        return -(jax.nn.log_softmax(y) * jax.nn.one_hot(labels, 10)).sum(-1).mean()

    return jax.grad(loss, (0, 1))(w, v)
