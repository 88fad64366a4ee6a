"""A model's vocabulary as llguidance reads it, and a text's first token."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError, needs_extra
from edgespec.grammar.timed_work import TimedWork
from edgespec.grammar.token_bytes import token_bytes

if TYPE_CHECKING:
    from llguidance import LLTokenizer
    from tokenizers import Tokenizer

__all__ = ["GrammarVocabulary"]


class GrammarVocabulary:
    """The tokens that grammars are applied to.

    Attributes:
        size: number of tokens: the width of a row of logits.
        last_tokens: end-of-text tokens.
        special: ids of special tokens, end-of-text tokens included.
        tokens: llguidance's form of the vocabulary.
        timed: does the work of matchers that may take long.

    Args:
        tokenizer: of the pair.

    Raises:
        EdgespecError: llguidance is not installed, the tokenizer's kind is not known, or the model
            has no end-of-text token.
    """

    def __init__(self, tokenizer: Tokenizer, size: int, last_tokens: Collection[int]) -> None:
        with needs_extra("grammar"):
            from llguidance import LLTokenizer
        self.size = size
        self.timed = TimedWork()
        self.last_tokens = np.array(sorted(t for t in last_tokens if t < size), np.int64)
        if not len(self.last_tokens):
            raise EdgespecError(
                "this model has no end-of-text token, so no text of a grammar would end"
            )
        written = token_bytes(tokenizer, size)
        self.special = np.array(sorted({*written.special, *self.last_tokens.tolist()}), np.int64)
        self._bytes = written.tokens
        self._drops_first_space = written.drops_first_space
        described = _Described(tokenizer, written.tokens, self.special.tolist())
        self.tokens: LLTokenizer = LLTokenizer(
            described,  # type: ignore[arg-type]  # it has what llguidance reads of a wrapper
            n_vocab=size,
            eos_token=self.last_tokens.tolist(),
        )

    def spelled(self, generated: Sequence[int]) -> Sequence[int]:
        """Tokens that write what the text reads: its first space may be dropped."""
        if not generated or generated[0] not in self.spaced:
            return generated
        return [*self.spaced[generated[0]], *generated[1:]]

    def written(self, token: int) -> bytes:
        """The bytes that a token writes; of a special one, its name."""
        return self._bytes[token]

    @cached_property
    def spaced(self) -> Mapping[int, Sequence[int]]:
        """Tokens that lose their space at the beginning of a text, each with tokens that write what
        is left of it, perhaps nothing."""
        if not self._drops_first_space:
            return {}
        special = set(self.special.tolist())
        spaced = [
            token
            for token, written in enumerate(self._bytes)
            if written.startswith(b" ") and token not in special
        ]
        ids = {token: self._spelling(self._bytes[token][1:]) for token in spaced}
        return {
            token: spelling
            for token, spelling in ids.items()
            if b" " + b"".join(self._bytes[part] for part in spelling) == self._bytes[token]
        }

    def _spelling(self, text: bytes) -> Sequence[int]:
        same = self._by_bytes.get(text)
        if same is not None or not text:
            return [same] if same is not None else []
        ids: list[int] = self.tokens.greedy_tokenize(text.decode())
        return ids

    @cached_property
    def _by_bytes(self) -> dict[bytes, int]:
        return {written: token for token, written in enumerate(self._bytes) if written}

    def row(self, bits: bytes) -> npt.NDArray[np.bool_]:
        """A mask of llguidance as an array: [size]."""
        row: npt.NDArray[np.bool_] = np.unpackbits(
            np.frombuffer(bits, np.uint8), count=self.size, bitorder="little"
        ).view(np.bool_)
        return row


class _Described:
    """A vocabulary with the attributes that llguidance reads."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer, tokens: list[bytes], special: list[int]) -> None:
        self._tokenizer = tokenizer
        self.tokens = tokens
        self.special_token_ids = special
        self.eos_token_id = special[0]  # replaced by the argument `eos_token`

    def __call__(self, text: bytes | str) -> list[int]:
        """Tokens of a text that the grammar forces; whether they write it is checked later."""
        whole = text if isinstance(text, str) else text.decode(errors="replace")
        ids: list[int] = self._tokenizer.encode(whole, add_special_tokens=False).ids
        return ids
