"""The prompts that the target continues, as token ids."""

from __future__ import annotations

from pathlib import Path

from edgespec.artifact.chat_format import user_message
from edgespec.artifact.text_file import read_lines
from edgespec.errors import UsageError
from edgespec_export.checkpoint.checkpoint import Checkpoint

__all__ = ["read_prompts"]

MIN_PROMPTS = 16


def read_prompts(file: Path, checkpoint: Checkpoint, chat: bool | None) -> list[list[int]]:
    """The distinct lines of a file as token ids of the target.

    Args:
        chat: put the chat format around each line; None: if the target has one.

    Raises:
        UsageError: too few prompts, or there is no chat format.
    """
    lines = list(dict.fromkeys(read_lines(file)))
    if len(lines) < MIN_PROMPTS:
        raise UsageError(
            f"{file} has {len(lines)} different prompts (one per line); give at least "
            f"{MIN_PROMPTS}, and thousands for a good draft"
        )
    chat_format = checkpoint.chat
    if chat and chat_format is None:
        raise UsageError(f"{checkpoint.label} has no chat format; leave --chat out")
    if chat is False or chat_format is None:
        encoded = checkpoint.tokenizer.encode_batch(lines)
    else:
        lines = [chat_format.text([user_message(line)])[0] for line in lines]
        encoded = checkpoint.tokenizer.encode_batch(lines, add_special_tokens=False)
    return [list(encoding.ids) for encoding in encoded]
