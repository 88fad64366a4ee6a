"""Random Gemma 3 checkpoints, as transformers writes them; windows of 7 positions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checkpoints import byte_tokenizer

SIZES = {
    "vocab_size": 272,
    "hidden_size": 36,
    "intermediate_size": 51,
    "num_hidden_layers": 5,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "query_pre_attn_scalar": 20,
    "max_position_embeddings": 128,
    "sliding_window": 7,
    "sliding_window_pattern": 3,
    "initializer_range": 0.1,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "pad_token_id": 0,
}


def write_gemma3(folder: Path, *, vision: bool = False, **changes: Any) -> Path:
    """Norms of all sizes, and attention that depends on the context.

    Args:
        vision: the text model is a part of a checkpoint that has a vision tower, too.
        changes: keys of the text config to add or change.
    """
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    text = {**SIZES, **changes}
    if vision:
        image = {"hidden_size": 8, "intermediate_size": 8, "image_size": 28}
        config = transformers.Gemma3Config(
            text_config=text,
            vision_config={**image, "num_hidden_layers": 1, "num_attention_heads": 1},
            mm_tokens_per_image=1,
        )
        model = transformers.Gemma3ForConditionalGeneration(config)
    else:
        model = transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**text))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                parameter.normal_(0, 0.3)
            elif "q_proj" in name or "k_proj" in name:
                parameter.normal_(0, 0.5)
    model.save_pretrained(folder)
    byte_tokenizer(text["vocab_size"]).save(str(folder / "tokenizer.json"))
    return folder
