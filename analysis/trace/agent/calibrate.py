# pyright: basic
"""Values of parameters under which a mistake anywhere in a network still shows at its end.

As PyTorch initialises them, signals fade or saturate over tens of layers, and in a narrow twin whole layers are dead.
So the network is run once before the golden run: each matrix is scaled as it is first used, so that what it gives has
standard deviation 1, and each batch norm gets statistics near those of what it meets.
"""

from __future__ import annotations

import copy
import random
import sys
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .tensors import no_modes

_PRODUCTS = {"convolution", "addmm", "mm", "bmm", "baddbmm", "addmv", "mv", "linear", "matmul", "einsum"}
_BATCH_NORMS = {"native_batch_norm", "_native_batch_norm_legit_no_training", "cudnn_batch_norm"}
_STATE = 0.4  # root mean square of a recurrent layer's state
_CLOSE = (0.8, 1.25)
# Statistics and scale of a batch norm are made small together: its epsilon then counts, and its result is as before.
_SMALL_VARIANCE = 1e-3
_CENTRED = 0.5
_ENOUGH = 64  # elements of a channel, for a mean worth taking off
_GAIN = 2.0  # so that the upper clamp of a ReLU6 is reached
_RECURRENT = 2.0  # standard deviation of the gates of a recurrent layer, lest what one layer does fades in the next


def calibrate(model: torch.nn.Module, call: Any, seed: int) -> None:
    """Set the parameters and statistics of `model`; as they were where a run of its copy fails.

    `call` runs a model. A copy is run, so that nothing but values changes.
    """
    numpy = sys.modules.get("numpy")
    states = random.getstate(), numpy.random.get_state() if numpy is not None else None
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            with no_modes():
                probe = copy.deepcopy(model)
            with _Calibrator(probe, seed):  # the modes around it see nothing yet: the forward has not begun
                call(probe)
            found = {**dict(probe.named_parameters()), **dict(probe.named_buffers())}
            changed = [*model.named_parameters(), *(b for b in model.named_buffers() if _is_statistic(b[0]))]
            if all(bool(torch.isfinite(found[name]).all()) for name, _ in changed):
                for name, value in changed:
                    value.data.copy_(found[name])
    except Exception:
        return
    finally:
        random.setstate(states[0])
        if numpy is not None:
            numpy.random.set_state(states[1])


def _is_statistic(name: str) -> bool:
    return name.rsplit(".", 1)[-1] in ("running_mean", "running_var")


class _Calibrator(TorchDispatchMode):
    """Runs operators, each parameter scaled before its first use."""

    def __init__(self, model: torch.nn.Module, seed: int) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed + 2)
        self._matrices: dict[int, torch.Tensor] = {}
        self._gain: dict[int, float] = {}
        for name, p in model.named_parameters():
            if p.dim() > 1 and p.dtype.is_floating_point:
                self._matrices[_storage(p)] = p
                self._gain[_storage(p)] = _RECURRENT if "weight_ih" in name or "weight_hh" in name else 1.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in _BATCH_NORMS:
            self._norm(args)
        elif name == "mkldnn_rnn_layer":
            self._recurrent(*args[:3])
        result = func(*args, **(kwargs or {}))
        if name not in _PRODUCTS or not isinstance(result, torch.Tensor):
            return result
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        used = [p for a in tensors if (p := self._matrices.pop(_storage(a), None)) is not None]
        if len(used) != 1 or result.numel() < 2:
            return result
        size = float(result.float().std()) / self._gain[_storage(used[0])]
        if not 0.0 < size < float("inf") or _CLOSE[0] < size < _CLOSE[1]:
            return result
        used[0].div_(size)
        return func(*args, **(kwargs or {}))

    def _recurrent(self, x: torch.Tensor, of_input: torch.Tensor, of_state: torch.Tensor) -> None:
        """Gates from the input, and as much again from the state, whose elements are below 1."""
        sizes = (x.reshape(-1, x.shape[-1]) @ of_input.T).std(), of_state.norm(dim=1).mean() * _STATE
        for matrix, size in zip((of_input, of_state), sizes, strict=True):
            if self._matrices.pop(_storage(matrix), None) is not None and float(size) > 0:
                matrix.mul_(_RECURRENT / size)

    def _norm(self, args: Any) -> None:
        x, weight, _, mean, variance = args[:5]
        if mean is None or variance is None or x.dim() < 2:
            return
        rest = [d for d in range(x.dim()) if d != 1]
        # All of the mean taken off would double rounding every few layers; none of it, and all samples look alike.
        centre = x.float().mean(rest) * (_CENTRED if x.numel() >= _ENOUGH * x.shape[1] else 0.0)
        shape = [-1 if d == 1 else 1 for d in range(x.dim())]
        spread = (x.float() - centre.reshape(shape)).square().mean(rest)
        spread = spread.clamp(min=0.1 * float(spread.mean()) + 1e-6)
        drawn = [draw(centre.shape, generator=self._generator) for draw in (torch.randn, torch.rand)]
        mean.copy_(centre + 0.3 * drawn[0] * spread.sqrt())
        if weight is not None:
            spread = spread * _SMALL_VARIANCE
            weight.mul_(_GAIN * _SMALL_VARIANCE**0.5)
        variance.copy_(spread * (0.5 + drawn[1]))


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
