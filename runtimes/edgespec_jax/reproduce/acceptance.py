"""The acceptance rate α of a draft: Σ_x min(p(x), q(x)), averaged over texts of the target.

This is the paper's β, averaged over at least 10 000 tokens that the target generated (section 4.2).
With lenience l (A.5) it is Σ min(p/l, q). At temperature 0 both distributions are one-hot, so α is
the share of equal arg-maxes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgespec.core.decode import decoded, plain
from edgespec.core.distribution_options import Sampling
from edgespec.core.model import Model
from edgespec.core.randomness import Seeded
from edgespec.core.sampling import SamplingProcessor
from edgespec.drafters.vocabulary_map import Vocabulary

__all__ = [
    "Alpha",
    "DraftDistributions",
    "Rows",
    "TargetSequence",
    "distributions_of",
    "measure",
    "one_hot_rows",
    "texts_of_target",
]

Rows = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TargetSequence:
    """A text that the target generated.

    Attributes:
        prompt: token ids.
        before: the token id before each emitted token; the first is the pending token.
        p: the target's distributions, [tokens, V].
    """

    prompt: Sequence[int]
    before: Sequence[int]
    p: Rows


@dataclass(frozen=True)
class Alpha:
    """A measured acceptance rate.

    Attributes:
        mean: of Σ min(p/l, q) over the tokens.
        error: standard error of the mean; the units are texts, because the tokens of one text
            depend on each other.
        tokens: measured.
    """

    mean: float
    error: float
    tokens: int


# The draft's distributions at every token of a target's text: [tokens, V].
DraftDistributions = Callable[[TargetSequence], Rows]


def texts_of_target(
    target: Model,
    prompts: Sequence[Sequence[int]],
    *,
    temperature: float,
    ends: Collection[int],
    tokens: int,
    longest: int,
    seed: int,
) -> Iterator[TargetSequence]:
    """Generates texts until they have `tokens` tokens, repeating the prompts if necessary.

    A greedy text is the same each time, so at temperature 0 each prompt is used once.

    Args:
        longest: the largest number of tokens in a text.
    """
    done, index = 0, 0
    while done < tokens and (temperature > 0 or index < len(prompts)):
        prompt = prompts[index % len(prompts)]
        rounds = decoded(
            plain(
                target,
                prompt,
                process=SamplingProcessor(Sampling(float(temperature))),
                randomness=Seeded(seed + index),
                max_new_tokens=longest,
                ends=ends.__contains__,
            )
        )
        emitted = [token for round_ in rounds for token in round_.tokens]
        before = [target.prefill(prompt), *emitted[:-1]]
        yield TargetSequence(prompt, before, _dense(target.score(before), temperature))
        index, done = index + 1, done + len(emitted)


def distributions_of(
    draft: Model, vocabulary: Vocabulary, temperature: float
) -> DraftDistributions:
    """The distributions of a model as the draft, whose vocabulary may be smaller than the target's.

    An EAGLE draft reads the target's hidden states, so its target must have just scored the text.
    """
    process = SamplingProcessor(Sampling(float(temperature)))

    def distributions(text: TargetSequence) -> Rows:
        draft.prefill(vocabulary.prompt(text.prompt, None)[0])
        rows = np.zeros(text.p.shape)
        read = [vocabulary.to_draft_ids([token]) for token in text.before]
        last = np.cumsum([len(ids) for ids in read]) - 1
        scored = draft.score(list(itertools.chain(*read)))[last]
        for row, logits in zip(rows, scored, strict=True):
            distribution = vocabulary.distribution(process, logits)
            row[distribution.tokens] = distribution.probabilities
        return rows

    return distributions


def measure(
    texts: Iterable[TargetSequence],
    drafts: Mapping[str, DraftDistributions],
    lenience: Sequence[float] = (1.0,),
) -> dict[str, dict[float, Alpha]]:
    """α of each draft at each lenience, from one pass over the texts."""
    sums: dict[tuple[str, float], list[float]] = {
        (name, value): [] for name in drafts for value in lenience
    }
    counts = []
    for text in texts:
        counts.append(len(text.p))
        for name, distributions in drafts.items():
            q = distributions(text)
            for value in lenience:
                sums[name, value].append(float(np.minimum(text.p / value, q).sum()))
    return {
        name: {value: _alpha(sums[name, value], counts) for value in lenience} for name in drafts
    }


def _alpha(sums: Sequence[float], counts: Sequence[int]) -> Alpha:
    total = sum(counts)
    mean = sum(sums) / total
    residuals = np.array(sums) - mean * np.array(counts)  # of a ratio estimator over texts
    return Alpha(mean, float(np.sqrt((residuals**2).sum()) / total), total)


def _dense(logits: npt.NDArray[np.float32], temperature: float) -> Rows:
    """Rows of logits to the rows of probabilities that `Sampling` gives: [n, V]."""
    rows = logits.astype(np.float64)
    if temperature == 0:
        return one_hot_rows(rows)
    rows = np.exp((rows - rows.max(1, keepdims=True)) / temperature)
    distributions: Rows = rows / rows.sum(1, keepdims=True)
    return distributions


def one_hot_rows(rows: Rows) -> Rows:
    """The greedy distribution of each row: [n, V]."""
    distributions = np.zeros(rows.shape)
    distributions[np.arange(len(rows)), rows.argmax(1)] = 1
    return distributions
