"""Prompts with answers that the target reads instead of writing them, as token ids.

Reading takes about half the time of writing, and less where few texts are written at once. What the
draft learns in them is still what the target would have said.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeAlias

from edgespec.artifact.text_file import read_lines
from edgespec.errors import UsageError
from edgespec_distill.data.training_prompts import encoded_prompts
from edgespec_export.checkpoint.checkpoint import Checkpoint
from edgespec_export.families import Family

__all__ = ["Answer", "read_answers"]

Answer: TypeAlias = tuple[list[int], list[int]]  # a prompt and what follows it


def read_answers(
    file: Path, checkpoint: Checkpoint, family: Family, chat: bool | None
) -> list[Answer]:
    """The answers of a file after their prompts, as token ids of the target.

    Nothing is put after an answer, which may be a part of one: how texts end is learnt from those
    that the target writes.

    Args:
        file: on each line a JSON object with a "prompt" and an "answer".
        chat: put the chat format around each prompt; None: if the target has one.

    Raises:
        UsageError: a line is something else, or longer than the target's positions.
    """
    pairs = list(dict.fromkeys(_pair(line, file) for line in read_lines(file)))
    prompts = encoded_prompts([prompt for prompt, _ in pairs], checkpoint, chat)
    encode = checkpoint.tokenizer.encode_batch
    answers = encode([answer for _, answer in pairs], add_special_tokens=False)
    texts = [(prompt, list(answer.ids)) for prompt, answer in zip(prompts, answers, strict=True)]
    for (_, answer), text in zip(pairs, texts, strict=True):
        _check_length(answer, sum(map(len, text)), family, file)
    return texts


def _pair(line: str, file: Path) -> tuple[str, str]:
    try:
        found = json.loads(line)
        prompt, answer = found["prompt"], found["answer"]
    except (ValueError, TypeError, KeyError):
        prompt = answer = None
    if isinstance(prompt, str) and isinstance(answer, str) and prompt.strip() and answer.strip():
        return prompt, answer
    raise UsageError(
        f"{file} has the line {line[:60]!r}; each line of a file of answers is a JSON object with "
        'text, as in {"prompt": "Write a haiku.", "answer": "An old silent pond"}'
    )


def _check_length(answer: str, length: int, family: Family, file: Path) -> None:
    most = getattr(family, "positions", None)
    if most is not None and length > most:
        raise UsageError(
            f"{file} has an answer that takes {length} tokens with its prompt, {answer[:40]!r}; "
            f"the target has {most} positions: cut it into shorter ones"
        )
