"""Idioms of real models, whole, against torch."""

import torch
from tracing import check

F = torch.nn.functional


def test_rotary_embedding():
    def f(x):
        angles = torch.outer(torch.arange(5.0), 1.0 / 10000 ** (torch.arange(0, 8, 2).float() / 8))
        a, b = x[..., ::2], x[..., 1::2]
        turned = torch.stack([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1).flatten(-2)
        half = torch.cat([-x[..., 4:], x[..., :4]], -1)
        z = torch.view_as_complex(x.reshape(2, 5, 4, 2)) * torch.polar(torch.ones_like(angles), angles)
        return turned, half * torch.cat([angles, angles], -1).sin(), torch.view_as_real(z).flatten(2)

    check(f, torch.randn(2, 5, 8), tolerance=1e-4)


def test_shifted_windows():
    def f(x):
        shifted = torch.roll(x, (-1, -1), (1, 2))
        windows = shifted.view(2, 2, 2, 2, 2, 3).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 4, 3)
        back = windows.view(2, 2, 2, 2, 2, 3).permute(0, 1, 3, 2, 4, 5).contiguous().view(2, 4, 4, 3)
        return windows, torch.roll(back, (1, 1), (1, 2))

    check(f, torch.randn(2, 4, 4, 3))


def test_shift_mask_by_slices():
    def f(x):
        mask = torch.zeros(1, 4, 4, 1)
        count = 0
        for h in (slice(0, -2), slice(-2, -1), slice(-1, None)):
            for w in (slice(0, -2), slice(-2, -1), slice(-1, None)):
                mask[:, h, w, :] = count
                count += 1
        rows = mask.view(1, 2, 2, 2, 2, 1).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4)
        return x + (rows.unsqueeze(1) - rows.unsqueeze(2)).masked_fill((rows.unsqueeze(1) != rows.unsqueeze(2)), -100.0)

    check(f, torch.randn(4, 4))


def test_heads_causal_mask_and_cache():
    def f(x, keys):
        q, k, v = x.chunk(3, -1)
        q = q.view(2, 3, 2, 4).transpose(1, 2)
        keys[:, 1:4] = k
        k = keys[:, :4].view(2, 4, 2, 4).transpose(1, 2)
        scores = (q.unsqueeze(3) * k.unsqueeze(2)).sum(-1)
        scores = scores.masked_fill(~torch.ones(3, 4, dtype=torch.bool).tril(1), float("-inf"))
        weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
        return (
            (weights.unsqueeze(-1) * v.view(2, 3, 2, 4).transpose(1, 2)[:, :, :1].unsqueeze(2))
            .sum(3)
            .transpose(1, 2)
            .reshape(2, 3, 8)
        )

    check(f, torch.randn(2, 3, 24), torch.randn(2, 5, 8), tolerance=1e-4)


def test_mixture_of_experts_routing():
    def f(x, gate):
        scores = (x.unsqueeze(-1) * gate).sum(1)
        top, chosen = scores.topk(2, -1)
        mask = F.one_hot(chosen, 4).sum(1)
        out = torch.zeros_like(x)
        for e in range(4):
            out.add_(x * (e + 1) * (mask[:, e : e + 1] * top.sigmoid().sum(-1, keepdim=True)))
        return out, scores.argmax(-1), torch.bincount(chosen.flatten(), minlength=4)

    check(f, torch.randn(3, 5), torch.randn(5, 4), tolerance=1e-4)


def test_segment_sum_of_a_state_space_model():
    def f(x):
        total = x.cumsum(-1)
        parts = total[..., :, None] - total[..., None, :]
        return parts.masked_fill(~torch.ones(4, 4, dtype=torch.bool).tril(), float("-inf")).exp()

    check(f, torch.randn(2, 4))


def test_exclusive_and_reverse_scans():
    def f(x):
        return (
            torch.cat([torch.zeros_like(x[:, :1]), x.cumsum(1)[:, :-1]], 1),
            x.flip(1).cumsum(1).flip(1),
            (x * (x > 0)).cumsum(1),
        )

    check(f, torch.randn(2, 5))


def test_loop_over_time_into_a_buffer():
    def f(x):
        out = x.new_zeros(2, 4, 3)
        h = x.new_zeros(2, 3)
        for t in range(4):
            h = torch.tanh(h * 0.5 + x[:, t])
            out[:, t] = h
        return out, h

    check(f, torch.randn(2, 4, 3))
