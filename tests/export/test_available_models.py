"""Claim: what `edgespec list --available` says of a model's size is what its published shape has,
and of its download what its repository holds."""

from __future__ import annotations

import math

import pytest

from edgespec_export.known.available import available_models

# d_model, d_ff, d_kv, heads, layers of the encoder and of the decoder, vocabulary; none shares its
# table of embeddings with its head.
T5 = {
    "t5-small": (512, 1024, 64, 6, 8, 8, 32128),
    "t5-base": (768, 2048, 64, 12, 12, 12, 32128),
    "t5-large": (1024, 2816, 64, 16, 24, 24, 32128),
    "t5-xl": (2048, 5120, 64, 32, 24, 24, 32128),
    "t5-xxl": (4096, 10240, 64, 64, 24, 24, 32128),
    "mt5-small": (512, 1024, 64, 6, 8, 8, 250112),
    "mt5-base": (768, 2048, 64, 12, 12, 12, 250112),
    "mt5-large": (1024, 2816, 64, 16, 24, 24, 250112),
    "mt5-xl": (2048, 5120, 64, 32, 24, 24, 250112),
    "mt5-xxl": (4096, 10240, 64, 64, 24, 24, 250112),
    "byt5-small": (1472, 3584, 64, 6, 12, 4, 384),
    "byt5-base": (1536, 3968, 64, 12, 18, 6, 384),
    "byt5-large": (1536, 3840, 64, 16, 36, 12, 384),
    "byt5-xl": (2560, 6720, 64, 32, 36, 12, 384),
    "byt5-xxl": (4672, 12352, 64, 64, 36, 12, 384),
    "madlad400-3b": (1024, 8192, 128, 16, 32, 32, 256000),
    "madlad400-7b": (2048, 8192, 128, 16, 48, 48, 256000),
    "madlad400-10b": (2048, 8192, 128, 16, 64, 64, 256000),
}
T5 |= {f"flan-{name}": shape for name, shape in T5.items() if name.startswith("t5-")}
# Width, d_ff, layers, heads, heads of keys, width of a head, vocabulary, tables of it.
DECODERS = {
    "smollm2-135m": (576, 1536, 30, 9, 3, 64, 49152, 1),
    "smollm2-360m": (960, 2560, 32, 15, 5, 64, 49152, 1),
    "smollm2-1.7b": (2048, 8192, 24, 32, 32, 64, 49152, 1),
    "qwen2.5-0.5b": (896, 4864, 24, 14, 2, 64, 151936, 1),
    "qwen2.5-1.5b": (1536, 8960, 28, 12, 2, 128, 151936, 1),
    "qwen2.5-3b": (2048, 11008, 36, 16, 2, 128, 151936, 1),
    "qwen2.5-7b": (3584, 18944, 28, 28, 4, 128, 152064, 2),
    "qwen2.5-14b": (5120, 13824, 48, 40, 8, 128, 152064, 2),
    "qwen2.5-32b": (5120, 27648, 64, 40, 8, 128, 152064, 2),
    "qwen2.5-72b": (8192, 29568, 80, 64, 8, 128, 152064, 2),
    "qwen3-0.6b": (1024, 3072, 28, 16, 8, 128, 151936, 1),
    "qwen3-1.7b": (2048, 6144, 28, 16, 8, 128, 151936, 1),
    "qwen3-4b": (2560, 9728, 36, 32, 8, 128, 151936, 1),
    "qwen3-8b": (4096, 12288, 36, 32, 8, 128, 151936, 2),
    "qwen3-14b": (5120, 17408, 40, 40, 8, 128, 151936, 2),
    "qwen3-32b": (5120, 25600, 64, 64, 8, 128, 151936, 2),
    "gemma3-270m": (640, 2048, 18, 4, 1, 256, 262144, 1),
    "gemma3-1b": (1152, 6912, 26, 4, 1, 256, 262144, 1),
    "gemma3-4b": (2560, 10240, 34, 8, 4, 256, 262208, 1),
    "gemma3-12b": (3840, 15360, 48, 16, 8, 256, 262208, 1),
    "gemma3-27b": (5376, 21504, 62, 32, 16, 128, 262208, 1),
    "llama3.2-1b": (2048, 8192, 16, 32, 8, 64, 128256, 1),
    "llama3.2-3b": (3072, 8192, 28, 24, 8, 128, 128256, 1),
    "llama3.1-8b": (4096, 14336, 32, 32, 8, 128, 128256, 2),
    "llama3.1-70b": (8192, 28672, 80, 64, 8, 128, 128256, 2),
    "llama3.3-70b": (8192, 28672, 80, 64, 8, 128, 128256, 2),
}
# Bytes of the weights in the repositories, as the hub shows them, where these hold more than the
# target: a second copy of the table, or a part that sees.
DOWNLOADS = {"qwen3-0.6b": 1.50e9, "qwen3-1.7b": 4.06e9, "gemma3-4b": 8.60e9}
MODELS = {model.name: model for model in available_models()}


def of_t5(width: int, inner: int, head: int, heads: int, reads: int, writes: int, words: int):
    attention, feed_forward = 4 * width * heads * head, 3 * width * inner
    encoder = reads * (attention + feed_forward)
    return 2 * words * width + encoder + writes * (2 * attention + feed_forward)


def of_decoder(width: int, inner: int, layers: int, heads: int, keys: int, head: int, *words: int):
    attention = 2 * width * head * (heads + keys)
    return math.prod(words) * width + layers * (attention + 3 * width * inner)


def test_every_short_name_has_a_shape_here():
    assert {*T5, *DECODERS} == {*MODELS}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_the_parameters_of_its_shape(name):
    """Norms and biases, which are not counted here, are less than a hundredth."""
    counted = of_t5(*T5[name]) if name in T5 else of_decoder(*DECODERS[name])
    assert MODELS[name].parameters == pytest.approx(counted, rel=0.01)


@pytest.mark.parametrize("name", DOWNLOADS)
def test_a_download_is_what_the_repository_holds(name):
    model = MODELS[name]
    draft = 268e6 * 2 if name == "gemma3-4b" else 0
    assert model.download_bytes - draft == pytest.approx(DOWNLOADS[name], rel=0.01)
