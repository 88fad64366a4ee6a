"""Random Gemma 4 checkpoints, as transformers writes them; windows of 7 positions.

Of six layers the last three read what the second and third wrote: a windowed and a global one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checkpoints import byte_tokenizer

LOCAL, GLOBAL = "sliding_attention", "full_attention"
SIZES = {
    "vocab_size": 272,
    "vocab_size_per_layer_input": 280,
    "hidden_size": 64,
    "hidden_size_per_layer_input": 32,
    "intermediate_size": 96,
    "num_hidden_layers": 6,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "global_head_dim": 32,
    "num_kv_shared_layers": 3,
    "use_double_wide_mlp": True,
    "layer_types": [LOCAL, LOCAL, GLOBAL, LOCAL, LOCAL, GLOBAL],
    "sliding_window": 7,
    "final_logit_softcapping": 30.0,
    "max_position_embeddings": 128,
    "initializer_range": 0.1,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
TOWER = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
VISION = {**TOWER, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 16}
ASSISTANT = {
    **SIZES,
    **{"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "head_dim": 16},
    **{"layer_types": [LOCAL, LOCAL, GLOBAL], "num_kv_shared_layers": 3},
    **{"use_double_wide_mlp": False, "hidden_size_per_layer_input": 0},
    **{"vocab_size_per_layer_input": 0, "final_logit_softcapping": None},
}
ASSISTANT_OUTER = {"backbone_hidden_size": SIZES["hidden_size"], "tie_word_embeddings": True}


def gemma4_model(text: dict[str, Any], *, vision: bool = False) -> Any:
    """Norms of all sizes, factors other than 1, and attention that depends on the context."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if vision:
        config = transformers.Gemma4Config(text_config=text, vision_config=VISION)
        model = transformers.Gemma4ForConditionalGeneration(config)
    else:
        model = transformers.Gemma4ForCausalLM(transformers.Gemma4TextConfig(**text))
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if name.endswith("layer_scalar"):
                tensor.uniform_(0.6, 1.4)
            elif name.endswith("norm.weight"):
                tensor.normal_(1, 0.3)
            elif "q_proj" in name or "k_proj" in name:
                tensor.normal_(0, 0.5)
    return model.eval()


def write_gemma4(folder: Path, *, vision: bool = False, **changes: Any) -> Path:
    """
    Args:
        vision: the text model is a part of a checkpoint that has a vision tower, too.
        changes: keys of the text config to add or change.
    """
    text = {**SIZES, **changes}
    gemma4_model(text, vision=vision).save_pretrained(folder)
    byte_tokenizer(text["vocab_size"]).save(str(folder / "tokenizer.json"))
    return folder


def write_assistant(folder: Path, **outer: Any) -> Path:
    """A random assistant of such a target; `outer`: keys of its config to add or change."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    config = transformers.Gemma4AssistantConfig(
        text_config=ASSISTANT, **{**ASSISTANT_OUTER, **outer}
    )
    model = transformers.Gemma4AssistantForCausalLM(config)
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if name.endswith("token_ordering"):
                tensor.copy_(torch.randperm(len(tensor)))
            elif name.endswith("layer_scalar"):
                tensor.uniform_(0.6, 1.4)
            elif name.endswith("norm.weight"):
                tensor.normal_(1, 0.3)
            elif tensor.ndim > 1:
                tensor.normal_(0, 0.5 if "q_proj" in name else 0.15)
    model.save_pretrained(folder)
    byte_tokenizer(SIZES["vocab_size"]).save(str(folder / "tokenizer.json"))
    return folder
