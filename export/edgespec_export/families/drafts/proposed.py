"""Which of its target's tokens a published draft proposes."""

from __future__ import annotations

import numpy as np

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.weights import Weights

__all__ = ["proposed_tokens"]

D2T = "d2t"  # what is added to a draft token's id for the target's


def proposed_tokens(weights: Weights, proposed: int, read: int, label: str) -> list[int]:
    """The target's id of each of the `proposed` tokens, of the `read` that it has, increasing.

    Raises:
        EdgespecError: they are fewer and no tensor says which, or one says something else.
    """
    if D2T not in weights.names():
        if proposed == read:
            return list(range(proposed))
        raise EdgespecError(
            f"{label} proposes {proposed} of {read} tokens, and has no tensor {D2T!r} that says "
            "which; download it again"
        )
    added = weights.read(D2T)
    tokens = np.arange(proposed, dtype=np.int64)
    if added.shape == tokens.shape:
        tokens += added.astype(np.int64)
        within = tokens[0] >= 0 and tokens[-1] < read
        if within and (np.diff(tokens) > 0).all():
            return [int(token) for token in tokens]
    raise EdgespecError(
        f"{label}: tensor {D2T!r} does not name {proposed} tokens of {read} in increasing order; "
        "download it again"
    )
