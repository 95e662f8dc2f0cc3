"""Twins: the same operators at sizes that can be run."""

from typing import Any

from sollens.analysis.trace.schema import Trace


def extents(trace: Trace, name: str) -> list[int]:
    return next(t.shape for t in trace.tensors if t.name == name)


def test_a_small_program_runs_at_its_own_size(files: Any) -> None:
    golden = files.golden("""
        N = 12
        class Model(nn.Module):
            def forward(self, x):
                return x + 1
        def get_inputs():
            return [torch.randn(N, N)]
    """)
    assert golden.full and not golden.sizes
    assert extents(golden.trace, "x") == [12, 12]


def test_module_level_integers_shrink_to_distinct_extents(files: Any) -> None:
    golden = files.golden("""
        M, K = 1024, 1024
        N = 2048
        class Model(nn.Module):
            def forward(self, a, b):
                return a @ b
        def get_inputs():
            return [torch.randn(M, K), torch.randn(K, N)]
    """)
    (m, k), n = extents(golden.trace, "a"), extents(golden.trace, "b")[1]
    assert len({m, k, n}) == 3 and min(m, k, n) > 1 and max(m, k, n) < 100
    assert golden.sizes["N"] == n


def test_a_convolutional_net_keeps_its_strides(files: Any) -> None:
    golden = files.golden("""
        class Model(nn.Module):
            def __init__(self, classes=1000):
                super().__init__()
                self.body = nn.Sequential(
                    nn.Conv2d(3, 64, 7, stride=2, padding=3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
                    nn.Conv2d(64, 128, 3, padding=1, groups=4), nn.ReLU(), nn.AdaptiveAvgPool2d((1, 1)),
                )
                self.fc = nn.Linear(128, classes)
            def forward(self, x):
                return self.fc(torch.flatten(self.body(x), 1))
        def get_inputs():
            return [torch.rand(16, 3, 224, 224)]
    """)
    assert golden.elements <= 2_000_000 and not golden.diverged
    convolutions = [op for op in golden.trace.ops if op.target == "aten.convolution.default"]
    assert [op.args[3] for op in convolutions] == [[2, 2], [1, 1]]
    assert [op.args[8] for op in convolutions] == [1, 4]


def test_attention_keeps_heads_that_divide_its_width(files: Any) -> None:
    golden = files.golden("""
        B, T, DIM, HEADS = 32, 512, 768, 12
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.qkv = nn.Linear(DIM, 3 * DIM)
                self.register_buffer("mask", torch.tril(torch.ones(T, T)))
            def forward(self, x):
                b, t, c = x.shape
                q, k, v = self.qkv(x).split(DIM, dim=2)
                q, k, v = (y.view(b, t, HEADS, c // HEADS).transpose(1, 2) for y in (q, k, v))
                s = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
                s = s.masked_fill(self.mask == 0, float("-inf")).softmax(-1)
                return (s @ v).transpose(1, 2).reshape(b, t, c)
        def get_inputs():
            return [torch.randn(B, T, DIM)]
    """)
    b, t, dim = extents(golden.trace, "x")
    assert len({b, t, dim}) == 3 and dim < 768 and t < 512
    assert extents(golden.trace, "mask") == [t, t]


def test_an_unrolled_loop_keeps_its_steps(files: Any) -> None:
    text = """
        STEPS, B, WIDTH = 20, 64, 512
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.Linear(2 * WIDTH, WIDTH)
            def forward(self, x):
                h = torch.zeros(x.shape[1], WIDTH)
                for t in range(x.shape[0]):
                    h = torch.tanh(self.cell(torch.cat((x[t], h), dim=1)))
                return h
        def get_inputs():
            return [torch.randn(STEPS, B, WIDTH)]
    """
    full, golden = files.host.trace(files.request(text)).trace, files.golden(text)
    steps, b, width = extents(golden.trace, "x")
    assert steps == 20 and b < 64 and width < 512
    assert [op.target for op in golden.trace.ops] == [op.target for op in full.ops]


def test_a_list_of_layer_sizes_shrinks(files: Any) -> None:
    golden = files.golden("""
        class Model(nn.Module):
            def __init__(self, width, hidden):
                super().__init__()
                layers = []
                for h in hidden:
                    layers += [nn.Linear(width, h), nn.ReLU()]
                    width = h
                self.net = nn.Sequential(*layers)
            def forward(self, x):
                return self.net(x)
        def get_inputs():
            return [torch.rand(128, 4096)]
        def get_init_inputs():
            return [4096, [1024] * 6]
    """)
    assert len([op for op in golden.trace.ops if op.target == "fn.linear"]) == 6
    assert golden.points < 200_000


def test_sizes_tied_by_a_factor_shrink_together(files: Any) -> None:
    golden = files.golden("""
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                blocks = [(nn.Conv2d(3, 3, 3, padding=1), nn.MaxPool2d(2)) for _ in range(5)]
                self.features = nn.Sequential(*[layer for block in blocks for layer in block])
                self.fc = nn.Linear(3 * 7 * 7, 4096)
            def forward(self, x):
                return self.fc(torch.flatten(self.features(x), 1))
        def get_inputs():
            return [torch.rand(10, 3, 224, 224)]
    """)
    height = extents(golden.trace, "x")[2]
    assert height < 224 and height % 32 == 0


def test_pragma_extents_shrink(files: Any) -> None:
    golden = files.golden(
        """
        def gelu(x, w):
            return F.gelu(x @ w)
        """,
        target={
            "kind": "function",
            "name": "gelu",
            "inputs": [
                {"name": "x", "dtype": "f32", "shape": [4096, 1024]},
                {"name": "w", "dtype": "f32", "shape": [1024, 2048]},
            ],
        },
    )
    assert extents(golden.trace, "x")[1] == extents(golden.trace, "w")[0] < 1024
    assert set(golden.sizes) == {"x[0]", "x[1]", "w[0]", "w[1]"}


def test_a_twin_stands_on_the_same_lines(files: Any) -> None:
    text = """
        N = 4096
        class Model(nn.Module):
            def forward(self, x):
                y = x * 2
                return y.sum(dim=1)
        def get_inputs():
            return [torch.randn(N, N)]
    """
    full, golden = files.host.trace(files.request(text)).trace, files.golden(text)
    assert [(s.line, s.column, s.end_column) for s in golden.trace.spans] == [
        (s.line, s.column, s.end_column) for s in full.spans
    ]


def test_no_twin_where_the_size_is_the_length_of_the_program(files: Any) -> None:
    reply = files.reply("""
        class Model(nn.Module):
            def forward(self, x):
                for _ in range(x.shape[1]):
                    x = torch.sin(x)
                return x
        def get_inputs():
            return [torch.randn(2, 200, 5).expand(2, 200, 5).repeat(1, 1, 90000)]
    """)
    assert reply.golden is not None and reply.trace is not None
    assert len(reply.trace.ops) == 200
    assert all(value != 200 for value in reply.golden.get("sizes", {}).values())


TIED = """
    class Model(nn.Module):
        def forward(self, a, b):
            return (a @ b) * 2
    def get_inputs():
        return [torch.randn(4096, 1024), torch.randn(1024, 2048)]
"""


def test_a_known_twin_is_not_searched_again(files: Any) -> None:
    first = files.reply(TIED).golden
    assert first is not None and first["tries"] > 1
    edited = TIED.replace("* 2", "- 2")
    again = files.reply(edited, known=first["again"]).golden
    assert again is not None and again["tries"] == 1 and again["sizes"] == first["sizes"]


def test_a_known_twin_that_no_longer_holds_is_searched_anew(files: Any) -> None:
    for known in ([[0, 1 << 20]], [[99, 4]], [[0, 4], [1, 1]]):
        golden = files.reply(TIED, known=known).golden
        assert golden is not None and golden["sizes"] and golden["points"] < 200_000


def test_a_twin_takes_the_form_that_the_full_sizes_chose(files: Any) -> None:
    """Where the scale of attention goes depends on whether scores are fewer than queries: here only in the full one."""
    verdict = files.verdict("""
        B = 32
        H = 8
        T = 512
        D = 1024
        class Model(nn.Module):
            def forward(self, q, k, v):
                return F.scaled_dot_product_attention(q, k, v)
        def get_inputs():
            return [torch.rand(B, H, T, D) for _ in range(3)]
    """)
    assert (verdict.status, verdict.reason) == ("validated", "")
    assert verdict.sizes["D"] < verdict.sizes["T"]
