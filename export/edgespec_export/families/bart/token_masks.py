"""Tokens that a model's generation settings force or ban, as a part of its graph.

Such a setting changes the distribution: a text that ignores it is another model's. In the graph it
holds for every runtime, and for each verified row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import onnx_ir as ir

from edgespec.errors import EdgespecError, shortened
from edgespec_export.components.positions import Positions
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["MASKED", "TokenMasks"]

MASKED = -1e9  # a logit that softmax makes 0, and that stays finite where logits are subtracted


@dataclass(frozen=True)
class TokenMasks:
    """The masks of one model.

    Attributes:
        settings: names of the settings that are applied.
        first: the token after the start token; None if it is free.
        banned: tokens that no text has.
    """

    settings: ClassVar[frozenset[str]] = frozenset({"forced_bos_token_id", "bad_words_ids"})

    vocab_size: int
    first: int | None
    banned: tuple[int, ...]

    @classmethod
    def of(cls, settings: Mapping[str, Any], vocab_size: int, label: str) -> Self:
        """The masks that a config or a generation config names.

        Raises:
            EdgespecError: one of them is a sequence of tokens, or no token.
        """
        first = settings.get("forced_bos_token_id")
        words = settings.get("bad_words_ids") or []
        if not isinstance(words, list) or not all(
            isinstance(word, list) and len(word) == 1 for word in words
        ):
            raise EdgespecError(
                f"{label}: bad_words_ids is {shortened(words)}; edgespec bans single tokens only, "
                "as [[5], [7]]"
            )
        banned = tuple(word[0] for word in words)
        for name, token in (
            *(("forced_bos_token_id", token) for token in (first,) if token is not None),
            *(("bad_words_ids", token) for token in banned),
        ):
            if type(token) is not int or not 0 <= token < vocab_size:
                raise EdgespecError(
                    f"{label}: {name} has {shortened(token)}, not one of {vocab_size} tokens"
                )
        return cls(vocab_size, first, banned)

    def emit(self, g: Graph, logits: ir.Value, positions: Positions) -> ir.Value:
        """Masked logits of the last rows of a call, [rows, vocab_size]."""
        if self.banned:
            is_banned = np.zeros(self.vocab_size, bool)
            is_banned[list(self.banned)] = True
            logits = g.op.Where(
                self._vector(g, "banned", is_banned), g.constant(MASKED, np.float32), logits
            )
        if self.first is not None:
            forced = np.full(self.vocab_size, MASKED, np.float32)
            forced[self.first] = 0
            logits = g.op.Where(
                self._are_first(g, logits, positions), self._vector(g, "first", forced), logits
            )
        return logits

    def _are_first(self, g: Graph, logits: ir.Value, positions: Positions) -> ir.Value:
        """Which rows follow the start token, [rows, 1]."""
        begin = g.op.Neg(g.op.Shape(logits, start=0, end=1))
        queries = g.op.Slice(positions.queries, begin, g.ints(np.iinfo(np.int64).max), g.ints(0))
        return g.op.Unsqueeze(g.op.Equal(queries, positions.number(g, 0)), g.ints(1))

    def _vector(self, g: Graph, name: str, values: np.ndarray) -> ir.Value:
        return g.stored(f"token_masks.{name}", lambda: values)
