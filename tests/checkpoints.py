"""Random checkpoints as Hugging Face writes them, small enough to export within a test.

The default sizes are unusual on purpose: an odd number of layers, three heads, heads of size ten.
A target that must be row-invariant needs heads of size 16. The weights are drawn so that attention
depends on the context and logits have a standard deviation of about `spread`: greedy texts vary,
and sampled texts are not predictable.

    target = write_llama(tmp_path / "target")
    draft = write_noisy(target, tmp_path / "draft", noise=0.1)  # often agrees with its target
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

PAD, EOS, UNK = 0, 1, 2
SPECIAL = ["<pad>", "</s>", "<unk>"]

# Standard deviation of attention scores, and gain of the attention output.
PEAKED, LOUD = 3.0, 2.0


def word_tokenizer(vocab_size: int, *, append_eos: bool = False) -> Tokenizer:
    """<pad> </s> <unk> w3 w4 …: each word is a token."""
    words = [*SPECIAL, *(f"w{index}" for index in range(len(SPECIAL), vocab_size))][:vocab_size]
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=words[min(UNK, vocab_size - 1)]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return _with_special_tokens(tokenizer, words[: len(SPECIAL)], append_eos)


def byte_tokenizer(vocab_size: int = 320, *, append_eos: bool = False) -> Tokenizer:
    """<pad> </s> <unk>, then 256 bytes, then filler: an emoji is four tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*SPECIAL, *alphabet]
    tokens += [f"Ġfiller{index}" for index in range(vocab_size - len(tokens))]
    assert len(tokens) == vocab_size, f"a byte tokenizer has at least {len(tokens)} tokens"
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return _with_special_tokens(tokenizer, SPECIAL, append_eos)


def character_tokenizer(vocab_size: int) -> Tokenizer:
    """<pad> </s> <unk>, ASCII, then Chinese characters: one token each, so that encoding a decoded
    text gives the same tokens."""
    characters = ["\n", *map(chr, range(0x20, 0x7F)), *map(chr, range(0x4E00, 0x9000))]
    tokens = [*SPECIAL, *characters][:vocab_size]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token=SPECIAL[UNK]))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_tokens([SPECIAL[PAD], SPECIAL[UNK]])
    return _with_special_tokens(tokenizer, [SPECIAL[EOS]], append_eos=False)


def write_llama(
    folder: Path,
    *,
    vocab_size: int = 11,
    layers: int = 3,
    heads: int = 3,
    kv_heads: int | None = None,
    head_size: int = 10,
    width: int | None = None,
    inner: int | None = None,
    seed: int = 0,
    spread: float = 2.0,
    model_type: str = "llama",
    tokenizer: Tokenizer | None = None,
    **config: Any,
) -> Path:
    """A llama, mistral, qwen2 or qwen3.

    Args:
        kv_heads, width, inner: default to `heads`, `heads * head_size` and `width + 3`; `inner` is
            the width of the feed-forward layer.
        config: keys to add or change; None drops one. `tie_word_embeddings`, `attention_bias` and
            `mlp_bias` also determine which tensors are written.
    """
    kv_heads = kv_heads or heads
    width = width or heads * head_size
    inner = inner or width + 3
    settings = {
        "architectures": [f"{model_type.capitalize()}ForCausalLM"],
        "model_type": model_type,
        "vocab_size": vocab_size,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_size,
        "hidden_act": "silu",
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "use_cache": True,
        "bos_token_id": EOS,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
    }
    if model_type == "mistral":
        settings["sliding_window"] = None  # null is no window; a missing key is the default window
    settings = _changed(settings, config)
    qkv_bias = model_type == "qwen2" or settings.get("attention_bias", False)
    draw = _Drawn(seed)
    draw.matrix("model.embed_tokens", vocab_size, width, spread)
    for layer in range(layers):
        at = f"model.layers.{layer}"
        draw.norm(f"{at}.input_layernorm", width)
        for part, count, gain in (("q", heads, PEAKED), ("k", kv_heads, 1), ("v", kv_heads, 1)):
            rows = count * head_size
            draw.matrix(f"{at}.self_attn.{part}_proj", rows, width, gain, bias=qkv_bias)
        o_bias = settings.get("attention_bias", False)
        draw.matrix(f"{at}.self_attn.o_proj", width, heads * head_size, LOUD, bias=o_bias)
        if model_type == "qwen3":
            draw.norm(f"{at}.self_attn.q_norm", head_size)
            draw.norm(f"{at}.self_attn.k_norm", head_size)
        draw.norm(f"{at}.post_attention_layernorm", width)
        mlp_bias = settings.get("mlp_bias", False)
        draw.matrix(f"{at}.mlp.gate_proj", inner, width, bias=mlp_bias)
        draw.matrix(f"{at}.mlp.up_proj", inner, width, bias=mlp_bias)
        draw.matrix(f"{at}.mlp.down_proj", width, inner, bias=mlp_bias)
    draw.norm("model.norm", width, mean=0)
    if not settings["tie_word_embeddings"]:
        draw.matrix("lm_head", vocab_size, width, spread)
    return _write(folder, settings, draw.tensors, tokenizer or word_tokenizer(vocab_size))


def write_small_llama(folder: Path, tokenizer: Tokenizer | None = None, **config: Any) -> Path:
    """A Llama of 272 tokens that can be row-invariant; its default tokens are bytes."""
    return write_llama(
        folder,
        vocab_size=272,
        tokenizer=tokenizer or byte_tokenizer(272),
        heads=2,
        head_size=16,
        layers=2,
        **config,
    )


def write_t5(
    folder: Path,
    *,
    vocab_size: int = 11,
    layers: int = 3,
    encoder_layers: int = 1,
    heads: int = 3,
    head_size: int = 10,
    width: int = 26,
    inner: int | None = None,
    seed: int = 0,
    spread: float = 2.0,
    gated: bool = False,
    tokenizer: Tokenizer | None = None,
    **config: Any,
) -> Path:
    """A T5: v1.0 (relu, tied head), or with `gated` v1.1 (gated gelu, separate head).

    Args:
        config: keys to add or change; None drops one. `tie_word_embeddings` and
            `feed_forward_proj` also determine which tensors are written.
    """
    inner = inner or width + 3
    settings = _changed(
        {
            "architectures": ["T5ForConditionalGeneration"],
            "model_type": "t5",
            "vocab_size": vocab_size,
            "d_model": width,
            "d_kv": head_size,
            "d_ff": inner,
            "num_layers": encoder_layers,
            "num_decoder_layers": layers,
            "num_heads": heads,
            "relative_attention_num_buckets": 8,
            "relative_attention_max_distance": 20,
            "dropout_rate": 0.0,
            "layer_norm_epsilon": 1e-6,
            "feed_forward_proj": "gated-gelu" if gated else "relu",
            "tie_word_embeddings": not gated,
            "is_encoder_decoder": True,
            "use_cache": True,
            "decoder_start_token_id": PAD,
            "eos_token_id": EOS,
            "pad_token_id": PAD,
        },
        config,
    )
    tied = settings["tie_word_embeddings"]
    draw = _Drawn(seed)
    # With a tied head T5 multiplies its input by width^-½.
    draw.matrix("shared", vocab_size, width, spread * (width**0.5 if tied else 1))
    for stack, count in (("encoder", encoder_layers), ("decoder", layers)):
        attentions = ("SelfAttention", "EncDecAttention")[: 1 if stack == "encoder" else 2]
        for layer in range(count):
            block = f"{stack}.block.{layer}.layer"
            for index, attention in enumerate(attentions):
                at = f"{block}.{index}.{attention}"
                draw.norm(f"{block}.{index}.layer_norm", width)
                # T5 does not scale its scores, so its queries are small.
                draw.matrix(f"{at}.q", heads * head_size, width, PEAKED * head_size**-0.5)
                draw.matrix(f"{at}.k", heads * head_size, width)
                draw.matrix(f"{at}.v", heads * head_size, width)
                draw.matrix(f"{at}.o", width, heads * head_size, LOUD)
            if layer == 0:
                buckets = settings["relative_attention_num_buckets"]
                table = f"{block}.0.SelfAttention.relative_attention_bias"
                draw.matrix(table, buckets, heads, heads**0.5)
            last = len(attentions)
            dense = f"{block}.{last}.DenseReluDense"
            draw.norm(f"{block}.{last}.layer_norm", width)
            for wi in ("wi_0", "wi_1") if "gated" in settings["feed_forward_proj"] else ("wi",):
                draw.matrix(f"{dense}.{wi}", inner, width)
            draw.matrix(f"{dense}.wo", width, inner)
        draw.norm(f"{stack}.final_layer_norm", width, mean=0)
    if not tied:
        draw.matrix("lm_head", vocab_size, width, spread)
    tokenizer = tokenizer or word_tokenizer(vocab_size, append_eos=True)
    return _write(folder, settings, draw.tensors, tokenizer)


def write_circle(folder: Path, tokens: Sequence[int], tokenizer: Tokenizer) -> Path:
    """A Llama whose greedy text repeats `tokens` in a cycle."""
    size = tokenizer.get_vocab_size()
    write_llama(
        folder, vocab_size=size, width=size, layers=1, heads=2, head_size=16, tokenizer=tokenizer
    )
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in tensors.items():
        tensors[name] = np.ones_like(tensor) if "norm" in name else np.zeros_like(tensor)
    tensors["model.embed_tokens.weight"] = np.eye(size, dtype=np.float32)
    for token, follower in zip(tokens, [*tokens[1:], tokens[0]], strict=True):
        tensors["lm_head.weight"][follower, token] = 1
    save_file(tensors, folder / "model.safetensors")
    return folder


def write_noisy(source: Path, folder: Path, *, noise: float, seed: int = 1) -> Path:
    """A draft for `source`: its tensors plus normal noise of `noise` times their deviation."""
    generator = np.random.default_rng(seed)
    tensors = {
        name: tensor
        + noise
        * tensor.std()
        * generator.standard_normal(tensor.shape, np.float32)  # a constant tensor does not change
        for name, tensor in load_file(source / "model.safetensors").items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    save_file(tensors, folder / "model.safetensors")
    return folder


def change_tensors(folder: Path, **changes: Any) -> None:
    """Rewrites the checkpoint: fills the tensors whose names end with a keyword.

    Underscores in a keyword match dots: `norm_weight=np.nan`. None drops the tensors.
    """
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for ending, value in changes.items():
        named = [name for name in tensors if name.replace(".", "_").endswith(ending)]
        assert named, f"no tensor ends with {ending}"
        for name in named:
            if value is None:
                del tensors[name]
            else:
                tensors[name] = np.full_like(tensors[name], value)
    save_file(tensors, path)


def add_tensor(folder: Path, name: str, like: str, *, noise: float = 0.0, seed: int = 5) -> Path:
    """Adds a tensor to the checkpoint: a copy of the tensor `like`, plus noise."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    drawn = np.random.default_rng(seed).standard_normal(tensors[like].shape, np.float32)
    save_file({**tensors, name: tensors[like] + noise * tensors[like].std() * drawn}, path)
    return folder


class _Drawn:
    """Tensors drawn from one generator, in the order of the calls."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self.tensors: dict[str, np.ndarray] = {}

    def matrix(
        self, name: str, rows: int, columns: int, gain: float = 1.0, *, bias: bool = False
    ) -> None:
        """Maps vectors of standard deviation 1 to vectors of standard deviation `gain`."""
        scale = np.float32(gain * columns**-0.5)
        drawn = self._generator.standard_normal((rows, columns), np.float32)
        self.tensors[f"{name}.weight"] = drawn * scale
        if bias:
            self.tensors[f"{name}.bias"] = self._generator.standard_normal(rows, np.float32) / 4

    def norm(self, name: str, width: int, mean: float = 1) -> None:
        """Weights around 1; around 0 before a head, where a tied head would repeat its input."""
        drawn = self._generator.standard_normal(width, np.float32)
        self.tensors[f"{name}.weight"] = mean + drawn * np.float32(1 / 8 if mean else 1)


def _with_special_tokens(tokenizer: Tokenizer, special: list[str], append_eos: bool) -> Tokenizer:
    tokenizer.add_special_tokens(special)
    if append_eos:
        ends = [(SPECIAL[EOS], EOS)]
        tokenizer.post_processor = processors.TemplateProcessing(f"$A {SPECIAL[EOS]}", None, ends)
    return tokenizer


def _changed(settings: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    dropped = {key for key, value in changes.items() if value is None}
    return {key: value for key, value in {**settings, **changes}.items() if key not in dropped}


def _write(
    folder: Path, settings: dict[str, Any], tensors: dict[str, np.ndarray], tokenizer: Tokenizer
) -> Path:
    assert tokenizer.get_vocab_size() == settings["vocab_size"]
    folder.mkdir(parents=True, exist_ok=True)
    names = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
    generation = {name: settings[name] for name in names if name in settings}
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "generation_config.json").write_text(json.dumps(generation))
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file(tensors, folder / "model.safetensors")
    return folder
