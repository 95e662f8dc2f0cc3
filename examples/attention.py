"""Causal self-attention written out by hand: `sollens check examples/attention.py`."""

import math

import torch
from torch import nn

batch, tokens, dim, heads = 8, 1024, 768, 12


class Model(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        mask = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, d))


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch, tokens, dim)]


def get_init_inputs() -> list[int]:
    return [dim, heads]
