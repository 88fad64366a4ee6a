"""Which calls compute a prompt, so that the cache of a conversation can be reused.

A long call may round differently from a short one. The tokens that a model generated were computed
in short calls, which all agree; everything else is computed by the same long calls each time.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import takewhile
from typing import NamedTuple

from edgespec.core.model import common_length

__all__ = ["CachedPosition", "LongCall", "call_end", "plan_prefill", "reusable_length"]

# A longer prompt is split, which bounds the memory for attention scores. The scores of this many
# rows are still in the processor's cache when they are read again.
MAX_PREFILL_ROWS = 256


class LongCall(NamedTuple):
    """A long call: its positions, start to stop, and whether they belong to an answer."""

    start: int
    stop: int
    is_answer: bool


class CachedPosition(NamedTuple):
    """How one position of the cache was computed.

    Attributes:
        key: what its keys and values depend on besides earlier positions: the token id, and for an
            EAGLE head also the target's token id.
        call: the long call that computed it; None for any short call.
    """

    key: Hashable
    call: LongCall | None


def plan_prefill(
    count: int, assistant_spans: Sequence[range], short_spans: bool
) -> list[LongCall | None]:
    """How each of a prompt's first `count` positions is computed: the long call that it is in, or
    None for any short call.

    Args:
        assistant_spans: positions that the model scored while it generated, in order.
        short_spans: compute these spans in short calls again, else in long calls of their own.
    """
    plan: list[LongCall | None] = [None] * count
    ends = [end for answer in assistant_spans for end in (answer.start, answer.stop)]
    for index, (start, end) in enumerate(zip([0, *ends], [*ends, count], strict=True)):
        is_answer = index % 2 == 1
        if is_answer and short_spans:
            continue
        for first in range(start, min(end, count), MAX_PREFILL_ROWS):
            call = LongCall(first, min(first + MAX_PREFILL_ROWS, end, count), is_answer)
            plan[first : call.stop] = [call] * (call.stop - first)
    return plan


def reusable_length(cached: Sequence[CachedPosition], wanted: Sequence[CachedPosition]) -> int:
    """The number of leading positions in the cache that equal those computed from scratch.

    A long call that would hold other tokens is not reused in part.
    """
    count = common_length(cached, wanted)
    last = wanted[count - 1].call if count else None
    return last.start if last is not None and last.stop > count else count


def call_end(start: int, plan: Sequence[LongCall | None], max_short_rows: int) -> int:
    """Where the call that begins at `start` ends; a short one has at most `max_short_rows` rows."""
    call = plan[start]
    if call is not None:
        return call.stop
    rest = takewhile(lambda call: call is None, plan[start : start + max_short_rows])
    return start + sum(1 for _ in rest)
