"""JAX on the CPU, or no tests; `trace` and `report` analyse a file's text with one warm agent."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ["JAX_PLATFORMS"] = "cpu"
pytest.importorskip("jax")

from sollens.analysis.cache import Cache
from sollens.analysis.pipeline import Pipeline, Request
from sollens.analysis.trace.host import AgentHost, TraceRequest

PRELUDE = "import jax\nimport jax.numpy as jnp\nfrom jax import lax\n"


@pytest.fixture(scope="session")
def host() -> Iterator[AgentHost]:
    with AgentHost(sys.executable) as agent:
        assert agent.start() is None
        yield agent


@pytest.fixture
def trace(host: AgentHost, tmp_path: Path) -> Callable[..., Any]:
    def run(text: str, target: dict[str, Any], **options: Any) -> Any:
        path = tmp_path / "subject.py"
        path.write_text(PRELUDE + textwrap.dedent(text))
        return host.trace(TraceRequest(path=str(path), target={"frontend": "jax", **target}, **options))

    return run


@pytest.fixture(scope="session")
def pipeline() -> Iterator[Pipeline]:
    own = Pipeline(Cache(enabled=False))
    yield own
    own.close()


@pytest.fixture
def report(pipeline: Pipeline, tmp_path: Path) -> Callable[..., Any]:
    def run(text: str, prelude: str = PRELUDE, **options: Any) -> Any:
        path = tmp_path / "subject.py"
        path.write_text(prelude + textwrap.dedent(text))
        return pipeline.analyse(Request(path=str(path), interpreter=sys.executable, **options))

    return run
