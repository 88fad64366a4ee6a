"""Where drafts come from: a model, or the text itself.

A draft never changes what is generated, only how fast, as long as it reports truthfully which distribution
each of its tokens was drawn from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from edgespec.artifact.graph_io import TOP_K
from edgespec.core.distribution import Distribution, Logits, Process, certain
from edgespec.core.draft import Proposal
from edgespec.core.model import Candidate, Model
from edgespec.core.randomness import Randomness
from edgespec.core.scoring import top_tokens_model_of
from edgespec.core.vocab_ops import arithmetic_for
from edgespec.drafters.vocabulary_map import Vocabulary

__all__ = ["ModelDrafter"]


class ModelDrafter:
    """A smaller model q, sampled one token at a time.

    It reads a prompt when it is first asked: where drafting does not pay, it never does.

    Args:
        model: the draft model.
        process: the same processors that make the target's logits a distribution.
        vocabulary: which of the target's tokens the draft has.
        last_tokens: tokens after which drafting on is useless (end of text).
        goes_on: told the probability that all tokens drafted so far in a round are accepted, and how
            many positions their verification has, says whether to draft another; None drafts γ. It
            knows nothing of the token that comes next, so whether a draft ends behind its tokens
            depends on these alone, and the distribution is kept.
        beside: told the probability that a candidate, another guess at a drafted place, will stand there,
            and the same number, says whether to propose it; None proposes none.
        answers: of a prompt that is a conversation, see `Model.prefill`.
    """

    def __init__(
        self,
        model: Model,
        process: Process,
        vocabulary: Vocabulary,
        last_tokens: Collection[int] = (),
        should_continue: Callable[[float, int], bool] | None = None,
        worth_candidate: Callable[[float, int], bool] | None = None,
        answers: Sequence[range] | None = None,
    ) -> None:
        self._model = model
        self._judges = should_continue is not None or worth_candidate is not None
        self._guess = _guesses(model, process, vocabulary, with_probability=self._judges)
        self._vocabulary = vocabulary
        self._last_tokens = frozenset(last_tokens)
        self._should_continue = should_continue
        self._worth_candidate = worth_candidate
        self._answers = answers
        self._unread: Sequence[int] | None = None  # the prompt, until a first token is asked for
        self._start = 0
        self._cached: list[int] = []  # tokens of the text in the cache, behind the prompt
        self._confirmed = 0  # how many of them are known to be the target's

    @property
    def seconds(self) -> float:
        return self._model.seconds

    def begin(self, prompt: Sequence[int]) -> None:
        self._unread = prompt
        self._cached = []
        self._confirmed = 0

    def propose(self, text: Sequence[int], gamma: int, randomness: Randomness) -> Proposal:
        if self._unread is not None:
            self._model.prefill(self._vocabulary.to_draft_ids(self._unread), self._answers)
            self._start = self._model.length
            self._unread = None
        self._rewind_to_common_prefix(text)
        unseen = list(text[self._confirmed :])
        room = self._model.capacity - self._model.length - len(unseen) + 1
        tokens: list[int] = []
        distributions: list[Distribution] = []
        candidates: list[Candidate] = []
        probability = 1.0
        while len(tokens) < min(gamma, room):
            guess = self._guess(unseen)
            self._cached += unseen
            token = randomness.categorical(guess.q)
            tokens.append(token)
            distributions.append(guess.q)
            rows = 1 + len(tokens) + len(candidates)
            if self._worth_candidate is not None:
                for other, other_probability in guess.others():
                    if self._worth_candidate(probability * other_probability, rows):
                        candidates.append(Candidate(len(tokens) - 1, other))
                        rows += 1
            if token in self._last_tokens:
                break
            if self._judges:
                probability *= guess.with_probability(token)
            if self._should_continue is not None and not self._should_continue(probability, rows):
                break
            unseen = [token]
        return Proposal(tokens, distributions, candidates)

    def _rewind_to_common_prefix(self, text: Sequence[int]) -> None:
        """Drops rejected tokens from the cache.

        After a full acceptance it also lacks the draft's own last token; scoring everything behind
        the common prefix covers both cases.
        """
        valid_length = self._model.valid_length - self._start
        most = min(len(self._cached), len(text) - 1, valid_length)  # the last token is scored anew
        while self._confirmed < most and self._cached[self._confirmed] == text[self._confirmed]:
            self._confirmed += 1
        del self._cached[self._confirmed :]
        self._model.rewind(self._start + self._confirmed)


class _Guess(NamedTuple):
    """A draft's answer to some of the target's tokens.

    Attributes:
        q: the distribution of the next one.
        sure: how probable the draft finds a token drawn from q.
        others: the next best tokens, and how probable it finds them.
    """

    q: Distribution
    with_probability: Callable[[int], float]
    others: Callable[[], Sequence[tuple[int, float]]]


def _guesses(
    model: Model, process: Process, vocabulary: Vocabulary, *, with_probability: bool
) -> Callable[[Sequence[int]], _Guess]:
    """How a draft is asked; whether it is sure is only known if that was asked, too."""
    covers = vocabulary.covers(model.vocab_size)

    def by_logits(tokens: Sequence[int]) -> _Guess:
        logits = model.score(vocabulary.to_draft_ids(tokens))[-1]
        q = vocabulary.distribution(process, logits)
        if len(q.tokens) > 1:
            return _Guess(q, lambda token: float(q.of(token)), list)
        best = cache(partial(_best, logits))

        def others() -> Sequence[tuple[int, float]]:
            if not covers:
                return []
            return [
                (vocabulary.to_target_ids([token])[0], probability)
                for token, probability in best()[1:]
            ]

        return _Guess(q, lambda _: best()[0][1], others)

    top_tokens_model = top_tokens_model_of(model, process)
    if top_tokens_model is None or not covers:
        return by_logits

    def by_choice(tokens: Sequence[int]) -> _Guess:
        to_draft_ids = vocabulary.to_draft_ids(tokens)
        top = top_tokens_model.top_tokens(
            to_draft_ids, skip=len(to_draft_ids) - 1, probabilities=with_probability
        )
        token, *others = vocabulary.to_target_ids(top.tokens[0].tolist())
        q = certain(token, top.logits.item(0))
        if top.probabilities is None:
            return _Guess(q, lambda _: 1.0, list)
        probability, *probabilities = top.probabilities[0].tolist()
        return _Guess(
            q, lambda _: probability, lambda: list(zip(others, probabilities, strict=True))
        )

    return by_choice


def _best(logits: Logits) -> list[tuple[int, float]]:
    """The most probable of a draft's tokens, before the arg-max is taken, and their probabilities."""
    weights = np.empty_like(logits)
    arithmetic = arithmetic_for(logits)
    total = arithmetic.weigh(logits, float(logits.max()), 1.0, weights)
    best = []
    for _ in range(min(TOP_K, len(weights))):
        place = arithmetic.largest(weights)
        best.append((place, float(weights[place]) / total))
        weights[place] = -1
    return best
