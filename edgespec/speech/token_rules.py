"""Which tokens may come next in a transcript: suppressed tokens, and the order of timestamps.

The rules of Whisper's own decoder (Radford et al. 2022, section 4.5) as a function of a row and of
the tokens before it. They are part of the target's distribution p: every row that is verified is
changed, by the tokens before it. The draft's q is changed by the same rules, so that it proposes
nothing that p excludes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgespec.artifact.speech_format import SpeechFormat
from edgespec.core.array_types import Logits
from edgespec.speech.log_sums import log_sum

__all__ = ["TokenRules"]

LATEST_START = 50  # steps of 20 ms: a text begins in the first second of its window


class TokenRules:
    """The rules for the text of one window, as a `LogitEdit`.

    A row of logits and the tokens generated before it give a row where tokens that may not come
    have -∞. Segments are a timestamp, text and a timestamp; timestamps do not go back.

    Args:
        timestamps: the text has timestamps; otherwise none may come.
    """

    def __init__(self, speech: SpeechFormat, *, timestamps: bool = True) -> None:
        self._timestamps = timestamps
        self._first_timestamp = speech.first_timestamp
        self._end = speech.end
        never = speech.suppressed + ((speech.no_timestamps,) if timestamps else ())
        self._never = np.array(never, np.int64)
        self._not_first = np.array(speech.suppressed_first, np.int64)

    def __call__(self, logits: Logits, generated: Sequence[int]) -> Logits:
        edited = logits.copy()
        edited[self._never] = -np.inf
        if not generated:
            edited[self._not_first] = -np.inf
        if not self._timestamps:
            edited[self._first_timestamp :] = -np.inf
        else:
            self._order_timestamps(edited, generated)
            self._prefer_timestamp(edited)
        return edited

    def _order_timestamps(self, logits: Logits, generated: Sequence[int]) -> None:
        first = self._first_timestamp
        if not generated:  # a window begins with a timestamp
            logits[:first] = -np.inf
            logits[first + LATEST_START + 1 :] = -np.inf
            return
        after_timestamp = generated[-1] >= first
        opened = after_timestamp and (len(generated) < 2 or generated[-2] >= first)
        if opened:  # its text follows
            logits[first:] = -np.inf
        elif after_timestamp:  # a segment's end: its successor's start, or the end of the text
            logits[: self._end] = -np.inf
        latest = next((token for token in reversed(generated) if token >= first), None)
        if latest is not None:
            # A segment takes time; the next one may begin where it ends.
            logits[first : latest + (not after_timestamp or opened)] = -np.inf

    def _prefer_timestamp(self, logits: Logits) -> None:
        """A timestamp comes if all of them together are more probable than any other token."""
        first = self._first_timestamp
        if log_sum(logits[first:]) > logits[:first].max():
            logits[:first] = -np.inf
