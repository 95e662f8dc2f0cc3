"""Gradients: forward and backward, recorded from autograd, lowered and executed, give what PyTorch gives."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.tracing import check


def check_gradient(f, *inputs: torch.Tensor):
    """The gradients of `f(*inputs)` by every floating-point input, for a seeded gradient of its output."""
    with torch.no_grad():
        upstream = torch.randn_like(f(*inputs))

    def gradients(upstream, *inputs):
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() if x.is_floating_point() else x for x in inputs]
            wanted = [x for x in leaves if x.is_floating_point()]
            return list(torch.autograd.grad(f(*leaves), wanted, upstream))

    return check(gradients, upstream, *inputs, tolerance=2e-4)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


ELEMENTWISE = {
    "relu": F.relu,
    "relu6": F.relu6,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "elu": lambda x: F.elu(x, 1.3),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 0.7),
    "softplus": F.softplus,
    "softplus-low": lambda x: F.softplus(x, 2.0, 1.0),
    "log_sigmoid": F.logsigmoid,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.75),
    "hardswish": F.hardswish,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "glu": lambda x: F.glu(x[:, :4], 1),
    "glu-last": F.glu,
    "softmax": lambda x: F.softmax(x, 1),
    "softmax-last": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, 0),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(-1),
    "prod": lambda x: x.prod(1),
    "amax": lambda x: x.amax(1),
    "max": lambda x: x.max(1).values,
    "norm": lambda x: x.norm(dim=1),
    "var": lambda x: x.var(1),
    "sqrt": lambda x: (x * x + 1).sqrt(),
    "slice": lambda x: x[1:, ::2],
    "slice-back": lambda x: x[..., -3:-1],
    "select": lambda x: x[:, -1],
    "diagonal": lambda x: x.diagonal(1, 1, 2),
    "diagonal-below": lambda x: x.diagonal(-1, 0, 2),
    "unfold": lambda x: x.unfold(2, 3, 2),
    "flip": lambda x: x.flip(0) * x,
    "repeat": lambda x: x.repeat(1, 2, 1) ** 2,
    "expand": lambda x: x[:, :1].expand(3, 5, 6) * 2,
    "pad": lambda x: F.pad(x, (1, 2, 0, 1)) ** 2,
    "where": lambda x: torch.where(x > 0, x * x, x),
    "roll": lambda x: x.roll(2, 1) * x,
    "gather": lambda x: x.gather(1, torch.tensor([[[0, 2, 2, 1, 0, 4]] * 2] * 3)),
    "index": lambda x: x[:, [0, 3, 3]],
}


@pytest.mark.parametrize("f", ELEMENTWISE.values(), ids=ELEMENTWISE.keys())
def test_gradients_of_one_tensor_equal_autograd(f):
    assert not check_gradient(f, torch.randn(3, 5, 6)).partial


def test_the_gradient_of_a_prelu_is_by_input_and_by_slope():
    check_gradient(F.prelu, torch.randn(2, 3, 5), torch.rand(3))


LOSSES = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth_l1": lambda x, y: F.smooth_l1_loss(x, y, beta=0.5),
    "huber": lambda x, y: F.huber_loss(x, y, delta=0.7),
    "mse-sum": lambda x, y: F.mse_loss(x, y, reduction="sum"),
    "mse-none": lambda x, y: F.mse_loss(x, y, reduction="none"),
    "smooth_l1-none": lambda x, y: F.smooth_l1_loss(x, y, reduction="none"),
    "kl_div": lambda x, y: F.kl_div(F.log_softmax(x, -1), F.softmax(y, -1), reduction="batchmean"),
    "bce": lambda x, y: F.binary_cross_entropy(torch.sigmoid(x), torch.sigmoid(y).detach()),
    "bce-logits": lambda x, y: F.binary_cross_entropy_with_logits(x, torch.sigmoid(y).detach()),
    "cosine": lambda x, y: F.cosine_similarity(x, y).sum(),
}


@pytest.mark.parametrize("f", LOSSES.values(), ids=LOSSES.keys())
def test_gradients_of_losses_equal_autograd(f):
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    if "bce" in next(k for k, v in LOSSES.items() if v is f):
        check_gradient(lambda x: f(x, y), x)
    else:
        check_gradient(f, x, y)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(6, 4), (2, 4, 3, 2)])
def test_the_gradient_of_a_cross_entropy_skips_ignored_targets(shape, weighted, reduction):
    target = torch.randint(4, (shape[0], *shape[2:]))
    target.view(-1)[0] = 2
    weight = torch.rand(4) + 0.5 if weighted else None

    def loss(x):
        return F.cross_entropy(x, target, weight=weight, reduction=reduction, ignore_index=2)

    check_gradient(loss, torch.randn(shape))


@pytest.mark.parametrize("padding", [None, 2])
def test_the_gradient_of_an_embedding_adds_up_its_uses(padding):
    index = torch.tensor([[0, 2, 2], [4, 0, 0]])
    check_gradient(lambda table: F.embedding(index, table, padding_idx=padding), torch.randn(5, 3))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_gradients_of_convolutions_equal_autograd(data):
    pick = lambda *options: data.draw(st.sampled_from(options))  # noqa: E731
    rank, groups, transposed = pick(1, 2, 3), pick(1, 2), pick(False, True)
    stride, dilation, padding = pick(1, 2, 3), pick(1, 2), pick(0, 1, 2) if rank < 3 else pick(0, 1)
    kernel = [pick(1, 2, 3) if rank < 3 else pick(1, 2) for _ in range(rank)]
    inputs, outputs = groups * pick(1, 2, 3), groups * pick(1, 2)
    size = [pick(5, 6, 7) if rank < 3 else pick(3, 4) for _ in range(rank)]
    bias = torch.randn(outputs)
    x = torch.randn(2, inputs, *size)
    lead = (inputs, outputs // groups) if transposed else (outputs, inputs // groups)
    weight = torch.randn(*lead, *kernel)
    name = f"conv_transpose{rank}d" if transposed else f"conv{rank}d"
    extra = {"output_padding": pick(0, 1) if max(stride, dilation) > 1 else 0} if transposed else {}

    def f(x, weight, bias):
        op = getattr(F, name)
        return op(x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups, **extra)

    try:
        f(x, weight, bias)
    except RuntimeError:
        return  # the padding leaves no output, or torch refuses it
    check_gradient(f, x, weight, bias)


POOLS = {
    "max": lambda x: F.max_pool2d(x, 2),
    "max-overlapping": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max-dilated": lambda x: F.max_pool2d(x, 2, 1, 0, 2),
    "max3": lambda x: F.max_pool3d(x[:, None], (1, 2, 3), (1, 2, 2)),
    "max1": lambda x: F.max_pool1d(x[:, 0], 3, 2),
    "adaptive-max": lambda x: F.adaptive_max_pool2d(x, (2, 3)),
    "average": lambda x: F.avg_pool2d(x, 2),
    "average-apart": lambda x: F.avg_pool2d(x, 2, 3),
    "average-overlapping": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "average-inside": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "average-ceil": lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True),
    "average-divisor": lambda x: F.avg_pool2d(x, 2, divisor_override=3),
    "average3": lambda x: F.avg_pool3d(x[:, None], (1, 2, 2), (1, 1, 2)),
    "average1": lambda x: F.avg_pool1d(x[:, 0], 3, 2),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (1, 1)),
    "adaptive-even": lambda x: F.adaptive_avg_pool2d(x, (7, 2)),
    "adaptive-ragged": lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
}


@pytest.mark.parametrize("f", POOLS.values(), ids=POOLS.keys())
def test_gradients_of_pooling_equal_autograd(f):
    check_gradient(f, torch.randn(2, 3, 7, 8))


NORMS = {
    "layer": (lambda x, w, v: F.layer_norm(x, (4, 5), w[:, :5], v[:, :5]), (3, 2, 4, 5), (4, 5), (4, 5)),
    "layer-last": (lambda x, w, v: F.layer_norm(x, (6,), w, v), (3, 2, 6), (6,), (6,)),
    "layer-plain": (lambda x, w, v: F.layer_norm(x, (6,)) + 0 * (w + v), (3, 2, 6), (6,), (6,)),
    "rms": (lambda x, w, v: F.rms_norm(x, (6,), w, 1e-5) + v, (3, 2, 6), (6,), (6,)),
    "group": (lambda x, w, v: F.group_norm(x, 2, w, v), (3, 4, 3, 2), (4,), (4,)),
    "group-plain": (lambda x, w, v: F.group_norm(x, 2) + 0 * (w + v).sum(), (3, 4, 5), (4,), (4,)),
    "instance": (lambda x, w, v: F.instance_norm(x, weight=w, bias=v), (3, 4, 3, 2), (4,), (4,)),
    "batch": (lambda x, w, v: F.batch_norm(x, None, None, w, v, True), (3, 4, 3, 2), (4,), (4,)),
    "batch-rows": (lambda x, w, v: F.batch_norm(x, None, None, w, v, True), (8, 4), (4,), (4,)),
    "batch-eval": (
        lambda x, w, v: F.batch_norm(x, torch.full((4,), 0.2), torch.full((4,), 1.5), w, v), (3, 4, 3), (4,), (4,)
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NORMS.values(), ids=NORMS.keys())
def test_gradients_of_normalizations_equal_autograd(case):
    f, *shapes = case
    check_gradient(f, *(torch.randn(s) for s in shapes))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_gradients_of_attention_equal_autograd(causal, masked):
    mask = torch.randn(5, 5) if masked and not causal else None
    q, k, v = (torch.randn(2, 3, 5, 4) for _ in range(3))
    check_gradient(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal), q, k, v)


def test_attention_of_fewer_keys_than_queries_has_its_gradient():
    q, k, v = torch.randn(2, 2, 6, 4), torch.randn(2, 2, 3, 4), torch.randn(2, 2, 3, 4)
    check_gradient(lambda *qkv: F.scaled_dot_product_attention(*qkv, scale=0.3), q, k, v)
