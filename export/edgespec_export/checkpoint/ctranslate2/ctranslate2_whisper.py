"""A Whisper in a folder of CTranslate2's, with the names and the config of its original."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.ctranslate2.model_bin import ModelBin
from edgespec_export.checkpoint.json_file import JsonObject
from edgespec_export.checkpoint.weights import Tensor, missing_tensor

__all__ = ["MODEL_BIN", "CTranslate2Whisper"]

MODEL_BIN = "model.bin"
SPECIFICATION = "WhisperSpec"
ACTIVATIONS = {0: "relu", 1: "gelu_new", 2: "silu", 3: "gelu"}  # CTranslate2's numbers
# What the model computes otherwise if these are not as in a Whisper.
EXPECTED = {"pre_norm": 1, "scale_embeddings": 0, "alibi": 0, "start_from_zero_embedding": 0}


@dataclass(frozen=True)
class _Rows:
    """A part of a stored array.

    Attributes:
        part, parts: which of how many equal parts of its rows.
    """

    name: str
    part: int = 0
    parts: int = 1


class CTranslate2Whisper:
    """The tensors of a Whisper, under their names in Hugging Face's checkpoints.

    CTranslate2 stores the projections that have one input as one matrix.

    Attributes:
        config: that of the original.

    Raises:
        EdgespecError: the file is damaged, or holds another model.
    """

    def __init__(self, path: Path) -> None:
        self._file = ModelBin(path)
        if self._file.specification != SPECIFICATION:
            raise EdgespecError(
                f"{path}: holds a {shortened(self._file.specification)}; of CTranslate2's models, "
                "only Whisper's are read"
            )
        try:
            self._tensors = dict(self._named())
        except KeyError as error:
            raise EdgespecError(f"{path}: has a part {error} that no Whisper has") from None
        self.config = self._config()

    def names(self) -> list[str]:
        """Every tensor's name, sorted."""
        return sorted(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """The tensor's shape."""
        rows = self._tensor(name)
        first, *others = self._file.array(rows.name).shape
        return (first // rows.parts, *others)

    def read(self, name: str) -> Tensor:
        """The tensor: as stored, or float32 if it was quantized."""
        rows = self._tensor(name)
        values = self._file.read(rows.name)
        return np.ascontiguousarray(np.split(values, rows.parts)[rows.part])

    def _tensor(self, name: str) -> _Rows:
        if name not in self._tensors:
            raise missing_tensor(self._file.path, name, self._tensors)
        return self._tensors[name]

    def _named(self) -> Iterator[tuple[str, _Rows]]:
        for stored in self._file.names():
            found = re.fullmatch(
                r"(encoder|decoder)/(.+)/(weight|bias|gamma|beta|encodings)", stored
            )
            if found is None or stored == "decoder/projection/weight":  # that is the embedding
                continue
            stack, place, kind = found.groups()
            kind = {"gamma": "weight", "beta": "bias", "encodings": "weight"}.get(kind, kind)
            for name, rows in _original(stored, place):
                yield f"model.{stack}.{name}.{kind}", rows

    def _config(self) -> JsonObject:
        for stack in ("encoder", "decoder"):
            for name, value in EXPECTED.items():
                found = self._number(f"{stack}/{name}", value)
                if found != value:
                    raise EdgespecError(
                        f"{self._file.path}: {stack}/{name} is {found}; edgespec exports only "
                        f"models with {value}"
                    )
        width, mel_bins, _ = self.shape("model.encoder.conv1.weight")
        config: JsonObject = {
            "model_type": "whisper",
            "d_model": width,
            "num_mel_bins": mel_bins,
            "vocab_size": self.shape("model.decoder.embed_tokens.weight")[0],
            "max_source_positions": self.shape("model.encoder.embed_positions.weight")[0],
            "max_target_positions": self.shape("model.decoder.embed_positions.weight")[0],
            "activation_function": self._activation(),
            "tie_word_embeddings": True,
        }
        for stack in ("encoder", "decoder"):
            layers = {m[1] for name in self._tensors if (m := _layer_of(stack, name))}
            config[f"{stack}_layers"] = len(layers)
            config[f"{stack}_ffn_dim"] = self.shape(f"model.{stack}.layers.0.fc1.weight")[0]
            config[f"{stack}_attention_heads"] = self._number(f"{stack}/num_heads", 0)
        return config

    def _activation(self) -> str:
        number = self._number("decoder/activation", 3)
        if number not in ACTIVATIONS or self._number("encoder/activation", number) != number:
            raise EdgespecError(f"{self._file.path}: its activation, number {number}, is not known")
        return ACTIVATIONS[number]

    def _number(self, name: str, default: int) -> int:
        if name not in self._file.names():
            return default
        return int(self._file.read(name).astype(np.int64))


def _layer_of(stack: str, name: str) -> re.Match[str] | None:
    return re.match(rf"model\.{stack}\.layers\.(\d+)\.", name)


def _original(stored: str, place: str) -> Iterator[tuple[str, _Rows]]:
    """The original's names of what is stored, without "model.decoder." and ".weight"."""
    fixed = {
        "embeddings": "embed_tokens",
        "position_encodings": "embed_positions",
        "layer_norm": "layer_norm",
        "conv1": "conv1",
        "conv2": "conv2",
    }
    if place in fixed:
        yield fixed[place], _Rows(stored)
        return
    found = re.fullmatch(r"layer_(\d+)/(self_attention|attention|ffn)/(\w+)", place)
    if found is None:
        yield place.replace("/", "."), _Rows(stored)  # no family knows it, and an export says so
        return
    layer, block, part = f"layers.{found[1]}", found[2], found[3]
    if block == "ffn":
        names = {"layer_norm": "final_layer_norm", "linear_0": "fc1", "linear_1": "fc2"}
        yield f"{layer}.{names[part]}", _Rows(stored)
        return
    attention = f"{layer}.{'self_attn' if block == 'self_attention' else 'encoder_attn'}"
    if part == "layer_norm":
        yield f"{attention}_layer_norm", _Rows(stored)
        return
    projections = {
        "self_attention": {"linear_0": "qkv", "linear_1": ["out"]},
        "attention": {"linear_0": "q", "linear_1": "kv", "linear_2": ["out"]},
    }[block][part]
    for index, projection in enumerate(projections):
        # The keys' bias is 0; the original has none.
        if not (projection == "k" and stored.endswith("bias")):
            yield f"{attention}.{projection}_proj", _Rows(stored, index, len(projections))
