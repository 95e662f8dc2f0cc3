"""Hypothesis settings of these tests: fixed examples in CI, more of them with SOLLENS_EXAMPLES=10."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_FACTOR = float(os.environ.get("SOLLENS_EXAMPLES", "1"))


def examples(count: int) -> settings:
    """About `count` examples, no deadline; the same ones in every run unless SOLLENS_EXAMPLES asks for others."""
    return settings(
        max_examples=max(1, int(count * _FACTOR)),
        deadline=None,
        derandomize=_FACTOR == 1,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
