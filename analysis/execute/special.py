"""Special functions that NumPy lacks, to about full double accuracy. Float64 in, float64 out."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sollens.analysis.execute.storage import Array


def _elementwise(function: Callable[[float], float]) -> Callable[[Array], Array]:
    def guarded(x: float) -> float:
        if x != x:
            return x
        try:
            return function(x)
        except ValueError:  # a pole
            return math.inf
        except OverflowError:
            return math.inf

    return np.vectorize(guarded, otypes=[np.float64])


erf = _elementwise(math.erf)
erfc = _elementwise(math.erfc)
lgamma = _elementwise(math.lgamma)


def erfinv(y: Array) -> Array:
    """The inverse of erf on [-1, 1]; infinite at the ends, nan outside."""
    y = np.asarray(y, np.float64)
    inside = np.minimum(np.abs(y), 1 - 1e-16)
    # Winitzki's approximation (within 2e-3), then Newton steps on erfc, which keeps its digits in the tail.
    log = np.log1p(-inside * inside)
    a = 2 / (math.pi * 0.147) + log / 2
    x = np.sqrt(np.maximum(np.sqrt(a * a - log / 0.147) - a, 0))
    for _ in range(4):
        x = x - ((1 - inside) - erfc(x)) * (math.sqrt(math.pi) / 2) * np.exp(x * x)
    x = np.copysign(np.where(np.abs(y) == 1, np.inf, x), y)
    return np.where(np.abs(y) <= 1, x, np.nan)


def digamma(x: Array) -> Array:
    """The logarithmic derivative of the gamma function."""
    x = np.asarray(x, np.float64)
    reflected = x < 0.5
    z = np.where(reflected, 1 - x, x)
    shift = np.zeros_like(z)
    for _ in range(10):
        small = z < 10
        shift = shift - np.where(small, 1 / z, 0)
        z = np.where(small, z + 1, z)
    w = 1 / (z * z)
    series = w * (1 / 12 - w * (1 / 120 - w * (1 / 252 - w * (1 / 240 - w * (1 / 132 - w * (691 / 32760 - w / 12))))))
    result = np.log(z) - 0.5 / z - series + shift
    pole = (x <= 0) & (x == np.floor(x))
    result = np.where(reflected, result - math.pi / np.tan(math.pi * np.where(pole, 0.25, x)), result)
    return np.where(pole, np.where(x == 0, -np.copysign(np.inf, x), np.nan), result)


def i0(x: Array) -> Array:
    """The modified Bessel function of order 0."""
    return np.asarray(np.i0(np.asarray(x, np.float64))).reshape(np.shape(x))


def i1(x: Array) -> Array:
    """The modified Bessel function of order 1: the trapezoidal rule on its integral converges exponentially."""
    x = np.asarray(x, np.float64)
    angles = 2 * math.pi * np.arange(128) / 128
    scaled = sum(np.exp(x * c - np.abs(x)) * c for c in np.cos(angles))
    return np.asarray(scaled) / 128 * np.exp(np.abs(x))
