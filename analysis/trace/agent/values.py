# pyright: basic
"""Seeded values of parameters, buffers and inputs that make a wrong program show: no zeros, no ones, both signs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .dtypes import is_integral
from .tensors import no_modes

_DEFAULT_BOUND = 8
_LARGE = 1e4
_BIAS = 0.3
# Operators whose integer argument indexes a table: argument of the indices, argument of the table, and its axis
# (or, as a string, the argument that holds the axis).
_TABLES: dict[str, tuple[int, int, Any]] = {
    "aten.embedding.default": (1, 0, 0),
    "aten._embedding_bag.default": (1, 0, 0),
    "aten._embedding_bag_forward_only.default": (1, 0, 0),
    "aten.nll_loss_forward.default": (1, 0, 1),
    "aten.nll_loss2d_forward.default": (1, 0, 1),
    "aten.nll_loss_nd.default": (1, 0, 1),
    "aten.multi_margin_loss.default": (1, 0, 1),
    "aten.index_select.default": (2, 0, "1"),
    "aten.gather.default": (2, 0, "1"),
    "aten.scatter.src": (2, 0, "1"),
    "aten.scatter.value": (2, 0, "1"),
    "aten.scatter_.src": (2, 0, "1"),
    "aten.scatter_.value": (2, 0, "1"),
    "aten.scatter_add.default": (2, 0, "1"),
    "aten.scatter_add_.default": (2, 0, "1"),
    "aten.index_add.default": (2, 0, "1"),
}
_FOLLOWED = {
    "view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "expand", "clone", "_to_copy", "select", "slice",
    "permute", "transpose", "t", "alias", "detach", "split", "unbind", "chunk",
}  # fmt: skip


def index_bounds(trace: dict[str, Any]) -> dict[int, int]:
    """For each external integer tensor that indexes tables: the smallest extent that it indexes."""
    tensors = {t["id"]: t for t in trace["tensors"]}
    origin: dict[int, int] = {t["id"]: t["id"] for t in trace["tensors"] if t["kind"] != "intermediate"}
    bounds: dict[int, int] = {}

    def limit(index: Any, extent: int) -> None:
        number = origin.get(index["tensor"]) if isinstance(index, dict) and "tensor" in index else None
        if number is not None and tensors[number]["dtype"] != "bool":
            bounds[number] = min(bounds.get(number, extent), extent)

    for op in trace["ops"]:
        target, args = op["target"], op["args"]
        name = target.split(".")[1]
        if name in _FOLLOWED and args and isinstance(args[0], dict) and args[0].get("tensor") in origin:
            outputs = op["outputs"] if isinstance(op["outputs"], list) else [op["outputs"]]
            for output in outputs:
                if isinstance(output, dict) and "tensor" in output:
                    origin.setdefault(output["tensor"], origin[args[0]["tensor"]])
        elif target in _TABLES:
            at, table, axis = _TABLES[target]
            shape = tensors[args[table]["tensor"]]["shape"]
            axis = args[int(axis)] if isinstance(axis, str) else min(axis, len(shape) - 1)
            if shape:
                limit(args[at], shape[axis])
        elif (
            name in ("index", "index_put", "index_put_", "_unsafe_index")
            and len(args) > 1
            and isinstance(args[1], list)
        ):
            shape = tensors[args[0]["tensor"]]["shape"]
            for index, extent in zip(args[1], shape, strict=False):
                limit(index, extent)
    return bounds


class Values:
    """One seeded source of values."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed + 1)

    def floats(self, shape: Any, dtype: torch.dtype) -> torch.Tensor:
        """Normal values, one in sixteen four times as large, so that both ends of a clamp are reached."""
        real = torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32
        value = torch.randn(shape, generator=self._generator, dtype=real)
        tail = torch.rand(shape, generator=self._generator) < 1 / 16
        value = torch.where(tail, value * 4, value)
        if dtype.is_complex:
            return torch.complex(value, torch.randn(shape, generator=self._generator, dtype=real)).to(dtype)
        return value.to(dtype)

    def tensor(self, shape: Any, dtype: torch.dtype, bound: int | None = None) -> torch.Tensor:
        """A tensor of a dtype; integers lie in [0, bound)."""
        if dtype is torch.bool:
            return torch.rand(shape, generator=self._generator) < 0.5
        if is_integral(dtype):
            return torch.randint(0, max(1, bound or _DEFAULT_BOUND), shape, generator=self._generator).to(dtype)
        return self.floats(shape, dtype)

    def give_parameters(self, model: torch.nn.Module) -> None:
        """Parameters and statistics: seeded values where constant or not initialised, others scaled up where faint."""
        with no_modes(), torch.no_grad():
            for name, parameter in model.named_parameters():
                self._give(name, parameter.data)
            for name, buffer in model.named_buffers():
                if name.rsplit(".", 1)[-1] in ("running_mean", "running_var"):
                    self._give(name, buffer)

    def _give(self, name: str, value: torch.Tensor) -> None:
        if not value.is_floating_point() or not value.numel() or value.layout is not torch.strided:
            return
        finite = bool(torch.isfinite(value).all()) and float(value.abs().max()) < _LARGE
        first = float(value.reshape(-1)[0]) if finite else 0.0
        constant = finite and bool((value == first).all())
        if finite and not constant:
            _amplify(name, value)
        elif name.endswith("var"):
            value.copy_(torch.rand(value.shape, generator=self._generator) + 0.5)
        else:
            normal = torch.randn(value.shape, generator=self._generator)
            if constant and first != 0.0:  # the scale of a norm: spread, so that no two channels look alike
                value.copy_(torch.exp(normal * 0.5 - 0.25) * first)
            else:
                value.copy_(normal * (_BIAS if constant else _scale(value.shape)))

    def given(self, value: torch.Tensor, bound: int | None, *, signed: bool) -> torch.Tensor:
        """An input that the file made: constants get values, uniform ones both signs, indices stay in their tables."""
        if not value.numel() or value.layout is not torch.strided:
            return value
        if is_integral(value.dtype):
            flat = value.reshape(-1)
            constant = value.numel() > 1 and bool((flat == flat[0]).all())
            if value.dtype is torch.bool:
                return self.tensor(value.shape, value.dtype) if constant else value
            if bound is not None and (int(value.max()) >= bound or int(value.min()) < -bound):
                return value % bound
            return self.tensor(value.shape, value.dtype, bound) if constant and bound is not None else value
        if not value.is_floating_point():
            return value
        constant = value.numel() > 1 and bool((value == value.reshape(-1)[0]).all())
        finite = bool(torch.isfinite(value).all())
        if constant or not finite:
            return self.floats(value.shape, value.dtype) if signed else self._unit(value)
        if signed and value.numel() > 1 and float(value.min()) >= 0 and float(value.max()) <= 1:
            tail = torch.rand(value.shape, generator=self._generator) < 1 / 16
            centred = (value * 3 - 1.5).to(value.dtype)
            return torch.where(tail, centred * 4, centred)
        return value

    def _unit(self, value: torch.Tensor) -> torch.Tensor:
        return torch.rand(value.shape, generator=self._generator).to(value.dtype)


def _amplify(name: str, value: torch.Tensor) -> None:
    """Scale up what the program itself drew: it fades layer by layer, and a faint bias hides that it is rounded."""
    if value.numel() < 2:
        return
    if value.dim() > 1:
        size, wanted = float(value.float().std()), _scale(value.shape)
    elif name.rpartition(".")[2].startswith("bias"):
        size, wanted = float(value.float().abs().mean()), _BIAS
    else:
        return
    if 0.0 < size < wanted:
        value.mul_(wanted / size)


def _scale(shape: Sequence[int]) -> float:
    """Standard deviation of a matrix whose products keep the size of what they multiply."""
    fan = 1
    for extent in shape[1:]:
        fan *= extent
    return max(1, fan) ** -0.5
