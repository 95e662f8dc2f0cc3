"""Elementwise rules against torch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tracing import check

F = torch.nn.functional

UNARY = [
    torch.neg, torch.abs, torch.sign, torch.exp, torch.exp2, torch.expm1, torch.sin, torch.cos, torch.tanh, torch.erf,
    torch.erfc,
    torch.sigmoid, torch.floor, torch.ceil, torch.round, torch.trunc, torch.frac, torch.isnan, torch.isinf,
    torch.isfinite,
    torch.square, torch.relu, torch.sinc, torch.signbit, torch.logical_not, torch.deg2rad, torch.atan, torch.asinh,
    torch.nan_to_num,
    F.silu, F.mish, F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.hardswish, F.hardsigmoid, F.softplus, F.elu,
    F.selu, F.celu,
    F.leaky_relu, F.relu6, F.hardtanh, F.softsign, F.logsigmoid, F.tanhshrink, F.softshrink, F.hardshrink,
    lambda x: F.elu(x, 0.7), lambda x: F.celu(x, 0.7), lambda x: F.softplus(x, 2.0, 3.0), lambda x: F.threshold(x,
    0.1, -2.0),
    lambda x: F.leaky_relu(x, 0.2), lambda x: F.hardtanh(x, -0.3, 0.6), lambda x: F.dropout(x, 0.5, False), F.rrelu,
    lambda x: torch.clamp(x, min=0.1), lambda x: torch.clamp(x, max=0.1), lambda x: x.clamp(-0.1, 0.2),
    lambda x: x**2, lambda x: x**3,
    lambda x: 2**x, lambda x: x**0, lambda x: 1 - x, lambda x: x / 3, lambda x: 3 / x, lambda x: x // 0.3, lambda x: x
    % 0.3,
    lambda x: x.to(torch.int64), lambda x: x.bool(), lambda x: x.half(), lambda x: x.clone(), lambda x: x.detach() + 1,
    lambda x: torch.where(x > 0, x, -1.0), lambda x: x.masked_fill(x > 0, float("-inf")), lambda x: torch.logit(x, 0.1),
    lambda x: torch.div(x, 0.3, rounding_mode="trunc"), lambda x: torch.div(x, 0.3, rounding_mode="floor"),
    lambda x: torch.rsub(x, 2),
    lambda x: x.abs().sqrt(), lambda x: (x.abs() + 1).rsqrt(), lambda x: (x.abs() + 1).log(),
    lambda x: (x.abs() + 1) ** -0.5,
    lambda x: (x.abs() + 1) ** 1.7, lambda x: torch.lgamma(x.abs() + 1), lambda x: torch.digamma(x.abs() + 1),
    lambda x: F.prelu(x, torch.tensor([0.3])), lambda x: F.glu(torch.cat([x, x + 1], 0), 0), torch.i0, torch.special.i1,
    lambda x: torch.lerp(x, x * 2, 0.3), lambda x: torch.addcmul(x, x, x + 1, value=0.5), lambda x: torch.addcdiv(x,
    x, x.abs() + 1),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(UNARY)))
@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (4,)])
def test_one_tensor(k, shape):
    torch.manual_seed(k)
    check(UNARY[k], torch.randn(shape), tolerance=1e-4)


BINARY = [
    torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.minimum, torch.eq, torch.ne, torch.lt, torch.ge,
    torch.logical_and,
    torch.floor_divide, torch.remainder, torch.fmod, lambda x, y: torch.add(x, y, alpha=2), lambda x, y: torch.div(x,
    y, rounding_mode="trunc"),
    lambda x, y: torch.where(x > y, x, y), lambda x, y: x.masked_fill(y > 0, 1),
]  # fmt: skip
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8]


@st.composite
def broadcastable(draw):
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    cut = draw(st.integers(0, len(shape)))
    other = [1 if draw(st.booleans()) else n for n in shape[cut:]]
    return (tuple(shape), tuple(other)) if draw(st.booleans()) else (tuple(other), tuple(shape))


@settings(max_examples=150, deadline=None)
@given(
    broadcastable(),
    st.integers(0, len(BINARY) - 1),
    st.sampled_from(DTYPES),
    st.sampled_from(DTYPES),
    st.integers(0, 9),
)
def test_two_tensors_broadcast_and_promote(shapes, k, left, right, seed):
    torch.manual_seed(seed)
    x = (torch.rand(shapes[0]) * 9 + 1).to(left)
    y = (torch.rand(shapes[1]) * 9 + 1).to(right)
    if k in (11, 12, 13, 15):  # the quotient of rounded operands decides
        x, y = x.floor().to(left), y.floor().to(left)
    if k == 17:
        y = y.expand(torch.broadcast_shapes(x.shape, y.shape))
        x = x.expand(y.shape)
    check(BINARY[k], x, y, tolerance=3e-2 if torch.bfloat16 in (left, right) else None)


@pytest.mark.parametrize("op", [torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor, torch.bitwise_left_shift])
def test_bitwise(op):
    check(op, torch.tensor([1, 6, 3]), torch.tensor([3, 5, 1]))


def test_prelu_per_channel():
    check(lambda x, w: F.prelu(x, w), torch.randn(2, 3, 4), torch.randn(3))


def test_complex_numbers():
    check(lambda x, y: torch.polar(x, y) * 2, torch.rand(3), torch.rand(3))


def test_in_place_forms_come_from_the_functional_rule():
    def f(x, y):
        z = x.clone()
        z.add_(y).mul_(2).relu_().clamp_(max=1.0)
        z += 1
        return z

    check(f, torch.randn(3, 4), torch.randn(4))


def test_out_argument():
    def f(x, y):
        z = torch.empty(3)
        torch.add(x, y, out=z)
        return z * 2

    check(f, torch.randn(3), torch.randn(3))
