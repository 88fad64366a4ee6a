"""Opening the head for several tokens that a Qwen3.5's checkpoint has: its own draft."""

from __future__ import annotations

from edgespec_export.checkpoint.checkpoint import Checkpoint
from edgespec_export.checkpoint.sources import Source
from edgespec_export.checkpoint.weights import Tensor, Weights, read_rows
from edgespec_export.families import family_of
from edgespec_export.families.drafts.qwen35.mtp_head import JOIN, Qwen35Head
from edgespec_export.families.qwen35.qwen35 import Qwen35

__all__ = ["has_own_head", "open_own_head"]


def has_own_head(target: Source, draft: Source, opened: Checkpoint) -> bool:
    """Whether a checkpoint that is to be its own draft has a head for several tokens."""
    return (
        draft.path.resolve() == target.path.resolve()
        and opened.config.get("model_type") in Qwen35.model_types
        and JOIN in opened.weights.names()
    )


def open_own_head(opened: Checkpoint) -> Checkpoint:
    """The head in a target's checkpoint."""
    (model_type,) = Qwen35Head.model_types
    family = family_of(opened.config, opened.label)
    kept = {family.table, family.head}
    return Checkpoint(
        config={**opened.config, "model_type": model_type},
        weights=_OfTheHead(opened.weights, kept),
        tokenizer=opened.tokenizer,
        chat=None,
        eos_token_ids=opened.eos_token_ids,
        label=f"{opened.label} (its head for several tokens)",
    )


class _OfTheHead:
    """The tensors of a head, with the embedding and the head of its target.

    Args:
        shared: names of these two.
    """

    def __init__(self, weights: Weights, shared: set[str]) -> None:
        self._weights, self._shared = weights, shared

    def names(self) -> list[str]:
        names = self._weights.names()
        return [name for name in names if name.startswith("mtp.") or name in self._shared]

    def shape(self, name: str) -> tuple[int, ...]:
        return self._weights.shape(name)

    def read(self, name: str) -> Tensor:
        return self._weights.read(name)

    def read_rows(self, name: str, start: int, stop: int) -> Tensor:
        return read_rows(self._weights, name, start, stop)
