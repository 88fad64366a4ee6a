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


def write_qwen35(folder, *, bfloat16=False, **changes):
    """Writes a random checkpoint of the text model; returns transformers' model in float32.

    Args:
        bfloat16: how it is stored, and its decay is that of a new model.
    """
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.Qwen3_5TextConfig(**{**SIZES, **changes})
    model = transformers.Qwen3_5ForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if bfloat16 and name.endswith(("A_log", "dt_bias")):
                continue
            if name.endswith("A_log"):  # slow enough that a state remembers the whole text
                parameter.uniform_(-5, 0)
            elif parameter.ndim == 1:  # norms of 1 and biases of 0 would hide mistakes
                parameter += 0.2 * torch.randn(parameter.shape)
            else:
                parameter.normal_(0, (3 if "embed" in name else 1) * parameter.shape[-1] ** -0.5)
    if bfloat16:
        model = model.bfloat16()
    model.save_pretrained(folder)
    model = model.float()
    byte_tokenizer(272).save(str(folder / "tokenizer.json"))
    return model.eval()


def add_head(folder):
    """Adds a random head for several tokens to a checkpoint, by the published names; returns its
    tensors."""
    import torch
    from safetensors.torch import load_file, save_file

    generator = torch.Generator().manual_seed(6)

    def matrix(rows, columns, gain=1.0):
        return gain * torch.randn(rows, columns, generator=generator) / columns**0.5

    def norm(size):
        return 0.2 * torch.randn(size, generator=generator)

    width, inner, size = (SIZES[n] for n in ("hidden_size", "intermediate_size", "head_dim"))
    heads, kv_heads = SIZES["num_attention_heads"], SIZES["num_key_value_heads"]
    at = "mtp.layers.0"
    head = {
        "mtp.fc.weight": matrix(width, 2 * width, 2.0),
        "mtp.pre_fc_norm_embedding.weight": norm(width),
        "mtp.pre_fc_norm_hidden.weight": norm(width),
        "mtp.norm.weight": norm(width),
        f"{at}.input_layernorm.weight": norm(width),
        f"{at}.post_attention_layernorm.weight": norm(width),
        f"{at}.self_attn.q_proj.weight": matrix(2 * heads * size, width),
        f"{at}.self_attn.k_proj.weight": matrix(kv_heads * size, width),
        f"{at}.self_attn.v_proj.weight": matrix(kv_heads * size, width),
        f"{at}.self_attn.o_proj.weight": matrix(width, heads * size, 2.0),
        f"{at}.self_attn.q_norm.weight": norm(size),
        f"{at}.self_attn.k_norm.weight": norm(size),
        f"{at}.mlp.gate_proj.weight": matrix(inner, width),
        f"{at}.mlp.up_proj.weight": matrix(inner, width),
        f"{at}.mlp.down_proj.weight": matrix(width, inner),
    }
    file = folder / "model.safetensors"
    save_file({**load_file(file), **head}, file, {"format": "pt"})
    return head
