"""The distance between two variants of a model: what a number format costs in quality."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from edgespec.artifact.row_invariance import Distance
from edgespec.core.model import Model, block_model_of
from edgespec.drafters.vocabulary_map import Vocabulary

__all__ = [
    "PROMPT",
    "Sample",
    "Scorer",
    "TargetReadingScorer",
    "distance",
    "mean_kl",
    "proposed_ids",
    "samples_for",
]

# The token ids of a prompt, and those after it that are scored.
Sample = tuple[list[int], list[int]]

SCORED = 48  # tokens of a sample that are scored
PROMPT = 4  # tokens of a decoder-only sample that are its prompt


class Scorer(Protocol):
    """The part of a `Model` that a comparison needs."""

    def prefill(self, prompt: Sequence[int]) -> int: ...
    def score(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]: ...


class TargetReadingScorer:
    """A draft that reads its target, scored together with that target.

    Token ids are those that the draft proposes, which some drafts read by other ids.

    Args:
        vocabulary: translates token ids between target and draft.
    """

    def __init__(self, draft: Model, target: Model, vocabulary: Vocabulary) -> None:
        self._draft, self._target, self._vocabulary = draft, target, vocabulary

    def prefill(self, prompt: Sequence[int]) -> int:
        tokens = self._vocabulary.to_target_ids(prompt)
        self._target.prefill(tokens)
        read = self._vocabulary.to_draft_ids(tokens)
        pending = self._draft.prefill(read)
        return prompt[-1] if pending == read[-1] else pending  # else a decoder's start token

    def score(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        read = self._vocabulary.to_target_ids(tokens)
        self._target.score(read)
        ids = self._vocabulary.to_draft_ids(read)
        if block_model_of(self._draft) is None:
            return self._draft.score(ids)
        # Of several tokens it may compute the last row only.
        return np.concatenate([self._draft.score([token]).copy() for token in ids])


def proposed_ids(tokens: Sequence[int], vocabulary: Vocabulary, size: int) -> list[int]:
    """The ids that a draft of `size` tokens proposes for a target's tokens, without those that it
    may not propose."""
    ids = {token: number for number, token in enumerate(vocabulary.to_target_ids(range(size)))}
    return [ids[token] for token in tokens if token in ids]


def samples_for(reference: Scorer, sources: Sequence[list[int]], encodes: bool) -> list[Sample]:
    """The samples that two variants are compared on.

    Args:
        sources: texts as token ids.
        encodes: the model has an encoder: the reference's own greedy answer to each source is
            scored. Otherwise the texts themselves are.
    """
    if not encodes:
        return [(text[:PROMPT], text[PROMPT : PROMPT + SCORED]) for text in sources]
    return [(source, _greedy(reference, source)) for source in sources]


def distance(
    reference: Scorer, variant: Scorer, samples: Sequence[Sample], reference_name: str
) -> Distance:
    """Compares the distributions of two variants at every scored position of the samples."""
    tokens = np.concatenate([text for _, text in samples])
    log_p, log_q = (
        np.concatenate([_log_distributions(model, prompt, text) for prompt, text in samples])
        for model in (reference, variant)
    )
    rows = np.arange(len(tokens))
    return Distance(
        reference=reference_name,
        kl=_mean_kl(log_p, log_q),
        top1=float((log_p.argmax(axis=1) == log_q.argmax(axis=1)).mean()),
        perplexity=float(np.exp(-log_q[rows, tokens].mean())),
        reference_perplexity=float(np.exp(-log_p[rows, tokens].mean())),
        positions=len(tokens),
    )


def mean_kl(reference: npt.NDArray[np.float32], logits: npt.NDArray[np.float32]) -> float:
    """Mean KL(reference, other) of two models' distributions in nats, from their logits
    [rows, vocabulary]."""
    return _mean_kl(_log_softmax(reference), _log_softmax(logits))


def _mean_kl(log_p: npt.NDArray[np.float64], log_q: npt.NDArray[np.float64]) -> float:
    return float((np.exp(log_p) * (log_p - log_q)).sum(axis=1).mean())


def _greedy(model: Scorer, source: list[int]) -> list[int]:
    text = [model.prefill(source)]
    while len(text) <= SCORED:
        text.append(int(model.score(text[-1:])[0].argmax()))
    return text[1:]


def _log_distributions(
    model: Scorer, prompt: list[int], text: list[int]
) -> npt.NDArray[np.float64]:
    """Log-probabilities of every token at every position of `text`: [len(text), vocabulary]."""
    pending = model.prefill(prompt)
    return _log_softmax(model.score([pending, *text[:-1]]))


def _log_softmax(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    logits = rows.astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    distributions: npt.NDArray[np.float64] = logits - np.log(
        np.exp(logits).sum(axis=1, keepdims=True)
    )
    return distributions
