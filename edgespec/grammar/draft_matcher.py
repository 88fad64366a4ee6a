"""What a grammar says to a draft: which tokens are legal, and which are forced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np

from edgespec.core.array_types import LegalRow
from edgespec.grammar.grammar import Grammar
from edgespec.grammar.grammar_matcher import GrammarMatcher
from edgespec.grammar.grammar_place import Place, StoppedMatcherError, common_length
from edgespec.grammar.grammar_vocabulary import GrammarVocabulary
from edgespec.grammar.spellings import Spellings
from edgespec.grammar.timed_work import SlowMatcherError

__all__ = ["DraftMatcher"]

T = TypeVar("T")


class DraftMatcher:
    """The `ForcedTokens` of one text, for its drafter.

    It has matchers of its own, so that no draft changes what the target's matcher finds. They are
    made when they are first asked. Once one goes over a limit, nothing is legal or forced: that
    ends the draft, not the text.

    Args:
        grammar: what the text must look like.
        vocabulary: of the model.
        spellings: of forced texts by the target, in this text and in earlier ones.
    """

    def __init__(
        self,
        grammar: Grammar,
        vocabulary: GrammarVocabulary,
        spellings: Spellings | None = None,
    ) -> None:
        self._grammar = grammar
        self._vocabulary = vocabulary
        self._spellings = Spellings() if spellings is None else spellings
        self._forced_after: tuple[list[int], bytes] = [], b""  # the latest forced text
        self._may_force = True
        self._stopped = False

    @cached_property
    def _matcher(self) -> GrammarMatcher:
        return GrammarMatcher(self._grammar, self._vocabulary)

    @cached_property
    def _forcing(self) -> Place:
        return Place(self._grammar, self._vocabulary, "")

    def legal(self, generated: Sequence[int]) -> LegalRow | None:
        """See `LegalTokens`."""
        nothing: LegalRow | None = np.zeros(self._vocabulary.size, np.bool_)
        return self._unless_stopped(lambda: self._matcher.legal(generated), nothing)

    def allows(self, token: int, generated: Sequence[int]) -> bool:
        """See `LegalTokens`."""
        return self._unless_stopped(lambda: self._matcher.allows(token, generated), False)

    def forced(self, generated: Sequence[int], most: int) -> Sequence[int]:
        """See `ForcedTokens`. Spelled as the target did when the same was forced before, else as
        the tokenizer does."""
        self._learn(generated)
        if not self._may_force or most < 1:
            return []
        try:
            return self._forced(generated, most)
        except (StoppedMatcherError, SlowMatcherError):
            self._may_force = False  # nothing else depends on it
            return []

    def _unless_stopped(self, question: Callable[[], T], otherwise: T) -> T:
        if self._stopped:
            return otherwise
        try:
            return question()
        except (StoppedMatcherError, SlowMatcherError):
            self._stopped = True
            return otherwise

    def _forced(self, generated: Sequence[int], most: int) -> Sequence[int]:
        if not set(self._vocabulary.last_tokens.tolist()).isdisjoint(generated):
            return []
        if not self._forcing.go(self._vocabulary.spelled(generated)):
            return []
        text = self._forcing.forced_text()
        if not generated and self._vocabulary.spaced:
            return []  # the model may begin with a space that is dropped
        self._forced_after = list(generated), text
        tokens = self._spelled_before(text, most) or self._forcing.forced_tokens()
        tokens = tokens[: self._matcher.readable(tokens[:most], generated)]
        return [*tokens, *self._forced_end([*generated, *tokens])][:most]

    def _learn(self, generated: Sequence[int]) -> None:
        """Reads what the target wrote where the latest text was forced."""
        before, text = self._forced_after
        if text and len(generated) > len(before) == common_length(before, generated):
            new = generated[len(before) :]
            self._spellings.learn(text, [(token, self._vocabulary.written(token)) for token in new])
            self._forced_after = [], b""

    def _spelled_before(self, text: bytes, most: int) -> list[int]:
        """At most so many tokens that a forced text was spelled with; none if it never came."""
        tokens: list[int] = []
        while text and len(tokens) < most:
            token = self._spellings.first(text)
            if token is None:
                break
            tokens.append(token)
            text = text[len(self._vocabulary.written(token)) :]
        return tokens

    def _forced_end(self, generated: Sequence[int]) -> Sequence[int]:
        """The end-of-text token, where nothing else may follow."""
        if not self._matcher.may_end(generated):
            return []
        row = self._matcher.legal(generated)
        return [] if row is None or row.sum() != 1 else [int(row.argmax())]
