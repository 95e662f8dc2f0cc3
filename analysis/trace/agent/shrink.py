# pyright: basic
"""The search for a twin: the same program at sizes that can be run, found by making the source's integers smaller.

A candidate is traced on meta tensors and kept when its `Signature` is the original's. Batches of sites are changed at
once and halved where that fails, so that a search takes tens of candidates, not hundreds.
"""

from __future__ import annotations

import ast
import contextlib
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from . import architecture
from .configurations import SEEN
from .cost import cost_of
from .differs import Differs
from .sites import assign, find_sites

if TYPE_CHECKING:
    from .limits import Limits

_PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)
_SIZE = 12  # integers from here on are taken for sizes at first
_FAIR = 8  # times the target
_SLOW_S = 0.15  # where a candidate costs more, fewer are tried
Values = dict[int, int]
Unit = tuple[int, ...]
Proposal = Callable[[list[Unit]], Values]


class Twin:
    """A smaller program: its trace, what to run it from, and its sizes by name or line:column."""

    def __init__(
        self,
        trace: dict[str, Any],
        tree: ast.Module,
        target: Any,
        cost: tuple[int, int],
        sizes: dict[str, int],
        values: Values,
    ) -> None:
        self.trace, self.tree, self.target = trace, tree, target
        self.cost, self.sizes = cost, sizes
        self.again = sorted(values.items())


class _Spent(Exception):
    """The time for the search is over."""


class Search:
    """One search. `run` gives the twin, or None."""

    def __init__(
        self, request: dict[str, Any], tree: ast.Module, trace: dict[str, Any], cost: tuple[int, int], limits: Limits
    ) -> None:
        self.request = request
        self.tree = tree
        self.target = request.get("target") or {"kind": "kernelbench"}
        configurations = {kind: architecture.sizes_of(fields) for kind, fields in SEEN.items()}
        if any(configurations.values()):
            self.target = {**self.target, "configurations": configurations}
        self.limits = limits
        self.sites = find_sites(tree, self.target)
        self.signature = self.signature_of(trace)
        self.values: Values = {}
        self.cost = cost
        self.trace: dict[str, Any] | None = None
        self.tries = 0
        self.reasons: list[str] = []
        self._slowest_s = 0.0
        self._seen: set[tuple[tuple[int, int], ...]] = set()
        # CPU time: a busy machine must not change the answer. A fair twin ends the search early.
        now = time.process_time()
        self._soon, self._end = now + 0.1 * limits.search_s, now + limits.search_s

    def run(self, known: Values | None = None) -> Twin | None:
        """The smallest twin found in time, when it is within the limits.

        `known` is an earlier search's answer: where it still holds there is no search.
        """
        with contextlib.suppress(_Spent):
            if not (known and self._fits(known) and self._try(known)):
                self._search()
        points, elements = self.cost
        if self.trace is None or points > self.limits.points or elements > self.limits.elements:
            return None
        target = assign(self.sites, self.values, self.target)
        return Twin(self.trace, self.tree, target, self.cost, self._sizes(), self.values)

    def _fits(self, values: Values) -> bool:
        return all(n < len(self.sites) and v <= self.sites[n].value for n, v in values.items())

    def _sizes(self) -> dict[str, int]:
        return {self.sites[n].name: v for n, v in sorted(self.values.items()) if v != self.sites[n].value}

    def _search(self) -> None:
        if "configurations" in self.target:
            self._configured()
            if self._is_small():
                return
        sizes = [n for n, s in enumerate(self.sites) if s.value >= _SIZE and not s.count]
        groups, inner = self._groups(sizes), self._groups(n for n in sizes if self.sites[n].inner)
        joint: list[tuple[list[Unit], Proposal]] = [
            ([(n,) for n in sizes], self._distinct(1)),
            (groups, self._distinct(1)),
            (groups, self._scaled(16)),
            (inner, self._scaled(16)),
            (groups, self._scaled(8)),
            (inner, self._scaled(8)),
            (inner, self._scaled(4)),
            (groups, self._distinct(4)),
            (groups, self._distinct(8)),
            (groups, self._distinct(24)),
        ]
        if not any(self._try({**self.values, **proposal(units)}) for units, proposal in joint):
            for proposal in (self._scaled(16), self._scaled(8), self._distinct(1), self._scaled(4), self._scaled(2)):
                self._descend(self._unsettled(groups), proposal)
                if self._is_small():
                    break
        outer = [n for n in sizes if not self.sites[n].inner]
        for numbers, least in ((outer, 4), (sizes, 4), (range(len(self.sites)), 3), (sizes, 2)):
            if not self._is_small():
                self._one_by_one(numbers, least)
        self._separate()

    def _configured(self) -> None:
        """Configurations made smaller as a whole, with the source's own sizes where the program allows it."""
        at = {s.path: n for n, s in enumerate(self.sites)}
        own = [(n,) for n, s in enumerate(self.sites) if s.node is not None and not s.count and s.value >= _SIZE]
        for kind, fields in SEEN.items():
            for sizes in architecture.smaller(fields):
                paths = {("configurations", kind, *path): value for path, value in sizes.items()}
                base = {at[path]: value for path, value in paths.items() if path in at}
                for proposal in (self._distinct(1), self._distinct(1, least=47), self._scaled(16)):
                    for units in (own, *([unit] for unit in own)):
                        if self._try({**self.values, **base, **proposal(units)}):
                            return

    def _groups(self, numbers: Iterable[int]) -> list[Unit]:
        by_value: dict[int, list[int]] = {}
        for n in numbers:
            by_value.setdefault(self._current(n), []).append(n)
        return [tuple(group) for _, group in sorted(by_value.items(), reverse=True)]

    def _unsettled(self, groups: list[Unit]) -> list[Unit]:
        rest = [tuple(n for n in unit if n not in self.values) for unit in groups]
        return [unit for unit in rest if unit]

    def _current(self, number: int) -> int:
        return self.values.get(number, self.sites[number].value)

    def _is_small(self) -> bool:
        points, elements = self.cost
        return points <= self.limits.target_points and elements <= self.limits.elements

    def _is_fair(self) -> bool:
        points, elements = self.cost
        return points <= _FAIR * self.limits.target_points and elements <= self.limits.elements

    def _distinct(self, multiple: int, least: int = 0) -> Proposal:
        """Small extents, each its own: multiples of primes, larger where the original is larger."""

        def propose(units: list[Unit]) -> Values:
            values: Values = {}
            used = set(self.values.values())
            free = [p * multiple for p in _PRIMES if p >= least and p * multiple not in used]
            for unit, value in zip(reversed(units), free, strict=False):
                values.update({n: value for n in unit if value < self._current(n)})
            return values

        return propose

    def _scaled(self, factor: int) -> Proposal:
        """Everything that can be divided, divided."""

        def propose(units: list[Unit]) -> Values:
            return {
                n: self.sites[n].value // factor
                for unit in units
                for n in unit
                if self.sites[n].value % factor == 0 and self.sites[n].value >= 2 * factor
            }

        return propose

    def _descend(self, units: list[Unit], proposal: Proposal) -> None:
        """Accept the proposal for as many units as possible: all, else halves, else single sites."""
        if not units:
            return
        values = proposal(units)
        if not values or self._try({**self.values, **values}):
            return
        if len(units) > 1:
            middle = len(units) // 2
            self._descend(units[:middle], proposal)
            self._descend(units[middle:], proposal)
        elif len(units[0]) > 1:
            self._descend([(n,) for n in units[0]], proposal)

    def _one_by_one(self, numbers: Iterable[int], least: int) -> None:
        """Each group of equal values down its own ladder; factors replaced everywhere."""
        self._replace_factors()
        for unit in self._groups(numbers):
            if self._is_small():
                return
            self._ladder(unit, least)
        for unit in self._groups(numbers):
            if self._is_small():
                return
            for n in unit if len(unit) > 1 else ():
                self._ladder((n,), least)

    def _replace_factors(self) -> None:
        """Sizes tied by a factor (windows of 7 in an image of 224) keep the tie with a smaller one (3 and 96)."""
        for factor in (7, 5, 3, 11, 13):
            for smaller in (2, 3, 5):
                if self._is_small() or smaller >= factor:
                    break
                changed = {
                    n: self._current(n) // factor * smaller
                    for n in range(len(self.sites))
                    if self._current(n) % factor == 0 and self._current(n) >= 7
                }  # fmt: skip
                if self._try({**self.values, **changed}):
                    break

    def _ladder(self, unit: Unit, least: int) -> None:
        value = self._current(unit[0])
        steps = [value // 16, value // 8, value // 4, value // 2, 5, 7, 8, 12, 16, 24, 32, 48, 64, 96, 2, 3, 4]
        if self._slowest_s > _SLOW_S:
            steps = steps[:4]
        for step in dict.fromkeys(s for s in steps if least <= s < value and s * 64 >= value):
            if self._try({**self.values, **dict.fromkeys(unit, step)}):
                return

    def _separate(self) -> None:
        """Give sites that were shrunk to one value, or kept one, values of their own where the program allows it."""
        if self.trace is None:
            return
        for unit in self._groups(n for n in self.values if self.sites[n].node is not None or self.sites[n].path):
            taken = {self._current(n) for n in range(len(self.sites))}
            for n in unit[1:]:
                value = self._current(n)
                for other in (value + 1, value + 2, value + 4, value + 8):
                    if other < self.sites[n].value and other not in taken:
                        if self._try({**self.values, n: other}, slack=2.0):
                            taken.add(other)
                        break

    def _try(self, values: Values, slack: float = 1.0) -> bool:
        """Trace a candidate; keep it when it is the same program and not dearer."""
        key = tuple(sorted(values.items()))
        if key in self._seen or all(self._current(n) == v for n, v in values.items()):
            return False
        now = time.process_time()
        if now > self._end or (now > self._soon and self._is_fair()):
            raise _Spent
        self.tries += 1
        self._seen.add(key)
        started = time.process_time()
        target = assign(self.sites, values, self.target)
        try:
            trace = self.traced(target)
            self.signature.check(trace)
        except Differs as error:
            self.reasons.append(str(error)[:200])
            return False
        finally:
            self._slowest_s = max(self._slowest_s, time.process_time() - started)
        cost = self.cost_of(trace)
        if cost[0] > self.cost[0] * slack or cost[1] > max(self.cost[1] if slack == 1 else 0, self.limits.elements):
            return False
        self.values, self.cost, self.trace = values, cost, trace
        return True

    cost_of = staticmethod(cost_of)

    def signature_of(self, trace: dict[str, Any]) -> Any:
        """What every candidate must share with a trace: `targets`, and `check(trace)`."""
        from .signature import Signature

        return Signature(trace)

    def traced(self, target: Any) -> dict[str, Any]:
        """A candidate's trace; raises Differs as soon as it is another program."""
        from .target import Run

        run = Run({**self.request, "tree": self.tree, "target": target})
        append, targets = run.recorder.append, self.signature.targets

        def checked(name: str, *args: Any) -> None:
            at = len(run.recorder.ops)
            append(name, *args)
            if len(run.recorder.ops) > at and (at >= len(targets) or targets[at] != name):
                raise Differs(f"operator {at} is {name}")

        run.recorder.append = checked  # type: ignore[method-assign]
        reply = run.reply()
        if not reply["ok"]:
            raise Differs(reply["problems"][0]["message"])
        return reply["trace"]
