"""`from_pretrained` needs a configuration on disk and no weights."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs transformers")
MODEL = """
from transformers import AutoConfig, AutoModelForCausalLM
class Model(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
    def forward(self, x):
        return self.model(x).logits
def get_inputs(): return [torch.randint(0, 100, (2, 8))]
def get_init_inputs(): return [{name!r}]
"""


def test_a_model_is_built_from_its_configuration(ok: Callable[..., Any], tmp_path: Path) -> None:
    config = {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "vocab_size": 100, "n_positions": 16}
    (tmp_path / "config.json").write_text(json.dumps(config))
    trace = ok(MODEL.replace("{name!r}", repr(str(tmp_path))), deadline_s=120.0)
    logits = trace.tensors[trace.outputs["tensor"]]
    assert (logits.shape, logits.dtype) == ([2, 8, 100], "bf16")
    assert any("without weights" in a for a in trace.assumptions)


def test_a_missing_configuration_is_told(problem: Callable[..., Any]) -> None:
    found = problem(MODEL.replace("{name!r}", "'nobody/no-such-model'"), deadline_s=120.0)
    assert found.code == "config-missing"
    assert found.line == 7
