"""Tiny random Qwen3.5 checkpoints."""

from __future__ import annotations

from checkpoints import byte_tokenizer

DELTA, ATTENTION = "linear_attention", "full_attention"
SIZES = {
    "vocab_size": 272,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "layer_types": [DELTA, ATTENTION, DELTA],
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "pad_token_id": 0,
}


def write_qwen35(folder, **changes):
    """Writes a random checkpoint of the text model; returns transformers' model in float32."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.Qwen3_5TextConfig(**{**SIZES, **changes})
    model = transformers.Qwen3_5ForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("A_log"):  # slow enough that a state remembers the whole text
                parameter.uniform_(-5, 0)
            elif parameter.ndim == 1:  # norms of 1 and biases of 0 would hide mistakes
                parameter += 0.2 * torch.randn(parameter.shape)
            else:
                parameter.normal_(0, (3 if "embed" in name else 1) * parameter.shape[-1] ** -0.5)
    model.save_pretrained(folder)
    byte_tokenizer(272).save(str(folder / "tokenizer.json"))
    return model.eval()
