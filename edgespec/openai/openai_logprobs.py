"""Log-probabilities in OpenAI's two forms, of chat completions and of completions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from edgespec.openai.json_value import JsonObject
from edgespec.pair.generation import TopLogprobs

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["TokenLogprobs", "TokenTexts", "chat_logprobs", "text_logprobs"]

# A token's id, its log-probability, and those of the most probable tokens in its stead.
TokenLogprobs = tuple[int, float, TopLogprobs]


class TokenTexts:
    """The text of each single token."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.of = cache(self._text)

    def _text(self, token: int) -> str:
        """As it reads after another token: some tokenizers drop the first token's space."""
        once = self._tokenizer.decode([token], skip_special_tokens=False)
        twice: str = self._tokenizer.decode([token, token], skip_special_tokens=False)
        return twice[len(once) :]


def chat_logprobs(tokens: Sequence[TokenLogprobs], texts: TokenTexts) -> JsonObject:
    """The field `logprobs` of a chat completion's choice."""

    def entry(token: int, logprob: float) -> JsonObject:
        text = texts.of(token)
        # A part of a character has no text, and its bytes are not known here.
        utf8 = None if "\ufffd" in text else list(text.encode())
        return {"token": text, "logprob": logprob, "bytes": utf8}

    content = [
        {**entry(token, logprob), "top_logprobs": [entry(*other) for other in top]}
        for token, logprob, top in tokens
    ]
    return {"content": content, "refusal": None}


def text_logprobs(tokens: Sequence[TokenLogprobs], texts: TokenTexts, offset: int) -> JsonObject:
    """The field `logprobs` of a completion's choice.

    Args:
        offset: characters of the tokens before them.
    """
    offsets = [offset]
    for token, _, _ in tokens:
        offsets.append(offsets[-1] + len(texts.of(token)))
    return {
        "tokens": [texts.of(token) for token, _, _ in tokens],
        "token_logprobs": [logprob for _, logprob, _ in tokens],
        "top_logprobs": [
            {texts.of(other): logprob for other, logprob in top} for _, _, top in tokens
        ],
        "text_offset": offsets[:-1],
    }
