"""GGUF files of small random checkpoints, with the layouts of llama.cpp's converter.

`FORMS` are models of family_corpus.py and how the converter writes them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from checkpoints import byte_tokenizer
from edgespec_export.checkpoint.checkpoint import Checkpoint, open_checkpoint
from edgespec_export.checkpoint.sources import Source
from family_corpus import CASES, SIZES, write_model
from tiny_checkpoints import add_value, permuted

BYTES = byte_tokenizer(SIZES["vocab_size"])
LLAMA_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers": "blk",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
LFM2_NAMES = {
    "model.embedding_norm": "token_embd_norm",
    "operator_norm": "attn_norm",
    "self_attn.out_proj": "attn_output",
    "self_attn.q_layernorm": "attn_q_norm",
    "self_attn.k_layernorm": "attn_k_norm",
    "feed_forward.w1": "ffn_gate",
    "feed_forward.w2": "ffn_down",
    "feed_forward.w3": "ffn_up",
    "conv.in_proj": "shortconv.in_proj",
    "conv.out_proj": "shortconv.out_proj",
    "conv.conv": "shortconv.conv",
}
EXPERTS_NAMES = {
    "mlp.gate": "ffn_gate_inp",
    "feed_forward.gate": "ffn_gate_inp",
}
EXPERT = re.compile(r"(mlp|feed_forward)\.experts\.\d+\.")
HEAD_NORM = re.compile(r"\.norms\.\d+\.")
GPT2_NAMES = {
    "transformer.wte": "token_embd",
    "transformer.wpe": "position_embd",
    "transformer.ln_f": "output_norm",
    "transformer.h": "blk",
    "ln_1": "attn_norm",
    "ln_2": "ffn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}
T5_NAMES = {
    "shared": "token_embd",
    "lm_head": "output",
    "encoder.final_layer_norm": "enc.output_norm",
    "decoder.final_layer_norm": "dec.output_norm",
    "encoder.block": "enc.blk",
    "decoder.block": "dec.blk",
    "layer.0.SelfAttention.relative_attention_bias": "attn_rel_b",
    **{f"layer.0.SelfAttention.{part}": f"attn_{part}" for part in "qkvo"},
    **{f"layer.1.EncDecAttention.{part}": f"cross_attn_{part}" for part in "qkvo"},
    "layer.0.layer_norm": "attn_norm",
    "DenseReluDense.wi_0": "ffn_gate",
    "DenseReluDense.wi_1": "ffn_up",
    "DenseReluDense.wi": "ffn_up",
    "DenseReluDense.wo": "ffn_down",
}
TRANSPOSED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Form:
    """How the converter writes a model.

    Attributes:
        model: of family_corpus.py.
        arch: llama.cpp's name.
        keys: the keys of a config, without the architecture.
        names: its names of tensors, by Hugging Face's parts of names.
        reorders: rows of queries and keys are reordered.
        extra: tensors that the checkpoint does not have.
        own_head: the published models have a head that is not tied, unlike a new one of this type.
        norms_with_one: 1 is added to the weights of norms.
        prepared: what the converter makes of a tensor, by Hugging Face's names.
        changes: of the model's config.
    """

    model: str
    arch: str
    keys: Callable[[Config], dict[str, Any]]
    names: Mapping[str, str] = field(default_factory=lambda: LLAMA_NAMES)
    reorders: bool = False
    extra: Callable[[Config], dict[str, Any]] = lambda config: {}
    own_head: bool = False
    norms_with_one: bool = False
    prepared: Callable[[str, Any, Config], dict[str, Any]] = lambda name, tensor, _: {name: tensor}
    changes: Mapping[str, Any] = field(default_factory=dict)


def rope_of(config: Config) -> dict[str, Any]:
    rope = config.get("rope_parameters") or {}
    return rope.get("full_attention", rope)


def of_decoder(config: Config) -> dict[str, Any]:
    """The keys of every decoder."""
    rope = rope_of(config)
    keys = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "rope.freq_base": float(rope["rope_theta"]),
    }
    if config.get("head_dim") is not None:
        keys |= dict.fromkeys(
            ("attention.key_length", "attention.value_length"), config["head_dim"]
        )
    if rope.get("rope_type") == "yarn":
        keys |= {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": float(rope["factor"]),
            "rope.scaling.original_context_length": rope["original_max_position_embeddings"],
        }
        for name in ("beta_fast", "beta_slow"):
            if rope.get(name) is not None:
                keys[f"rope.scaling.yarn_{name}"] = float(rope[name])
    return keys


def of_llama(config: Config) -> dict[str, Any]:
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return {
        **of_decoder(config),
        "vocab_size": config["vocab_size"],
        "rope.dimension_count": size,
    }


def of_granite(config: Config) -> dict[str, Any]:
    return {
        **of_llama({**config, "head_dim": None}),
        "attention.scale": config["attention_multiplier"],
        "embedding_scale": config["embedding_multiplier"],
        "residual_scale": config["residual_multiplier"],
        "logit_scale": config["logits_scaling"],
    }


def of_ministral3(config: Config) -> dict[str, Any]:
    rope = rope_of(config)
    return {
        **of_llama(config),
        "rope.scaling.yarn_log_multiplier": rope["mscale_all_dim"],
        "attention.temperature_scale": rope["llama_4_scaling_beta"],
    }


def of_hunyuan(config: Config) -> dict[str, Any]:
    rope, size = rope_of(config), config["head_dim"]
    raised = rope["rope_theta"] * rope["alpha"] ** (size / (size - 2))
    return {
        **of_decoder(config),
        "rope.freq_base": raised,
        "rope.scaling.type": "none",
        "rope.scaling.factor": 1.0,
        "rope.scaling.original_context_length": 256 * 1024,
    }


def of_phi3(config: Config) -> dict[str, Any]:
    rope, positions = rope_of(config), config["max_position_embeddings"]
    size = config["hidden_size"] // config["num_attention_heads"]
    trained = rope.get("original_max_position_embeddings") or positions
    keys = {
        **of_decoder(config),
        "rope.scaling.original_context_length": trained,
        "rope.dimension_count": int(size * (rope.get("partial_rotary_factor") or 1)),
        "attention.sliding_window": config["sliding_window"] or 0,
    }
    if "short_factor" in rope:
        growth = math.log(positions / trained) / math.log(trained)
        keys["rope.scaling.attn_factor"] = math.sqrt(1 + growth)
    return keys


def factors_of_phi3(config: Config) -> dict[str, Any]:
    rope = rope_of(config)
    return {
        f"rope_factors_{kind}.weight": np.asarray(rope[f"{kind}_factor"], np.float32)
        for kind in ("long", "short")
        if f"{kind}_factor" in rope
    }


def of_glm(config: Config) -> dict[str, Any]:
    keys = of_decoder({**config, "head_dim": None})
    rotated = int(config["head_dim"] * rope_of(config)["partial_rotary_factor"])
    return {**keys, "rope.dimension_count": rotated}


def of_lfm2(config: Config) -> dict[str, Any]:
    kinds, heads = config["layer_types"], config["num_key_value_heads"]
    return {
        **of_decoder({**config, "rms_norm_eps": config["norm_eps"]}),
        "attention.head_count_kv": [heads * (kind != "conv") for kind in kinds],
        "vocab_size": config["vocab_size"],
        "shortconv.l_cache": config["conv_L_cache"],
    }


def of_gpt2(config: Config) -> dict[str, Any]:
    return {
        "block_count": config["n_layer"],
        "context_length": config["n_positions"],
        "embedding_length": config["n_embd"],
        "feed_forward_length": 4 * config["n_embd"],
        "attention.head_count": config["n_head"],
        "attention.layer_norm_epsilon": config["layer_norm_epsilon"],
    }


def of_t5(config: Config) -> dict[str, Any]:
    epsilon = config["layer_norm_epsilon"]
    return {
        "context_length": 512,
        "embedding_length": config["d_model"],
        "feed_forward_length": config["d_ff"],
        "block_count": config["num_layers"],
        "decoder_block_count": config["num_decoder_layers"],
        "attention.head_count": config["num_heads"],
        "attention.key_length": config["d_kv"],
        "attention.value_length": config["d_kv"],
        "attention.layer_norm_epsilon": epsilon,
        "attention.layer_norm_rms_epsilon": epsilon,
        "attention.relative_buckets_count": config["relative_attention_num_buckets"],
        "decoder_start_token_id": config["decoder_start_token_id"],
    }


HUNYUAN_NAMES = {
    **LLAMA_NAMES,
    "self_attn.query_layernorm": "attn_q_norm",
    "self_attn.key_layernorm": "attn_k_norm",
}
GEMMA4_NAMES = {
    **LLAMA_NAMES,
    "model.embed_tokens_per_layer": "per_layer_token_embd",
    "model.per_layer_model_projection": "per_layer_model_proj",
    "model.per_layer_projection_norm": "per_layer_proj_norm",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "per_layer_input_gate": "inp_gate",
    "per_layer_projection": "proj",
    "post_per_layer_input_norm": "post_norm",
}


def of_gemma4(config: Config) -> dict[str, Any]:
    """Saved configs state the sizes of global layers layer by layer."""
    layers, windowed = range(config["num_hidden_layers"]), config["head_dim"]
    own = [config["per_layer_config"].get(str(layer), {}) for layer in layers]
    size = max(each.get("head_dim", windowed) for each in own)
    wide, shared = config["intermediate_size"], config["num_kv_shared_layers"]
    if config["use_double_wide_mlp"]:  # of the layers that share keys and values
        wide = [wide * (1 + (layer >= layers.stop - shared)) for layer in layers]
    kv_heads = [each.get("num_key_value_heads", config["num_key_value_heads"]) for each in own]
    rope = config["rope_parameters"]
    return {
        **of_decoder({**config, "rope_parameters": rope["full_attention"], "head_dim": size}),
        "feed_forward_length": wide,
        "attention.head_count_kv": kv_heads,
        "attention.key_length_swa": windowed,
        "attention.value_length_swa": windowed,
        "attention.sliding_window": config["sliding_window"],
        "attention.sliding_window_pattern": [
            kind == "sliding_attention" for kind in config["layer_types"]
        ],
        "attention.shared_kv_layers": config["num_kv_shared_layers"],
        "embedding_length_per_layer_input": config["hidden_size_per_layer_input"],
        "final_logit_softcapping": config["final_logit_softcapping"],
        "rope.freq_base_swa": float(rope["sliding_attention"]["rope_theta"]),
        "rope.dimension_count": size,
        "rope.dimension_count_swa": windowed,
    }


def factors_of_gemma4(config: Config) -> dict[str, Any]:
    """A quarter of the pairs of a head of 32 turns."""
    return {"rope_freqs.weight": np.array([1.0] * 4 + [1e30] * 12, np.float32)}


def of_experts(config: Config) -> dict[str, Any]:
    return {
        "expert_count": config.get("num_experts") or config["num_local_experts"],
        "expert_used_count": config["num_experts_per_tok"],
        "expert_feed_forward_length": config["moe_intermediate_size"],
    }


def of_qwen3moe(config: Config) -> dict[str, Any]:
    return {**of_decoder(config), **of_experts(config)}


def of_lfm2moe(config: Config) -> dict[str, Any]:
    return {
        **of_lfm2(config),
        **of_experts(config),
        "leading_dense_block_count": config["num_dense_layers"],
        "expert_gating_func": 2,
    }


GLM4_NAMES = {
    "post_self_attn_layernorm": "post_attention_norm",
    "post_mlp_layernorm": "post_ffw_norm",
    **LLAMA_NAMES,
}
SEED_NAMES = {**LLAMA_NAMES, "post_attention_layernorm": "post_attention_norm"}
_FORMS = (
    Form("Phi-3 mini", "phi3", of_phi3),
    Form("Phi-4-mini", "phi3", of_phi3, extra=factors_of_phi3),
    Form("Granite 3.3", "granite", of_granite, reorders=True),
    Form("SmolLM3 without a base and a tie", "smollm3", of_llama, reorders=True),
    Form("Hunyuan 7B, Hunyuan-MT", "hunyuan-dense", of_hunyuan, HUNYUAN_NAMES),
    Form("Seed-OSS", "seed_oss", of_decoder, SEED_NAMES),
    Form("Seed-OSS with other biases", "seed_oss", of_decoder, SEED_NAMES),
    Form("ERNIE 4.5 0.3B", "ernie4_5", of_decoder),
    Form("AFM 4.5B", "arcee", of_llama, reorders=True),
    Form("Ministral 3", "mistral3", of_ministral3, reorders=True),
    Form("Mistral Small 3.1", "mistral3", of_llama, reorders=True),
    Form("GLM-Edge", "chatglm", of_glm),
    Form("GLM-4 9B 0414", "glm4", of_glm, GLM4_NAMES),
    Form("LFM2, LFM2.5", "lfm2", of_lfm2, {**LFM2_NAMES, **LLAMA_NAMES}),
    Form(
        "LFM2-8B-A1B, LFM2.5-8B-A1B",
        "lfm2moe",
        of_lfm2moe,
        {**EXPERTS_NAMES, **LFM2_NAMES, **LLAMA_NAMES},
    ),
    Form(
        "Qwen3 30B-A3B",
        "qwen3moe",
        of_qwen3moe,
        {
            **{**EXPERTS_NAMES, "self_attn.q_norm": "attn_q_norm"},
            **{"self_attn.k_norm": "attn_k_norm", **LLAMA_NAMES},
        },
    ),
    Form("GPT-2 medium, distilgpt2", "gpt2", of_gpt2, GPT2_NAMES),
    Form("T5 v1.0", "t5", of_t5, T5_NAMES),
    Form("T5 v1.1, flan-T5", "t5", of_t5, T5_NAMES, own_head=True),
    Form("UMT5", "t5", of_t5, T5_NAMES, own_head=True),
    Form("Gemma 4 E2B, E4B", "gemma4", of_gemma4, GEMMA4_NAMES, extra=factors_of_gemma4),
    Form("Gemma 4 31B", "gemma4", of_gemma4, GEMMA4_NAMES, extra=factors_of_gemma4),
)
FORMS = {form.model: form for form in _FORMS}


def gguf_name(form: Form, name: str) -> str:
    names = form.names
    if form.arch == "t5":  # layers of a block are numbered from 0, its norms by their place
        norms = ("ffn_norm",) if name.startswith("encoder") else ("cross_attn_norm", "ffn_norm")
        named = {f"layer.{at}.layer_norm": norm for at, norm in enumerate(norms, 1)}
        names = {**names, **named, "layer.1.DenseReluDense": "DenseReluDense"}
        names = {"layer.2.DenseReluDense": "DenseReluDense", **names}
        names = dict(sorted(names.items(), key=lambda pair: "Dense." in pair[0]))
    for theirs, ours in names.items():
        name = name.replace(f"{theirs}.", f"{ours}.")
    name = name.replace("feed_forward.expert_bias", "exp_probs_b.bias")
    return name.replace("layer_scalar", "layer_output_scale.weight")


def converted(form: Form, name: str, tensor: Any, config: Config) -> Any:
    """A tensor as the converter stores it."""
    heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
    part = name.split(".")[-2]
    if form.reorders and part in heads:
        return permuted(tensor, config[heads[part]] or config["num_attention_heads"])
    if name.endswith("conv.conv.weight"):
        return tensor[:, 0]
    if form.norms_with_one and name.endswith("norm.weight"):
        return tensor + np.float32(1)
    return np.ascontiguousarray(tensor.T) if name.endswith(TRANSPOSED) else tensor


def _by_number(name: str) -> list[Any]:
    """What sorts the tensors of expert 10 after those of expert 9."""
    return [int(part) if part.isdigit() else -1 for part in name.split(".")]


def _together(form: Form, name: str) -> str | None:
    """The tensor of which this one is a row, if there is one."""
    if EXPERT.search(name):
        return gguf_name(form, EXPERT.sub(r"\1.", name)).replace(".weight", "_exps.weight")
    return gguf_name(form, HEAD_NORM.sub(".", name)) if HEAD_NORM.search(name) else None


def tensors_of(form: Form, checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, Any]]:
    """The file's tensors, and numbers of layers that are keys there."""
    config, tensors, numbers = checkpoint.config, {}, {}
    rows: dict[str, list[Any]] = {}
    for name in sorted(checkpoint.weights.names(), key=_by_number):
        stored = checkpoint.weights.read(name)
        if ".act_fn." in name:
            key = name.rpartition(".")[2]
            numbers.setdefault(f"xielu.{key}", []).append(float(stored.reshape(())))
            continue
        for made, tensor in form.prepared(name, stored, config).items():
            whole = _together(form, made)
            if whole is not None:
                rows.setdefault(whole, []).append(converted(form, made, tensor, config))
            else:
                tensors[gguf_name(form, made)] = converted(form, made, tensor, config)
    stacked = {name: np.stack(each) for name, each in rows.items()}
    return {**tensors, **stacked, **form.extra(config)}, numbers


def write_gguf(
    path: Path, form: Form, checkpoint: Checkpoint, *, tokenizer: Tokenizer = BYTES, **changes: Any
) -> Path:
    """The checkpoint in one file; `changes` are of keys, and None drops one."""
    writer = gguf.GGUFWriter(path, form.arch)
    keys = {**form.keys(checkpoint.config), **changes}
    tensors, numbers = tensors_of(form, checkpoint)
    for key, value in {**{f"{form.arch}.{key}": keys[key] for key in keys}, **numbers}.items():
        if value is not None:
            add_value(writer, key, value)
    write_tokenizer(writer, tokenizer)
    for name, tensor in tensors.items():
        writer.add_tensor(name, np.ascontiguousarray(tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    tokenizer.save(str(path.parent / "tokenizer.json"))
    return path


def write_tokenizer(writer: gguf.GGUFWriter, tokenizer: Tokenizer) -> None:
    """A tokenizer without merges."""
    size = tokenizer.get_vocab_size()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([tokenizer.id_to_token(index) or "" for index in range(size)])
    writer.add_token_types([1] * size)
    writer.add_token_merges(["a b"])  # llama.cpp asks for one; these two are no token together
    writer.add_eos_token_id(1)
    writer.add_pad_token_id(0)


def with_own_head(folder: Path) -> Any:
    """The T5 in a folder with a head of its own, there and as a model of transformers."""
    import transformers

    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"] = tensors["shared.weight"][::-1].copy()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    del config["scale_decoder_outputs"]
    config["tie_word_embeddings"] = False
    (folder / "config.json").write_text(json.dumps(config))
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()


def write_source(folder: Path, form: Form) -> tuple[Any, Checkpoint]:
    """The model of transformers, and its checkpoint in a folder."""
    (case,) = (case for case in CASES if case.model == form.model)
    keys, sizes = {**case.keys, **form.changes}, {**case.sizes, **form.changes}
    model = write_model(replace(case, keys=keys, sizes=sizes), folder)
    if form.own_head:
        model = with_own_head(folder)
    BYTES.save(str(folder / "tokenizer.json"))
    return model, open_checkpoint(Source(folder, "model"))
