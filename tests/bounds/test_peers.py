"""The comparison with other tools: the probe answers for each of them, and the tables say how the counts stand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PROBLEM = """import torch
class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b
def get_init_inputs():
    return []
def get_inputs():
    return [torch.rand(4, 5), torch.rand(5, 6)]
"""


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import peers

    return peers


def test_the_probe_counts_in_macs_and_names_what_a_tool_cannot_do(tmp_path):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(PROBLEM)
    bad.write_text(PROBLEM.replace("a @ b", "a @ missing"))
    requests = [json.dumps({"path": str(p), "tools": ["flop_counter"], "limit_s": 60}) for p in (good, bad)]
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "peers_probe.py")],
        input="\n".join(requests) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line)["flop_counter"] for line in done.stdout.splitlines()]
    assert found[0]["macs"] == 4 * 5 * 6
    assert "missing" in found[1]["error"]


@pytest.mark.parametrize(
    ("ours", "other", "expected"),
    [(100, 100, "same"), (100, 200, "more"), (100, 50, "less"), (100, 0, "nothing counted"), (0, 0, "same")],
)
def test_a_count_stands_to_ours(peers, ours, other, expected):
    assert peers.relation(ours, other) == expected


def test_a_bound_below_solars_is_listed_with_its_reason(peers):
    ours = {"macs": 10, "bytes": 100, "fused_s": 1.0, "limit": "memory", "seconds": 0.1}
    solar = {"macs": 10, "bytes": 200, "fused_s": 2.0, "fused_tf32_s": 2.0, "seconds": 5.0}
    row = {"level": 1, "name": "1_X", "sollens": ours, "solar": solar, "fvcore": {"error": "E: x", "seconds": 1.0}}
    text = peers.markdown({"revision": "r" * 40, "hardware": "h", "limit_s": 5.0, "rows": [row]})
    assert "| level 1 1_X | 0.500× | traffic: SOLAR moves 2.00× our bytes |" in text
    assert "| 1 | 1_X | 10 | = | E |" in text
