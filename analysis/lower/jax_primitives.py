"""The status of every primitive that `jax.lax` and JAX's own libraries have: what becomes of it in a loop program.

python -m sollens.analysis.lower.jax_primitives     the table of docs/operators.md
"""

from __future__ import annotations

import sys

from sollens.analysis.lower import registry

# Inlined by the agent: how a program is written, not what it computes.
INLINED = frozenset("""
    jit call closed_call custom_jvp_call custom_vjp_call custom_vmap_call custom_lin linear_call composite remat2
    remat_opt custom_linear_solve
""".split())  # fmt: skip  # noqa: SIM905
# The operand itself.
SAME = frozenset("""
    stop_gradient copy optimization_barrier name pvary sharding_constraint device_put layout_constraint reshard tie pin
    unpin with_memory_space_constraint multiple_of random_clone pbroadcast dce_sink stage
""".split())  # fmt: skip  # noqa: SIM905
# Decided while tracing.
TRACING = frozenset("platform_index debug_callback debug_print".split())  # noqa: SIM905
# Between devices, of memory, or of the compiler: no part of a program on one chip.
DEVICES = frozenset("""
    all_gather all_gather_done all_gather_invariant all_gather_reduced all_gather_reduced_start all_gather_start
    all_to_all all_to_all_done all_to_all_start axis_index pbroadcast_done pbroadcast_start pmax pmin ppermute
    ppermute_done ppermute_start precv preduced psend psum psum_done psum_invariant psum_invariant_start psum_start
    ragged_all_to_all reduce_scatter reduce_scatter_done reduce_scatter_start reduced_vary_cast_p shard_map
    unreduced_psum unreduced_psum_start unreduced_reduce_scatter unreduced_reduce_scatter_start vary_unreduced_cast_p
    after_all create_token inspect_sharding dim_as_value dimension_size shape_assertion create_linear unreachable
""".split())  # fmt: skip  # noqa: SIM905
# Compulsory traffic, no work, partial: named in the report.
OPAQUE = frozenset("""
    approx_top_k bitcast_convert_type call_exported clz cudnn_fusion custom_partitioning dot_product_attention_bwd
    dot_product_attention_bwd_wrapper dot_product_attention_fp8_bwd dot_product_attention_fp8_bwd_wrapper
    dot_product_attention_fp8_fwd dot_product_attention_fp8_fwd_wrapper dot_product_attention_fwd
    dot_product_attention_fwd_wrapper ffi_call igamma igamma_grad_a igammac io_callback iota_2x32_shape mulhi
    pallas_call polygamma population_count pure_callback random_gamma_grad reduce_xor
    regularized_incomplete_beta run_state scaled_dot scaled_matmul scaled_matmul_wrapper select_and_gather_add
    select_and_scatter zeta ragged_dot_general core_map mpmd_map run_scoped check
""".split())  # fmt: skip  # noqa: SIM905


def status(primitive: str) -> str:
    """What becomes of a primitive; "" for one that nobody listed."""
    rule = registry.find(f"jax.{primitive.replace('-', '_')}")
    if rule is not None:
        if rule.__name__ in ("random", "key_words"):
            return "free"
        return "traffic exact, work not counted" if rule.__name__ in ("fft", "linalg") else "counted"
    for names, text in (
        (INLINED, "inlined"), (SAME, "the operand itself"), (TRACING, "decided while tracing"),
        (OPAQUE, "traffic only, named as partial"), (DEVICES, "device management"),
    ):  # fmt: skip
        if primitive in names:
            return text
    return ""


def known() -> tuple[str, ...]:
    """Every primitive that is listed or has a rule."""
    rules = {t.removeprefix("jax.") for t in registry.registered() if t.startswith("jax.")} - {"random", "literal"}
    written = {name.replace("_", "-", 1) if name.startswith("scatter_") else name for name in rules}
    return tuple(sorted(written | INLINED | SAME | TRACING | OPAQUE | DEVICES))


def markdown() -> str:
    """The table of primitives by status."""
    by_status: dict[str, list[str]] = {}
    for name in known():
        by_status.setdefault(status(name), []).append(name)
    rows = (f"| {text} | {' '.join(f'`{n}`' for n in names)} |" for text, names in sorted(by_status.items()))
    return "\n".join(("| status | primitives |", "|---|---|", *rows))


if __name__ == "__main__":
    sys.stdout.write(markdown() + "\n")
