"""ByT5's tokenizer, which needs no file: tokens are bytes."""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE

__all__ = ["byt5_tokenizer"]

_SPECIAL = ("<pad>", "</s>", "<unk>")


def byt5_tokenizer(extra_ids: int = 125) -> Tokenizer:
    """A tokenizer whose ids are byte + 3, after `<pad>`, `</s>` and `<unk>`; `</s>` ends a text.

    The extra ids follow the bytes, the lowest number first. Bytes that are not UTF-8 decode to
    U+FFFD; transformers drops them.
    """
    vocabulary = {token: index for index, token in enumerate(_SPECIAL)}
    vocabulary |= {_letter(byte): byte + len(_SPECIAL) for byte in range(256)}
    extra = [f"<extra_id_{number}>" for number in range(extra_ids)]
    vocabulary |= {token: len(vocabulary) + index for index, token in enumerate(extra)}
    tokenizer = Tokenizer(BPE(vocabulary, [], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, lstrip=True, rstrip=True, special=True) for token in _SPECIAL]
        + [AddedToken(token, normalized=False, special=True) for token in extra]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=["$A", "</s>"],
        pair=["$A", "</s>", "$B", "</s>"],
        special_tokens=[("</s>", 1)],
    )
    return tokenizer


def _letter(byte: int) -> str:
    """The character of a byte in GPT-2's byte-level alphabet."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    if byte in printable:
        return chr(byte)
    return chr(256 + sum(other not in printable for other in range(byte)))
