# pyright: basic
"""`mode=train`: what a target computes, then the gradients of what it returns; traced and really run alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from . import patches

if TYPE_CHECKING:
    from .origins import Backward
    from .target import Run

_NO_GRADIENT = "does not require grad"


class NeedsInputGradients(Exception):
    """A function differentiates by arguments that were not known to require a gradient."""


def call_and_differentiate(run: Run, backward: Backward, call: Any, model: Any, args: Any, kwargs: Any) -> Any:
    """(what the target returns, gradients by name, gradients of tensors without one).

    Of every parameter that requires a gradient and of inputs that do; of all inputs where nothing else does. What is
    returned is differentiated unless the target did that itself. A scalar is a loss; the gradient of anything else is
    one more input, as large as the output.
    """
    leaves = {name: tensor for _, name, tensor in run.named}
    if run.gradients_of is None:
        run.gradients_of = [name for name, tensor in leaves.items() if tensor.requires_grad]
        if run.by_inputs or (model is not None and not run.gradients_of):
            run.gradients_of += [n for kind, n, t in run.named if kind == "input" and t.is_floating_point()]
            patches.note("mode=train: every floating-point input requires a gradient")
    for name in run.gradients_of:
        leaves[name].requires_grad_(True)
    try:
        with torch.enable_grad():
            outputs = call(*args, **kwargs)
            done = bool(backward.leaves.met) or (model is None and backward.seen)
            if not done:
                _differentiate(run, outputs)
    except RuntimeError as error:
        if _NO_GRADIENT not in str(error) or model is not None or run.by_inputs:
            raise
        raise NeedsInputGradients from error
    named = {id(t) for t in leaves.values()}
    found = {name: t.grad for name, t in leaves.items() if t.grad is not None}
    others = [t.grad for t in backward.leaves.met if id(t) not in named and t.grad is not None]
    return outputs, found, others


def _differentiate(run: Run, outputs: Any) -> None:
    roots = [t for t in tensors(outputs) if t.requires_grad]
    if not roots:
        raise RuntimeError(
            f"mode=train: expected an output that depends on a tensor that requires a gradient; what is returned "
            f"{_NO_GRADIENT}. Remove mode=train, or return a differentiable output."
        )
    upstream = [None if t.dim() == 0 else run.upstream(t, f"grad_output{n or ''}") for n, t in enumerate(roots)]
    torch.autograd.backward(roots, upstream)  # pyright: ignore[reportArgumentType]


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor of a nest of outputs, dataclasses included, each once."""
    seen: set[int] = set()
    stack = [value]
    while stack:
        item = stack.pop(0)
        if isinstance(item, torch.Tensor):
            if id(item) not in seen:
                seen.add(id(item))
                yield item
        elif isinstance(item, (list, tuple)):
            stack[:0] = item
        elif isinstance(item, dict):
            stack[:0] = item.values()
        elif hasattr(type(item), "__dataclass_fields__"):
            stack[:0] = [getattr(item, name, None) for name in type(item).__dataclass_fields__]
