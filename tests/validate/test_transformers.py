"""A pretrained transformer without weights, network or configuration on disk: analysed, and run on a narrower twin."""

import importlib.util
from typing import Any

import pytest

from sollens.analysis.validate.validate import Budget

pytestmark = pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs transformers")
MODEL = """
    from transformers import AutoConfig, AutoModelForCausalLM
    class Model(nn.Module):
        def __init__(self, name, config):
            super().__init__()
            self.model = AutoModelForCausalLM.from_pretrained(name, config=config)
        def forward(self, x):
            return self.model(x).logits
    name = "gpt2"
    config = AutoConfig.from_pretrained(name)
    tokens = 1023
    def get_inputs():
        return [torch.randint(0, config.vocab_size, (1, tokens))]
    def get_init_inputs():
        return [name, config]
"""


def test_a_transformer_runs_on_a_narrower_twin_of_all_its_layers(files: Any) -> None:
    trace = files.host.trace(files.request(MODEL, deadline_s=120.0)).trace
    assert trace is not None
    logits = trace.tensors[trace.outputs["tensor"]]
    assert logits.shape == [1, 1023, 50257]
    assert any("published dimensions" in a for a in trace.assumptions)
    assert sum(t.kind == "parameter" for t in trace.tensors) == 12 * 12 + 4

    verdict = files.verdict(MODEL, budget=Budget())
    assert (verdict.status, verdict.reason) == ("validated", "")
    assert verdict.sizes["gpt2.n_embd"] < 768 and verdict.sizes["gpt2.vocab_size"] < 50257
    assert "gpt2.n_layer" not in verdict.sizes and verdict.tensors > 200
