"""The texts that a model is calibrated on."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from tokenizers import Tokenizer

from edgespec.artifact.text_file import read_text
from edgespec.errors import UsageError

__all__ = ["BUILT_IN", "NONE", "calibration_texts", "windows"]

# What can be asked for instead of a file.
BUILT_IN = "built-in"
NONE = "none"
SEPARATOR = "\n%%\n"
WINDOW = 512  # tokens of a call
MAX_TOKENS = 32768  # what comes after them is not read


def calibration_texts(asked: str) -> list[str]:
    """The texts of `BUILT_IN`, no text for `NONE`, or those of a file, separated by lines of "%%".

    Raises:
        UsageError: the file cannot be read, is not UTF-8 or has no text.
    """
    if asked == NONE:
        return []
    if asked == BUILT_IN:
        return _separated(
            (files("edgespec_export.calibration") / "texts.txt").read_text(encoding="utf-8")
        )
    try:
        texts = _separated(read_text(Path(asked)))
    except UsageError as error:
        raise UsageError(f"calibration: {error}") from None
    if not texts:
        raise UsageError(f"calibration: {asked} has no text; `none` calibrates on nothing")
    return texts


def _separated(text: str) -> list[str]:
    return [part.strip() for part in text.split(SEPARATOR) if part.strip()]


def windows(
    tokenizer: Tokenizer, texts: Iterable[str], positions: int | None = None
) -> list[list[int]]:
    """Token ids of texts, in pieces of at most `WINDOW`, up to `MAX_TOKENS` together.

    Args:
        positions: the most that the model has, if there is a limit.
    """
    length = min(WINDOW, positions or WINDOW)
    pieces: list[list[int]] = []
    left = MAX_TOKENS
    for text in texts:
        ids = tokenizer.encode(text).ids[:left]
        pieces += [ids[at : at + length] for at in range(0, len(ids), length)]
        left -= len(ids)
    return pieces
