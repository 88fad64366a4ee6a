"""Prompts that a command measures with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgespec.artifact.text_file import read_lines

if TYPE_CHECKING:
    from edgespec.artifact.manifest import Manifest

__all__ = ["texts_of"]


def texts_of(manifest: Manifest, file: Path | None) -> list[str]:
    """The lines of a file, or built-in prompts of the kind that the pair is for."""
    if file is not None:
        return read_lines(file)
    from edgespec.pair.sample_prompts import prompts_for

    return [prompt for prompts in prompts_for(manifest).values() for prompt in prompts]
