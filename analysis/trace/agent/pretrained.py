# pyright: basic
"""`from_pretrained` of transformers without weights: the model is built from its configuration on disk."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from typing import Any

from .patches import note

_MODEL = "transformers.modeling_utils"
_AUTO = "transformers.models.auto.auto_factory"
_WEIGHTS = {
    "torch_dtype", "dtype", "device_map", "low_cpu_mem_usage", "state_dict", "from_tf", "from_flax", "use_safetensors",
    "offload_folder", "offload_state_dict", "max_memory", "quantization_config", "ignore_mismatched_sizes", "variant",
    "output_loading_info", "weights_only",
}  # fmt: skip


def watch_imports() -> None:
    """Replace `from_pretrained` as soon as transformers is imported."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what the path finder finds, and replaces functions of two modules once they are loaded."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        replace = {_MODEL: _replace_model, _AUTO: _replace_auto}.get(fullname)
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


def _cast(model: Any, dtype: Any) -> Any:
    import torch

    if isinstance(dtype, str):
        dtype = getattr(torch, dtype, None)
    model = model.to(dtype) if isinstance(dtype, torch.dtype) else model
    return model.eval()
