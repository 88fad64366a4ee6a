"""A checkpoint's own settings for generating text, from its generation config or its GGUF metadata.

They mean what transformers takes them to mean: without `do_sample` a text is greedy. What the
checkpoint does not name is left to the reader. A value that is out of range is ignored, and so is
a setting that this package does not have; each with a line in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgespec.artifact.generation_defaults import SAMPLING, GenerationDefaults
from edgespec.core.distribution_options import Sampling, options_of
from edgespec.errors import shortened

__all__ = ["generation_defaults", "gguf_generation", "without_start"]

logger = logging.getLogger("edgespec")

BAN = -100.0  # a bias that leaves a token no probability that a float32 has

# Settings that change the text and are not applied, with the value that changes nothing.
NOT_APPLIED: dict[str, Any] = {
    "encoder_repetition_penalty": 1,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "num_beams": 1,
    "typical_p": 1,
    "top_h": None,
    "epsilon_cutoff": 0,
    "eta_cutoff": 0,
    "penalty_alpha": 0,
    "min_length": 0,
    "max_length": None,
    "max_time": None,
    "token_healing": False,
    "dola_layers": None,
    "constraints": [],
    "force_words_ids": [],
    "begin_suppress_tokens": [],
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "exponential_decay_length_penalty": None,
    "watermarking_config": None,
    "guidance_scale": 1,
    "mirostat": 0,
}

# What GGUF calls them, after "general.sampling.".
GGUF_NAMES = {
    "temp": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "penalty_repeat": "repetition_penalty",
    "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold",
    "mirostat": "mirostat",
}


def generation_defaults(settings: Mapping[str, Any], label: str) -> GenerationDefaults:
    """The settings that this package has.

    Args:
        settings: a `generation_config.json`, or `gguf_generation` of a GGUF file.
        label: of the checkpoint, for the log.
    """
    for name, neutral in NOT_APPLIED.items():
        value = settings.get(name)
        if value is not None and value != neutral:
            logger.info("%s: %s %s is not applied", label, name, shortened(value))
    found = _read(GenerationDefaults(), settings, "max_new_tokens", int, label)
    found = _with_edits(found, settings, label)
    if settings.get("do_sample") is not True:
        explicit = settings.get("do_sample") is False
        if not explicit and "temperature" in settings:
            logger.info("%s: its temperature is not applied, because do_sample is not true", label)
        return replace(found, temperature=0.0) if explicit else found
    found = replace(found, temperature=1.0)
    for name in SAMPLING:
        found = _read(
            found, settings, name, int if options_of(Sampling)[name].is_whole else float, label
        )
    return found


def without_start(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an encoder-decoder with lengths of new tokens. Its `min_length` and
    `max_length` count the token that starts the text, too."""
    left = dict(settings)
    for older, newer in (("min_length", "min_new_tokens"), ("max_length", "max_new_tokens")):
        length = left.get(older)
        if type(length) is int and length > 0:
            del left[older]
            if left.get(newer) is None:
                left[newer] = length - 1
    return left


def _with_edits(
    found: GenerationDefaults, settings: Mapping[str, Any], label: str
) -> GenerationDefaults:
    """`found` with penalties, biases, the least length and stop strings."""
    if settings.get("repetition_penalty") != 1:
        found = _read(found, settings, "repetition_penalty", float, label)
    if settings.get("min_new_tokens") != 0:
        least = {"min_tokens": settings.get("min_new_tokens")}
        found = _read(found, least, "min_tokens", int, label)
    stop = settings.get("stop_strings") or []
    stop = [stop] if isinstance(stop, str) else stop
    if isinstance(stop, list) and all(isinstance(text, str) and text for text in stop):
        found = replace(found, stop=tuple(stop))
    else:
        logger.info("%s: stop_strings is %s, which is ignored", label, shortened(stop))
    for name in ("sequence_bias", "bad_words_ids", "suppress_tokens"):
        found = _with_biases(found, settings, name, label)
    return found


def _with_biases(
    found: GenerationDefaults, settings: Mapping[str, Any], name: str, label: str
) -> GenerationDefaults:
    """`found` with the biases of one setting, where each is of one token."""
    value = settings.get(name)
    if not value:
        return found
    biases = _biases(name, value)
    try:
        if biases is None:
            raise ValueError(name)
        return replace(found, logit_bias={**found.logit_bias, **biases})
    except ValueError:
        logger.info("%s: %s %s is not applied", label, name, shortened(value))
        return found


def _biases(name: str, value: object) -> dict[str, float] | None:
    """Biases by token ids; None if the setting is of sequences of tokens, or of no tokens."""
    entries: list[Any] = value if isinstance(value, list) else []
    if name == "sequence_bias":
        pairs = entries if all(isinstance(e, list) and len(e) == 2 for e in entries) else []
    elif name == "bad_words_ids":
        pairs = [(word, BAN) for word in entries]
    else:
        pairs = [([token], BAN) for token in entries]
    alone = [isinstance(w, list) and len(w) == 1 and type(w[0]) is int for w, _ in pairs]
    return {str(word[0]): bias for word, bias in pairs} if pairs and all(alone) else None


def gguf_generation(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """`general.sampling.*` of a GGUF file, under the names of a `generation_config.json`."""
    values = {
        name: metadata[f"general.sampling.{key}"]
        for key, name in GGUF_NAMES.items()
        if f"general.sampling.{key}" in metadata
    }
    return {**values, "do_sample": True} if values.keys() & {*SAMPLING} else values


def _read(
    found: GenerationDefaults,
    settings: Mapping[str, Any],
    name: str,
    kind: type,
    label: str,
) -> GenerationDefaults:
    """`found` with one more setting, if it is there and in range."""
    value = settings.get(name)
    if value is None:
        return found
    try:
        if type(value) not in {kind, int}:
            raise ValueError(name)
        return replace(found, **{name: kind(value)})
    except ValueError:
        logger.info("%s: %s is %s, which is ignored", label, name, shortened(value))
        return found
