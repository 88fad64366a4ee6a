"""Prompts that a command measures with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgespec.artifact.text_file import read_lines
from edgespec.artifact.typed_json import read_json
from edgespec.errors import UsageError

if TYPE_CHECKING:
    from edgespec.artifact.manifest import Manifest
    from edgespec.measure.compare import Request

__all__ = ["requests_of", "texts_of"]

LENGTH = 64  # tokens
LINES = "texts"  # the kind of a file's lines


def texts_of(manifest: Manifest, file: Path | None) -> list[str]:
    """The lines of a file, or built-in prompts of the kind that the pair is for."""
    if file is not None:
        return read_lines(file)
    from edgespec.pair.opening.sample_prompts import prompts_for

    return [prompt for prompts in prompts_for(manifest).values() for prompt in prompts]


def requests_of(
    manifest: Manifest, text: Path | None, prompts: Path | None, max_new_tokens: int | None
) -> list[Request]:
    """Prompts by kind: the lines of a file, which are of one kind, the entries of a JSON file, or
    built-in ones.

    Args:
        prompts: a JSON list of objects with `kind`, `prompt` and `max_new_tokens`.
        max_new_tokens: of each; None takes the entry's own, or `LENGTH`.
    """
    from edgespec.measure.compare import Request
    from edgespec.pair.opening.sample_prompts import prompts_for

    if text is not None and prompts is not None:
        raise UsageError("--text and --prompts are both prompts; give one")
    if prompts is not None:
        entries = _entries(prompts)
        if max_new_tokens is None:
            return entries
        return [replace(entry, max_new_tokens=max_new_tokens) for entry in entries]
    by_kind = prompts_for(manifest) if text is None else {LINES: read_lines(text)}
    return [
        Request(kind, prompt, max_new_tokens or LENGTH)
        for kind, of_kind in by_kind.items()
        for prompt in of_kind
    ]


def _entries(file: Path) -> list[Request]:
    from edgespec.measure.compare import Request

    try:
        entries = read_json(list[Request], file)
        if not entries:
            raise ValueError("it is empty")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(
            f"{file} is no list of prompts ({error}); give a JSON list of objects with kind, "
            "prompt and max_new_tokens"
        ) from None
    return entries
