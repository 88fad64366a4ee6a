"""Where drafts come from: a model, or the text itself.

A draft never changes what is generated, only how fast, as long as it reports truthfully which law
each of its tokens was drawn from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from edgespec.artifact.graph_io import CHOICES
from edgespec.core.distribution import Distribution, Logits, Process, certain
from edgespec.core.draft import Proposal
from edgespec.core.model import Model, Sibling
from edgespec.core.randomness import Randomness
from edgespec.core.scoring import chooser_of
from edgespec.core.vocab_ops import arithmetic_for
from edgespec.drafters.vocabulary_map import Vocabulary

__all__ = ["ModelDraft"]


class ModelDraft:
    """A smaller model q, sampled one token at a time.

    It reads a prompt when it is first asked: where drafting does not pay, it never does.

    Args:
        model: the draft model.
        process: the same processors that make the target's logits a distribution.
        vocabulary: which of the target's tokens the draft has.
        last_tokens: tokens after which drafting on is useless (end of text).
        goes_on: told the chance that all tokens drafted so far in a round are accepted, and how
            many positions their verification has, says whether to draft another; None drafts γ. It
            knows nothing of the token that comes next, so whether a draft ends behind its tokens
            depends on these alone, and the law is kept.
        beside: told the chance that a sibling, another guess at a drafted place, will stand there,
            and the same number, says whether to propose it; None proposes none.
        answers: of a prompt that is a conversation, see `Model.prefill`.
    """

    def __init__(
        self,
        model: Model,
        process: Process,
        vocabulary: Vocabulary,
        last_tokens: Collection[int] = (),
        goes_on: Callable[[float, int], bool] | None = None,
        beside: Callable[[float, int], bool] | None = None,
        answers: Sequence[range] | None = None,
    ) -> None:
        self._model = model
        self._judges = goes_on is not None or beside is not None
        self._guess = _guesses(model, process, vocabulary, sure=self._judges)
        self._vocabulary = vocabulary
        self._last_tokens = frozenset(last_tokens)
        self._goes_on = goes_on
        self._beside = beside
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
            self._model.prefill(self._vocabulary.shown(self._unread), self._answers)
            self._start = self._model.length
            self._unread = None
        self._rewind_to_common_prefix(text)
        unseen = list(text[self._confirmed :])
        room = self._model.capacity - self._model.length - len(unseen) + 1
        tokens: list[int] = []
        laws: list[Distribution] = []
        siblings: list[Sibling] = []
        chance = 1.0
        while len(tokens) < min(gamma, room):
            guess = self._guess(unseen)
            self._cached += unseen
            token = randomness.categorical(guess.q)
            tokens.append(token)
            laws.append(guess.q)
            rows = 1 + len(tokens) + len(siblings)
            if self._beside is not None:
                for other, other_chance in guess.others():
                    if self._beside(chance * other_chance, rows):
                        siblings.append(Sibling(len(tokens) - 1, other))
                        rows += 1
            if token in self._last_tokens:
                break
            if self._judges:
                chance *= guess.sure(token)
            if self._goes_on is not None and not self._goes_on(chance, rows):
                break
            unseen = [token]
        return Proposal(tokens, laws, siblings)

    def _rewind_to_common_prefix(self, text: Sequence[int]) -> None:
        """Drops rejected tokens from the cache.

        After a full acceptance it also lacks the draft's own last token; scoring everything behind
        the common prefix covers both cases.
        """
        settled = self._model.settled - self._start
        most = min(len(self._cached), len(text) - 1, settled)  # the last token is scored anew
        while self._confirmed < most and self._cached[self._confirmed] == text[self._confirmed]:
            self._confirmed += 1
        del self._cached[self._confirmed :]
        self._model.rewind(self._start + self._confirmed)


class _Guess(NamedTuple):
    """A draft's answer to some of the target's tokens.

    Attributes:
        q: the law of the next one.
        sure: how probable the draft finds a token drawn from q.
        others: the next best tokens, and how probable it finds them.
    """

    q: Distribution
    sure: Callable[[int], float]
    others: Callable[[], Sequence[tuple[int, float]]]


def _guesses(
    model: Model, process: Process, vocabulary: Vocabulary, *, sure: bool
) -> Callable[[Sequence[int]], _Guess]:
    """How a draft is asked; whether it is sure is only known if that was asked, too."""
    says_all = vocabulary.says_all(model.vocab_size)

    def by_logits(tokens: Sequence[int]) -> _Guess:
        logits = model.score(vocabulary.shown(tokens))[-1]
        q = vocabulary.law(process, logits)
        if len(q.tokens) > 1:
            return _Guess(q, lambda token: float(q.of(token)), list)
        best = cache(partial(_best, logits))

        def others() -> Sequence[tuple[int, float]]:
            if not says_all:
                return []
            return [(vocabulary.said([token])[0], chance) for token, chance in best()[1:]]

        return _Guess(q, lambda _: best()[0][1], others)

    chooser = chooser_of(model, process)
    if chooser is None or not says_all:
        return by_logits

    def by_choice(tokens: Sequence[int]) -> _Guess:
        shown = vocabulary.shown(tokens)
        chosen = chooser.choose(shown, skip=len(shown) - 1, chances=sure)
        token, *others = vocabulary.said(chosen.tokens[0].tolist())
        q = certain(token, chosen.logits.item(0))
        if chosen.chances is None:
            return _Guess(q, lambda _: 1.0, list)
        chance, *chances = chosen.chances[0].tolist()
        return _Guess(q, lambda _: chance, lambda: list(zip(others, chances, strict=True)))

    return by_choice


def _best(logits: Logits) -> list[tuple[int, float]]:
    """The most probable of a draft's tokens, before the arg-max is taken, and their chances."""
    weights = np.empty_like(logits)
    arithmetic = arithmetic_for(logits)
    total = arithmetic.weigh(logits, float(logits.max()), 1.0, weights)
    best = []
    for _ in range(min(CHOICES, len(weights))):
        place = arithmetic.largest(weights)
        best.append((place, float(weights[place]) / total))
        weights[place] = -1
    return best
