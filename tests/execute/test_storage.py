"""Rounding to narrow dtypes, and the special functions, against independent values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sollens.analysis.execute import special
from sollens.analysis.execute.scalar_table import _TABLE
from sollens.analysis.execute.storage import store
from sollens.analysis.ir.scalars import SCALAR_OPS


def test_bf16_rounds_to_nearest_even() -> None:
    x = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, 3.0e38, 3.4e38, np.nan, -np.inf, 1e-40], np.float32)
    rounded = store(x, "bf16")
    np.testing.assert_array_equal(rounded[:3], [1.0, 1.0, 1 + 2**-6])
    assert rounded[4] == np.inf and np.isnan(rounded[5]) and rounded[6] == -np.inf


@pytest.mark.torch
@pytest.mark.parametrize(
    ("dtype", "name"),
    [("bf16", "bfloat16"), ("f8e4m3", "float8_e4m3fn"), ("f8e5m2", "float8_e5m2"), ("f16", "float16"),
     ("f8e4m3fnuz", "float8_e4m3fnuz"), ("f8e5m2fnuz", "float8_e5m2fnuz")],
)  # fmt: skip
def test_narrow_floats_round_as_torch(dtype: str, name: str) -> None:
    torch = pytest.importorskip("torch")
    generator = np.random.default_rng(0)
    x = (generator.standard_normal(4000) * 2.0 ** generator.integers(-20, 7, 4000)).astype(np.float32)
    expected = torch.from_numpy(x).to(getattr(torch, name)).float().numpy()
    np.testing.assert_array_equal(store(x, dtype).astype(np.float32), expected)


def test_integers_wrap_and_floats_truncate() -> None:
    np.testing.assert_array_equal(store(np.array([300, -1]), "u8"), [44, 255])
    np.testing.assert_array_equal(store(np.array([7, 8, -9]), "i4"), [7, -8, 7])
    np.testing.assert_array_equal(store(np.array([1.9, -1.9]), "i32"), [1, -1])
    np.testing.assert_array_equal(store(np.array([0.0, 0.1, np.nan]), "bool"), [False, True, True])


def test_every_scalar_operation_is_executable() -> None:
    assert set(_TABLE) | {"cast", "where", "complex"} == set(SCALAR_OPS)


def test_special_functions() -> None:
    x = np.linspace(-5, 5, 101)
    np.testing.assert_allclose(special.erfinv(special.erf(x[20:81])), x[20:81], rtol=1e-9)
    assert special.erfinv(np.array([1.0]))[0] == np.inf and np.isnan(special.erfinv(np.array([1.5]))[0])
    assert special.digamma(np.array([1.0]))[0] == pytest.approx(-0.5772156649015329, rel=1e-14)
    assert special.digamma(np.array([-0.5]))[0] == pytest.approx(0.03648997397857652, rel=1e-12)
    assert special.i1(np.array([-1.0]))[0] == pytest.approx(-0.5651591039924851, rel=1e-14)
    assert special.i0(np.array([2.0]))[0] == pytest.approx(2.2795853023360673, rel=1e-14)
    assert special.lgamma(np.array([0.0]))[0] == math.inf
