"""Prompts that a chat model writes itself: what it continues the header of a user's message with.

Such prompts are of the kind that the model was trained on (Magpie, Xu et al. 2024,
arXiv 2406.08464), and need no file.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from pathlib import Path

from edgespec.artifact.chat_format import user_message
from edgespec.artifact.typed_json import write_json
from edgespec.chat.chat_writer import ChatWriter
from edgespec.errors import UsageError
from edgespec_distill.data.text_generation import GenerationSettings, generate_texts
from edgespec_distill.models.trainable import GeneratingModel
from edgespec_export.checkpoint.checkpoint import Checkpoint

__all__ = ["own_prompts"]

logger = logging.getLogger("edgespec")

MOST_TOKENS = 96  # of a prompt; longer ones are left out
AT_ONCE = 256  # prompts that are begun together
TRIES = 8  # prompts that are begun for each that is asked for, at most


def own_prompts(
    target: GeneratingModel,
    checkpoint: Checkpoint,
    count: int,
    eos_token_ids: Collection[int],
    file: Path,
) -> list[list[int]]:
    """Prompts in the target's chat format, as token ids; fewer where it repeats itself.

    Args:
        count: different prompts.
        file: where they are kept, so that an interrupted run has the same ones.

    Raises:
        UsageError: the target has no chat format, or ends no message of a user.
    """
    if not (checkpoint.chat or checkpoint.template):
        raise UsageError(
            f"{checkpoint.label} has no chat format whose header it could continue; leave "
            "--own-prompts out and give --text"
        )
    write = ChatWriter(checkpoint.template, checkpoint.chat)
    if not file.exists():
        write_json(_written(target, checkpoint, write, count, eos_token_ids), file)
    lines = json.loads(file.read_text(encoding="utf-8"))
    texts = [write([user_message(line)]).text for line in lines]
    encoded = checkpoint.tokenizer.encode_batch(texts, add_special_tokens=False)
    return [list(encoding.ids) for encoding in encoded]


def _written(
    target: GeneratingModel,
    checkpoint: Checkpoint,
    write: ChatWriter,
    count: int,
    eos_token_ids: Collection[int],
) -> list[str]:
    """Texts of users, as the target imagines them."""
    shown = write([user_message("x")])
    header = checkpoint.tokenizer.encode(
        shown.text[: shown.contents[0].start], add_special_tokens=False
    ).ids
    settings = GenerationSettings(MOST_TOKENS, eos_token_ids, temperature=1.0)
    lines: dict[str, None] = {}
    for _ in range(0, TRIES * count, AT_ONCE):
        if len(lines) >= count:
            break
        begun = [header] * min(AT_ONCE, TRIES * count)
        for text in generate_texts(target, begun, settings):
            if text.output[-1] in eos_token_ids:
                line = checkpoint.tokenizer.decode(text.output[:-1]).strip()
                lines |= {line: None} if line else {}
        logger.info(f"the target wrote {len(lines)} of {count} prompts")
    if not lines:
        raise UsageError(
            f"{checkpoint.label} ended no message of a user within {MOST_TOKENS} tokens; leave "
            "--own-prompts out and give --text"
        )
    return list(lines)[:count]
