"""A logarithmic axis: values to pixels, and the decades to label."""

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogAxis:
    """`low` and `high` (powers of ten) lie at the pixels `start` and `end`."""

    low: float
    high: float
    start: float
    end: float

    @staticmethod
    def around(values: Iterable[float], start: float, end: float) -> "LogAxis":
        """The axis of whole decades that holds all `values`, which are above zero; one decade at least."""
        positive = [value for value in values if value > 0 and math.isfinite(value)]
        low = math.floor(math.log10(min(positive, default=1.0)))
        high = math.ceil(math.log10(max(positive, default=10.0)))
        return LogAxis(10.0**low, 10.0 ** max(high, low + 1), start, end)

    def at(self, value: float) -> float:
        """The pixel of a value, which may lie outside."""
        share = math.log10(value / self.low) / math.log10(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def decades(self) -> list[float]:
        """The powers of ten from one end to the other."""
        first, last = round(math.log10(self.low)), round(math.log10(self.high))
        return [10.0**exponent for exponent in range(first, last + 1)]

    def minor(self) -> list[float]:
        """Two to nine times each power of ten, for the grid."""
        return [digit * decade for decade in self.decades()[:-1] for digit in range(2, 10)]
