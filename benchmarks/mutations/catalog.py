"""Every kind of mutation by name."""

from __future__ import annotations

from collections.abc import Mapping

from mutations.control import CONTROL
from mutations.index import INDEX
from mutations.places import Change
from mutations.scalar import SCALAR
from mutations.statement import STATEMENT

MUTATIONS: Mapping[str, Change] = {**INDEX, **STATEMENT, **SCALAR, **CONTROL}
