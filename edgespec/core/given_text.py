"""Scores a text that is given: the target's logits for each of its tokens, none of them drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgespec.core.array_types import LogitRows
from edgespec.core.model import Model
from edgespec.core.requests import Requests, request_logits, request_prefill

__all__ = ["score_given"]

ROWS = 16  # of a call; no more than a round has, so that rows have the bits of generation


def score_given(
    target: Model,
    prompt: Sequence[int],
    sequence: Sequence[int],
    take: Callable[[LogitRows, Sequence[int]], None],
    *,
    assistant_spans: Sequence[range] | None = None,
) -> Requests[None]:
    """Asks for the logits that each token of `sequence` was drawn from, if it was drawn.

    Args:
        prompt: what comes before the text, at least one token.
        take: is called with logits [tokens, vocabulary], valid until it returns, and the tokens.
        assistant_spans: a conversation's earlier answers, as in `Model.prefill`.
    """
    pending = yield from request_prefill(target, prompt, assistant_spans)
    before = [pending, *sequence[:-1]]
    for start in range(0, len(sequence), ROWS):
        rows = yield from request_logits(target, before[start : start + ROWS])
        take(rows, sequence[start : start + ROWS])
