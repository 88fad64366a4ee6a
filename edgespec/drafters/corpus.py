"""Files of the user's, in which drafts are looked up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgespec.artifact.text_file import read_text
from edgespec.drafters.suffix_array import SuffixArray
from edgespec.errors import UsageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["MOST_TOKENS", "read_corpus"]

MOST_TOKENS = 1_000_000  # sorted in about a second, in 8 MB


def read_corpus(files: Sequence[Path], tokenizer: Tokenizer) -> SuffixArray:
    """The tokens of text files.

    Raises:
        UsageError: a file is no text, or they have too many tokens.
    """
    texts = []
    count = 0
    for file in files:
        tokens = tokenizer.encode(read_text(file), add_special_tokens=False).ids
        count += len(tokens)
        if count > MOST_TOKENS:
            raise UsageError(
                f"the corpus has {count} tokens with {file}; give at most {MOST_TOKENS}"
            )
        texts.append(np.array(tokens, np.int32))
    return SuffixArray(texts)
