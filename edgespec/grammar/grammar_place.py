"""A place in a grammar: llguidance's matcher, moved to and fro over a text.

A matcher that goes over a limit does not raise: it reads nothing more, and says so only when it is
asked for a mask. So an answer of "no" is believed after that question alone. What it reads before
is right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from edgespec.errors import UsageError, needs_extra
from edgespec.grammar.grammar import LARK, LONGEST_REASON, Grammar, refusal_line
from edgespec.grammar.grammar_vocabulary import GrammarVocabulary
from edgespec.grammar.timed_work import SlowMatcherError

if TYPE_CHECKING:
    from llguidance import LLMatcher

__all__ = ["Place", "StoppedMatcherError", "common_length"]

T = TypeVar("T")

NO_TOKEN = "NoExtensionBias"  # llguidance's name of a place where no token fits
OUT_OF_FUEL = "too many expressions constructed"


class StoppedMatcherError(UsageError):
    """A grammar needs more work at some place than a matcher does: nothing is known there."""


class Place:
    """A matcher, and the tokens that it has read.

    How much work a place is depends on what the matcher was asked before. So whoever needs answers
    that do not depend on others' questions has a place of its own.

    Args:
        options: rules that are added to the grammar's.

    Raises:
        UsageError: llguidance refuses the grammar, or an earlier one still works.

    Every method but `has_read` raises SlowMatcherError where the matcher takes too long. It is lost
    then: nothing else may be asked.
    """

    def __init__(self, grammar: Grammar, vocabulary: GrammarVocabulary, options: str) -> None:
        self._kind = grammar.kind
        self._rules = grammar.rules + options
        self._vocabulary = vocabulary
        self._read: list[int] = []
        self._is_lark = grammar.kind == LARK
        self._lost = False
        if self._is_lark:
            vocabulary.timed.check()
        self._start = self._opened()
        self._matcher: LLMatcher = self._start.deep_copy()

    def reopen(self) -> None:
        """Takes a new matcher: one that stopped never goes on, nor do its copies."""
        self._start = self._opened()
        self._begin_again()

    def has_read(self, tokens: Sequence[int]) -> bool:
        """Whether these are among the tokens that it has just read."""
        return common_length(self._read, tokens) == len(tokens)

    def go(self, tokens: Sequence[int]) -> bool:
        """Goes to the place after these tokens; false if no legal text begins with them.

        Raises:
            StoppedMatcherError: the matcher went over a limit.
        """
        self._check_kept()
        common = common_length(self._read, tokens)
        if common < len(self._read) and not self._matcher.rollback(len(self._read) - common):
            self._begin_again()
            common = 0
        matcher, rest = self._matcher, list(tokens[common:])
        new = self._timed(lambda: matcher.try_consume_tokens(rest))
        self._read = list(tokens[: common + new])
        if len(self._read) == len(tokens):
            return True
        self.check()
        return False

    def mask(self) -> tuple[bytes | None, bool]:
        """The tokens that may follow here, as bits, and whether the text may end; None instead of
        the bits where no token of the vocabulary may follow.

        Raises:
            StoppedMatcherError: the matcher went over a limit.
        """
        bits = self._timed(self._matcher.compute_bitmask)
        may_end = self.may_end()
        if self._matcher.is_error():
            self._refuse_stopped()
            return None, False
        return bits, may_end

    def check(self) -> None:
        """Raises StoppedMatcherError if the matcher went over a limit."""
        self.mask()

    def may_end(self) -> bool:
        """Whether the text may end here."""
        self._check_kept()
        return bool(self._matcher.is_accepting())

    def readable(self, tokens: Sequence[int]) -> int:
        """How many of the tokens can be read here; see `check` where that is too few."""
        matcher = self._matcher
        return self._timed(lambda: matcher.validate_tokens(list(tokens)))

    def forced_text(self) -> bytes:
        """The only text that can follow here.

        Raises:
            StoppedMatcherError: the matcher went over a limit.
        """
        text: bytes = self._timed(self._matcher.compute_ff_bytes)
        if self._matcher.is_error():
            self._refuse_stopped()
        return text

    def forced_tokens(self) -> list[int]:
        """The tokenizer's tokens of the text that is forced here."""
        ids: list[int] = self._timed(self._matcher.compute_ff_tokens)
        return ids

    def _timed(self, work: Callable[[], T]) -> T:
        """The work's result. Only parsers of Lark grammars may be ambiguous, see `TimedWork`."""
        self._check_kept()
        if not self._is_lark:
            return work()
        try:
            return self._vocabulary.timed(self._kind, work)
        except SlowMatcherError:
            self._lost = True
            raise

    def _check_kept(self) -> None:
        """Raises SlowMatcherError if the matcher was left to work that was given up."""
        if self._lost:
            raise SlowMatcherError(
                f"the {self._kind} is too ambiguous: its matcher was given up, as it took too long "
                "for one token; let each text be read in few ways only"
            )

    def _opened(self) -> LLMatcher:
        with needs_extra("grammar"):
            from llguidance import LLMatcher, LLParserLimits
        rules = LLMatcher.grammar_from_lark(self._rules)
        limits = LLParserLimits(verbose_errors=False)
        self._fuel = limits.step_lexer_fuel
        matcher = LLMatcher(self._vocabulary.tokens, rules, log_level=0, limits=limits)
        if matcher.is_error():
            raise UsageError(refusal_line(self._kind, matcher.get_error()))
        return matcher

    def _begin_again(self) -> None:
        self._matcher = self._start.deep_copy()
        self._read = []

    def _refuse_stopped(self) -> None:
        """Raises the error of a matcher in error, unless it only found no token: that is an answer.
        Such a matcher is used no more."""
        reason = self._matcher.get_error()
        if reason.startswith(NO_TOKEN):
            self._begin_again()
            return
        reason = " ".join(reason.partition("\n<")[0].split())[:LONGEST_REASON]
        if reason.endswith(OUT_OF_FUEL):  # the others name their limits
            reason = f"{reason}, the limit is {self._fuel} a step"
        raise StoppedMatcherError(
            f"the {self._kind} is too large: after {len(self._read)} tokens its matcher stops "
            f"({reason}); nest fewer repetitions and alternatives, or make their numbers smaller"
        )


def common_length(before: Sequence[int], tokens: Sequence[int]) -> int:
    """With how many equal tokens two texts begin."""
    shorter = min(len(before), len(tokens))
    if before[:shorter] == tokens[:shorter]:
        return shorter
    return next(index for index in range(shorter) if before[index] != tokens[index])
