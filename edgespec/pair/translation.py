"""What a text's languages change: the tokens of its source, and how its decoder begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgespec.artifact.languages import Languages
from edgespec.core.array_types import VocabRow
from edgespec.core.logit_edits import FirstToken, LogitEdit
from edgespec.errors import UsageError
from edgespec.pair.prompt import Prompt, PromptInput

__all__ = ["Translation"]


@dataclass(frozen=True)
class Translation:
    """The languages that one text was asked for in; None are the model's own.

    Args:
        languages: of the model; None if it has no choice of them.

    Raises:
        UsageError: the model does not have one, or has no choice.
    """

    languages: Languages | None
    source: str | None = None
    target: str | None = None

    def __post_init__(self) -> None:
        asked = {"source_language": self.source, "target_language": self.target}
        for option, language in asked.items():
            if language is None:
                continue
            if self.languages is None:
                raise UsageError(
                    f"{option} is given, and this model has no languages to choose from; leave it "
                    "out"
                )
            self.languages.token(language, option)

    def prompt(self, encoded: Prompt, given: PromptInput) -> Prompt:
        """The prompt with the token of its source's language.

        Raises:
            UsageError: there is one, and the prompt is no text.
        """
        if self.source is None or self.languages is None or isinstance(given, Prompt):
            return encoded  # what an earlier call returned has the token
        if not (isinstance(given, str) and encoded.is_continued):
            raise UsageError("source_language comes with a text to translate; give one as it is")
        return replace(encoded, tokens=self.languages.from_source(encoded.tokens, self.source))

    @property
    def start(self) -> int | None:
        """The decoder's first token, if it is another than the model's own."""
        languages = self.languages
        return self._other_target if languages is not None and languages.target_is_start else None

    def edit(self, edit: LogitEdit | None) -> LogitEdit | None:
        """The changes of a text's logits, and its forced first token."""
        languages, token = self.languages, self._other_target
        if languages is None or token is None or languages.target_is_start:
            return edit
        first = FirstToken(token)
        if edit is None:
            return first
        others = edit

        def both(logits: VocabRow, generated: Sequence[int]) -> VocabRow:
            return others(logits, generated) if generated else first(logits, generated)

        return both

    @property
    def forces_first(self) -> bool:
        """Whether the text's first token is the language."""
        return self._other_target is not None and self.start is None

    @property
    def _other_target(self) -> int | None:
        languages = self.languages
        if languages is None or self.target is None or self.target == languages.target:
            return None
        return languages.tokens[self.target]
