"""The prompts that the target continues, as token ids."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from edgespec.artifact.chat_format import user_message
from edgespec.artifact.text_file import read_lines
from edgespec.chat.chat_writer import ChatWriter
from edgespec.errors import UsageError
from edgespec_export.checkpoint.checkpoint import Checkpoint

__all__ = ["encoded_prompts", "read_prompts"]

MIN_PROMPTS = 16


def read_prompts(
    file: Path | None, checkpoint: Checkpoint, chat: bool | None, own: int
) -> list[list[int]]:
    """The distinct prompts of a file as token ids of the target; none without a file.

    Args:
        file: a prompt on each line; named .jsonl, a JSON string on each, which may hold line ends.
        chat: put the chat format around each line; None: if the target has one.
        own: prompts that the target will write besides.

    Raises:
        UsageError: too few prompts, or there is no chat format that is needed.
    """
    lines = _distinct_prompts(file) if file else []
    if len(lines) + own < MIN_PROMPTS:
        given = (
            f"{file} has {len(lines)} different prompts (one per line)" if file else "no prompts"
        )
        raise UsageError(
            f"{given}{f' and the target writes {own}' if own else ''}; give at least "
            f"{MIN_PROMPTS}, and thousands for a good draft"
        )
    if own and not (checkpoint.chat or checkpoint.template):
        raise UsageError(
            f"{checkpoint.label} has no chat format whose header it could continue; leave "
            "--own-prompts out and give --text"
        )
    return encoded_prompts(lines, checkpoint, chat) if lines else []


def encoded_prompts(
    lines: Sequence[str], checkpoint: Checkpoint, chat: bool | None
) -> list[list[int]]:
    """Token ids of prompts, with the chat format around each.

    Args:
        chat: see `read_prompts`.

    Raises:
        UsageError: there is no chat format.
    """
    chats = checkpoint.chat is not None or checkpoint.template is not None
    if chat and not chats:
        raise UsageError(f"{checkpoint.label} has no chat format; leave --chat out")
    if chat is False or not chats:
        encoded = checkpoint.tokenizer.encode_batch(list(lines))
    else:
        write = ChatWriter(checkpoint.template, checkpoint.chat)
        lines = [write([user_message(line)]).text for line in lines]
        encoded = checkpoint.tokenizer.encode_batch(lines, add_special_tokens=False)
    return [list(encoding.ids) for encoding in encoded]


def _distinct_prompts(file: Path) -> list[str]:
    lines = dict.fromkeys(read_lines(file))
    if file.suffix != ".jsonl":
        return list(lines)
    return list(dict.fromkeys(_string(line, file) for line in lines))


def _string(line: str, file: Path) -> str:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if isinstance(found, str) and found.strip():
        return found
    raise UsageError(
        f"{file} has the line {line[:60]!r}; a .jsonl file of prompts has a JSON string with text "
        'on each line, as in "Write a haiku."'
    )
