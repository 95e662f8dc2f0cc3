"""Inverse roofline: what a wanted latency asks of the hardware."""

from __future__ import annotations

from sollens.analysis.bounds.roofline import roofline
from sollens.analysis.einsum.scopes import Scope
from sollens.analysis.report import Inverse, InverseRow
from sollens.hardware import catalog
from sollens.hardware.target import Target


def inverse(scope: Scope, traffic: dict[str, int], target: Target, target_s: float) -> Inverse:
    """Needed rates for `target_s` seconds: each pipe, the vector unit, and bandwidth for each kind of traffic.

    Raises ValueError unless `target_s` is positive and finite.
    """
    if not 0 < target_s < float("inf"):
        raise ValueError(f"target latency: expected a positive number of seconds, found {target_s}")
    rows: list[InverseRow] = []
    for row in roofline(scope, target).rows:
        if row.name != "memory":
            rows.append(_row(row.name, row.amount / target_s, row.peak_per_s, "FLOP/s"))
    for kind, amount in traffic.items():
        if amount:
            rows.append(_row(f"bandwidth:{kind}", amount / target_s, target.bandwidth_bytes_per_s.value, "byte/s"))
    meets = [t.id for t in catalog.load_all() if roofline(scope, t).time_s <= target_s]
    return Inverse(target_s=target_s, rows=rows, meets=meets, reachable=bool(meets))


def _row(name: str, needed: float, available: float, unit: str) -> InverseRow:
    return InverseRow(
        resource=name, needed_per_s=needed, available_per_s=available, ratio=needed / available, unit=unit
    )
