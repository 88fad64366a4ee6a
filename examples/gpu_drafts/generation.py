"""Outputs of the target, drawn at a temperature of each text's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from decoding import Decoding
from torch import Tensor

ASK_EVERY = 8  # steps: how many texts have ended. The answer waits for the GPU
KEPT_SHARE = 0.7  # of the rows: if fewer texts go on, the others' rows are dropped
FEWEST_TO_REPEAT = 24  # tokens: a shorter text is not long enough to be dull


@torch.no_grad()
def outputs_after(
    model: Any,
    prompts: Sequence[Sequence[int]],
    new: int,
    temperatures: Sequence[float],
    finished_share: float = 1.0,
) -> list[list[int]]:
    """An output after each prompt, in their order; token ids, at most `new` each.

    Args:
        temperatures: of each text; 0 is greedy.
        finished_share: when this share of the texts has ended, the others are cut: a few texts
            take as much time as many.
    """
    count, device = len(prompts), model.device
    state = Decoding(model, prompts, new)
    ends = torch.tensor(model.config.eos_token_id, dtype=torch.long, device=device)
    heat = torch.tensor(temperatures, device=device)[:, None]
    rows = torch.arange(count, device=device)
    goes_on = torch.ones(count, dtype=torch.bool, device=device)
    found = torch.full((count, new), -1, device=device)
    for step in range(new):
        tokens = drawn(state.logits, heat)
        found[rows, step] = torch.where(goes_on, tokens, -1)
        goes_on = goes_on & ~torch.isin(tokens, ends)
        if step == new - 1:
            break
        if step % ASK_EVERY == ASK_EVERY - 1:
            left = int(goes_on.sum())
            if left <= (1 - finished_share) * count:
                break
            if left < KEPT_SHARE * len(rows):
                kept = goes_on.nonzero()[:, 0]
                state.keep_rows(kept)
                rows, heat, tokens, goes_on = (x[kept] for x in (rows, heat, tokens, goes_on))
        state.add(tokens)
    return [[token for token in row if token >= 0] for row in found.tolist()]


def drawn(logits: Tensor, temperatures: Tensor) -> Tensor:
    """[rows] token ids from softmax(logits / temperature): the largest of logits + T · noise, where
    the noise is of Gumbel's distribution (Gumbel 1954). At T = 0 it is the most probable token.

    Args:
        logits: [rows, vocabulary].
        temperatures: [rows, 1].
    """
    exponential = torch.empty_like(logits, dtype=torch.float32).exponential_()
    noise = exponential.clamp_(min=torch.finfo(torch.float32).tiny).log_().neg_()
    return torch.addcmul(logits.float(), temperatures, noise).argmax(-1)


def is_dull(tokens: Sequence[int]) -> bool:
    """Whether a text repeats itself: fewer than half of its sequences of four tokens differ."""
    fours = list(zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False))
    return len(tokens) >= FEWEST_TO_REPEAT and len(set(fours)) < len(fours) / 2
