"""How probable a given text is under the target, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgespec.core.array_types import LogitRows
from edgespec.pair.logprobs import TopLogprobs, token_logprobs
from edgespec.pair.tokenizer import GrowingText

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["TextScores", "begun_scores", "text_starts"]


@dataclass
class TextScores:
    """The scores of a text of n tokens; log-probabilities are natural logarithms, before
    temperature, truncation and penalties.

    Attributes:
        text: that was scored.
        token_ids: [n].
        logprobs: [n], of each token after those before it; None for the first token of all, which
            nothing comes before.
        top_logprobs: [n], the most probable tokens in its stead, as many as were asked for.
        is_best: [n], whether it is the most probable token: greedy decoding would choose it.
        starts: [n], the index in `text` of each token's first character. Tokens within one
            character have the same.
    """

    text: str
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)
    top_logprobs: list[TopLogprobs] = field(default_factory=list)
    is_best: list[bool] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)

    @property
    def logprob(self) -> float:
        """Of the whole text: the sum."""
        return sum(logprob for logprob in self.logprobs if logprob is not None)

    def add(self, logits: LogitRows, tokens: Sequence[int], top: int) -> None:
        """Adds tokens and what they were drawn from: logits [tokens, vocabulary]."""
        self.token_ids += tokens
        for logprob, most in token_logprobs(logits, tokens, top):
            self.logprobs.append(logprob)
            self.top_logprobs.append(most)
        self.is_best += (logits.argmax(axis=-1) == tokens).tolist()


def begun_scores(text: str, first: Sequence[int], starts: Sequence[int]) -> TextScores:
    """Scores that lack all tokens but the first, which has none."""
    scores = TextScores(text, starts=list(starts))
    for token in first:
        scores.token_ids.append(token)
        scores.logprobs.append(None)
        scores.top_logprobs.append(())
        scores.is_best.append(False)
    return scores


def text_starts(tokenizer: Tokenizer, tokens: Sequence[int]) -> tuple[str, list[int]]:
    """The text of tokens, and where each begins in it."""
    growing = GrowingText(tokenizer)
    text, starts = "", []
    for token in tokens:
        starts.append(growing.characters)
        text += growing.add(token)
    return text + growing.end(), starts
