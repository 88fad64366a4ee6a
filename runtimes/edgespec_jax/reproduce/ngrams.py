"""Unigram and bigram drafts: the paper's cheapest approximations, counted on a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["Bigram", "Unigram"]


class Unigram:
    """How often each token occurs, whatever stands before it.

    Args:
        texts: token ids, each with its end token.
    """

    def __init__(self, texts: Iterable[Sequence[int]], vocab_size: int) -> None:
        tokens = np.concatenate([np.asarray(text, np.int64) for text in texts])
        counts = np.bincount(tokens, minlength=vocab_size)[:vocab_size]
        self.distribution: npt.NDArray[np.float64] = counts / counts.sum()

    def distributions(self, before: Sequence[int]) -> npt.NDArray[np.float64]:
        """The distribution behind each token: [len(before), V]."""
        return np.broadcast_to(self.distribution, (len(before), len(self.distribution)))


class Bigram:
    """How often each token follows the one before; the unigram counts as one more occurrence.

    So a token that was never seen has the unigram's distribution, and a rare one leans to it.
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
        """The distribution behind each token: [len(before), V]."""
        distributions = np.array(self._unigram.distributions(before))
        for distribution, token in zip(distributions, before, strict=True):
            if token in self._followers:
                tokens, counts = self._followers[token]
                distribution[tokens] += counts
                distribution /= counts.sum() + 1
        return distributions
