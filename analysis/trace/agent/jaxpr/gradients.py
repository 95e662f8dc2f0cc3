# pyright: basic
"""`mode=train`: what a target computes, then the gradients of what it returns."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..problems import Unusable
from .dtypes import is_key
from .subjects import External, Subject


def differentiated(subject: Subject, line: int) -> Subject:
    """The subject with its gradients: of every floating-point parameter, of all inputs where it has none.

    A scalar is a loss; the gradient of anything else is one more input, as large as the output.
    """
    values = [e.value for e in subject.externals]
    at = [k for k, e in enumerate(subject.externals) if e.kind == "parameter" and _is_float(e.value)]
    at = at or [k for k, e in enumerate(subject.externals) if e.kind == "input" and _is_float(e.value)]
    outputs = jax.eval_shape(subject.call, *values)
    roots = [k for k, out in enumerate(outputs[: len(outputs) - subject.state]) if _is_float(out)]
    if not at or not roots:
        message = "mode=train: expected a floating-point output of floating-point arrays. Remove mode=train."
        raise Unusable("forward-failed", message, line)
    upstream = {
        k: External(jax.ShapeDtypeStruct(outputs[k].shape, outputs[k].dtype), "input", f"grad_output{n or ''}")
        for n, k in enumerate(roots)
        if outputs[k].shape
    }

    def call(*given: Any) -> Any:
        own, cotangents = list(given[: len(values)]), dict(zip(upstream, given[len(values) :], strict=True))

        def forward(*chosen: Any) -> Any:
            full = list(own)
            for k, value in zip(at, chosen, strict=True):
                full[k] = value
            return subject.call(*full)

        found, back = jax.vjp(forward, *[own[k] for k in at])
        grads = back([_cotangent(k, out, roots, cotangents) for k, out in enumerate(found)])
        return [*found, *grads]

    return Subject([*subject.externals, *upstream.values()], call, state=subject.state)


def _cotangent(position: int, output: Any, roots: list[int], given: dict[int, Any]) -> Any:
    if not _is_float(output):
        return np.zeros(output.shape, jax.dtypes.float0)
    if position not in roots:  # state that is handed on
        return jnp.zeros_like(output)
    return given[position] if position in given else jnp.ones_like(output)


def _is_float(value: Any) -> bool:
    return not is_key(value.dtype) and bool(jnp.issubdtype(value.dtype, jnp.inexact))
