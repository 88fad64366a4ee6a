"""A draft that proposes only the frequent ones of its tokens, so that its head costs less.

A vocabulary of 150 000 tokens makes the head the largest matrix of a small draft, which reads it
for every drafted token. It still reads all tokens; one that it does not propose ends a round.
Zhao et al. (2025, arXiv 2502.14856) do this to EAGLE heads.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from tokenizers import Tokenizer

from edgespec.errors import EdgespecError
from edgespec_export.families import DecoderOnly, Family
from edgespec_export.families.drafts.target_table import WithTargetTable
from edgespec_export.pairing import PairedDraft

__all__ = ["FewerTokens", "frequent_tokens"]


@dataclass(frozen=True)
class FewerTokens:
    """How many tokens a draft proposes, and which.

    Attributes:
        count: of tokens.
        texts: whose tokens are proposed before others.
    """

    count: int
    texts: Sequence[str]

    def of(self, target: Family, paired: PairedDraft | None) -> PairedDraft:
        """The draft with the rows of its head for these tokens; as it is if it has no more.

        Raises:
            EdgespecError: there is no draft, its head is not of this kind, or has a choice of
                tokens already.
        """
        if paired is None:
            raise EdgespecError("there is no draft whose tokens could be fewer; name one")
        draft, family = paired.checkpoint, paired.family
        if paired.tokens is not None:
            raise EdgespecError(
                f"{draft.label} has a choice of its target's tokens already; leave draft_tokens out"
            )
        if not _has_plain_head(family):
            raise EdgespecError(
                f"{draft.label} is of family {family.family!r}, whose head cannot be cut; leave "
                "draft_tokens out"
            )
        common = min(family.vocab_size, target.vocab_size)
        if self.count >= common:
            return paired
        ends = draft.eos_token_ids
        outputs = frequent_tokens(draft.tokenizer, ends, self.texts, self.count, common)
        inputs = [token if token < family.vocab_size else 0 for token in range(target.vocab_size)]
        whole, head = family.view(draft.weights), {family.head: family.tables[-1]}
        weights = WithTargetTable(draft.weights, whole, head, np.array(outputs))
        return PairedDraft(
            checkpoint=replace(draft, weights=weights),
            family=replace(
                family.with_own_head(),
                vocab_size=len(outputs),
                input_vocab_size=family.vocab_size,
            ),
            tokens=json.dumps({"outputs": outputs, "inputs": inputs}).encode(),
        )


def frequent_tokens(
    tokenizer: Tokenizer, ends: Sequence[int], texts: Sequence[str], count: int, size: int
) -> list[int]:
    """`count` of the token ids below `size`, increasing: those that end a text, the most frequent
    ones of `texts` up to half of them, and those with the lowest ids, which a byte-pair encoding
    merged first."""
    counts = Counter(
        token for encoding in tokenizer.encode_batch(list(texts)) for token in encoding.ids
    )
    seen = [token for token, _ in counts.most_common(count // 2)]
    order = dict.fromkeys([*ends, *seen, *range(size)])
    return sorted([token for token in order if token < size][:count])


def _has_plain_head(family: Family) -> bool:
    """Whether its logits are a product with a table and nothing more that has a row a token."""
    return isinstance(family, DecoderOnly) and (
        type(family).after_head is DecoderOnly.after_head and family.target_inputs is None
    )
