"""Compares an exported model with the original in transformers, graph by graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from optimum.exporters.tasks import TasksManager
from optimum.utils import NormalizedConfigManager

from edgespec.artifact import graph_io, manifest
from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.sources import transformers_place
from edgespec_export.checkpoint.transformers_config import transformers_config

__all__ = ["TOLERANCE", "differences"]

TOLERANCE = 1e-3  # largest |difference| of a logit or of a cross-attention key or value
PROMPT_LENGTH = 23
TEXT_LENGTH = 12
TASKS = {"t5": "text2text-generation", "llama": "text-generation"}


class Scored(Protocol):
    """What is compared: a `edgespec.core.model.Model` that shows its cross-attention inputs."""

    def prefill(self, prompt: Sequence[int]) -> int: ...
    def score(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]: ...
    def cross_attention(self) -> Mapping[str, npt.NDArray[np.float32]]: ...


def differences(source: Path, exported: manifest.Exported, model: Any) -> dict[str, float]:
    """Largest |difference| of each graph's outputs on random tokens: graph name to number.

    Args:
        source: the checkpoint folder or GGUF file, read by transformers in float32.
        exported: what was written from it.
        model: runs it (`Scored`).
    """
    return _differences(_reference(source, exported), exported, model)


def _differences(reference: Any, exported: manifest.Exported, model: Scored) -> dict[str, float]:
    generator = np.random.default_rng(0)
    prompt, text = (
        [int(token) for token in generator.integers(exported.vocab_size, size=size)]
        for size in (PROMPT_LENGTH, TEXT_LENGTH)
    )
    pending = model.prefill(prompt)
    half = len(text) // 2  # two calls, so that the second one reads the cache
    logits = [model.score(part).copy() for part in ([pending, *text[:half]], text[half:])]
    result = {}
    with torch.inference_mode():
        if not exported.is_encoder_decoder:
            output = reference(torch.tensor([[*prompt, *text]]), use_cache=False)
            expected = output.logits[0, len(prompt) - 1 :]
        else:
            output = reference(
                input_ids=torch.tensor([prompt]),
                decoder_input_ids=torch.tensor([[pending, *text]]),
                use_cache=False,
            )
            expected = output.logits[0]
            result[graph_io.ENCODER] = _cross_difference(reference, output, model)
    result[graph_io.DECODER] = _distance(np.concatenate(logits), expected)
    return result


def _reference(source: Path, exported: manifest.Exported) -> Any:
    """The original in float32, in evaluation mode."""
    place, options = transformers_place(source)
    try:
        original = TasksManager.get_model_class_for_task(TASKS[exported.family], framework="pt")
        reference = original.from_pretrained(
            place, config=transformers_config(source), dtype=torch.float32, **options
        ).eval()
    except Exception as error:
        raise EdgespecError(
            f"transformers cannot load {source} to verify it: {type(error).__name__}: {error}"
        ) from error
    config = NormalizedConfigManager.get_normalized_config_class(reference.config.model_type)(
        reference.config
    )
    if config.vocab_size != exported.vocab_size:
        raise EdgespecError(
            f"transformers reads {config.vocab_size} tokens from {source}, the export has "
            f"{exported.vocab_size}"
        )
    return reference


def _cross_difference(reference: Any, output: Any, model: Scored) -> float:
    """Keys and values of every decoder layer's cross-attention, from the original's encoder."""
    hidden = output.encoder_last_hidden_state
    ours = model.cross_attention()
    worst = []
    for layer, block in enumerate(reference.decoder.block):
        attention = block.layer[1].EncDecAttention
        for name, project in zip(
            graph_io.cross_names(layer), (attention.k, attention.v), strict=True
        ):
            _, heads, _, size = ours[name].shape
            expected = project(hidden)[0].reshape(-1, heads, size).transpose(0, 1)
            worst.append(_distance(ours[name][0], expected))
    return float(np.max(worst))


def _distance(ours: npt.NDArray[np.float32], expected: torch.Tensor) -> float:
    return float(np.abs(ours - expected.numpy()).max())
