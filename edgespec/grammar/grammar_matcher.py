"""Which tokens a grammar allows after a text: llguidance's matcher, moved to and fro."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgespec.core.array_types import LegalRow
from edgespec.errors import UsageError, needs_extra
from edgespec.grammar.grammar import Grammar, refusal_line
from edgespec.grammar.grammar_vocabulary import GrammarVocabulary
from edgespec.grammar.spellings import Spellings

if TYPE_CHECKING:
    from llguidance import LLMatcher

__all__ = ["GrammarMatcher"]

# Every token that keeps the text legal is in the mask, also where the text is forced.
ALL_SPELLINGS = '\n%llguidance {"no_forcing": true}\n'
KEPT = 64  # rows before the latest one that are kept: a round asks for those of its drafted tokens


class GrammarMatcher:
    """The `LegalTokens` of one text.

    The matcher follows the text that it is asked about: it goes back over tokens that were drafted
    and rejected, and reads those that are new.

    Args:
        grammar: what the text must look like.
        vocabulary: of the model.
        spellings: of forced texts by the target, in this text and in earlier ones.

    Raises:
        UsageError: the grammar cannot be used, or this vocabulary has no token to begin with.
    """

    def __init__(
        self,
        grammar: Grammar,
        vocabulary: GrammarVocabulary,
        spellings: Spellings | None = None,
    ) -> None:
        self._vocabulary = vocabulary
        self._spellings = Spellings() if spellings is None else spellings
        self._forced_after: tuple[list[int], bytes] = [], b""  # the latest forced text
        self._last_tokens = frozenset(vocabulary.last_tokens.tolist())
        special = set(vocabulary.special.tolist())
        self._hidden = special.difference(grammar.special_tokens)
        self._hidden_columns = np.array(sorted(self._hidden), np.int64)
        self._place = _Place(grammar, vocabulary, ALL_SPELLINGS)
        self._forcing: _Place | None = _Place(grammar, vocabulary, "")
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
            self._rows[count] = self._row(generated)
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
            known[token] = self._reads(token, generated)
        return known[token]

    def _follow(self, generated: Sequence[int]) -> None:
        """Forgets what is known of another text than this one."""
        common = _common(self._text, generated)
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
        if first_of_spaced or not self._can_go_on(generated):
            return self._in_row(token, generated)
        spelled = self._vocabulary.spelled(generated)
        if not self._place.go(spelled):
            return True
        if token in self._last_tokens:
            return self._place.may_end()
        if token in self._hidden or not 0 <= token < self._vocabulary.size:
            return False
        return self._place.readable(spelled, [token]) == 1

    def forced(self, generated: Sequence[int], most: int) -> Sequence[int]:
        """See `LegalTokens`. Spelled as the target did when the same was forced before, else as the
        tokenizer does."""
        self._learn(generated)
        if self._forcing is None or most < 1 or not self._can_go_on(generated):
            return []
        spelled = self._vocabulary.spelled(generated)
        text = self._forcing.forced_text(spelled)
        if text is None:
            self._forcing = None  # it went over one of its limits; nothing else depends on it
            return []
        if not generated and self._vocabulary.spaced:
            return []  # the model may begin with a space that is dropped
        self._forced_after = list(generated), text
        tokens = self._spelled_before(text, most) or self._forcing.forced_tokens()
        tokens = tokens[: self._place.readable(spelled, tokens[:most])]
        return [*tokens, *self._forced_end([*generated, *tokens])][:most]

    def _learn(self, generated: Sequence[int]) -> None:
        """Reads what the target wrote where the latest text was forced."""
        before, text = self._forced_after
        if text and len(generated) > len(before) == _common(before, generated):
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
        if not self._place.go(self._vocabulary.spelled(generated)) or not self._place.may_end():
            return []
        row = self.legal(generated)
        return [] if row is None or row.sum() != 1 else [int(row.argmax())]

    def _row(self, generated: Sequence[int]) -> LegalRow | None:
        if not self._can_go_on(generated):
            return None
        spelled = self._vocabulary.spelled(generated)
        place, vocabulary = self._place, self._vocabulary
        if not place.go(spelled):
            return None
        bits, may_end = place.mask()
        if bits is None:
            return np.zeros(vocabulary.size, np.bool_)
        row = vocabulary.row(bits)
        row[self._hidden_columns] = False
        row[vocabulary.last_tokens] = may_end
        if not generated:
            for token, spelling in vocabulary.spaced.items():
                row[token] = place.readable(spelled, spelling) == len(spelling)
        return row

    def _can_go_on(self, generated: Sequence[int]) -> bool:
        """Whether no token among them ends the text."""
        return self._last_tokens.isdisjoint(generated)


class _Place:
    """A matcher, and the tokens that it has read.

    Args:
        options: rules that are added to the grammar's.

    Raises:
        UsageError: llguidance refuses the grammar.
    """

    def __init__(self, grammar: Grammar, vocabulary: GrammarVocabulary, options: str) -> None:
        with needs_extra("grammar"):
            from llguidance import LLMatcher, LLParserLimits
        rules = LLMatcher.grammar_from_lark(grammar.rules + options)
        limits = LLParserLimits(verbose_errors=False)
        self._start = LLMatcher(vocabulary.tokens, rules, log_level=0, limits=limits)
        if self._start.is_error():
            raise UsageError(refusal_line(grammar.kind, self._start.get_error()))
        self._matcher: LLMatcher = self._start.deep_copy()
        self._read: list[int] = []

    def go(self, tokens: Sequence[int]) -> bool:
        """Goes to the place after these tokens; false if no legal text begins with them."""
        common = _common(self._read, tokens)
        if common < len(self._read):
            self._matcher.rollback(len(self._read) - common)
        new = self._matcher.try_consume_tokens(list(tokens[common:]))
        self._read = list(tokens[: common + new])
        return len(self._read) == len(tokens)

    def mask(self) -> tuple[bytes | None, bool]:
        """The tokens that may follow here, as bits, and whether the text may end; None instead of
        the bits where the matcher finds no token, or goes over one of its limits."""
        bits = self._matcher.compute_bitmask()
        may_end = self.may_end()
        if self._matcher.is_error():
            self._begin_again()
            return None, False
        return bits, may_end

    def may_end(self) -> bool:
        """Whether the text may end here."""
        return bool(self._matcher.is_accepting())

    def readable(self, before: Sequence[int], tokens: Sequence[int]) -> int:
        """How many of the tokens can be read after those before."""
        return self._matcher.validate_tokens(list(tokens)) if self.go(before) else 0

    def forced_text(self, tokens: Sequence[int]) -> bytes | None:
        """The only text that can follow; None after an error."""
        text: bytes = self._matcher.compute_ff_bytes() if self.go(tokens) else b""
        if self._matcher.is_error():
            self._begin_again()
            return None
        return text

    def forced_tokens(self) -> list[int]:
        """The tokenizer's tokens of the text that is forced here."""
        ids: list[int] = self._matcher.compute_ff_tokens()
        return ids

    def _begin_again(self) -> None:
        """A matcher never leaves an error."""
        self._matcher = self._start.deep_copy()
        self._read = []


def _common(before: Sequence[int], tokens: Sequence[int]) -> int:
    """With how many equal tokens two texts begin."""
    shorter = min(len(before), len(tokens))
    if before[:shorter] == tokens[:shorter]:
        return shorter
    return next(index for index in range(shorter) if before[index] != tokens[index])
