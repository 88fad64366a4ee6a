"""llama.cpp's architectures: each says what its converter makes of a Hugging Face checkpoint.

A new architecture is an `Architecture` in one of these files and one entry in `ARCHITECTURES`.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.gguf.architectures.architecture import Architecture
from edgespec_export.checkpoint.gguf.architectures.gemma import GEMMA, GEMMA2, GEMMA3
from edgespec_export.checkpoint.gguf.architectures.llama import LLAMA, QWEN2, QWEN3
from edgespec_export.checkpoint.gguf.architectures.norms_after import EXAONE4, OLMO2
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader

__all__ = ["ARCHITECTURES", "Architecture", "architecture_of"]

_ALL = (LLAMA, QWEN2, QWEN3, GEMMA, GEMMA2, GEMMA3, OLMO2, EXAONE4)
ARCHITECTURES: Mapping[str, Architecture] = {known.name: known for known in _ALL}


def architecture_of(header: GgufHeader) -> Architecture:
    """The architecture that a file names.

    Raises:
        EdgespecError: another one, by name.
    """
    name = header.metadata.get("general.architecture")
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise EdgespecError(
            f"{header.path}: architecture {shortened(name)} is not one of "
            f"{', '.join(ARCHITECTURES)}; take the model's safetensors"
        )
    return ARCHITECTURES[name]
