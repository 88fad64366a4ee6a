"""Which tokens a grammar allows after a text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from edgespec.core.array_types import LegalRow
from edgespec.core.decode import Round
from edgespec.errors import EdgespecError, UsageError
from edgespec.grammar.grammar import Grammar
from edgespec.grammar.grammar_place import Place, StoppedMatcherError, common_length
from edgespec.grammar.grammar_vocabulary import GrammarVocabulary

__all__ = ["ALL_SPELLINGS", "GrammarMatcher"]

T = TypeVar("T")

# Every token that keeps the text legal is in the mask, also where the text is forced.
ALL_SPELLINGS = '\n%llguidance {"no_forcing": true}\n'
KEPT = 64  # rows before the latest one that are kept: a round asks for those of its drafted tokens
# Single tokens are asked about in between: a mask gives a matcher new strength to read on.
ROW_EVERY = 32


class GrammarMatcher:
    """The `LegalTokens` of one text.

    The matcher follows the text that it is asked about: it goes back over tokens that were drafted
    and rejected, and reads those that are new. Where it goes over a limit, a new one is tried once.

    Whether it does depends on what it was asked before. The rows of a text are asked for one after
    the other, with a draft as without, so the text and its error are the same: provided that
    nothing else asks, in particular no draft (`DraftMatcher`).

    Args:
        grammar: what the text must look like.
        vocabulary: of the model.

    Raises:
        UsageError: the grammar cannot be used, or this vocabulary has no token to begin with.
    """

    def __init__(self, grammar: Grammar, vocabulary: GrammarVocabulary) -> None:
        self._kind = grammar.kind
        self._vocabulary = vocabulary
        self._last_tokens = frozenset(vocabulary.last_tokens.tolist())
        special = set(vocabulary.special.tolist())
        self._hidden = special.difference(grammar.special_tokens)
        self._hidden_columns = np.array(sorted(self._hidden), np.int64)
        self._place = Place(grammar, vocabulary, ALL_SPELLINGS)
        self._text: list[int] = []  # asked about last
        # What is known of `_text`, by the number of its tokens before: rows, and single tokens.
        self._rows: dict[int, LegalRow | None] = {}
        self._allowed: dict[int, dict[int, bool]] = {}
        first = self.legal([])
        if first is None or not first.any():
            raise UsageError(
                f"the {grammar.kind} allows no text that this model's tokens can write; change it"
            )

    def legal(self, generated: Sequence[int]) -> LegalRow | None:
        """See `LegalTokens`."""
        count = len(generated)
        self._follow(generated)
        if count not in self._rows:
            self._rows[count] = self._asked(lambda: self._row(generated))
        return self._rows[count]

    def allows(self, token: int, generated: Sequence[int]) -> bool:
        """See `LegalTokens`. One token is read, where a row of all is known by far more work; a
        drafted one is asked about again when it is verified."""
        count = len(generated)
        self._follow(generated)
        if self._rows.get(count) is not None:
            return self._in_row(token, generated)
        known = self._allowed.setdefault(count, {})
        if token not in known:
            known[token] = self._asked(lambda: self._reads(token, generated))
        return known[token]

    def readable(self, tokens: Sequence[int], generated: Sequence[int]) -> int:
        """How many of the tokens can follow these; end-of-text tokens are none of them."""
        if not self._can_go_on(generated):
            return 0
        spelled = self._vocabulary.spelled(generated)
        return self._place.readable(tokens) if self._place.go(spelled) else 0

    def may_end(self, generated: Sequence[int]) -> bool:
        """Whether these are a whole text, without its end-of-text token."""
        spelled = self._vocabulary.spelled(generated)
        return self._can_go_on(generated) and self._place.go(spelled) and self._place.may_end()

    def fitting(self, rounds: Iterator[Round]) -> Iterator[Round]:
        """Passes a text's rounds on.

        Raises:
            EdgespecError: the text has left its grammar. No text does.
        """
        generated: list[int] = []
        for round_ in rounds:
            generated += round_.tokens
            if not self._fits(generated):
                raise EdgespecError(
                    f"the text left its {self._kind} within {len(generated)} tokens, which must "
                    "not happen; please report it, with the grammar"
                )
            yield round_

    def _fits(self, generated: Sequence[int]) -> bool:
        """Whether a text, ended or not, is one of the grammar's, as far as the matcher can tell."""
        ended = generated[-1] in self._last_tokens
        before = generated[:-1] if ended else generated
        if not ended and self._place.has_read(self._vocabulary.spelled(before)):
            return True
        try:
            if ended:
                return self._asked(
                    lambda: self.may_end(before) or self._in_row(generated[-1], before)
                )
            return self._asked(lambda: self._place.go(self._vocabulary.spelled(before)))
        except StoppedMatcherError:
            return True  # each token was legal; where the text goes on, this is its error

    def _asked(self, question: Callable[[], T]) -> T:
        """The answer to a question; by a new matcher if this one goes over a limit."""
        try:
            return question()
        except StoppedMatcherError:
            self._place.reopen()
            return question()

    def _follow(self, generated: Sequence[int]) -> None:
        """Forgets what is known of another text than this one."""
        common = common_length(self._text, generated)
        if common < len(generated):
            self._text = list(generated)
            kept = range(len(generated) - KEPT, common + 1)
            self._rows = {before: row for before, row in self._rows.items() if before in kept}
            self._allowed = {before: of for before, of in self._allowed.items() if before in kept}

    def _in_row(self, token: int, generated: Sequence[int]) -> bool:
        row = self.legal(generated)
        return row is None or (0 <= token < len(row) and bool(row[token]))

    def _reads(self, token: int, generated: Sequence[int]) -> bool:
        first_of_spaced = not generated and token in self._vocabulary.spaced
        by_row = len(generated) % ROW_EVERY == ROW_EVERY - 1
        if first_of_spaced or by_row or not self._can_go_on(generated):
            return self._in_row(token, generated)
        if not self._place.go(self._vocabulary.spelled(generated)):
            return True
        if token in self._last_tokens:
            legal = self._place.may_end()
        elif token in self._hidden or not 0 <= token < self._vocabulary.size:
            return False
        else:
            legal = self._place.readable([token]) == 1
        return legal or self._in_row(token, generated)  # a matcher that stopped reads nothing

    def _row(self, generated: Sequence[int]) -> LegalRow | None:
        if not self._can_go_on(generated):
            return None
        place, vocabulary = self._place, self._vocabulary
        if not place.go(vocabulary.spelled(generated)):
            return None
        bits, may_end = place.mask()
        if bits is None:
            return np.zeros(vocabulary.size, np.bool_)
        row = vocabulary.row(bits)
        row[self._hidden_columns] = False
        row[vocabulary.last_tokens] = may_end
        if not generated and vocabulary.spaced:
            for token, spelling in vocabulary.spaced.items():
                row[token] = place.readable(spelling) == len(spelling)
            place.check()
        return row

    def _can_go_on(self, generated: Sequence[int]) -> bool:
        """Whether no token among them ends the text."""
        return self._last_tokens.isdisjoint(generated)
