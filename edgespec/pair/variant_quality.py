"""How far one variant of a model is from another: what a number format costs in quality."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from edgespec.artifact.manifest import Distance
from edgespec.core.model import Model

__all__ = ["BehindTarget", "Sample", "Scorer", "distance", "samples_for"]

# A prompt and the tokens that are scored behind it.
Sample = tuple[list[int], list[int]]

SCORED = 48  # tokens of a sample
GIVEN = 4  # tokens of a decoder-only sample that are prompt


class Scorer(Protocol):
    """What is compared: so much of a `Model`."""

    def prefill(self, prompt: Sequence[int]) -> int: ...
    def score(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]: ...


class BehindTarget:
    """A draft that reads hidden states, with the target that shows them.

    Args:
        said: makes the draft's numbers of tokens the target's.
    """

    def __init__(
        self, draft: Model, target: Model, said: Callable[[Sequence[int]], Sequence[int]]
    ) -> None:
        self._draft, self._target, self._said = draft, target, said

    def prefill(self, prompt: Sequence[int]) -> int:
        self._target.prefill(self._said(prompt))
        return self._draft.prefill(prompt)

    def score(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        self._target.score(self._said(tokens))
        return self._draft.score(tokens)


def samples_for(reference: Scorer, sources: Sequence[list[int]], encodes: bool) -> list[Sample]:
    """What to compare on.

    Args:
        sources: texts as tokens.
        encodes: the model has an encoder; it then scores the reference's own greedy answer to each
            source. Otherwise it scores the texts themselves.
    """
    if not encodes:
        return [(text[:GIVEN], text[GIVEN : GIVEN + SCORED]) for text in sources]
    return [(source, _greedy(reference, source)) for source in sources]


def distance(
    reference: Scorer, variant: Scorer, samples: Sequence[Sample], reference_name: str
) -> Distance:
    """Compares the distributions of every position of the samples."""
    tokens = np.concatenate([text for _, text in samples])
    log_p, log_q = (
        np.concatenate([_log_distributions(model, prompt, text) for prompt, text in samples])
        for model in (reference, variant)
    )
    places = np.arange(len(tokens))
    return Distance(
        reference=reference_name,
        kl=float((np.exp(log_p) * (log_p - log_q)).sum(axis=1).mean()),
        top1=float((log_p.argmax(axis=1) == log_q.argmax(axis=1)).mean()),
        perplexity=float(np.exp(-log_q[places, tokens].mean())),
        reference_perplexity=float(np.exp(-log_p[places, tokens].mean())),
        positions=len(tokens),
    )


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
    logits = model.score([pending, *text[:-1]]).astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    distributions: npt.NDArray[np.float64] = logits - np.log(
        np.exp(logits).sum(axis=1, keepdims=True)
    )
    return distributions
