"""How a target spelled forced texts: which token it chose where only one text could follow."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Spellings"]

LONGEST_KEY = 64  # bytes of a forced text that tell it from others
MOST_KEPT = 16_384


class Spellings:
    """The tokens that a target chose for forced texts, to be drafted where these come again.

    A schema's keys come back in each record. A model seldom spells them as the tokenizer does where
    its own text would have gone on in another way, but it spells them alike each time.
    """

    def __init__(self) -> None:
        self._first: dict[bytes, int] = {}  # by a forced text, its first token; the latest last

    def learn(self, forced: bytes, tokens: Sequence[tuple[int, bytes]]) -> None:
        """Reads the tokens that came where a text was forced, each with the bytes it writes, as far
        as they write nothing else."""
        for token, written in tokens:
            if not (written and forced.startswith(written)):
                return
            key = forced[:LONGEST_KEY]
            self._first.pop(key, None)
            if len(self._first) >= MOST_KEPT:
                del self._first[next(iter(self._first))]
            self._first[key] = token
            forced = forced[len(written) :]

    def first(self, forced: bytes) -> int | None:
        """The token that a forced text began with when it came last; None if it never came."""
        return self._first.get(forced[:LONGEST_KEY])
