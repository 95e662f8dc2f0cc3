"""Published dimensions: each model has as many parameters as its publishers say."""

import importlib.util
from typing import Any

import pytest
import torch

from sollens.analysis.trace.agent import architecture
from sollens.analysis.trace.agent.configurations import published

needs_transformers = pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs transformers")
# Millions of parameters, with one head of tied embeddings, of the model or (BART, ELECTRA) of its encoder and decoder.
PUBLISHED = {
    "gpt2": 124, "gpt2-medium": 355, "gpt2-large": 774, "gpt2-xl": 1558, "EleutherAI/gpt-neo-125m": 125,
    "EleutherAI/gpt-neo-1.3B": 1316, "EleutherAI/gpt-neo-2.7B": 2651, "facebook/opt-125m": 125,
    "facebook/opt-1.3b": 1316, "facebook/opt-2.7b": 2652, "facebook/opt-6.7b": 6658, "facebook/bart-base": 139,
    "facebook/bart-large": 406, "google/bigbird-roberta-base": 127, "google/electra-small-discriminator": 13.5,
    "google/electra-base-discriminator": 109, "google/electra-large-discriminator": 334, "google/reformer-enwik8": 149,
}  # fmt: skip


@needs_transformers
@pytest.mark.parametrize("name", ["gpt2", "EleutherAI/gpt-neo-2.7B", "facebook/opt-1.3b", "facebook/bart-large",
                                  "google/bigbird-roberta-base", "google/electra-small-discriminator",
                                  "google/reformer-enwik8"])  # fmt: skip
def test_a_model_of_published_dimensions_has_the_published_number_of_parameters(name: str) -> None:
    from transformers import CONFIG_MAPPING, AutoModel

    fields = published(name)
    assert fields is not None
    with torch.device("meta"):
        model = AutoModel.from_config(CONFIG_MAPPING[fields["model_type"]].from_dict(fields))
    millions = sum(p.numel() for p in model.parameters()) / 1e6
    assert millions == pytest.approx(PUBLISHED[name], rel=5e-3)


def test_names_are_those_of_the_hub_and_nothing_is_guessed() -> None:
    assert published("GPT2") == published("openai-community/gpt2") != published("gpt2-medium")
    for unknown in ("gpt3", "facebook/opt-13b", "gpt2-", "google/electra-small-generator", "", 7, None):
        assert published(unknown) is None


def test_a_configuration_is_no_ones_to_change() -> None:
    first = published("google/reformer-enwik8")
    assert first is not None
    first["axial_pos_shape"][0] = 1
    assert published("google/reformer-enwik8") != first


LLAMA: dict[str, Any] = {
    "model_type": "llama", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "head_dim": 128,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 4096,
    "pad_token_id": 31999, "rms_norm_eps": 1e-6,
}  # fmt: skip


def test_a_smaller_configuration_keeps_its_ties() -> None:
    for sizes in architecture.smaller(LLAMA):
        new = {**LLAMA, **{path[0]: value for path, value in sizes.items()}}
        assert new["hidden_size"] == new["num_attention_heads"] * new["head_dim"] < 4096
        assert new["num_attention_heads"] % new["num_key_value_heads"] == 0
        assert new["num_key_value_heads"] < new["num_attention_heads"]
        assert (new["num_hidden_layers"], new["pad_token_id"]) == (32, 31999)
        assert len({new[k] for k in ("vocab_size", "hidden_size", "intermediate_size", "head_dim")}) == 4


def test_parts_of_a_width_keep_adding_up_to_it() -> None:
    fields = published("google/reformer-enwik8")
    assert fields is not None
    for sizes in architecture.smaller(fields):
        parts = [value for path, value in sizes.items() if path[0] == "axial_pos_embds_dim"]
        heads = sizes.get(("num_attention_heads",), fields["num_attention_heads"])
        assert sum(parts) == sizes["hidden_size",] == heads * sizes["attention_head_size",]
