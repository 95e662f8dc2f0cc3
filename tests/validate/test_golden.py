"""Golden runs: real values, seeded, in their range, in raw files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sollens.analysis.validate.golden import BadGolden, read

NORMS = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(6)
            self.bn = nn.BatchNorm1d(4)
            self.raw = nn.Parameter(torch.empty(6, 3))
        def forward(self, x):
            return self.bn(self.norm(x)) @ self.raw
    def get_inputs():
        return [torch.rand(5, 4, 6)]
"""


def by_name(golden: Any) -> dict[str, Any]:
    return {
        t.name: golden.array(golden.externals[t.id])
        for t in golden.trace.tensors
        if t.id in golden.externals and t.name
    }


def test_constant_parameters_and_statistics_get_values(files: Any) -> None:
    values = by_name(files.golden(NORMS))
    for name in ("norm.weight", "norm.bias", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var", "raw"):
        assert len(np.unique(values[name])) == values[name].size, name
        assert np.isfinite(values[name]).all()
    assert (values["bn.running_var"] > 0).all()


def test_uniform_inputs_get_both_signs(files: Any) -> None:
    x = by_name(files.golden(NORMS))["x"]
    assert (x < 0).any() and (x > 0).any()


def test_inputs_stay_as_given_where_signs_leave_the_domain(files: Any) -> None:
    golden = files.golden("""
        class Model(nn.Module):
            def forward(self, x):
                return torch.log(x)
        def get_inputs():
            return [torch.rand(5, 7) + 0.01]
    """)
    assert not golden.undefined
    assert (by_name(golden)["x"] > 0).all()


def test_constant_inputs_get_values(files: Any) -> None:
    golden = files.golden("""
        class Model(nn.Module):
            def forward(self, x, y):
                return x + y
        def get_inputs():
            return [torch.zeros(5, 7), torch.ones(5, 7)]
    """)
    assert all(len(np.unique(v)) == 35 for v in by_name(golden).values())


def test_outputs_are_those_of_the_program_really_run(files: Any) -> None:
    golden = files.golden(NORMS)
    v = {k: torch.from_numpy(a) for k, a in by_name(golden).items()}
    y = torch.nn.functional.layer_norm(v["x"], (6,), v["norm.weight"], v["norm.bias"])
    y = torch.nn.functional.batch_norm(y, v["bn.running_mean"], v["bn.running_var"], v["bn.weight"], v["bn.bias"])
    np.testing.assert_allclose(golden.array(golden.outputs[0]), (y @ v["raw"]).numpy(), rtol=1e-5, atol=1e-5)


def test_every_operator_is_kept_beside_the_trace(files: Any) -> None:
    golden = files.golden(NORMS)
    assert not golden.diverged
    for position, op in enumerate(golden.trace.ops):
        if not op.view:
            assert golden.ops[position], op.target


def test_one_seed_gives_one_run_and_another_gives_another(files: Any) -> None:
    first, again, other = (files.golden(NORMS, seed=seed) for seed in (0, 0, 1))
    one, two, three = (g.array(g.outputs[0]) for g in (first, again, other))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, three)


def test_indices_stay_in_their_tables(files: Any) -> None:
    golden = files.golden(
        """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(5, 8)
            def forward(self, ids, mask, x):
                return torch.where(mask, self.table(ids.view(-1)).sum(-1), x)
        """,
        target={
            "kind": "class",
            "name": "Model",
            "inputs": [
                {"name": "ids", "dtype": "i64", "shape": [6, 10]},
                {"name": "mask", "dtype": "bool", "shape": [60]},
                {"name": "x", "dtype": "f32", "shape": [60]},
            ],
        },
    )
    values = by_name(golden)
    assert values["ids"].min() >= 0 and values["ids"].max() < 5 and len(np.unique(values["ids"])) > 2
    assert values["mask"].any() and not values["mask"].all()
    assert (values["x"] < 0).any() and np.isfinite(values["x"]).all()


def test_labels_of_a_loss_stay_in_its_classes(files: Any) -> None:
    golden = files.golden("""
        class Model(nn.Module):
            def forward(self, x, y):
                return F.cross_entropy(x, y)
        def get_inputs():
            return [torch.randn(9, 4), torch.randint(0, 1000, (9,))]
    """)
    assert by_name(golden)["y"].max() < 4


def test_a_buffer_of_known_values_keeps_them(files: Any) -> None:
    golden = files.golden("""
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mask", torch.tril(torch.ones(5, 5)))
            def forward(self, x):
                return x.masked_fill(self.mask == 0, 0.0)
        def get_inputs():
            return [torch.randn(5, 5)]
    """)
    np.testing.assert_array_equal(by_name(golden)["mask"], np.tril(np.ones((5, 5), np.float32)))


def test_files_are_raw_arrays_and_not_pickles(files: Any) -> None:
    golden = files.golden(NORMS)
    found = list(Path(golden.directory).iterdir())
    assert found and all(path.suffix == ".bin" for path in found)
    entry = golden.outputs[0]
    raw = (golden.directory / entry.file).read_bytes()[entry.offset :][: 4 * golden.array(entry).size]
    assert raw == golden.array(entry).tobytes()


def test_half_precision_travels_as_float32(files: Any) -> None:
    golden = files.golden("""
        class Model(nn.Module):
            def forward(self, x):
                return x.to(torch.bfloat16) * 2
        def get_inputs():
            return [torch.randn(5, 7)]
    """)
    assert golden.array(golden.outputs[0]).dtype == np.float32


@pytest.mark.parametrize("change", [{"file": "../x.bin"}, {"offset": -1}, {"shape": [-1]}, {"dtype": "object"}])
def test_an_entry_outside_its_folder_is_refused(files: Any, change: dict[str, Any]) -> None:
    reply = files.reply(NORMS)
    raw = dict(reply.golden)
    raw["outputs"] = [{**raw["outputs"][0], **change}]
    with pytest.raises(BadGolden):
        read(reply.trace, raw, files.folder)


def test_a_program_whose_shapes_depend_on_values_is_a_problem(files: Any) -> None:
    reply = files.reply("""
        class Model(nn.Module):
            def forward(self, x):
                return x[x > 0]
        def get_inputs():
            return [torch.randn(5, 7)]
    """)
    assert [p.code for p in reply.problems] == ["data-dependent"]
