"""Model families: each says what its graphs compute and refuses configs it does not understand.

A family of one file is a file here; one with relatives is a room: `llama_like`, `layer_normed`,
`gemma`, `lfm`, `bart`, `speech`, and `drafts` for models that read their target. A new family is
one file in one of these places and one entry in `FAMILIES`.
"""

from __future__ import annotations

from typing import Any

from edgespec.errors import EdgespecError, shortened
from edgespec_export.families.bart.bart import Bart
from edgespec_export.families.bart.m2m100 import M2M100
from edgespec_export.families.bart.marian import Marian
from edgespec_export.families.bart.mbart import MBart
from edgespec_export.families.bart.pegasus import Pegasus
from edgespec_export.families.decoder_only import DecoderOnly
from edgespec_export.families.drafts.block_draft import BlockDraft
from edgespec_export.families.drafts.eagle import Eagle
from edgespec_export.families.drafts.eagle3.eagle3 import Eagle3
from edgespec_export.families.drafts.gemma4.assistant import Gemma4Assistant
from edgespec_export.families.drafts.masked.masked_block import MaskedBlock
from edgespec_export.families.drafts.qwen35.mtp_head import Qwen35Head
from edgespec_export.families.drafts.shared_encoder import SharedEncoder
from edgespec_export.families.family import Family
from edgespec_export.families.gemma.gemma2 import Gemma, Gemma2
from edgespec_export.families.gemma.gemma3 import Gemma3
from edgespec_export.families.gemma.gemma4 import Gemma4
from edgespec_export.families.gemma.t5gemma import T5Gemma
from edgespec_export.families.gemma.t5gemma2 import T5Gemma2
from edgespec_export.families.gpt2 import Gpt2
from edgespec_export.families.layer_normed.bloom import Bloom
from edgespec_export.families.layer_normed.gpt_neox import GptNeoX
from edgespec_export.families.layer_normed.opt import Opt
from edgespec_export.families.layer_normed.phi import Phi
from edgespec_export.families.layer_normed.stablelm import StableLm
from edgespec_export.families.lfm.lfm2 import Lfm2
from edgespec_export.families.lfm.lfm2_moe import Lfm2Moe
from edgespec_export.families.lfm.lfm3 import Lfm3
from edgespec_export.families.llama_like.apertus import Apertus
from edgespec_export.families.llama_like.arcee import Arcee
from edgespec_export.families.llama_like.glm4 import Glm4
from edgespec_export.families.llama_like.gpt_oss import GptOss
from edgespec_export.families.llama_like.granite import Granite
from edgespec_export.families.llama_like.granite_hybrid import GraniteHybrid
from edgespec_export.families.llama_like.hunyuan import Hunyuan
from edgespec_export.families.llama_like.llama import Llama
from edgespec_export.families.llama_like.ministral3 import Ministral3
from edgespec_export.families.llama_like.norms_after import NormsAfter
from edgespec_export.families.llama_like.own_code.minicpm import MiniCpm
from edgespec_export.families.llama_like.own_code.one_matrix import Baichuan, InternLm2
from edgespec_export.families.llama_like.phi3 import Phi3
from edgespec_export.families.llama_like.qwen3_moe import Qwen3Moe
from edgespec_export.families.llama_like.renamed import RenamedLlama
from edgespec_export.families.llama_like.smollm3 import SmolLM3
from edgespec_export.families.qwen35.qwen35 import Qwen35
from edgespec_export.families.rotary.rope import check_rope
from edgespec_export.families.speech.whisper import Whisper
from edgespec_export.families.t5 import T5
from edgespec_export.families.umt5 import UMT5
from edgespec_export.families.unknown import unknown_type

__all__ = [
    "FAMILIES",
    "DecoderOnly",
    "Family",
    "applied_settings",
    "family_of",
    "transformers_class",
]

FAMILIES: tuple[type[Family], ...] = (
    T5,
    UMT5,
    Llama,
    SmolLM3,
    Granite,
    GraniteHybrid,
    Hunyuan,
    RenamedLlama,
    Arcee,
    Apertus,
    Glm4,
    MiniCpm,
    InternLm2,
    Baichuan,
    Qwen3Moe,
    GptOss,
    Ministral3,
    NormsAfter,
    StableLm,
    GptNeoX,
    Phi,
    Opt,
    Bloom,
    Gemma,
    Gemma2,
    Gemma3,
    Gemma4,
    Phi3,
    Gpt2,
    Lfm2,
    Lfm2Moe,
    Lfm3,
    Qwen35,
    Bart,
    MBart,
    Marian,
    Pegasus,
    M2M100,
    T5Gemma,
    T5Gemma2,
    Eagle,
    Eagle3,
    BlockDraft,
    MaskedBlock,
    Gemma4Assistant,
    Qwen35Head,
    SharedEncoder,
    Whisper,
)


def family_of(config: dict[str, Any], label: str) -> Family:
    """The family that a config's `model_type` names.

    Raises:
        EdgespecError: the type belongs to no family here, or the family refuses the config.
    """
    kind = config.get("model_type")
    for family in FAMILIES:
        if kind in family.model_types:
            return _from_config(family, config, label)
    raise unknown_type(kind, (known for family in FAMILIES for known in family.model_types), label)


def _from_config(family: type[Family], config: dict[str, Any], label: str) -> Family:
    try:
        check_rope(config)
        return family.from_config(config, label)
    except KeyError as error:
        raise EdgespecError(f"{label}: config.json has no {error}; download it again") from None
    except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
        raise EdgespecError(
            f"{label}: config.json has a value of the wrong kind ({error}); download it again"
        ) from None


def transformers_class(family: str) -> str:
    """Name of the transformers class that loads the original of an exported family.

    Args:
        family: its name in the manifest.

    Raises:
        EdgespecError: transformers has none.
    """
    known = {known.family: known.transformers_class for known in FAMILIES}
    name = known.get(family)
    if name is None:
        raise EdgespecError(
            f"family {shortened(family)} has no class in transformers to verify it with "
            f"(known: {', '.join(name for name in known if known[name])}); export without --verify"
        )
    return name


def applied_settings(family: str) -> frozenset[str]:
    """The generation settings that the graphs of an exported family apply.

    Args:
        family: its name in the manifest.
    """
    return next(known.applied_settings for known in FAMILIES if known.family == family)
