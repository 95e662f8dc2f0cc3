# pyright: basic
"""A backward pass while it runs: where its operators belong, and which leaves got a gradient.

Everything here is done alike by the trace (meta tensors) and by the real run beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.graph import _engine_run_backward  # pyright: ignore[reportPrivateImportUsage]

if TYPE_CHECKING:
    from .frames import Frames

# Below this code on the stack autograd's engine runs, not the user.
_ENGINE = _engine_run_backward.__code__
_ACCUMULATE = "torch::autograd::AccumulateGrad"
# How autograd stores the first gradient of a leaf.
_STORING = ("detach", "clone", "new_empty_strided")
Place = tuple[int, int]


class Origins:
    """Which (span, module) made each autograd node, so that what the node computes later belongs there too.

    A node takes its sequence number just before its operator is dispatched.
    """

    def __init__(self) -> None:
        self._places: dict[int, Place] = {}
        self._last: Place = (-1, -1)

    def made(self, place: Place) -> None:
        """The operator recorded now is of `place`; so is the node made last, unless one came before it."""
        self._places.setdefault(torch._C._autograd._get_sequence_nr() - 1, place)  # pyright: ignore[reportAttributeAccessIssue]

    def place(self, node: Any, frames: Frames, module: int) -> Place:
        """Of an operator that runs while `node` is evaluated: the user's own line when it is the user's code
        (a custom backward, a recomputed forward), else that of the node's forward operator."""
        span = frames.span(below=_ENGINE)
        if span >= 0:
            return span, module if module >= 0 else self._places.get(node._sequence_nr(), self._last)[1]
        # A gradient that is accumulated in a leaf belongs to the operator that gave it.
        self._last = self._places.get(node._sequence_nr(), self._last)
        return self._last


class Leaves:
    """Leaves that got a gradient, and how the first one is stored: PyTorch moves or copies it by how many hold it, a
    trace holds everything, so the rule here is: the first leaf of each memory takes it, another one gets a copy."""

    def __init__(self) -> None:
        self.met: list[torch.Tensor] = []
        self._taken: list[Any] = []

    def note(self, node: Any) -> bool:
        """Whether a node accumulates into a leaf, which is remembered."""
        if node.name() != _ACCUMULATE:
            return False
        leaf = node.variable
        if not any(leaf is one for one in self.met):
            self.met.append(leaf)
        return True

    def stored(self, name: str, args: Any) -> tuple[Any, bool]:
        """The tensor that an operator of storing gives without any work, if it does; and whether it must be a copy."""
        if name == "copy_":
            return args[0], False
        if name not in _STORING:  # the sum with an earlier gradient
            return None, False
        tensor = args[0]
        storage = tensor.untyped_storage()
        dense = storage.nbytes() == tensor.numel() * tensor.element_size()
        if not dense or any(storage._cdata == one._cdata for one in self._taken):
            return None, True
        self._taken.append(storage)
        return (None if name == "detach" else tensor), False


class Backward:
    """What is known of the backward pass of one run."""

    def __init__(self) -> None:
        self.origins = Origins()
        self.leaves = Leaves()
        # Whether autograd ran at all.
        self.seen = False

    def stored(self, name: str, args: Any) -> tuple[Any, bool]:
        """Of the operator dispatched now: see `Leaves.stored`; (None, False) where it stores no gradient."""
        node = torch._C._current_autograd_node()
        if node is None:
            return None, False
        self.seen = True
        return self.leaves.stored(name, args) if self.leaves.note(node) else (None, False)
