"""The languages of a translation model that is told them by tokens, as mBART is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgespec.errors import UsageError, shortened

__all__ = ["Languages"]

MOST_NAMED = 60  # in a message


@dataclass(frozen=True)
class Languages:
    """Which languages a model has, and where their tokens belong.

    Attributes:
        tokens: the token of each language, by the language's code.
        source: the language of the text that is translated, unless another is asked for.
        source_is_last: its token ends the text's tokens; else it begins them.
        target: the language that is translated into, unless another is asked for; None leaves it to
            the model.
        target_is_start: the decoder starts with the target's token; else it is the first token
            after the start token.
    """

    tokens: dict[str, int]
    source: str
    source_is_last: bool
    target: str | None
    target_is_start: bool

    def __post_init__(self) -> None:
        for language in (self.source, self.target):
            if language is not None and language not in self.tokens:
                raise ValueError(f"the language {shortened(language)} has no token")

    def token(self, language: object, option: str) -> int:
        """The token of a language.

        Args:
            option: what asks for it, for the message.

        Raises:
            UsageError: the model does not have it.
        """
        if isinstance(language, str) and language in self.tokens:
            return self.tokens[language]
        left = len(self.tokens) - MOST_NAMED
        more = f" and {left} more" if left > 0 else ""
        known = ", ".join(sorted(self.tokens)[:MOST_NAMED])
        raise UsageError(f"{option} is {shortened(language)}; this model knows {known}{more}")

    def from_source(self, tokens: Sequence[int], language: str) -> list[int]:
        """The tokens of a text with another source language than the model's own.

        Raises:
            UsageError: the model does not have it.
        """
        changed = list(tokens)
        changed[-1 if self.source_is_last else 0] = self.token(language, "source_language")
        return changed
