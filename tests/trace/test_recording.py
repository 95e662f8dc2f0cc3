"""What a trace says of operators, tensors, spans and modules."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Any

from sollens.analysis.trace.schema import Op, Tensor, Trace, from_json

Traced = Callable[..., Trace]


def targets(trace: Trace) -> list[str]:
    return [op.target for op in trace.ops]


def op(trace: Trace, target: str) -> Op:
    (found,) = [o for o in trace.ops if o.target == target]
    return found


def tensor(trace: Trace, value: Any) -> Tensor:
    return trace.tensors[value["tensor"]]


def named(trace: Trace, name: str) -> Tensor:
    (found,) = [t for t in trace.tensors if t.name == name]
    return found


def values(t: Tensor) -> list[Any]:
    assert t.values is not None
    data = base64.b64decode(t.values["data"])
    code = {"i64": "q", "f32": "f", "bool": "?", "i32": "i"}[t.values["dtype"]]
    return list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))


BLOCK = """
class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fc = nn.Linear(d, d)
        self.register_buffer("mask", torch.tril(torch.ones(4, 4)))

    def forward(self, x, scale=2.0):
        s = torch.relu(self.fc(x)) @ x.transpose(-1, -2)
        s = s.masked_fill(self.mask == 0, float("-inf"))
        x += scale
        return F.softmax(s, dim=-1)

class Model(nn.Module):
    def __init__(self, d, n):
        super().__init__()
        self.blocks = nn.ModuleList([Block(d) for _ in range(n)])
        self.act = nn.GELU()
        self.head = nn.Sequential(
            nn.Linear(4, 3),
            self.act,
        )

    def forward(self, x):
        y = sum(b(x) for b in self.blocks)
        return {"y": self.head(y), "z": (self.act(y), 3)}

def get_inputs():
    return [torch.rand(2, 4, 8)]

def get_init_inputs():
    return [8, 2]
"""


def test_operators_carry_the_exact_columns_of_their_call(ok: Traced) -> None:
    trace = ok(BLOCK)
    source = BLOCK.splitlines()
    texts = {}
    for o in trace.ops:
        span = trace.spans[o.span]
        assert span.line == span.end_line
        texts.setdefault(o.target, source[span.line - 2][span.column : span.end_column])
    assert texts["fn.linear"] == "self.fc(x)"
    assert texts["aten.relu.default"] == "torch.relu(self.fc(x))"
    assert texts["aten.transpose.int"] == "x.transpose(-1, -2)"
    assert texts["aten.eq.Scalar"] == "self.mask == 0"
    assert texts["aten.add_.Tensor"] == "x += scale"
    span = trace.spans[trace.ops[0].span]
    assert span.function == "forward"
    assert [frame[2] for frame in span.stack][-1] == "forward"


def test_module_paths_counts_and_places(ok: Traced) -> None:
    trace = ok(BLOCK)
    rows = {m.path: m for m in trace.modules}
    assert rows["blocks.1.fc"].type == "Linear"
    assert rows["blocks.1.fc"].created_line == 6
    assert rows["blocks.0"].class_line == 3
    assert rows["blocks.0"].created_line == 18
    assert rows["head.0"].created_line == 21
    assert rows["act"].calls == 2
    assert "head.1" not in rows
    assert rows[""].calls == 1
    assert trace.line == 15
    assert trace.forward_line == 25


def test_views_and_in_place_updates_are_told(ok: Traced) -> None:
    trace = ok(BLOCK)
    x = named(trace, "x")
    transposed = [o for o in trace.ops if o.target == "aten.transpose.int"]
    assert all(o.view for o in transposed)
    assert tensor(trace, transposed[0].outputs).storage == x.storage
    assert tensor(trace, transposed[0].outputs).strides == [32, 1, 8]
    added = [o for o in trace.ops if o.target == "aten.add_.Tensor" and o.mutates == [x.id]]
    assert len(added) == 2
    assert not added[0].view
    assert added[0].outputs == {"tensor": x.id}
    assert not any(o.view for o in trace.ops if o.target == "aten._softmax.default")


def test_kinds_names_and_outputs(ok: Traced) -> None:
    trace = ok(BLOCK)
    kinds = {t.name: t.kind for t in trace.tensors if t.name}
    assert kinds["x"] == "input"
    assert kinds["blocks.0.fc.weight"] == "parameter"
    assert kinds["blocks.1.mask"] == "buffer"
    assert named(trace, "x").random
    (y_key, y), (z_key, z) = trace.outputs["dict"]
    assert (y_key, z_key) == ("y", "z")
    assert tensor(trace, y).shape == [2, 4, 3]
    assert z["tuple"][1] == 3
    assert all(t.id == i for i, t in enumerate(trace.tensors))


def test_a_mask_has_its_values_and_the_operators_that_made_it(ok: Traced) -> None:
    trace = ok(BLOCK)
    mask = named(trace, "blocks.0.mask")
    assert values(mask) == [1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1]
    assert [o.target for o in trace.setup] == ["aten.ones.default", "aten.tril.default"] * 2
    assert any(mask.id == o.outputs["tensor"] for o in trace.setup)


def test_round_trip_through_json(ok: Traced) -> None:
    trace = ok(BLOCK)
    assert from_json(trace.to_json()) == trace


def test_functions_are_caught_whole(ok: Traced) -> None:
    trace = ok("""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(8, 4, num_layers=2, bidirectional=True, batch_first=True)
            self.gru = nn.GRU(8, 4)
            self.rnn = nn.RNN(8, 4, nonlinearity="relu")
            self.heads = nn.MultiheadAttention(8, 2, batch_first=True)
        def forward(self, x):
            y, (h, c) = self.lstm(x)
            g, hg = self.gru(x)
            r, _ = self.rnn(x)
            a = F.scaled_dot_product_attention(x, key=x, value=x, is_causal=True)
            e = torch.einsum("bij,bkj->bik", x, a)
            m, _ = self.heads(x, x, x, need_weights=False)
            return y, h, c, g, hg, r, e, x.matmul(m.mT), x[0] @ x[0].T
    def get_inputs(): return [torch.rand(3, 5, 8)]
    """)
    fn = [t for t in targets(trace) if t.startswith("fn.")]
    assert fn == [
        "fn.lstm", "fn.gru", "fn.rnn_relu", "fn.scaled_dot_product_attention", "fn.einsum",
        "fn.linear", "fn.scaled_dot_product_attention", "fn.linear", "fn.matmul", "fn.matmul",
    ]  # fmt: skip
    shapes = [tensor(trace, v).shape for v in trace.outputs["tuple"]]
    assert shapes == [[3, 5, 8], [4, 3, 4], [4, 3, 4], [3, 5, 4], [1, 5, 4], [3, 5, 4], [3, 5, 5], [3, 5, 5], [5, 5]]
    attention = next(o for o in trace.ops if o.target == "fn.scaled_dot_product_attention")
    assert attention.args[3:] == [None, 0.0, True, None, False]
    einsum = op(trace, "fn.einsum")
    assert einsum.args[0] == "bij,bkj->bik"
    assert len(einsum.args[1]) == 2


def test_known_values_drive_control_flow(ok: Traced) -> None:
    trace = ok("""
    table = torch.tensor([1, 2, 3])
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.rates = [r.item() for r in torch.linspace(0, 1, 3)]
            pe = torch.zeros(4, 6)
            pe[:, 0::2] = torch.arange(4).float().unsqueeze(1)
            self.register_buffer("pe", pe)
        def forward(self, x):
            if table.sum() == 6 and bool((torch.arange(3) > 1).any()):
                x = x * self.rates[1]
            for i in table.tolist():
                x = x + i
            keep = torch.arange(4) % 2 == 0
            picked = x[:, keep]
            rows = torch.nonzero(keep)
            return picked, rows, x + self.pe[0, :4], torch.masked_select(x[0], keep), table
    def get_inputs(): return [torch.rand(2, 4)]
    """)
    assert targets(trace).count("aten.add.Tensor") == 4
    assert op(trace, "aten.mul.Tensor").args[1] == 0.5
    picked, rows, _, selected, table = (tensor(trace, v) for v in trace.outputs["tuple"])
    assert picked.shape == [2, 2]
    assert values(rows) == [0, 2]
    assert selected.shape == [2]
    assert (table.kind, values(table)) == ("constant", [1, 2, 3])
    pe = named(trace, "pe")
    assert values(pe)[6:12] == [1, 0, 1, 0, 1, 0]
    assert "aten.copy_.default" in [o.target for o in trace.setup]


def test_chance_has_no_values_and_no_setup(ok: Traced) -> None:
    trace = ok("""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("noise", torch.randn(4) + torch.arange(4))
            self.norm = nn.BatchNorm1d(4)
        def forward(self, x, lengths):
            return self.norm(x + self.noise), lengths + 1
    def get_inputs(): return [torch.rand(2, 4), torch.ones(2, dtype=torch.int64)]
    """)
    noise = named(trace, "noise")
    assert noise.random and noise.values is None
    assert named(trace, "norm.running_mean").values is None
    assert values(named(trace, "lengths")) == [1, 1]
    assert [o.target for o in trace.setup] == ["aten.ones.default"]


def test_class_and_function_targets_take_shapes_from_the_request(ok: Traced) -> None:
    text = """
    N = 4
    class Scale(nn.Module):
        def __init__(self, d, *, bias=True):
            super().__init__()
            self.fc = nn.Linear(d, d, bias=bias)
        def forward(self, x, *, k):
            return self.fc(x) * k
    @torch.compile
    def score(q, k, causal):
        return (q @ k.mT).tril() if causal else q @ k.mT
    """
    trace = ok(text, target={
        "kind": "class", "name": "Scale", "init": [8], "init_kwargs": {"bias": False},
        "inputs": [{"name": "x", "dtype": "bf16", "shape": [2, 8]}, {"name": "k", "value": 3}],
    })  # fmt: skip
    assert trace.name == "Scale" and trace.line == 4
    assert named(trace, "x").dtype == "bf16" and named(trace, "x").kind == "input"
    trace = ok(text, target={
        "kind": "function", "name": "score",
        "inputs": [
            {"name": "q", "dtype": "f32", "shape": [2, 8]}, {"name": "k", "dtype": "f32", "shape": [3, 8]}, True,
        ],
    })  # fmt: skip
    assert targets(trace)[-2:] == ["fn.matmul", "aten.tril.default"]
    assert {t.name for t in trace.tensors if t.kind == "input"} == {"q", "k"}


def test_gpu_programs_run_without_one(ok: Traced) -> None:
    trace = ok("""
    torch.backends.cuda.matmul.allow_tf32 = True
    device = torch.device("cuda")
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 8, device="cuda").half()
            self.norm = nn.LayerNorm(8)
        def forward(self, x):
            x = x.to(device).cuda(non_blocking=True)
            torch.cuda.synchronize()
            assert x.device == self.fc.weight.device
            y = self.fc(x.half()).float()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                z = self.norm(x @ y.T @ x)
            return y, z, F.softmax(z, -1)
    model = Model().cuda()
    def get_inputs(): return [torch.rand(4, 8, device="cuda")]
    """)
    assert trace.settings["cuda_matmul_allow_tf32"] is True
    assert any("autocast" in a for a in trace.assumptions)
    assert named(trace, "fc.weight").dtype == "f16"
    matmuls = [tensor(trace, o.outputs).dtype for o in trace.ops if o.target == "fn.matmul"]
    assert matmuls == ["bf16", "bf16"]
    assert tensor(trace, op(trace, "aten.native_layer_norm.default").outputs[0]).dtype == "f32"


def test_aliases_made_by_torch_itself_are_no_operators(ok: Traced) -> None:
    trace = ok("""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.rand(4, 4))
        def forward(self, x):
            y = x.detach().requires_grad_(False)
            y.unsqueeze_(0)
            return y + self.w.data + self.w.view(16)[:4].expand(4, 4)
    def get_inputs(): return [torch.rand(4, 4)]
    """)
    assert targets(trace) == [
        "aten.unsqueeze_.default", "aten.add.Tensor", "aten.view.default", "aten.slice.Tensor", "aten.expand.default",
        "aten.add.Tensor",
    ]  # fmt: skip
    first = tensor(trace, trace.ops[1].args[0])
    assert first.shape == [1, 4, 4] and first.storage == named(trace, "x").storage
    assert trace.ops[1].args[1] == {"tensor": named(trace, "w").id}


def test_an_operator_without_a_meta_kernel_still_has_shapes(ok: Traced) -> None:
    trace = ok(
        """
    def f(x):
        return torch.linalg.svd(x, full_matrices=False), torch.fft.rfft(x), torch.histc(x, 5), torch.cdist(x, x)
    """,
        target={"kind": "function", "name": "f", "inputs": [{"name": "x", "dtype": "f32", "shape": [4, 6]}]},
    )
    _, spectrum, _, distance = trace.outputs["tuple"]
    assert tensor(trace, spectrum).shape == [4, 4] and tensor(trace, spectrum).dtype == "c64"
    assert tensor(trace, distance).shape == [4, 4]


def test_nothing_of_ours_is_imported_in_the_users_interpreter(ok: Traced) -> None:
    trace = ok(
        """
    import sys
    assert not [m for m in sys.modules if m.split(".")[0] in ("sollens", "numba", "pulp", "pygls")]
    def f(x):
        return x + 1
    """,
        target={"kind": "function", "name": "f", "inputs": [{"name": "x", "dtype": "f32", "shape": [0, 3]}]},
    )
    assert tensor(trace, trace.outputs).shape == [0, 3]
