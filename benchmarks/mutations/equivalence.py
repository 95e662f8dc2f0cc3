"""Why a mutant survived: does it compute the same, differ by less than rounding, or only where no input led?

Original and mutant are run on other values: the golden ones shuffled and scaled; normal ones of both signs; and those
rounded to halves, where ties are. Each in single and in double precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from mutations.subject import Base, Subject, Values
from sollens.analysis.execute.storage import Array
from sollens.analysis.ir.nodes import Declaration, Program
from sollens.analysis.validate.compare import roundings
from sollens.analysis.validate.widen import widen

# equivalent: the same on every probe. below tolerance: differs, nowhere by more than the rounding of the original.
# ties: differs only where two values are exactly equal. weak input: other values would have shown it.
# lenient: the golden values show it, and the validator lets it pass.
Reason = Literal["equivalent", "below tolerance", "ties", "weak input", "lenient"]

_SAME = 1e-10
_SAME_SINGLE = 2e-6


@dataclass(slots=True)
class Probes:
    """Runs of a subject's program on other values, in single and in double precision, made when first needed."""

    subject: Subject
    made: list[tuple[str, Base, Base]] = field(default_factory=list)

    def reason(self, mutant: Program) -> Reason:
        """Why the validator did not reject the mutant."""
        original, golden = self.subject.runs(self.subject.program)
        changed, _ = self.subject.runs(mutant)
        outputs = list(dict.fromkeys(self.subject.lowered.returned))
        allowed = max(roundings(original)[name].tolerance for name in outputs)
        if not self.made:
            for probe, values in _probes(original, golden):
                self.made.append((probe, Base.of(original, values), Base.of(widen(original), values)))
        worst: dict[str, float] = {}
        for probe, single, double in self.made:
            worst[probe] = max(worst.get(probe, 0.0), _distance(single, double, changed, outputs))
        if worst["golden"] > allowed:
            return "lenient"
        rest = max(worst["shuffled"], worst["signed"])
        if rest > allowed:
            return "weak input"
        if rest > 0 or worst["golden"] > 0:
            return "below tolerance"
        return "ties" if worst["ties"] > 0 else "equivalent"


def _distance(single: Base, double: Base, mutant: Program, outputs: list[str]) -> float:
    """How far the mutant's outputs are from the original's, relative to each one's largest; 0 for mere rounding."""
    unchanged, exact = ({**base.inputs, **base.values} for base in (single, double))
    rounding = _apart(unchanged, exact, outputs)
    in_single = _apart(unchanged, single.run(mutant, outputs), outputs)
    in_double = _apart(exact, double.run(widen(mutant), outputs), outputs)
    return max(
        in_double if in_double > _SAME else 0.0,
        in_single if in_single > max(_SAME_SINGLE, 8 * rounding) else 0.0,
    )


def _apart(one: Values, other: Values, names: list[str]) -> float:
    worst = 0.0
    for a, b in ((one[name], other[name]) for name in names):
        wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
        x, y = a.astype(wide), b.astype(wide)
        finite = np.isfinite(x) & np.isfinite(y)
        if not (finite | (np.isnan(x) & np.isnan(y)) | (x == y)).all():
            return float("inf")
        scale = float(np.abs(x[finite]).max(initial=0.0)) or 1.0
        worst = max(worst, float(np.abs(x[finite] - y[finite]).max(initial=0.0)) / scale)
    return worst


def _probes(program: Program, golden: Values) -> Iterator[tuple[str, Values]]:
    random = np.random.default_rng(7)
    declarations = {d.name: d for d in program.declarations}
    yield "golden", golden
    for probe in ("shuffled", "shuffled", "signed", "ties"):
        yield probe, {name: _other(probe, array, declarations[name], random) for name, array in golden.items()}


def _other(probe: str, array: Array, declaration: Declaration, random: np.random.Generator) -> Array:
    if declaration.defined_by is not None or not array.size:
        return array
    flat = random.permutation(array.reshape(-1)).reshape(array.shape)
    if array.dtype.kind not in "fc":
        return flat
    if probe == "shuffled" or declaration.role == "buffer":
        return np.asarray(flat * random.uniform(0.5, 1.5, array.shape), array.dtype)
    spread = (float(np.abs(flat).mean()) or 0.1) * 1.5
    values = np.asarray(random.standard_normal(array.shape) * spread, array.dtype)
    if probe == "ties" and declaration.role == "input":
        return np.asarray(np.round(values * 2) / 2, array.dtype)
    return values
