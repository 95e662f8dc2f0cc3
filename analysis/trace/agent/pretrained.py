# pyright: basic
"""`from_pretrained` of transformers without weights: the model is built from its configuration.

That on disk, else the published one (`configurations.py`); nothing is downloaded. A twin is made from the same
configuration with smaller sizes: `SEEN` has the configurations that a program read, `SMALLER` their new sizes.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from typing import Any

from .configurations import SEEN, SMALLER, published
from .patches import note

_CONFIGURATION = "transformers.configuration_utils"
_MODEL = "transformers.modeling_utils"
_AUTO = "transformers.models.auto.auto_factory"
_WEIGHTS = {
    "torch_dtype", "dtype", "device_map", "low_cpu_mem_usage", "state_dict", "from_tf", "from_flax", "use_safetensors",
    "offload_folder", "offload_state_dict", "max_memory", "quantization_config", "ignore_mismatched_sizes", "variant",
    "output_loading_info", "weights_only",
}  # fmt: skip

_HUB = {"cache_dir", "force_download", "local_files_only", "token", "revision", "subfolder", "proxies"}


def watch_imports() -> None:
    """Replace `from_pretrained` as soon as transformers is imported."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # read once, when transformers is imported
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what the path finder finds, and replaces functions of some modules once they are loaded."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        replace = _REPLACED.get(fullname)
        if replace is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            replace(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _replace_configuration(module: Any) -> None:
    base = getattr(module, "PreTrainedConfig", None) or getattr(module, "PretrainedConfig", None)
    if base is None:
        return
    read, build = base.get_config_dict.__func__, base.from_dict.__func__

    def get_config_dict(cls: Any, name: Any, **kwargs: Any) -> Any:
        try:
            return read(cls, name, **kwargs)
        except OSError:
            found = published(name)
            if found is None:
                raise
            note(f"the configuration of {name} is not on this disk: its published dimensions were taken")
            return found, {k: v for k, v in kwargs.items() if k not in _HUB}

    def from_dict(cls: Any, fields: Any, **kwargs: Any) -> Any:
        found = build(cls, fields, **kwargs)
        config = found[0] if isinstance(found, tuple) else found
        kind, full = getattr(cls, "model_type", ""), config.to_dict()
        if SEEN.setdefault(kind, full) == full and kind in SMALLER:
            return build(cls, {**full, **SMALLER[kind]}, **kwargs)
        return found

    base.get_config_dict, base.from_dict = classmethod(get_config_dict), classmethod(from_dict)


def _replace_model(module: Any) -> None:
    def from_pretrained(cls: Any, name: Any, *args: Any, config: Any = None, **kwargs: Any) -> Any:
        note("from_pretrained built the model from its configuration, without weights")
        dtype = kwargs.get("dtype") or kwargs.get("torch_dtype")
        rest = {k: v for k, v in kwargs.items() if k not in _WEIGHTS}
        if config is None or isinstance(config, str):
            config = cls.config_class.from_pretrained(config or name, **rest)
            rest = {}
        elif isinstance(config, dict):
            config = cls.config_class.from_dict(config)
        return _cast(cls._from_config(config), dtype)

    if hasattr(module, "PreTrainedModel"):
        module.PreTrainedModel.from_pretrained = classmethod(from_pretrained)
        # It looks at the first ids, only to warn.
        module.PreTrainedModel.warn_if_padding_and_no_attention_mask = lambda *args, **kwargs: None


def _replace_auto(module: Any) -> None:
    def from_pretrained(cls: Any, name: Any, *args: Any, config: Any = None, **kwargs: Any) -> Any:
        from transformers import AutoConfig  # type: ignore[import-not-found]

        note("from_pretrained built the model from its configuration, without weights")
        dtype = kwargs.get("dtype") or kwargs.get("torch_dtype")
        rest = {k: v for k, v in kwargs.items() if k not in _WEIGHTS}
        if config is None or isinstance(config, str):
            config = AutoConfig.from_pretrained(config or name, **rest)
        return _cast(cls.from_config(config), dtype)

    if hasattr(module, "_BaseAutoModelClass"):
        module._BaseAutoModelClass.from_pretrained = classmethod(from_pretrained)


_REPLACED = {_CONFIGURATION: _replace_configuration, _MODEL: _replace_model, _AUTO: _replace_auto}


def _cast(model: Any, dtype: Any) -> Any:
    import torch

    if isinstance(dtype, str):
        dtype = getattr(torch, dtype, None)
    model = model.to(dtype) if isinstance(dtype, torch.dtype) else model
    return model.eval()
