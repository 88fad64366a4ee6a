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
    """The config of a checkpoint folder or a GGUF file, with the GGUF file's rope scaling.

    transformers reads neither the keys of linear scaling nor the factors of Llama 3.1
    (`rope_freqs.weight`) from a GGUF file, so it would compute another model. `gguf_rope` reads
    both.
    """
    path, options = from_pretrained_arguments(source)
    config: PretrainedConfig = AutoConfig.from_pretrained(path, **options)
    if source.is_file():
        scaling = gguf_config(read_gguf_header(source))["rope_scaling"]
        if isinstance(scaling, dict):
            # Where each kind of layer has its own positions, only those of full attention scale.
            rope = config.rope_parameters.get("full_attention", config.rope_parameters)
            rope.update(scaling)
    return config
