"""The config that transformers is to load a checkpoint with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoConfig

from edgespec_export.checkpoint.gguf.gguf_config import gguf_config
from edgespec_export.checkpoint.gguf.gguf_header import read_gguf_header
from edgespec_export.checkpoint.sources import transformers_place

__all__ = ["transformers_config"]


def transformers_config(source: Path) -> Any:
    """Its own, with the rope scaling that transformers leaves in a GGUF file.

    It reads neither the keys of linear scaling nor the factors of Llama 3.1, `rope_freqs.weight`,
    and would compute another model than the file's. The scaling itself is what `gguf_rope` reads.
    """
    place, options = transformers_place(source)
    config = AutoConfig.from_pretrained(place, **options)
    if source.is_file():
        scaling = gguf_config(read_gguf_header(source))["rope_scaling"]
        config.rope_parameters = {**config.rope_parameters, **(scaling or {})}
    return config
