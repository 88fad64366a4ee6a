"""Prompts that a chat model writes itself: what it continues the header of a user's message with.

Such prompts are of the kind that the model was trained on (Magpie, Xu et al. 2024,
arXiv 2406.08464), and need no file.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from edgespec.artifact.chat_format import user_message
from edgespec.artifact.typed_json import write_json
from edgespec.chat.chat_writer import ChatWriter
from edgespec.errors import UsageError
from edgespec_distill.data.derived_seed import derived_seed
from edgespec_distill.data.pace import Pace
from edgespec_distill.data.text_generation import GenerationSettings, generate_texts
from edgespec_distill.models.trainable import GeneratingModel
from edgespec_export.checkpoint.checkpoint import Checkpoint

__all__ = ["MOST_TOKENS", "own_prompts"]

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
    seed: int,
) -> list[list[int]]:
    """Prompts in the target's chat format, as token ids; fewer where it repeats itself.

    Args:
        checkpoint: has a chat format (`read_prompts`).
        count: different prompts.
        file: where they are kept as they are written, so that an interrupted run goes on there and
            has the same ones.

    Raises:
        UsageError: the target ends no message of a user.
    """
    write = ChatWriter(checkpoint.template, checkpoint.chat)
    shown = write([user_message("x")])
    header = _ids(checkpoint, [shown.text[: shown.contents[0].start]])[0]
    kept: dict[str, Any] = {"begun": 0, "lines": []}
    if file.exists():
        kept = json.loads(file.read_text(encoding="utf-8"))
    lines = dict.fromkeys(kept["lines"])
    at_once = min(AT_ONCE, TRIES * count)
    pace = Pace()
    for begun in range(kept["begun"], TRIES * count, at_once):
        if len(lines) >= count:
            break
        settings = GenerationSettings(
            MOST_TOKENS, eos_token_ids, 1.0, seed=derived_seed(seed, "own prompts", begun)
        )
        for text in generate_texts(target, [header] * at_once, settings):
            if text.output[-1] in eos_token_ids:
                line = checkpoint.tokenizer.decode(text.output[:-1]).strip()
                lines |= {line: None} if line else {}
        write_json({"begun": begun + at_once, "lines": list(lines)}, file)
        left = pace.left(len(lines) - len(kept["lines"]), count - len(lines))
        logger.info(f"the target wrote {min(len(lines), count)} of {count} prompts{left}")
    if not lines:
        raise UsageError(
            f"{checkpoint.label} ended no message of a user within {MOST_TOKENS} tokens; leave "
            "--own-prompts out and give --text"
        )
    chats = [write([user_message(line)]).text for line in list(lines)[:count]]
    return _ids(checkpoint, chats)


def _ids(checkpoint: Checkpoint, texts: Sequence[str]) -> list[list[int]]:
    encoded = checkpoint.tokenizer.encode_batch(list(texts), add_special_tokens=False)
    return [list(encoding.ids) for encoding in encoded]
