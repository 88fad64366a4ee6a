"""Unigram and bigram drafts, the paper's cheapest approximations, counted in texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["Bigram", "Unigram"]


class Unigram:
    """The frequency of each token, independent of the token before it.

    Args:
        texts: token ids, each with its end token.
    """

    def __init__(self, texts: Iterable[Sequence[int]], vocab_size: int) -> None:
        tokens = np.concatenate([np.asarray(text, np.int64) for text in texts])
        counts = np.bincount(tokens, minlength=vocab_size)[:vocab_size]
        self.distribution: npt.NDArray[np.float64] = counts / counts.sum()

    def distributions(self, before: Sequence[int]) -> npt.NDArray[np.float64]:
        """The distribution after each token: [len(before), V]."""
        return np.broadcast_to(self.distribution, (len(before), len(self.distribution)))


class Bigram:
    """The frequency of each token after the one before it, smoothed by the unigram.

    The unigram's distribution counts as one occurrence. So after a token that does not occur it is
    the whole distribution, and after a rare token a large part of it.
    """

    def __init__(self, texts: Sequence[Sequence[int]], vocab_size: int, start: int) -> None:
        self._unigram = Unigram(texts, vocab_size)
        followers: dict[int, list[int]] = {}
        for text in texts:
            for before, token in zip([start, *text], text, strict=False):
                followers.setdefault(before, []).append(token)
        self._followers = {
            before: np.unique(np.array(tokens), return_counts=True)
            for before, tokens in followers.items()
        }

    def distributions(self, before: Sequence[int]) -> npt.NDArray[np.float64]:
        """The distribution after each token: [len(before), V]."""
        distributions = np.array(self._unigram.distributions(before))
        for distribution, token in zip(distributions, before, strict=True):
            if token in self._followers:
                tokens, counts = self._followers[token]
                distribution[tokens] += counts
                distribution /= counts.sum() + 1
        return distributions
