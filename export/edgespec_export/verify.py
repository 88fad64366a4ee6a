"""Compares an exported model with the original in transformers, graph by graph."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
import transformers

from edgespec.artifact import graph_io, manifest
from edgespec.artifact.languages import Languages
from edgespec.audio.sample_sound import sample_log_mel
from edgespec.errors import EdgespecError, one_line
from edgespec_export.checkpoint.sources import Source
from edgespec_export.checkpoint.transformers_config import load_original
from edgespec_export.families import applied_settings, transformers_class
from edgespec_export.families.bart.token_masks import MASKED

__all__ = ["TOLERANCE", "check_difference", "differences"]

TOLERANCE = 1e-3  # largest |difference| of a logit or of a cross-attention key or value
PROMPT_LENGTH = 23
TEXT_LENGTH = 12

_log = logging.getLogger("edgespec")


class Scored(Protocol):
    """What is compared: an `edgespec.core.model.Model` that shows its cross-attention inputs."""

    def prefill(self, prompt: Sequence[int]) -> int: ...
    def score(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]: ...
    def cross_attention(self) -> Mapping[str, npt.NDArray[np.float32]]: ...


@runtime_checkable
class SpeechScored(Scored, Protocol):
    """A speech model."""

    def hear(self, log_mel: npt.NDArray[np.float32]) -> None: ...


def check_difference(name: str, difference: float) -> None:
    """Logs the difference of a graph from the original.

    Raises:
        EdgespecError: it is above `TOLERANCE`, or NaN.
    """
    _log.info("%s: max |difference| %.1e (tolerance %.0e)", name, difference, TOLERANCE)
    if not difference <= TOLERANCE:
        raise EdgespecError(
            f"{name} differs from the original by {difference:.1e}, more than {TOLERANCE:.0e}; "
            "the export was not kept"
        )


def differences(
    source: Path,
    exported: manifest.Exported,
    model: Scored,
    languages: Languages | None = None,
    adapter: Path | None = None,
) -> dict[str, float]:
    """Largest |difference| of each graph's outputs on random tokens, by the graph's name.

    Args:
        source: the checkpoint folder or GGUF file; transformers loads it in float32.
        exported: the model that was written from it.
        model: runs `exported`.
        languages: that its tokenizer is told; the graph begins a text with the target's.
        adapter: the folder of one that was merged into it.

    Raises:
        EdgespecError: transformers cannot load the checkpoint, or has another vocabulary size.
    """
    reference = _reference(Source(source, str(source), adapter), exported)
    settings = reference.generation_config
    if languages is not None and languages.target and not languages.target_is_start:
        settings.forced_bos_token_id = languages.tokens[languages.target]
    random = np.random.default_rng(0).integers(
        exported.vocab_size, size=PROMPT_LENGTH + TEXT_LENGTH
    )
    prompt, text = random[:PROMPT_LENGTH].tolist(), random[PROMPT_LENGTH:].tolist()
    sound = None
    if isinstance(model, SpeechScored):
        config = reference.config
        sound = sample_log_mel(config.num_mel_bins, 2 * config.max_source_positions)
        model.hear(sound)
    pending = model.prefill(prompt)
    half = len(text) // 2  # two calls, so that the second one reads the cache
    logits = [model.score(part).copy() for part in ([pending, *text[:half]], text[half:])]
    result = {}
    with torch.inference_mode():
        if sound is not None:
            output = reference(
                input_features=torch.tensor(sound[None]),
                decoder_input_ids=torch.tensor([[*prompt, *text]]),
                use_cache=False,
            )
            expected = output.logits[0, len(prompt) - 1 :]
            projections = list(_cross_projections(reference.get_decoder()))
            result[graph_io.ENCODER] = _cross_difference(projections, output, model)
        elif not exported.is_encoder_decoder:
            output = reference(torch.tensor([[*prompt, *text]]), use_cache=False)
            expected = output.logits[0, len(prompt) - 1 :]
        else:
            output = _with_source(reference, prompt, [pending, *text])
            expected = _masked(reference, exported, [pending, *text], output.logits[0])
            projections = list(_cross_projections(reference.get_decoder()))
            result[graph_io.ENCODER] = _cross_difference(projections, output, model)
    result[graph_io.DECODER] = _largest_difference(np.concatenate(logits), expected)
    return result


def _with_source(reference: Any, source: Sequence[int], text: Sequence[int]) -> Any:
    """What an encoder-decoder returns. Random tokens may be padding, which some would hide."""
    source_ids, ids = torch.tensor([source]), torch.tensor([text])
    return reference(
        input_ids=source_ids,
        decoder_input_ids=ids,
        attention_mask=torch.ones_like(source_ids),
        decoder_attention_mask=torch.ones_like(ids),
        use_cache=False,
    )


def _reference(source: Source, exported: manifest.Exported) -> Any:
    """The original in float32, in evaluation mode."""
    original = getattr(transformers, transformers_class(exported.family))
    try:
        reference = _loaded(original, source).eval()
    except Exception as error:
        reason = one_line(error)
        raise EdgespecError(
            f"transformers cannot load {source.path} to verify it: {type(error).__name__}: {reason}"
        ) from error
    vocab_size = reference.config.get_text_config().vocab_size
    if vocab_size != exported.vocab_size:
        raise EdgespecError(
            f"transformers reads {vocab_size} tokens from {source.path}, the export "
            f"has {exported.vocab_size}"
        )
    return reference


def _loaded(original: Any, source: Source) -> Any:
    """The original; a text model with towers beside it may be known together with them only."""
    try:
        return load_original(original, source, torch.float32)
    except ValueError as error:
        if "Unrecognized configuration class" not in str(error):
            raise
        return load_original(transformers.AutoModelForImageTextToText, source, torch.float32)


def _cross_difference(projections: Sequence[tuple[Any, Any]], output: Any, model: Scored) -> float:
    """Largest |difference| of the cross-attention's keys and values, over all decoder layers.

    Args:
        projections: of the keys and of the values of each layer.
    """
    hidden = output.encoder_last_hidden_state
    ours = model.cross_attention()
    worst = []
    for layer, of_layer in enumerate(projections):
        for name, project in zip(graph_io.cross_names(layer), of_layer, strict=True):
            _, heads, _, size = ours[name].shape
            expected = project(hidden)[0].reshape(-1, heads, size).transpose(0, 1)
            worst.append(_largest_difference(ours[name][0], expected))
    return float(np.max(worst))


def _cross_projections(decoder: Any) -> Iterator[tuple[Any, Any]]:
    """What makes the cross-attention's keys and values, in each layer of a T5, BART or T5Gemma."""
    if hasattr(decoder, "block"):
        attentions = [block.layer[1].EncDecAttention for block in decoder.block]
        yield from ((attention.k, attention.v) for attention in attentions)
    else:
        attentions = [_attention_to_source(layer) for layer in decoder.layers]
        yield from ((_keys(attention), attention.v_proj) for attention in attentions)


def _attention_to_source(layer: Any) -> Any:
    """A layer's cross-attention; T5Gemma 2 has it merged with self-attention."""
    named = (getattr(layer, name, None) for name in ("encoder_attn", "cross_attn"))
    return next((attention for attention in named if attention is not None), layer.self_attn)


def _keys(attention: Any) -> Callable[[Any], Any]:
    """What makes keys of a source: a product, and in some models a norm of each head."""
    norm = getattr(attention, "k_norm", None)
    if norm is None:
        return lambda states: attention.k_proj(states)
    return lambda states: norm(attention.k_proj(states).unflatten(-1, (-1, attention.head_dim)))


def _masked(
    reference: Any, exported: manifest.Exported, tokens: Sequence[int], logits: torch.Tensor
) -> torch.Tensor:
    """Logits as `generate` changes them by those settings that the export applies.

    Args:
        tokens: of the decoder; a row of logits follows each of them.
    """
    settings, applied = reference.generation_config, applied_settings(exported.family)
    first, words = settings.forced_bos_token_id, settings.bad_words_ids
    processors = transformers.LogitsProcessorList()
    if words and "bad_words_ids" in applied:
        processors.append(transformers.NoBadWordsLogitsProcessor(words))
    if first is not None and "forced_bos_token_id" in applied:
        processors.append(transformers.ForcedBOSTokenLogitsProcessor(first))
    rows = [
        processors(torch.LongTensor([tokens[: index + 1]]), row[None])[0]
        for index, row in enumerate(logits)
    ]
    return torch.stack(rows).clamp(min=MASKED)


def _largest_difference(ours: npt.NDArray[np.float32], expected: torch.Tensor) -> float:
    """NaN if either has one."""
    return float(np.abs(ours - expected.numpy()).max())
