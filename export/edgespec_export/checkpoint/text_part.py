"""The text model in a checkpoint of a model that also reads images or sound.

Such a config (`…ForConditionalGeneration`) has a whole config of the text model, and the tensors of
that have a prefix. The rest of the checkpoint is left out: without images it changes no text.
"""

from __future__ import annotations

import logging
import re

from edgespec_export.checkpoint.json_file import JsonObject
from edgespec_export.checkpoint.weights import Tensor, Weights, missing_tensor, read_rows

__all__ = ["TextPart", "plain_name", "text_part"]

TEXT = "text_config"
HEAD = "lm_head.weight"
TIED = "tie_word_embeddings"
# The type of the text model where its config does not say it.
TYPES = {
    **{"gemma3": "gemma3_text", "gemma4": "gemma4_text", "llava": "llama", "llava_next": "llama"},
    **{"mistral3": "mistral", "lfm2_vl": "lfm2", "lfm3_vl": "lfm3"},
    **{"qwen3_5": "qwen3_5_text", "qwen3_vl": "qwen3_vl_text"},
}
# What the outer config says for both.
SHARED = (
    *("transformers_version", "quantization_config", "quantization"),
    *("eos_token_id", "bos_token_id", "pad_token_id"),
)
_PREFIX = re.compile(r"(?:model\.)?(?:language_model|text_model)\.(?:model\.)?")
_TEXT_MODEL_NAME = re.compile(r"model\.(layers\.|embed_tokens\.|norm\.)|lm_head\.|mtp\.")

_log = logging.getLogger("edgespec")


def text_part(config: JsonObject, weights: Weights, label: str) -> tuple[JsonObject, Weights]:
    """The config and the tensors of a checkpoint's text model; of any other as they are."""
    text = config.get(TEXT)
    if not isinstance(text, dict):
        return config, weights
    text = {"model_type": TYPES.get(str(config.get("model_type"))), **text}
    _log.info("%s: its text model (%s) alone", label, text["model_type"])
    part = TextPart(weights)
    shared = {key: config[key] for key in SHARED if key in config and text.get(key) is None}
    tied = config.get(TIED, text.get(TIED, HEAD not in part.names()))
    return {**text, **shared, TIED: tied}, part


class TextPart:
    """The tensors of the text model, by the names that they have without the other parts."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        names = {name: plain_name(name) for name in weights.names()}
        self._stored = {plain: name for name, plain in names.items() if plain is not None}

    def names(self) -> list[str]:
        return sorted(self._stored)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._weights.shape(self._name(name))

    def read(self, name: str) -> Tensor:
        return self._weights.read(self._name(name))

    def read_rows(self, name: str, start: int, stop: int) -> Tensor:
        return read_rows(self._weights, self._name(name), start, stop)

    def _name(self, name: str) -> str:
        if name not in self._stored:
            raise missing_tensor("the checkpoint's text model", name, self._stored)
        return self._stored[name]


def plain_name(name: str) -> str | None:
    """The name in a checkpoint of the text model; None for a tensor of another part."""
    found = _PREFIX.match(name)
    if found is None:
        return name if _TEXT_MODEL_NAME.match(name) else None
    rest = name[found.end() :]
    return rest if rest.startswith("lm_head.") else f"model.{rest}"
