"""How transformers is told to load a checkpoint."""

from __future__ import annotations

from pathlib import Path

from transformers import AutoConfig, PretrainedConfig

from edgespec_export.checkpoint.gguf.gguf_config import gguf_config
from edgespec_export.checkpoint.gguf.gguf_header import read_gguf_header

__all__ = ["from_pretrained_arguments", "transformers_config"]


def from_pretrained_arguments(source: Path) -> tuple[Path, dict[str, str]]:
    """The path and keywords for `from_pretrained` of a checkpoint folder or a GGUF file."""
    return (source, {}) if source.is_dir() else (source.parent, {"gguf_file": source.name})


def transformers_config(source: Path) -> PretrainedConfig:
    """The config of a checkpoint folder or a GGUF file, with what transformers does not read.

    transformers reads neither the keys of linear scaling nor the factors of Llama 3.1
    (`rope_freqs.weight`) from a GGUF file, nor the scale of Gemma 3's scores, so it would compute
    another model. `gguf_config` has them.
    """
    path, options = from_pretrained_arguments(source)
    config: PretrainedConfig = AutoConfig.from_pretrained(path, **options)
    if source.is_file():
        ours = gguf_config(read_gguf_header(source))
        if isinstance(scaling := ours["rope_scaling"], dict):
            # Where each kind of layer has its own positions, only those of full attention scale.
            config.rope_parameters.get("full_attention", config.rope_parameters).update(scaling)
        if "query_pre_attn_scalar" in ours:
            config.query_pre_attn_scalar = ours["query_pre_attn_scalar"]
    return config
