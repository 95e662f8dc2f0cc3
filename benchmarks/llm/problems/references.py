"""What each program beside this file gives, in NumPy: the reference functions that its pragma names.

Each returns the results in the order in which the source gives them. They take every array by the pragma's name for it.
"""

import numpy as np


def softmax(x):
    scaled = x.astype(np.float32) * np.float32(0.125)
    e = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True)).astype(np.float16)


def matmul(a, b, bias):
    acc = a.astype(np.float32) @ b.astype(np.float32) + bias
    return np.where(acc >= 0, acc, np.float32(0.01) * acc).astype(np.float16)


def rope(q, angle):
    lo, hi = np.split(q, 2, axis=-1)
    c, s = np.cos(angle)[None, :, None, :], np.sin(angle)[None, :, None, :]
    return np.concatenate([lo * c - hi * s, hi * c + lo * s], axis=-1)


def heat_step(u):
    v = u.copy()
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    v[1:-1, 1:-1] += np.float32(0.1) * (around - 4 * u[1:-1, 1:-1])
    return v


def block_stats(x):
    blocks = np.pad(x, (0, -len(x) % 256)).reshape(-1, 256)
    return (blocks * blocks).sum(axis=1), np.abs(blocks).max(axis=1)


def bilinear_scores(x, w, y):
    s = np.einsum("bik,kl,bjl->bij", x, w, y) / np.sqrt(x.shape[-1])
    s = s - s.mean(axis=-1, keepdims=True)
    s = s / (s.std(axis=-1, keepdims=True) + 1e-6)
    return np.maximum(s, 0.0).cumsum(axis=1)


def block(x, gain, w1, w2, w3):
    h = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(1e-6)) * gain
    gate = h @ w1.T
    return x + (gate / (1 + np.exp(-gate)) * (h @ w2.T)) @ w3.T


def gated_scan(x, a, h0):
    h, states = h0, []
    for x_t, a_t in zip(x, a, strict=True):
        gate = 1 / (1 + np.exp(-a_t))
        h = gate * h + np.sqrt(1 - gate**2) * x_t
        states.append(h)
    return np.stack(states), h


def depthwise(x, w):
    n, height, width, c = x.shape
    wide = np.zeros((n, height + 4, width + 4, c), x.dtype)
    wide[:, 2:-2, 2:-2] = x
    acc = sum(wide[:, 2 * r : 2 * r + height, 2 * s : 2 * s + width] * w[r, s] for r in range(3) for s in range(3))
    return np.clip(acc, 0, 6)


def conv_pool(x, w, bias):
    n, c, height, width = x.shape
    k = len(w)
    out = np.zeros((n, k, (height + 1) // 2, (width + 1) // 2), np.float32)
    wide = np.pad(x, ((0, 0), (0, 0), (1, 2), (1, 2)))
    for g in range(4):
        own, filters = wide[:, g * (c // 4) : (g + 1) * (c // 4)], slice(g * (k // 4), (g + 1) * (k // 4))
        for r in range(3):
            for s in range(3):
                taps = own[:, :, r : r + 2 * out.shape[2] : 2, s : s + 2 * out.shape[3] : 2]
                out[:, filters] += np.einsum("ncij,kc->nkij", taps, w[filters, :, r, s])
    out += bias[:, None, None]
    oh, ow = out.shape[2] // 2, out.shape[3] // 2
    windows = (
        out[:, :, : 2 * oh, : 2 * ow].reshape(n, k, oh, 2, ow, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, k, oh, ow, 4)
    )
    return windows.max(axis=-1), windows.argmax(axis=-1)


def upsample(x):
    for axis in (2, 3):
        length = x.shape[axis]
        at = np.maximum((np.arange(2 * length) + 0.5) / 2 - 0.5, 0)
        low = at.astype(int)
        high = np.minimum(low + 1, length - 1)
        shape = [1, 1, 1, 1]
        shape[axis] = -1
        share = (at - low).astype(np.float32).reshape(shape)
        x = (1 - share) * np.take(x, low, axis) + share * np.take(x, high, axis)
    return x


def nearest(query, keys, value):
    d = ((query[:, None] - keys[None]) ** 2).sum(axis=-1)
    order = np.argsort(d, axis=1, kind="stable")[:, :4]
    near = -np.take_along_axis(d, order, axis=1)
    w = np.exp(near - near.max(axis=1, keepdims=True))
    w /= w.sum(axis=1, keepdims=True)
    return np.einsum("qk,qkv->qv", w, value[order]), order


def segment_mean(labels, x, zero):
    total = zero.copy()
    np.add.at(total, labels, x)
    count = np.bincount(labels, minlength=len(zero)).astype(np.float32)
    return total / np.maximum(count, 1.0)[:, None], count
