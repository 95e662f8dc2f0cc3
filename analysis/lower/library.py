"""Library routines: Fourier transforms and dense linear algebra as calls whose cost is not known."""

from __future__ import annotations

from sollens.analysis.lower.builder import Builder, OpCall, Value
from sollens.analysis.lower.expressions import normalize
from sollens.analysis.lower.pointwise import filled
from sollens.analysis.lower.registry import rule

_FFT_KINDS = {"_fft_r2c": "rfft", "_fft_c2r": "irfft"}
# What torch's normalization codes mean for a forward transform and for a backward one.
_NORMS = {0: ("backward", "forward"), 1: ("ortho", "ortho"), 2: ("forward", "backward")}


@rule("aten._fft_c2c", "aten._fft_r2c", "aten._fft_c2r")
def fft(b: Builder, call: OpCall) -> Value:
    """(x, axes, normalization, forward or one-sided or last size)."""
    x, axes, code, last = call.args[:4]
    name = call.target.split(".")[1]
    kind = _FFT_KINDS.get(name) or ("fft" if last else "ifft")
    if name == "_fft_r2c" and not last:
        kind = "fft"
    norm = _NORMS[code][0 if kind in ("fft", "rfft") else 1]
    return b.call(
        "fft",
        [x],
        [(call.out_dtype, call.out_shape)],
        kind,
        kind=kind,
        axes=tuple(normalize(a, x.rank) for a in axes),
        norm=norm,
    )[0]


_ROUTINES = {
    "linalg_inv_ex": "inv", "linalg_inv": "inv", "inverse": "inv", "linalg_cholesky_ex": "cholesky", "linalg_cholesky":
    "cholesky",
    "cholesky": "cholesky", "linalg_qr": "qr", "linalg_eigh": "eigh", "_linalg_eigh": "eigh", "_linalg_svd": "svd",
    "linalg_svd": "svd", "_linalg_det": "det", "linalg_det": "det", "_linalg_slogdet": "slogdet", "linalg_pinv": "pinv",
    "_linalg_solve_ex": "solve", "linalg_solve_triangular": "solve_triangular", "triangular_solve": "solve_triangular",
    "linalg_eig": "eig", "_linalg_eigvals": "eigvals", "linalg_eigvals": "eigvals", "linalg_lu_factor_ex": "lu",
    "linalg_lu": "lu", "linalg_lstsq": "lstsq", "linalg_matrix_exp": "matrix_exp", "cholesky_solve": "cholesky_solve",
    "cholesky_inverse": "cholesky_inverse", "linalg_householder_product": "householder_product",
}  # fmt: skip


@rule(*(f"aten.{n}" for n in _ROUTINES))
def linalg(b: Builder, call: OpCall) -> tuple[Value | None, ...]:
    """A routine over the last two axes; its outputs as recorded."""
    operands = [a for a in call.args if isinstance(a, Value)]
    name = call.target.split(".")[1]
    results: dict[int, Value] = {}
    specs: dict[int, tuple[str, tuple[int, ...]]] = {}
    for k, spec in enumerate(call.outputs):
        if spec is not None and (call.wants(k) or k == 0):
            if name.endswith("_ex") and spec[0] == "i32":
                results[k] = filled(b, "info", *spec, 0)  # success
            else:
                specs[k] = spec
    values = b.call("linalg", operands, list(specs.values()), _ROUTINES[name], routine=_ROUTINES[name])
    results.update(zip(specs, values, strict=True))
    return tuple(results.get(k) for k in range(len(call.outputs)))
