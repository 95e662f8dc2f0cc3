# pyright: basic
"""Functions that are recorded whole where gradients are: each as an operator whose backward is an operator, too.

What `Functions` records whole in inference falls into ATen operators here, because autograd must see inside.
"""

from __future__ import annotations

import math
from typing import Any

import torch


def attention(q: Any, k: Any, v: Any, mask: Any, dropout: float, causal: bool, scale: Any, gqa: bool) -> Any:
    """`scaled_dot_product_attention` by the fused operator where its conditions hold, else by the plain ones.

    PyTorch would choose by device; the trace (meta tensors) and the real run (CPU) must choose alike.
    """
    if isinstance(mask, torch.Tensor) and mask.dtype is torch.bool:
        zero = torch.zeros((), dtype=q.dtype, device=mask.device)
        mask = torch.where(mask, zero, -math.inf)
    same = q.dim() == k.dim() == v.dim() == 4 and q.shape[-1] == k.shape[-1] == v.shape[-1]
    same = same and q.shape[:2] == k.shape[:2] == v.shape[:2]
    learned = isinstance(mask, torch.Tensor) and mask.requires_grad
    if same and not dropout and not learned and not (causal and mask is not None):
        fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
        return fused(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)[0]
    plain = torch.ops.aten._scaled_dot_product_attention_math.default
    return plain(q, k, v, mask, dropout, causal, scale=scale, enable_gqa=gqa)[0]
