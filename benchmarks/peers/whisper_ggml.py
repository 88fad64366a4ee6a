"""Writes a Whisper checkpoint as a model of whisper.cpp.

    python benchmarks/peers/whisper_ggml.py CHECKPOINT MODEL.bin [--bits 8]

The format is that of whisper.cpp's models: sizes, mel filters, vocabulary, tensors. With 8 bits,
matrices are Q8_0 as whisper.cpp's own tool makes them: blocks of 32 numbers with a float16 scale;
convolutions stay float16.
"""

from __future__ import annotations

import argparse
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from edgespec.audio.log_mel import mel_filters
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import Source

MAGIC = 0x67676D6C
F32, F16, Q8_0 = 0, 1, 8  # types of a tensor
MODEL_TYPES = {16: 1, 8: 7}  # of a model, by bits
BLOCK = 32
WORDS = 50_257  # tokens of text that are not special; English-only models have one less

# Names of transformers and of whisper.cpp, parts in this order.
PARTS = (
    ("model.", ""),
    (".layers.", ".blocks."),
    ("embed_positions.weight", "positional_embedding"),
    ("decoder.embed_tokens.", "decoder.token_embedding."),
    ("decoder.layer_norm.", "decoder.ln."),
    ("encoder.layer_norm.", "encoder.ln_post."),
    ("self_attn_layer_norm", "attn_ln"),
    ("encoder_attn_layer_norm", "cross_attn_ln"),
    ("final_layer_norm", "mlp_ln"),
    ("self_attn.", "attn."),
    ("encoder_attn.", "cross_attn."),
    ("q_proj", "query"),
    ("k_proj", "key"),
    ("v_proj", "value"),
    ("out_proj", "out"),
    ("fc1", "mlp.0"),
    ("fc2", "mlp.2"),
)


def renamed(name: str) -> str:
    for theirs, ours in PARTS:
        name = name.replace(theirs, ours)
    return name


def byte_of_character() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    characters = [*map(chr, printable), *(chr(256 + index) for index in range(len(others)))]
    return dict(zip(characters, [*printable, *others], strict=True))


def q8_0(matrix: npt.NDArray[np.float32]) -> bytes:
    """Blocks of 32 numbers, each a float16 scale and 32 int8."""
    blocks = matrix.reshape(-1, BLOCK)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / 127
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    packed = np.empty(len(blocks), [("scale", "<f2"), ("numbers", "i1", BLOCK)])
    packed["scale"] = scale[:, 0]
    packed["numbers"] = np.rint(blocks * inverse)
    return packed.tobytes()


def encoded(name: str, tensor: npt.NDArray[np.float32], bits: int) -> tuple[int, bytes]:
    """A tensor's type and its numbers."""
    if tensor.ndim < 2 or name.endswith(("conv1.bias", "conv2.bias", "positional_embedding")):
        return F32, tensor.astype("<f4").tobytes()
    if bits == 16 or tensor.ndim > 2:
        return F16, tensor.astype("<f2").tobytes()
    return Q8_0, q8_0(tensor)


def vocabulary(tokenizer_words: dict[int, str], count: int) -> Iterator[bytes]:
    bytes_of = byte_of_character()
    for token in range(count):
        yield bytes(bytes_of[character] for character in tokenizer_words[token])


def write(source: Path, file: BinaryIO, bits: int) -> None:
    checkpoint = open_checkpoint(Source(source, source.name))
    config = checkpoint.config
    sizes = (
        "vocab_size max_source_positions d_model encoder_attention_heads encoder_layers "
        "max_target_positions d_model decoder_attention_heads decoder_layers num_mel_bins"
    ).split()
    numbers = [int(str(config[size])) for size in sizes]
    file.write(struct.pack("<12i", MAGIC, *numbers, MODEL_TYPES[bits]))
    filters = np.ascontiguousarray(mel_filters(numbers[-1]), "<f4")
    file.write(struct.pack("<2i", *filters.shape))
    file.write(filters.tobytes())
    ids = {token: word for word, token in checkpoint.tokenizer.get_vocab().items()}
    count = WORDS if numbers[0] >= 51_865 else WORDS - 1
    file.write(struct.pack("<i", count))
    for word in vocabulary(ids, count):
        file.write(struct.pack("<i", len(word)))
        file.write(word)
    for name in checkpoint.weights.names():
        tensor = np.asarray(checkpoint.weights.read(name), np.float32)
        ours = renamed(name)
        if ours.startswith("proj_out"):
            continue  # the embedding
        if ours.endswith(("conv1.bias", "conv2.bias")):
            tensor = tensor[:, None]
        kind, data = encoded(ours, tensor, bits)
        spelled = ours.encode()
        file.write(struct.pack("<3i", tensor.ndim, len(spelled), kind))
        file.write(struct.pack(f"<{tensor.ndim}i", *reversed(tensor.shape)))
        file.write(spelled)
        file.write(data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--bits", type=int, choices=MODEL_TYPES, default=16)
    options = parser.parse_args()
    with options.model.open("wb") as file:
        write(options.checkpoint, file, options.bits)


if __name__ == "__main__":
    main()
