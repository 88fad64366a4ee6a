"""Which tokens may come next: a mask on the logits, part of the target's distribution.

It is applied to every verified row before temperature and truncation, by the tokens before the row,
accepted ones and drafted ones, as plain decoding would apply it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from edgespec.core.array_types import LegalRow, VocabRow
from edgespec.core.logit_edits import LogitEdit
from edgespec.errors import UsageError

__all__ = ["ForcedTokens", "LegalTokens", "only_legal"]


@runtime_checkable
class LegalTokens(Protocol):
    """What a text may look like, token by token."""

    def legal(self, generated: Sequence[int]) -> LegalRow | None:
        """Which tokens may follow these ([vocab]).

        None if no legal text begins with them, or if they end a text. Such a row is computed only
        after a drafted token that will be rejected, and nothing depends on it.

        Raises:
            UsageError: the grammar is too large for its matcher to tell.
        """
        ...

    def allows(self, token: int, generated: Sequence[int]) -> bool:
        """Whether one token is in their row; true where they have none."""
        ...


@runtime_checkable
class ForcedTokens(LegalTokens, Protocol):
    """What a drafter is told of a text's grammar."""

    def forced(self, generated: Sequence[int], most: int) -> Sequence[int]:
        """At most so many tokens that spell the only text that may follow, with the end-of-text
        token where it ends the text; often none.

        The text is forced, its tokens are not: others may spell it, too. So they are drafted, and
        the target decides.
        """
        ...


def only_legal(legal: LegalTokens, edit: LogitEdit | None = None) -> LogitEdit:
    """The change of a row that leaves its legal tokens alone, after another change of it.

    Without another one it is a `edgespec.core.logit_edits.Mask`.
    """
    mask = _OnlyLegal(legal)
    if edit is None:
        return mask
    return lambda logits, generated: mask(edit(logits, generated), generated)


class _OnlyLegal:
    def __init__(self, legal: LegalTokens) -> None:
        self._legal = legal

    def __call__(self, logits: VocabRow, generated: Sequence[int]) -> VocabRow:
        allowed = self._legal.legal(generated)
        if allowed is None:  # nothing depends on this row: the error stays where it is
            raise UsageError(f"no text of the grammar goes on after these {len(generated)} tokens")
        row: VocabRow = np.full_like(logits, -np.inf)
        np.copyto(row, logits, where=allowed)  # a third of the time of `np.where`
        if np.all(row == -np.inf):
            raise UsageError(
                f"after {len(generated)} tokens, the grammar and the other options (min_tokens, "
                "logit_bias) leave no token; relax one of them"
            )
        return row

    def keeps(self, token: int, generated: Sequence[int]) -> bool:
        """See `Mask`."""
        return self._legal.allows(token, generated)
