"""Whether the draft model runs for a window of sound: it does where it was faster.

A draft of a speech model has an encoder of its own, which reads every window in which it drafts.
Whether drafting is worth that is known from the clock alone: it depends on both models, their
formats, the machine and how long the windows' texts are.
"""

from __future__ import annotations

__all__ = ["WindowDrafting"]

AGAIN = 16  # windows after which the other way is tried again, if it was nearly as fast
NEAR = 1.3  # times as slow
KEPT = 0.8  # of what was measured, with each further window of that way


class WindowDrafting:
    """Chooses by the seconds that a token took, with and without the draft model.

    The first window is decoded without it, the second with it, the others as was faster. Where the
    two are near, the other way is tried again each `AGAIN` windows; where one way grows slow, as
    when another program starts, they come near. No text depends on it.
    """

    def __init__(self) -> None:
        self._seconds = {False: 0.0, True: 0.0}
        self._tokens = {False: 0.0, True: 0.0}
        self._windows = 0

    def drafts(self) -> bool:
        """Whether the draft model runs for the next window."""
        for drafted in (False, True):
            if not self._tokens[drafted]:
                return drafted
        gain = self._seconds_per_token(False) / self._seconds_per_token(True)
        tried_again = 1 / NEAR < gain < NEAR and self._windows % AGAIN == AGAIN - 1
        return (gain > 1) != tried_again

    def count(self, drafted: bool, seconds: float, tokens: int) -> None:
        """Adds a window's time, the draft's encoder included and the target's not."""
        self._windows += 1
        self._seconds[drafted] = KEPT * self._seconds[drafted] + seconds
        self._tokens[drafted] = KEPT * self._tokens[drafted] + tokens

    @property
    def gain(self) -> float | None:
        """How many times as fast windows are with the draft model; None before both were seen."""
        if not all(self._tokens.values()):
            return None
        return self._seconds_per_token(False) / self._seconds_per_token(True)

    def _seconds_per_token(self, drafted: bool) -> float:
        return self._seconds[drafted] / self._tokens[drafted]
