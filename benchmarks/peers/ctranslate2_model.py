"""CTranslate2's model of a translation checkpoint, made by its own converter."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Translate", "ctranslate2_model"]

# Lines and further options of `translate_batch` to its best tokens of each line, end included.
Translate = Callable[..., list[list[int]]]


def ctranslate2_model(checkpoint: Path, compute_type: str, threads: int) -> Translate:
    """A function that translates lines, greedily unless its options say otherwise."""
    import ctranslate2
    from ctranslate2.converters.transformers import TransformersConverter
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    with tempfile.TemporaryDirectory() as scratch:
        TransformersConverter(str(checkpoint)).convert(scratch, force=True)
        translator = ctranslate2.Translator(
            scratch, device="cpu", compute_type=compute_type, intra_threads=threads
        )

    def translate(lines: Sequence[str], **options: Any) -> list[list[int]]:
        results = translator.translate_batch(
            [tokenizer.encode(line).tokens for line in lines],
            **{"beam_size": 1, "return_end_token": True, **options},
        )
        return [[tokenizer.token_to_id(t) for t in result.hypotheses[0]] for result in results]

    return translate
