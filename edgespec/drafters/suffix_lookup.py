"""Drafts from texts: what followed the same tokens earlier, as long as that is likely enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from edgespec.core.distribution import one_hot
from edgespec.core.draft import Proposal
from edgespec.core.randomness import Randomness
from edgespec.drafters.matcher import Continuation, Matcher, Store
from edgespec.drafters.suffix_automaton import SuffixAutomaton

__all__ = ["SuffixLookup", "chance"]

MOST_TOKENS = 32_768  # of prompt and text that are looked up: 16 MB
SUFFIXES_COMPARED = 3  # suffixes of each text that are compared, the longest first
# This many other tokens are counted that were never seen: after a match of one token three, after
# longer ones fewer (docs/measurements/drafting.md).
PRIOR_MISSES = tuple(3 / math.pow(length, 1.5) for length in range(1, 65))


def chance(length: int, found: Continuation) -> float:
    """An estimate of the probability that a text goes on as texts did earlier.

    Args:
        length: tokens of the match.
        found: what followed it.
    """
    return found.times / (found.total + PRIOR_MISSES[min(length, len(PRIOR_MISSES)) - 1])


class SuffixLookup:
    """Proposes what followed the text's last tokens earlier: in itself, its prompt or stored texts.

    After Oliaro et al. (2024), SuffixDecoding, arXiv 2411.04975. Of the longest suffixes that
    occurred before, the one with the most certain continuation is taken, and continued by the most
    frequent tokens. Its tokens are determined, not drawn: their q is one-hot.

    Args:
        stores: texts in addition to the prompt and the text so far.
        worth: given the probability that a token is accepted, with all before it, and the number of
            positions in the verification without it, says whether to propose it. None: γ tokens.
        at_least: the probability of the first token; where it is less, nothing is proposed.
    """

    seconds = 0.0

    def __init__(
        self,
        stores: Sequence[Store] = (),
        worth: Callable[[float, int], bool] | None = None,
        at_least: float = 0.0,
    ) -> None:
        self._stores = stores
        self._worth = worth
        self._at_least = at_least
        self._matchers: list[Matcher[Any]] = []
        self._read = 0

    def begin(self, prompt: Sequence[int]) -> None:
        own = SuffixAutomaton(MOST_TOKENS)
        self._matchers = [own, *(store.begin() for store in self._stores)]
        for matcher in self._matchers:
            matcher.read(prompt)
        self._read = 1  # text[0] is the prompt's last token, or a start token of no text

    def propose(self, sequence: Sequence[int], gamma: int, randomness: Randomness) -> Proposal:
        new = sequence[self._read :]
        self._read = len(sequence)
        for matcher in self._matchers:
            matcher.read(new)
        likeliest = max(self._options(), key=lambda option: option[0], default=None)
        if likeliest is None or likeliest[0] < self._at_least:
            return Proposal()
        tokens = self._path(*likeliest[1:], gamma)
        return Proposal(tokens, [one_hot(token) for token in tokens])

    def _options(self) -> list[tuple[float, Matcher[Any], int, Continuation]]:
        """How the text may go on: probability of the token, who found it, tokens matched, and the
        continuation."""
        options = []
        for matcher in self._matchers:
            for length, state in islice(matcher.suffixes(), SUFFIXES_COMPARED):
                found = matcher.best(state)
                if found is not None:
                    options.append((chance(length, found), matcher, length, found))
        return options

    def _path(
        self, matcher: Matcher[Any], length: int, found: Continuation | None, gamma: int
    ) -> list[int]:
        """The tokens that follow most frequently, one after the other."""
        tokens: list[int] = []
        probability = 1.0  # that all of them are accepted
        while found is not None and len(tokens) < gamma:
            probability *= chance(length + len(tokens), found)
            if self._worth is not None and not self._worth(probability, 1 + len(tokens)):
                break
            tokens.append(found.token)
            found = matcher.best(found.after)
        return tokens
