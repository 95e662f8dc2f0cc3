# pyright: basic
"""The sizes in a transformer's configuration: which may be smaller in a twin, and how they are tied to each other.

A width is heads times the size of one head, positions are at least the tokens, and so on: of all the ways to make them
smaller one by one hardly any builds a model, so they are changed together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_HEADS = re.compile(r"(^|_)(n_head|n_heads|num_heads|attention_heads)$")
_GROUPS = re.compile(r"(^|_)(key_value_heads|kv_heads|n_head_kv)$")
_WIDTH = re.compile(r"^(hidden_size|d_model|n_embd|dim|embedding_size|word_embed_proj_dim)$")
_HEAD = re.compile(r"^(attention_head_size|head_dim|d_kv)$")
_INNER = re.compile(r"(^|_)(intermediate_size|ffn_dim|feed_forward_size|n_inner|d_ff)$")
_POSITIONS = re.compile(r"^(n_positions|n_ctx|max_position_embeddings)$")
_NO_SIZE = re.compile(r"(_ids?|_seed|_version|_hashes|_layers?|layers|n_layer|labels|_types?)$")

_LEAST = 3
_HEAD_SIZE = 4
_FEW_HEADS = 3
_OTHER_WIDTH = 10
_VOCABULARY, _TOKENS, _FEATURES = 53, 96, 29
_WINDOW, _BLOCK = 5, 4
_FACTOR = 16

# A path of a field, or of an entry of a field that is a list.
Sizes = dict[tuple[Any, ...], int]


def sizes_of(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a configuration that hold sizes, one or a list of them."""
    return {name: value for name, value in fields.items() if not _NO_SIZE.search(name) and _is_size(value)}


def _is_size(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(_is_size(v) for v in value)
    return type(value) is int and value >= _LEAST


def smaller(fields: dict[str, Any]) -> Iterator[Sizes]:
    """Ways to make a configuration's sizes smaller together, the smallest first."""
    seen: list[Sizes] = []
    for few_heads, chunks in ((True, True), (True, False), (False, True), (False, False)):
        found = _smaller(fields, few_heads=few_heads, chunks=chunks)
        if found not in seen:
            seen.append(found)
            yield found


def _smaller(fields: dict[str, Any], *, few_heads: bool, chunks: bool) -> Sizes:
    heads = [v for name, v in fields.items() if _HEADS.search(name) and type(v) is int]
    grouped = [v for name, v in fields.items() if _GROUPS.search(name) and type(v) is int and v not in (1, *heads)]
    count = max(heads, default=1)
    if few_heads:
        count = min(count, 2 * _FEW_HEADS if grouped else _FEW_HEADS)
    widths = [v for name, v in fields.items() if _WIDTH.search(name) and type(v) is int]
    widest = max(widths, default=0)
    width = count * _HEAD_SIZE
    found: Sizes = {}
    for name, value in sizes_of(fields).items():
        if isinstance(value, (list, tuple)):
            found.update(_parts(name, list(value), widest, width))
            continue
        new = value
        if _HEADS.search(name):
            new = count
        elif _GROUPS.search(name):
            new = count if value in heads else _FEW_HEADS if count == 2 * _FEW_HEADS else value
        elif _HEAD.search(name):
            new = _HEAD_SIZE
        elif _WIDTH.search(name):
            new = width if value == widest else _OTHER_WIDTH
        elif _INNER.search(name):
            new = _FEATURES
        elif _POSITIONS.search(name):
            new = _TOKENS
        elif name == "vocab_size":
            new = _VOCABULARY
        elif "window" in name:
            new = _WINDOW
        elif name == "block_size":
            new = _BLOCK
        elif chunks and (name.endswith("chunk_length") or name == "num_buckets") and value % _FACTOR == 0:
            new = value // _FACTOR
        if new < value:
            found[(name,)] = new
    return found


def _parts(name: str, values: list[int], widest: int, width: int) -> Sizes:
    """Entries of a list: parts of the width keep adding up to it, others are divided."""
    if sum(values) == widest:
        rest = width - sum(max(1, v * width // widest) for v in values[:-1])
        new = [*(max(1, v * width // widest) for v in values[:-1]), rest]
    else:
        new = [v // _FACTOR if v % _FACTOR == 0 else v for v in values]
    return {(name, k): n for k, n in enumerate(new)}
