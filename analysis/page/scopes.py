"""What a page shows of a target: the whole and its sub-modules, each with its place under the roof."""

from collections.abc import Mapping
from dataclasses import dataclass

from sollens.analysis.report import TargetReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The whole target (`path` empty) or a sub-module; `number` names its dot and its row.

    Times in seconds; `count` times of one run each. `measured_s` is what a real run took, where that is known.
    """

    number: int
    path: str
    type: str
    line: int
    count: int
    macs: int
    flop: int
    bytes: int
    bound_s: float
    unfused_s: float | None
    limit: str
    measured_s: float | None

    @property
    def intensity(self) -> float | None:
        """FLOP a byte; None where there is nothing to divide."""
        return self.flop / self.bytes if self.flop and self.bytes else None

    @property
    def bound_rate(self) -> float | None:
        """FLOP/s at the bound: where the dot is."""
        return self.flop / self.bound_s if self.flop and self.bound_s else None

    @property
    def unfused_rate(self) -> float | None:
        """FLOP/s where every operator runs alone."""
        return self.flop / self.unfused_s if self.flop and self.unfused_s else None

    @property
    def measured_rate(self) -> float | None:
        return self.flop / self.measured_s if self.flop and self.measured_s else None

    @property
    def headroom(self) -> float | None:
        """The share of the unfused time that fusing can take away."""
        if not self.unfused_s or self.unfused_s <= self.bound_s:
            return None
        return 1 - self.bound_s / self.unfused_s


def scopes(target: TargetReport, measured: Mapping[str, float]) -> list[Scope]:
    """The whole target first, then its sub-modules in the order of the report. `measured`: seconds by module path."""
    whole = Scope(
        number=0,
        path="",
        type=target.name,
        line=target.line,
        count=1,
        macs=target.macs,
        flop=target.flop,
        bytes=target.bytes.compulsory,
        bound_s=target.time_s.fused,
        unfused_s=target.time_s.unfused,
        limit=target.limit,
        measured_s=measured.get(""),
    )
    modules = [module for module in target.modules if module.path]
    return [
        whole,
        *(
            Scope(
                number=number,
                path=module.path,
                type=module.type,
                line=module.line,
                count=module.count,
                macs=module.macs,
                flop=2 * module.macs + module.vector_ops,
                bytes=module.bytes,
                bound_s=module.time_s,
                unfused_s=module.unfused_s,
                limit=module.limit,
                measured_s=measured.get(module.path),
            )
            for number, module in enumerate(modules, 1)
        ),
    ]
