"""How transformers is told to load a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, GenerationConfig, PretrainedConfig
from transformers.utils import GENERATION_CONFIG_NAME

from edgespec_export.checkpoint.checkpoint import Checkpoint, open_checkpoint
from edgespec_export.checkpoint.gguf.gguf_config import gguf_config
from edgespec_export.checkpoint.gguf.gguf_header import read_gguf_header
from edgespec_export.checkpoint.sources import Source

__all__ = ["load_original"]

# Model types of GGUF files that transformers reads as edgespec does, but for what `_config` adds.
# Of others it reads no files, or another window, activation or size.
_READ_BY_TRANSFORMERS = {"llama", "qwen2", "qwen3", "gemma2", "gemma3_text", "lfm2"}


def load_original(kind: Any, source: Source, dtype: torch.dtype) -> Any:
    """The model of a checkpoint folder or a GGUF file, by transformers.

    Weights that are not as they are stored are taken from `open_checkpoint`: transformers would
    need the program that quantized them, and mostly a GPU. So are those of GGUF files that it does
    not read.

    Args:
        kind: a class of transformers with `from_pretrained`, which raises what it likes.
    """
    path, options = _arguments(source.path)
    if source.path.is_file():
        stated: dict[str, Any] = gguf_config(read_gguf_header(source.path))
        if stated["model_type"] not in _READ_BY_TRANSFORMERS:
            made = AutoConfig.for_model(**{"pad_token_id": None, **stated})
            return _loaded(kind, open_checkpoint(source), made, dtype, source.path.parent)
    config = _config(source.path)
    if source.path.is_dir() or source.adapter is not None:
        checkpoint = open_checkpoint(source)
        if not checkpoint.is_as_stored:
            return _loaded(kind, checkpoint, config, dtype, source.path)
    return kind.from_pretrained(path, config=config, dtype=dtype, **options)


def _loaded(
    kind: Any, checkpoint: Checkpoint, config: PretrainedConfig, dtype: torch.dtype, folder: Path
) -> Any:
    """A model with the weights of an opened checkpoint."""
    config = config.get_text_config() if "text_config" in config else config
    vars(config).pop("quantization_config", None)
    weights = checkpoint.weights
    state = {
        name: torch.from_numpy(np.array(weights.read(name), np.float32)).to(dtype)
        for name in weights.names()
    }
    if hasattr(kind, "_model_mapping"):  # an Auto class, which only takes paths
        kind = kind._model_mapping[type(config)]
    model = kind.from_pretrained(None, config=config, state_dict=state, dtype=dtype)
    if (folder / GENERATION_CONFIG_NAME).is_file():
        model.generation_config = GenerationConfig.from_pretrained(folder)
    return model


def _arguments(source: Path) -> tuple[Path, dict[str, str]]:
    """The path and keywords for `from_pretrained` of a checkpoint folder or a GGUF file."""
    return (source, {}) if source.is_dir() else (source.parent, {"gguf_file": source.name})


def _config(source: Path) -> PretrainedConfig:
    """The config of a checkpoint folder or a GGUF file, with what transformers does not read.

    transformers reads neither the keys of linear scaling nor the factors of Llama 3.1
    (`rope_freqs.weight`) from a GGUF file, nor the scale of Gemma 3's scores, so it would compute
    another model. `gguf_config` has them.
    """
    path, options = _arguments(source)
    config: PretrainedConfig = AutoConfig.from_pretrained(path, **options)
    if source.is_file():
        ours = gguf_config(read_gguf_header(source))
        if isinstance(scaling := ours.get("rope_scaling"), dict):
            # Where each kind of layer has its own positions, only those of full attention scale.
            config.rope_parameters.get("full_attention", config.rope_parameters).update(scaling)
        if "query_pre_attn_scalar" in ours:
            config.query_pre_attn_scalar = ours["query_pre_attn_scalar"]
    return config
