"""llama.cpp's architectures: each says what its converter makes of a Hugging Face checkpoint.

A new architecture is an `Architecture` in one of these files and one entry in `ARCHITECTURES`.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.gguf.architectures.architecture import Architecture
from edgespec_export.checkpoint.gguf.architectures.gguf_experts import GPT_OSS, LFM2MOE, QWEN3MOE
from edgespec_export.checkpoint.gguf.architectures.gguf_gemma import GEMMA, GEMMA2, GEMMA3
from edgespec_export.checkpoint.gguf.architectures.gguf_gemma4 import GEMMA4
from edgespec_export.checkpoint.gguf.architectures.gguf_granite import GRANITE, GRANITE_HYBRID
from edgespec_export.checkpoint.gguf.architectures.gguf_layer_normed import (
    BLOOM,
    GPT2,
    GPT_NEOX,
    PHI2,
    STABLELM,
)
from edgespec_export.checkpoint.gguf.architectures.gguf_lfm2 import LFM2
from edgespec_export.checkpoint.gguf.architectures.gguf_llama import LLAMA, QWEN2, QWEN3, QWEN3VL
from edgespec_export.checkpoint.gguf.architectures.gguf_llama_relatives import (
    ARCEE,
    CHATGLM,
    ERNIE4_5,
    GLM4,
    HUNYUAN_DENSE,
    MISTRAL3,
    SEED_OSS,
    SMOLLM3,
)
from edgespec_export.checkpoint.gguf.architectures.gguf_norms_after import EXAONE4, OLMO2
from edgespec_export.checkpoint.gguf.architectures.gguf_own_code import (
    APERTUS,
    BAICHUAN,
    INTERNLM2,
    MINICPM,
)
from edgespec_export.checkpoint.gguf.architectures.gguf_phi3 import PHI3
from edgespec_export.checkpoint.gguf.architectures.gguf_qwen35 import QWEN35
from edgespec_export.checkpoint.gguf.architectures.gguf_t5 import T5
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader

__all__ = ["ARCHITECTURES", "Architecture", "architecture_of"]

_ALL = (
    *(LLAMA, QWEN2, QWEN3, QWEN3VL, SMOLLM3, SEED_OSS, ERNIE4_5, ARCEE, MISTRAL3, CHATGLM, GLM4),
    *(GRANITE, GRANITE_HYBRID, PHI3, HUNYUAN_DENSE, LFM2, QWEN35, GPT2, T5),
    *(GEMMA, GEMMA2, GEMMA3, GEMMA4, OLMO2, EXAONE4, QWEN3MOE, LFM2MOE, GPT_OSS),
    *(APERTUS, STABLELM, PHI2, GPT_NEOX, BLOOM, INTERNLM2, BAICHUAN, MINICPM),
)
ENCODER_ALONE = "t5encoder"
ARCHITECTURES: Mapping[str, Architecture] = {known.name: known for known in _ALL}


def architecture_of(header: GgufHeader) -> Architecture:
    """The architecture that a file names.

    Raises:
        EdgespecError: another one, by name.
    """
    name = header.metadata.get("general.architecture")
    if name == ENCODER_ALONE:
        raise EdgespecError(
            f"{header.path}: architecture {name!r} is an encoder alone, which generates no text"
        )
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise EdgespecError(
            f"{header.path}: architecture {shortened(name)} is not one of "
            f"{', '.join(ARCHITECTURES)}; take the model's safetensors"
        )
    known = ARCHITECTURES[name]
    return known if known.variant is None else known.variant(header)
