"""Random checkpoints of OLMo 2 and 3, EXAONE 4, Gemma 1 and 2, as transformers writes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from checkpoints import byte_tokenizer

SIZES = {
    "vocab_size": 272,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
WINDOW = 7
# The class of each model, and what its config says besides.
MODELS: Mapping[str, dict[str, Any]] = {
    "Olmo2": {},
    "Olmo3": {"sliding_window": WINDOW},
    "Exaone4": {"sliding_window": WINDOW},
    "Gemma": {"head_dim": 16},
    "Gemma2": {
        "head_dim": 16,
        "sliding_window": WINDOW,
        "query_pre_attn_scalar": 20,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 3.0,
    },
}


def write_model(folder: Path, name: str, **changes: Any) -> Path:
    """Norms of all sizes, attention that depends on the context, and scores that reach caps."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**SIZES, **MODELS[name], **changes})
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.2)
            elif "q_proj" in parameter_name or "k_proj" in parameter_name:
                parameter.normal_(0, 0.2 if name == "Gemma" else 0.5)  # it has no norms of them
            else:
                table = "embed" in parameter_name or "lm_head" in parameter_name
                large = table and name != "Gemma"  # which would then only repeat its input
                parameter.normal_(0, (3 if large else 1) * parameter.shape[-1] ** -0.5)
    model.save_pretrained(folder)
    byte_tokenizer(config.vocab_size).save(str(folder / "tokenizer.json"))
    return folder
