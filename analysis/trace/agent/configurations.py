# pyright: basic
"""Published dimensions of well-known pretrained models, for a machine where their configuration was never downloaded.

Only what differs from the defaults of the architecture's class, or has a size. A model that is not named here needs its
configuration on disk: the next larger or smaller one of a family is another program, so nothing is ever guessed.
Each was checked against the parameter count that its publishers give (tests/trace/test_configurations.py).
"""

from __future__ import annotations

from typing import Any

# Of the run in this process: the configurations that the program read, and the new sizes that a twin's are to have.
# Fields by architecture ("gpt2"), as `config.json` has them.
SEEN: dict[str, dict[str, Any]] = {}
SMALLER: dict[str, dict[str, Any]] = {}

_GPT2 = {"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024, "activation_function": "gelu_new"}
_NEO = {
    "model_type": "gpt_neo", "vocab_size": 50257, "max_position_embeddings": 2048, "window_size": 256,
    "intermediate_size": None, "activation_function": "gelu_new",
}  # fmt: skip
_OPT = {
    "model_type": "opt", "vocab_size": 50272, "max_position_embeddings": 2048, "do_layer_norm_before": True,
    "activation_function": "relu", "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 2,
}  # fmt: skip
_BART = {
    "model_type": "bart", "vocab_size": 50265, "max_position_embeddings": 1024, "activation_function": "gelu",
    "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2,
}  # fmt: skip
_BIG_BIRD = {
    "model_type": "big_bird", "vocab_size": 50358, "max_position_embeddings": 4096, "type_vocab_size": 2,
    "attention_type": "block_sparse", "block_size": 64, "num_random_blocks": 3, "hidden_act": "gelu_new",
    "use_bias": True, "rescale_embeddings": False, "pad_token_id": 0, "sep_token_id": 66,
}  # fmt: skip
_ELECTRA = {
    "model_type": "electra", "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2,
    "hidden_act": "gelu", "pad_token_id": 0,
}  # fmt: skip


def _gpt2(width: int, layers: int, heads: int) -> dict[str, Any]:
    return {**_GPT2, "n_embd": width, "n_layer": layers, "n_head": heads}


def _neo(width: int, layers: int, heads: int) -> dict[str, Any]:
    kinds = [[["global", "local"], layers // 2]]
    return {**_NEO, "hidden_size": width, "num_layers": layers, "num_heads": heads, "attention_types": kinds}


def _opt(width: int, layers: int, heads: int) -> dict[str, Any]:
    sizes = {"hidden_size": width, "ffn_dim": 4 * width, "word_embed_proj_dim": width}
    return {**_OPT, **sizes, "num_hidden_layers": layers, "num_attention_heads": heads}


def _bart(width: int, layers: int, heads: int) -> dict[str, Any]:
    sides = {f"{side}_{name}": n for side in ("encoder", "decoder")
             for name, n in (("layers", layers), ("attention_heads", heads), ("ffn_dim", 4 * width))}  # fmt: skip
    return {**_BART, **sides, "d_model": width, "num_hidden_layers": layers}


def _encoder(family: dict[str, Any], width: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    return {**family, **sizes, "intermediate_size": 4 * width, **more}


# By name on the Hub. Sources: Radford et al. 2019 (GPT-2); EleutherAI/gpt-neo's configurations; Zhang et al. 2022,
# table 1 (OPT); Lewis et al. 2020 (BART); Zaheer et al. 2020, table 8 (BigBird); Clark et al. 2020, table 6 (ELECTRA);
# Kitaev et al. 2020 and google/trax's reformer_enwik8.gin (Reformer).
_PUBLISHED: dict[str, dict[str, Any]] = {
    "gpt2": _gpt2(768, 12, 12),
    "gpt2-medium": _gpt2(1024, 24, 16),
    "gpt2-large": _gpt2(1280, 36, 20),
    "gpt2-xl": _gpt2(1600, 48, 25),
    "EleutherAI/gpt-neo-125m": _neo(768, 12, 12),
    "EleutherAI/gpt-neo-1.3B": _neo(2048, 24, 16),
    "EleutherAI/gpt-neo-2.7B": _neo(2560, 32, 20),
    "facebook/opt-125m": _opt(768, 12, 12),
    "facebook/opt-1.3b": _opt(2048, 24, 32),
    "facebook/opt-2.7b": _opt(2560, 32, 32),
    "facebook/opt-6.7b": _opt(4096, 32, 32),
    "facebook/bart-base": _bart(768, 6, 12),
    "facebook/bart-large": _bart(1024, 12, 16),
    "google/bigbird-roberta-base": _encoder(_BIG_BIRD, 768, 12, 12),
    "google/bigbird-roberta-large": _encoder(_BIG_BIRD, 1024, 24, 16),
    "google/electra-small-discriminator": _encoder(_ELECTRA, 256, 12, 4, embedding_size=128),
    "google/electra-base-discriminator": _encoder(_ELECTRA, 768, 12, 12, embedding_size=768),
    "google/electra-large-discriminator": _encoder(_ELECTRA, 1024, 24, 16, embedding_size=1024),
    "google/reformer-enwik8": {
        "model_type": "reformer", "vocab_size": 258, "hidden_size": 1024, "num_attention_heads": 8,
        "attention_head_size": 128, "feed_forward_size": 4096, "num_hidden_layers": 12,
        "attn_layers": ["local", "local", "lsh", "local"] * 3, "axial_pos_embds": True, "axial_pos_shape": [128, 512],
        "axial_pos_embds_dim": [256, 768], "max_position_embeddings": 65536, "local_attn_chunk_length": 128,
        "lsh_attn_chunk_length": 256, "num_buckets": 512, "num_hashes": 4, "hidden_act": "relu", "is_decoder": True,
        "pad_token_id": 0, "eos_token_id": 2,
    },
}  # fmt: skip
_BY_NAME = {name.lower(): configuration for name, configuration in _PUBLISHED.items()}
_OWNERS = ("openai-community/",)  # where the Hub moved models that had no owner


def published(name: Any) -> dict[str, Any] | None:
    """The configuration of a model by its name on the Hub, as its `config.json` would say; None where not known."""
    key = str(name).lower()
    for owner in _OWNERS:
        key = key.removeprefix(owner)
    found = _BY_NAME.get(key)
    return {k: list(v) if isinstance(v, list) else v for k, v in found.items()} if found is not None else None
