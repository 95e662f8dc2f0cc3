"""JAX on the CPU, or no tests."""

import os

import pytest

os.environ["JAX_PLATFORMS"] = "cpu"
pytest.importorskip("jax")
