# pyright: basic
"""What a golden run may cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Limits:
    """What a golden run may cost: points of the loop program, elements of a tensor, and bytes that are written."""

    # Programs up to here run at their own size.
    full_points: int = 20_000_000
    # The search for a twin stops below `target_points`; above `points` or `elements` there is no twin.
    target_points: int = 2_000_000
    points: int = 200_000_000
    elements: int = 2_000_000
    search_s: float = 8.0
    bytes: int = 256 * 2**20
