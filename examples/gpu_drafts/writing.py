"""The texts that the target writes: what the draft is trained on."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Sequence
from typing import Any

from generation import is_dull, outputs_after

from edgespec_distill.data.examples import Text, similar_lengths

logger = logging.getLogger("gpu_drafts")

MOST_NEW = 160  # tokens of an output
MOST_ROWS = 4096  # texts that are written at once
TEMPERATURES = (0.0, 0.0, 0.7, 1.0)  # half of the texts are greedy
FINISHED_SHARE = 0.92
FEWEST_TOKENS = 4
MOST_OWN, OWN_FINISHED_SHARE = 96, 0.95  # tokens of a prompt of its own


def greedy_texts(model: Any, prompts: Sequence[Sequence[int]], new: int = MOST_NEW) -> list[Text]:
    """What the target says after each prompt at temperature 0."""
    outputs = outputs_after(model, prompts, new, [0.0] * len(prompts))
    return [Text(prompt, output) for prompt, output in zip(prompts, outputs, strict=True)]


def write_texts(
    model: Any,
    prompts: Sequence[Sequence[int]],
    seconds: float,
    positions: int,
    rng: random.Random,
) -> list[Text]:
    """Texts after prompts, until the time is over; at least of one group of prompts.

    Texts that repeat themselves are dropped, as are very short ones: they teach little and are
    many, above all the greedy ones of a small model.

    Args:
        positions: of all texts that are written at once. Their cache has to fit.
    """
    began, texts, tokens, dropped = time.monotonic(), [], 0, 0
    groups = list(similar_lengths(prompts, MOST_NEW, positions, MOST_ROWS))
    rng.shuffle(groups)
    for number, group in enumerate(groups, 1):
        temperatures = rng.choices(TEMPERATURES, k=len(group))
        outputs = outputs_after(model, group, MOST_NEW, temperatures, FINISHED_SHARE)
        for prompt, output in zip(group, outputs, strict=True):
            tokens += len(output)
            if len(output) < FEWEST_TOKENS or is_dull(output):
                dropped += 1
            else:
                texts.append(Text(prompt, output))
        spent = time.monotonic() - began
        logger.info(
            f"group {number} of {len(groups)}: {len(group)} texts; {tokens / 1e6:.2f}M tokens in "
            f"all, {tokens / spent:.0f}/s; {dropped} texts dropped"
        )
        if spent > seconds:
            break
    return texts


def own_prompts(
    model: Any, before: Sequence[int], after: Sequence[int], count: int
) -> list[list[int]]:
    """Prompts that the target writes: it continues the header of a user's message (Magpie, Xu et
    al. 2024, arXiv 2406.08464). Those that it ends, each once: at most `count`.

    Args:
        before, after: the tokens around a user's message.
    """
    found: dict[tuple[int, ...], None] = {}
    for begun in range(0, count, MOST_ROWS):
        rows = min(MOST_ROWS, count - begun)
        headers, heat = [before] * rows, [1.0] * rows
        for output in outputs_after(model, headers, MOST_OWN, heat, OWN_FINISHED_SHARE):
            *message, last = output
            if message and last in model.config.eos_token_id and not is_dull(output):
                found[tuple(message)] = None
    logger.info(f"{len(found)} own prompts of {count}")
    return [[*before, *message, *after] for message in found]
