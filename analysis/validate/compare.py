"""Do two arrays agree? Floats within the rounding that the program may have gathered, everything else exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np

from sollens.analysis.execute.storage import Array
from sollens.analysis.ir.nodes import Branch, Call, Loop, Node, Program, Statement, reads
from sollens.analysis.ir.tensors import TensorType, tensor_types

# Half a unit in the last place, by dtype.
_EPSILON: Mapping[str, float] = {
    "f64": 2.0**-53, "c128": 2.0**-53, "f32": 2.0**-24, "c64": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8,
    "f8e4m3": 2.0**-4, "f8e5m2": 2.0**-3, "f8e4m3fnuz": 2.0**-4, "f8e5m2fnuz": 2.0**-3, "f4e2m1": 2.0**-2,
}  # fmt: skip
# Over KernelBench nine programs in ten stay below a tenth of this. Beyond it double precision decides.
_SLACK = 8.0
# Of an ill-conditioned program: times its own error, and the largest such error that still tells anything.
_OWN_SLACK = 8.0
_OWN_LIMIT = 1e-2
# A result is nothing but rounding where double precision leaves less than this share of it.
_NOTHING = 1e-4


@dataclass(frozen=True, slots=True)
class Rounding:
    """What a value may have gathered: the coarsest epsilon on its way, and how many roundings follow each other."""

    epsilon: float = 0.0
    steps: float = 0.0

    @property
    def tolerance(self) -> float:
        """Relative to the largest element of the tensor: errors of independent roundings add up as their root."""
        return _SLACK * self.epsilon * sqrt(max(1.0, self.steps))


@dataclass(frozen=True, slots=True)
class Difference:
    """The first element, in row-major order, that is not the expected one."""

    index: tuple[int, ...]
    expected: float | int | bool | complex
    found: float | int | bool | complex


def roundings(program: Program, dtypes: Iterable[str] | None = None) -> dict[str, Rounding]:
    """The rounding of every tensor of a program, by name.

    `dtypes` are the original's: what it never had cannot excuse a difference.
    """
    types = tensor_types(program)
    known = {d.name: Rounding(_EPSILON.get(d.dtype, 0.0), 0.0) for d in program.declarations}
    _follow((*program.setup, *program.nodes), types, known)
    if dtypes is None:
        return known
    coarsest = max((_EPSILON.get(d, 0.0) for d in dtypes), default=0.0)
    return {name: Rounding(min(r.epsilon, coarsest), r.steps) for name, r in known.items()}


def _follow(nodes: Iterable[Node], types: Mapping[str, TensorType], known: dict[str, Rounding]) -> None:
    for node in nodes:
        match node:
            case Statement():
                length = prod(d.extent for d in node.reduction.dims) if node.reduction else 1
                if node.scan:
                    length = next(d.extent for d in node.dims if d.name == node.scan.dim)
                known[node.name] = _after([r.tensor for r in reads(node.body)], node.dtype, length, known)
            case Call():
                length = max((n for o in node.operands for n in types[o].shape), default=1)
                for result in node.results:
                    known[result.name] = _after(node.operands, result.dtype, length, known)
            case Loop():
                for c in node.carried:
                    known[c.name] = known.get(c.initial, Rounding())
                _follow(node.body, types, known)
                for c in node.carried:
                    start, end = known[c.name], known.get(c.next, Rounding())
                    trips = max(0, node.index.extent - 1)
                    known[c.final] = Rounding(end.epsilon, end.steps + trips * max(0.0, end.steps - start.steps))
                for c in node.collected:
                    inner = known.get(c.inner, Rounding())
                    known[c.name] = Rounding(inner.epsilon, inner.steps * max(1, node.index.extent))
            case Branch():
                _follow(node.then, types, known)
                _follow(node.otherwise, types, known)
                for m in node.results:
                    known[m.name] = _worst([known.get(m.then, Rounding()), known.get(m.otherwise, Rounding())])


def _after(operands: Iterable[str], dtype: str, length: int, known: Mapping[str, Rounding]) -> Rounding:
    before = _worst([known.get(o, Rounding()) for o in operands])
    return Rounding(max(before.epsilon, _EPSILON.get(dtype, 0.0)), before.steps + length)


def _worst(candidates: list[Rounding]) -> Rounding:
    return Rounding(max((c.epsilon for c in candidates), default=0.0), max((c.steps for c in candidates), default=0.0))


def difference(
    found: Array, expected: Array, rounding: Rounding, exact: Array | None = None, original: Array | None = None
) -> tuple[float, Difference | None]:
    """(largest error relative to the largest expected element, the first difference beyond rounding).

    Integers and bools must be equal; nan and infinities must be at the same places. `exact` is what the same loop
    program gives in double precision, `original` what the original does: where they differ from `found` and
    `expected`, rounding is amplified and as much is allowed; integers that they decide otherwise are not held against
    either. In double precision the two must agree, or it is no rounding that tells `found` from `expected`.
    """
    if found.shape != expected.shape:
        return float("inf"), Difference((), len(expected.shape), len(found.shape))
    if not expected.size:
        return 0.0, None
    if expected.dtype.kind in "biu" or found.dtype.kind in "biu":
        wrong = found != expected
        undecided = _changed(found, exact) | _changed(expected, original)
        if float(undecided.mean()) <= _OWN_LIMIT:
            wrong = wrong & ~undecided
        return (float("inf") if wrong.any() else 0.0), _first(wrong, found, expected)
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), expected.astype(wide)
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(invalid="ignore"):
        same = finite | (np.isnan(a) & np.isnan(b)) | (a == b)
        size = np.abs(np.where(finite, b, 0))
        error = _error(a, b, finite)
    scale = float(size.max())
    if same.all() and _vanishes(exact, scale) and _vanishes(original, scale):
        # The gradient of a bias before a batch norm: zero, and each program has a rounding of its own for it.
        return 0.0, None
    owns = [_own(mine, better, scale, finite) for mine, better in ((a, exact), (b, original))]
    tolerance = max(
        rounding.tolerance, *(_OWN_SLACK * own for own in owns if own is not None and own <= _OWN_LIMIT), 0.0
    )
    wrong = ~same | (error > tolerance * np.maximum(size, scale))
    if exact is not None and original is not None and owns[1] is not None and owns[1] <= _OWN_LIMIT:
        apart = _error(exact.astype(wide), original.astype(wide), np.isfinite(exact) & np.isfinite(original))
        wrong |= apart > max(rounding.tolerance, owns[1]) * np.maximum(size, scale)
    worst = float(error.max()) / scale if scale else (0.0 if not error.any() else float("inf"))
    return (worst if same.all() else float("inf")), _first(wrong, found, expected)


def _vanishes(better: Array | None, scale: float) -> bool:
    """Whether double precision leaves nothing of a result as large as `scale`."""
    return better is not None and bool(np.isfinite(better).all()) and float(np.abs(better).max()) <= _NOTHING * scale


def _own(mine: Array, better: Array | None, scale: float, finite: Array) -> float | None:
    """How far a result is from the same program's in double precision, relative to `scale`; None where not known."""
    if better is None or better.shape != mine.shape or not scale:
        return None
    return float(_error(mine, better.astype(mine.dtype), finite & np.isfinite(better)).max()) / scale


def _changed(one: Array, other: Array | None) -> Array:
    if other is None or other.shape != one.shape:
        return np.zeros(one.shape, np.bool_)
    return one != other


def _error(a: Array, b: Array, where: Array) -> Array:
    return np.where(where, np.abs(np.where(where, a, 0) - np.where(where, b, 0)), 0.0)


def _first(wrong: Array, found: Array, expected: Array) -> Difference | None:
    if not wrong.any():
        return None
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    return Difference(index, expected[index].item(), found[index].item())
