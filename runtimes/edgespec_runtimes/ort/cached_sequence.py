"""One sequence in a decoder's cache: which positions it has there, and what fits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence

from edgespec.artifact.manifest import Exported
from edgespec.errors import EdgespecError, UsageError
from edgespec_runtimes.ort.prefill import CachedPosition

__all__ = ["CachedSequence", "Layout", "checked_capacity"]

Layout = tuple[int, int, int]  # of a row, as in `graph_io.LAYOUTS`


class CachedSequence(ABC):
    """The positions of one sequence, in a part of a cache.

    Args:
        exported: the model's entry in the manifest.
        capacity: positions that the part holds; `exported.capacity` if None.

    Attributes:
        vocab_size, capacity: see `edgespec.core.model.Model`.
        max_positions: that the model can tell apart; None if no limit.

    Raises:
        UsageError: the model has fewer positions.
    """

    def __init__(self, exported: Exported, capacity: int | None) -> None:
        self.vocab_size = exported.vocab_size
        self._read_tokens = exported.read_tokens
        self.capacity = checked_capacity(exported, capacity)
        self.max_positions = exported.positions
        self._has_fixed_shapes = _has_fixed_shapes(exported)
        self._cached: list[CachedPosition] = []
        self._candidates: list[tuple[int, Layout]] = []  # of the latest call, with their tokens

    @property
    def length(self) -> int:
        """Positions in the cache."""
        return len(self._cached)

    @property
    def valid_length(self) -> int:
        """Leading positions of the cache that are final: all of them."""
        return self.length

    def cached_keys(self, end: int, start: int = 0) -> list[Hashable]:
        """What positions start … end - 1 of the cache, or as many as it has of them, were computed
        from: the token ids of a target."""
        return [position.key for position in self._cached[start:end]]

    def rewind(self, length: int) -> None:
        """Forgets every position from `length` on."""
        if not 0 <= length <= self.length:
            raise EdgespecError(f"cannot rewind to {length} from {self.length} positions")
        del self._cached[length:]

    def commit_candidate(self, number: int) -> None:
        """See `edgespec.core.model.CandidateModel.commit_candidate`."""
        if not 0 <= number < len(self._candidates):
            raise EdgespecError(f"the latest call had no candidate {number} to commit")
        token, (start, position, index) = self._candidates[number]
        if self.length != position:
            raise EdgespecError(
                f"candidate {number} does not follow position {self.length - 1}, the last one"
            )
        self._copy_position(index, start + position)
        self._append([token])

    @abstractmethod
    def _copy_position(self, source: int, destination: int) -> None:
        """Copies what an index of the cache holds over what another holds."""

    def _append(self, tokens: Sequence[int]) -> None:
        self._cached += [CachedPosition(token, None) for token in tokens]

    def _check_prompt(self, prompt: Sequence[int]) -> None:
        if not prompt:
            raise UsageError("the prompt is empty; give at least one token")
        if len(prompt) > self.capacity:
            raise UsageError(
                f"the prompt has {len(prompt)} tokens and the cache holds {self.capacity}; "
                f"shorten the prompt{self._capacity_advice()}"
            )
        lowest, highest = min(prompt), max(prompt)
        if lowest < 0 or highest >= self._read_tokens:
            wrong = lowest if lowest < 0 else highest
            raise UsageError(f"token {wrong} is outside the model's {self._read_tokens} tokens")

    def _check_room(self, count: int) -> None:
        room = self.capacity - self.length
        if not 0 < count <= room:
            raise EdgespecError(
                f"asked to score {count} positions with room for {room} of {self.capacity}"
                f"{self._capacity_advice()}"
            )

    def _capacity_advice(self) -> str:
        """The end of an error message: how to get a larger cache, if one is possible."""
        if self.capacity == self.max_positions:
            more = " or export the pair again with more capacity (--capacity)"
            return more if self._has_fixed_shapes else ""
        limit = f", at most {self.max_positions}" if self.max_positions else ""
        return f" or give more capacity (--capacity{limit})"


def checked_capacity(exported: Exported, capacity: int | None) -> int:
    """The capacity asked for, or the exporter's where that is None.

    Raises:
        UsageError: the model, or its graphs with fixed shapes, have fewer positions.
    """
    capacity = exported.capacity if capacity is None else capacity
    if 1 <= capacity <= (exported.positions or capacity):
        return capacity
    limit = f"1 to {exported.positions}" if exported.positions else "1 or more"
    if capacity > 0 and _has_fixed_shapes(exported):
        limit += f", as it was exported; export it again with --capacity {capacity}"
    raise UsageError(f"capacity is {capacity}; {exported.source} takes {limit}")


def _has_fixed_shapes(exported: Exported) -> bool:
    return any(variant.static is not None for variant in exported.variants.values())
