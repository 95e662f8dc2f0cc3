# pyright: basic
"""Autocast's casts as a GPU makes them: meta tensors carry no autocast key, so they are made (and recorded) here.

The lists are those of PyTorch's documentation, "Automatic Mixed Precision: CUDA Op-Specific Behavior".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_LOWER = {
    "linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "mv", "addmm", "addmv", "addr", "addbmm",
    "baddbmm", "einsum", "chain_matmul", "multi_dot", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "prelu", "bilinear", "scaled_dot_product_attention", "lstm", "gru",
    "rnn_tanh", "rnn_relu",
}  # fmt: skip
_FULL = {
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt",
    "sinh", "tan", "pow", "softplus", "layer_norm", "group_norm", "norm", "cosine_similarity", "poisson_nll_loss",
    "cosine_embedding_loss", "nll_loss", "hinge_embedding_loss", "kl_div", "l1_loss", "smooth_l1_loss",
    "huber_loss", "mse_loss", "margin_ranking_loss", "multilabel_margin_loss", "soft_margin_loss",
    "triplet_margin_loss", "multi_margin_loss", "cross_entropy", "binary_cross_entropy_with_logits", "dist",
    "pdist", "cdist", "renorm", "logsumexp", "prod", "softmax", "log_softmax", "softmin", "cumprod", "cumsum",
    "sum", "rms_norm", "__pow__", "__rpow__",
}  # fmt: skip


class Autocast:
    """Casts the arguments of calls while autocast is on."""

    def __init__(self) -> None:
        self._weights: dict[tuple[int, torch.dtype], torch.Tensor] = {}

    def cast(self, func: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments as autocast would pass them on; unchanged when it is off."""
        if not torch.is_autocast_enabled("cpu"):
            return args, kwargs
        name = getattr(func, "__name__", "")
        if name in _LOWER:
            change: Callable[[torch.Tensor], torch.Tensor] = self._lower
        elif name in _FULL:
            change = _full
        else:
            return args, kwargs
        return _each(args, change), _each(kwargs, change)

    def _lower(self, tensor: torch.Tensor) -> torch.Tensor:
        to = torch.get_autocast_dtype("cpu")
        if tensor.dtype is to or tensor.dtype is torch.float64 or not tensor.is_floating_point():
            return tensor
        if not isinstance(tensor, torch.nn.Parameter):
            return tensor.to(to)
        # Autocast keeps the casts of weights.
        key = (id(tensor), to)
        if key not in self._weights:
            self._weights[key] = tensor.to(to)
        return self._weights[key]


def _full(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _each(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)([_each(v, change) for v in value])
    if isinstance(value, dict):
        return {k: _each(v, change) for k, v in value.items()}
    return value
