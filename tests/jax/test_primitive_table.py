"""The table of primitives: nothing that JAX lowers is missing from it, and it says what the code does."""

from pathlib import Path

from jax._src.interpreters import mlir

from sollens.analysis.lower import jax_primitives
from tests.jax.tracing import agent

ROOT = Path(__file__).parents[2]


def primitives() -> set[str]:
    import jax.experimental.pallas as pl  # noqa: F401  (registers pallas_call)

    tables = (mlir._lowerings, *mlir._platform_specific_lowerings.values())
    return {primitive.name for table in tables for primitive in table}


def test_every_primitive_of_jax_has_a_status() -> None:
    assert [name for name in sorted(primitives()) if not jax_primitives.status(name)] == []


def test_the_docs_have_the_table() -> None:
    assert jax_primitives.markdown() in (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")


def test_what_the_table_says_of_calls_is_what_the_agent_does() -> None:
    record = agent("jaxpr.record")
    assert record._INLINED | {"custom_linear_solve"} >= jax_primitives.INLINED
    assert record._SAME >= jax_primitives.SAME
