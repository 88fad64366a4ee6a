"""What to say about a model type that no family has: the nearest one, and what is missing."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from edgespec.errors import EdgespecError, shortened

__all__ = ["unknown_type"]

_STATES = "state-space layers"
_EXPERTS = "mixtures of experts"
_LATENT = "attention to latent keys and values (MLA), and experts that all rows have"
# The family that comes nearest, and what its blocks lack.
MISSING: dict[str, tuple[str, str]] = {
    "cohere": ("llama", "attention and feed-forward side by side"),
    "cohere2": ("llama", "attention and feed-forward side by side"),
    "deepseek_v2": ("llama", _LATENT),
    "deepseek_v3": ("llama", _LATENT),
    "falcon_h1": ("llama", _STATES),
    "gemma3n_text": ("gemma4_text", "several residual streams (AltUp), LAuReL and sparse layers"),
    "granitemoe": ("granite", _EXPERTS),
    "longt5": ("t5", "local attention in the encoder"),
    "mixtral": ("mistral", _EXPERTS),
    "moonshine": ("whisper", "an encoder of raw sound"),
    "nllb-moe": ("m2m_100", _EXPERTS),
    "minicpm3": ("minicpm", "attention to latent keys and values (MLA)"),
    "olmoe": ("olmo2", _EXPERTS),
    "olmo": ("llama", "layer norms without weights"),
    "pegasus_x": ("pegasus", "attention to blocks in the encoder"),
    "phimoe": ("phi3", _EXPERTS),
    "qwen2_moe": ("qwen2", _EXPERTS),
    "qwen3_5_moe": ("qwen3_5_text", _EXPERTS),
    "qwen3_5_moe_text": ("qwen3_5_text", _EXPERTS),
    "qwen3_next": ("qwen3_5_text", _EXPERTS),
}
DRAFTS = {
    "eagle",
    "eagle3",
    "block",
    "dflash",
    "dflash2",
    "dspark",
    "qwen3_5_mtp",
    "gemma4_assistant",
    "t5_shared_encoder",
}  # which are no model of their own

NAMED = 20  # model types in a message
ALL_FAMILIES = "docs/reference/families.md"


def unknown_type(kind: object, known: Iterable[str], label: str) -> EdgespecError:
    """The error for a model type that is none of the known ones.

    Args:
        kind: `model_type` of a config, whatever it is.
        known: the model types of all families.
    """
    public = sorted(set(known) - DRAFTS)
    exported = f"{', '.join(public[:NAMED])} and {len(public) - NAMED} more ({ALL_FAMILIES})"
    if not isinstance(kind, str) or not kind:
        return EdgespecError(
            f"{label}: model_type is {shortened(kind)}; edgespec exports {exported}"
        )
    start = f"{label}: model_type is {shortened(kind)}, which edgespec does not export"
    if kind in MISSING:
        nearest, missing = MISSING[kind]
        return EdgespecError(f"{start}: the nearest family, {nearest}, lacks {missing}")
    close = difflib.get_close_matches(kind, public, n=1, cutoff=0.65)
    nearest = f" (nearest in name: {close[0]})" if close else ""
    return EdgespecError(f"{start}{nearest}; it exports {exported}")
