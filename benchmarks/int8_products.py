"""Which product of a model int8 costs most: each kind of product in 8 bits alone.

    python benchmarks/int8_products.py lfm2 lfm3 qwen3

A random checkpoint of each family (width 256, 16 layers) is exported with one kind of product in 8
bits and the others in float32, rotated as int8 rotates them; printed is the distance from float32.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import transformers

from edgespec.artifact.manifest import read_manifest
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_export.quantization.formats import FORMATS
from edgespec_export.quantization.hadamard import INNER_BLOCK
from edgespec_export.quantization.int8 import Int8
from edgespec_export.quantization.int8_tables import rotated_rows

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from checkpoints import byte_tokenizer
from rotated_float import RotatedFloat

WIDTH, LAYERS, VOCABULARY = 256, 16, 512
SIZES = {
    **{"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": LAYERS},
    **{"num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 256},
    **{"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0, "tie_word_embeddings": True},
}
ATTENTION = {2, 5, 8, 10, 12, 14}  # layers of LFM2-1.2B with attention
KINDS = ["full_attention" if layer in ATTENTION else "conv" for layer in range(LAYERS)]
FAMILIES = {
    "lfm2": (
        "Lfm2",
        {"intermediate_size": 768, "block_auto_adjust_ff_dim": False, "layer_types": KINDS},
    ),
    "lfm3": ("Lfm3", {"intermediate_size": 960, "head_dim": 32, "sliding_window": 24}),
    "qwen3": ("Qwen3", {"intermediate_size": 768, "head_dim": 32}),
}
PARTS = {
    "lfm2": ["conv.in_proj", "conv.out_proj", "q_proj", "self_attn.out_proj", "w1", "w2"],
    "lfm3": ["conv.in_proj", "conv.out_proj", "q_proj", "o_proj", "w1", "w2"],
    "qwen3": ["q_proj", "o_proj", "gate_proj", "down_proj"],
}
TOKENS = np.random.default_rng(7).integers(8, VOCABULARY, size=(4, 120)).tolist()


class OneProduct(RotatedFloat):
    """Int8 of the products whose first matrix has this name, else rotated float32."""

    RANGE = Int8.RANGE
    _normed_linear = Int8._normed_linear
    _rotated_normed_linear = Int8._rotated_normed_linear
    _rotated_product = Int8._rotated_product

    def __init__(self, part: str) -> None:
        self._part = part

    def _chosen(self, linear):
        return linear.weights[0].endswith(f"{self._part}.weight")

    def linear(self, g, x, linear):
        of = Int8 if self._chosen(linear) else RotatedFloat
        return of.linear(self, g, x, linear)

    def normed_linears(self, g, x, norm, linears):
        if self._chosen(linears[0]):
            return Int8.normed_linears(self, g, x, norm, linears)
        return super().normed_linears(g, x, norm, linears)

    def down_proj(self, g, x, linear):
        if self._chosen(linear):
            return Int8.down_proj(self, g, x, linear)
        rows = rotated_rows(g, x, g.weights.shape(linear.weights[0])[1], INNER_BLOCK)
        return super(RotatedFloat, self).down_proj(g, rows, linear)


def write_model(folder: Path, family: str) -> None:
    """Matrices that keep the size of what they read, norms of 0.8 to 1.2."""
    torch.manual_seed(0)
    name, keys = FAMILIES[family]
    config = getattr(transformers, f"{name}Config")(**SIZES, **keys)
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
            else:
                size = 3 if "embed" in parameter_name else 1
                parameter.normal_(0, size * parameter.shape[-1] ** -0.5)
    model.save_pretrained(folder)
    byte_tokenizer(VOCABULARY).save(str(folder / "tokenizer.json"))


def logits_of(folder: Path, variant: str) -> np.ndarray:
    model = open_model(folder, read_manifest(folder).target, variant, min_rows=2)
    found = []
    for tokens in TOKENS:
        pending = model.prefill(tokens[:2])
        found.append(model.score([pending, *tokens[2:]]).copy())
        model.rewind(0)
    return np.concatenate(found).astype(np.float64)


def divergence(reference: np.ndarray, other: np.ndarray) -> float:
    """Mean KL in nats."""

    def logs(x):
        x = x - x.max(axis=1, keepdims=True)
        return x - np.log(np.exp(x).sum(axis=1, keepdims=True))

    p, q = logs(reference), logs(other)
    return float((np.exp(p) * (p - q)).sum(axis=1).mean())


def measure(family: str) -> None:
    with tempfile.TemporaryDirectory() as memory:
        folder = Path(memory)
        write_model(folder / "checkpoint", family)
        for part in PARTS[family]:
            make = lambda part=part: OneProduct(part)  # noqa: E731
            FORMATS[part] = replace(FORMATS["fp32"], make=make)
        formats = ["fp32", "int8", "int8-groups", *PARTS[family]]
        export_pair(
            str(folder / "checkpoint"),
            None,
            folder / "pair",
            target_formats=formats,
            measure=False,
            threads=1,
        )
        reference = logits_of(folder / "pair", "fp32")
        for name in formats[1:]:
            kl = divergence(reference, logits_of(folder / "pair", name))
            print(f"{family:6} {name:20} {kl:.4f}", flush=True)


if __name__ == "__main__":
    for family in sys.argv[1:]:
        measure(family)
