"""Log-probabilities in OpenAI's two forms, of chat completions and of completions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

from edgespec.grammar.token_bytes import token_writer
from edgespec.openai.json_value import JsonObject, JsonValue
from edgespec.pair.logprobs import TopLogprobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenizers import Tokenizer

__all__ = ["TokenLogprobs", "TokenText", "TokenTexts", "chat_logprobs", "text_logprobs"]

LOWEST = -9999.0  # OpenAI's, for what is impossible; JSON has no infinity
PART = "\N{REPLACEMENT CHARACTER}"  # in place of a part of a character


class TokenLogprobs(NamedTuple):
    """A token of a text.

    Attributes:
        token: its id.
        logprob: None for a text's first token, which nothing comes before.
        top: the most probable tokens in its stead.
        start: the index in the text of its first character.
    """

    token: int
    logprob: float | None
    top: TopLogprobs
    start: int


@dataclass(frozen=True)
class TokenText:
    r"""What a token writes.

    Attributes:
        text: "bytes:\xf0\x9f" for a part of a character, as at OpenAI.
        utf8: its bytes; None if they are not known.
    """

    text: str
    utf8: Sequence[int] | None


class TokenTexts:
    """The text of each single token."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.of = cache(self._text)

    def _text(self, token: int) -> TokenText:
        """As it reads after another token: some tokenizers drop the first token's space."""
        once = self._tokenizer.decode([token], skip_special_tokens=False)
        twice: str = self._tokenizer.decode([token, token], skip_special_tokens=False)
        text = twice[len(once) :]
        if PART not in twice:
            return TokenText(text, [*text.encode()])
        name = self._tokenizer.id_to_token(token)
        if name is None or self._write is None:
            return TokenText(text, None)
        written = self._write(name)
        try:
            return TokenText(written.decode(), [*written])
        except UnicodeDecodeError:
            return TokenText("bytes:" + "".join(f"\\x{byte:02x}" for byte in written), [*written])

    @cached_property
    def _write(self) -> Callable[[str], bytes] | None:
        return token_writer(self._tokenizer)


def chat_logprobs(tokens: Sequence[TokenLogprobs], texts: TokenTexts) -> JsonObject:
    """The field `logprobs` of a chat completion's choice."""

    def entry(token: int, logprob: float | None) -> dict[str, JsonValue]:
        text = texts.of(token)
        return {"token": text.text, "logprob": _finite(logprob), "bytes": text.utf8}

    content = [
        {**entry(one.token, one.logprob), "top_logprobs": [entry(*other) for other in one.top]}
        for one in tokens
    ]
    return {"content": content, "refusal": None}


def text_logprobs(tokens: Sequence[TokenLogprobs], texts: TokenTexts) -> JsonObject:
    """The field `logprobs` of a completion's choice."""
    return {
        "tokens": [texts.of(one.token).text for one in tokens],
        "token_logprobs": [_finite(one.logprob) for one in tokens],
        "top_logprobs": [None if one.logprob is None else _tops(one.top, texts) for one in tokens],
        "text_offset": [one.start for one in tokens],
    }


def _tops(top: TopLogprobs, texts: TokenTexts) -> JsonObject:
    """By the tokens' texts; of two tokens with one text, the more probable."""
    return {texts.of(token).text: _finite(logprob) for token, logprob in reversed(top)}


def _finite(logprob: float | None) -> float | None:
    return None if logprob is None else max(logprob, LOWEST)
