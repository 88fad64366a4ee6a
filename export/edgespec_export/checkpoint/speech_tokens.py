"""The tokens of a Whisper that are no text, from its tokenizer and its generation config."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tokenizers import AddedToken, Tokenizer

from edgespec.artifact.speech_format import SpeechFormat
from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.json_file import JsonValue

__all__ = ["speech_format", "with_timestamps"]

END, START, NO_TIMESTAMPS = "<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>"
TRANSCRIBE, TRANSLATE, PREVIOUS = "<|transcribe|>", "<|translate|>", "<|startofprev|>"
NO_SPEECH = ("<|nospeech|>", "<|nocaptions|>")  # newer and older checkpoints
LANGUAGE = re.compile(r"<\|([a-z]{2,3})\|>")
FIRST_TIMESTAMP = "<|0.00|>"
TIMESTAMPS_PER_SECOND = 50
# GPT-2's own token; the tokenizer of multilingual models has it one later.
ENGLISH_END = 50256


def with_timestamps(tokenizer: Tokenizer, steps: int) -> Tokenizer:
    """The tokenizer with tokens for 0 s to the end of a window of `steps`, which some files lack.

    Its order of tokens is that of the model: timestamps come last.
    """
    if tokenizer.token_to_id(FIRST_TIMESTAMP) is None:
        times = (step / TIMESTAMPS_PER_SECOND for step in range(steps + 1))
        # No special tokens, as in the files that have them.
        tokenizer.add_tokens([AddedToken(f"<|{time:.2f}|>") for time in times])
    return tokenizer


def speech_format(
    tokenizer: Tokenizer,
    generation: Mapping[str, JsonValue],
    *,
    mel_bins: int,
    frames: int,
    vocab_size: int,
    label: str,
) -> SpeechFormat:
    """The speech format of a Whisper.

    Args:
        tokenizer: with timestamps.
        generation: a `generation_config.json`.
        mel_bins, frames: of the spectrogram that the encoder reads.

    Raises:
        EdgespecError: the tokenizer lacks a token, or has one that the model lacks.
    """

    def optional(*names: str) -> int | None:
        found = (tokenizer.token_to_id(name) for name in names)
        return next((token for token in found if token is not None), None)

    def needed(name: str) -> int:
        token = optional(name)
        if token is None or token >= vocab_size:
            raise EdgespecError(
                f"{label}: its tokenizer has no token {name} that the model has; take the "
                "tokenizer.json of the same checkpoint"
            )
        return token

    start = needed(START)
    # A model of English has these tokens, too, and was not trained with them.
    explicit = generation.get("is_multilingual")
    multilingual = explicit if isinstance(explicit, bool) else needed(END) != ENGLISH_END
    languages = {
        match[1]: token
        for name, token in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        if (match := LANGUAGE.fullmatch(name)) and start < token < vocab_size
    }
    return SpeechFormat(
        mel_bins=mel_bins,
        frames=frames,
        end=needed(END),
        start=start,
        languages=languages if multilingual else {},
        transcribe=optional(TRANSCRIBE) if multilingual else None,
        translate=optional(TRANSLATE) if multilingual else None,
        previous=optional(PREVIOUS),
        no_speech=optional(*NO_SPEECH),
        no_timestamps=needed(NO_TIMESTAMPS),
        first_timestamp=needed(FIRST_TIMESTAMP),
        suppressed=_tokens(generation, "suppress_tokens", vocab_size, label),
        suppressed_first=_tokens(generation, "begin_suppress_tokens", vocab_size, label),
    )


def _tokens(
    generation: Mapping[str, JsonValue], name: str, vocab_size: int, label: str
) -> tuple[int, ...]:
    """A list of token ids in a generation config."""
    value = generation.get(name)
    listed = [] if value is None else value
    if not isinstance(listed, list):
        raise EdgespecError(f"{label}: {name} is {shortened(value)}, not a list of token ids")
    tokens = [token for token in listed if type(token) is int and 0 <= token < vocab_size]
    if len(tokens) < len(listed):
        raise EdgespecError(
            f"{label}: {name} has entries that are no tokens of the model ({vocab_size})"
        )
    return tuple(tokens)
