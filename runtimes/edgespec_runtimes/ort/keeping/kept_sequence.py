"""Beginnings of texts whose caches were kept: copied into a cache instead of computed again.

What a model's cache holds of a sequence becomes arrays by name, which a file can hold
(`edgespec.pair.keeping.kept_file`). n positions have

    keys      int64 [n, parts]: `CachedPosition.key` of each
    calls     int32 [n, 3]: start, stop and is_answer of its long call; -1 where it had a short one
    a buffer  [heads, n, width], by its name as an input of the graph
    features  float32 [n, F], of a target that shows hidden states

and recurrent layers what `RecurrentStates.kept` says. An encoder's source of m tokens has

    source         int64 [m]
    source.NAME    what the encoder returned, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from edgespec.core.model import common_length
from edgespec_runtimes.ort.cache_memory import CacheMemory
from edgespec_runtimes.ort.prefill import CachedPosition, LongCall, reusable_length
from edgespec_runtimes.ort.recurrent_states import RecurrentStates

__all__ = ["KeptPrefixes", "KeptSequence", "arrays_of_sequence", "arrays_of_source"]

Array = npt.NDArray[np.generic]
KEYS, CALLS, KEPT_FEATURES, SOURCE = "keys", "calls", "features", "source"
SHORT = (-1, -1, -1)  # in `calls`


@dataclass(frozen=True, eq=False)
class KeptSequence:
    """The first positions of a text, as a cache held them.

    Attributes:
        positions: how each was computed.
        any_calls: rows have the same bits in any call, so that any beginning can be taken.
        arrays: as above.
    """

    positions: Sequence[CachedPosition]
    any_calls: bool
    arrays: Mapping[str, Array]

    def usable(self, wanted: Sequence[CachedPosition]) -> int:
        """How many leading positions have the bits of those that are wanted."""
        if self.any_calls:
            return self.equal([position.key for position in wanted])
        return reusable_length(self.positions, wanted)

    def equal(self, keys: Sequence[Hashable]) -> int:
        """How many leading positions have these keys."""
        return common_length((position.key for position in self.positions), keys)

    def copy_to(
        self,
        cache: CacheMemory,
        features: npt.NDArray[np.float32] | None,
        states: RecurrentStates | None,
        start: int,
        count: int,
    ) -> None:
        """Writes the first `count` positions into a cache, from index `start` on."""
        for buffer, memory in cache.arrays.items():
            memory[0, :, start : start + count] = self.arrays[buffer.past][:, :count]
        if features is not None:
            features[start : start + count] = self.arrays[KEPT_FEATURES][:count]
        if states is not None:
            states.restore(self.arrays, count)


class KeptPrefixes:
    """What was kept for a model; the sequences of its batches have the same.

    Args:
        cache: that beginnings are copied into, for its buffers' shapes.
        features: width of what the model shows of each position; 0 of most.
        states: of its recurrent layers; empty without such.
    """

    def __init__(
        self, cache: CacheMemory, features: int, states: Sequence[RecurrentStates]
    ) -> None:
        self._buffers = [(buffer, array.dtype) for buffer, array in cache.arrays.items()]
        self._features = features
        self._states = states
        self._sequences: list[KeptSequence] = []
        self._sources: dict[tuple[int, ...], Mapping[str, Array]] = {}

    def add(self, arrays: Mapping[str, Array], any_calls: bool) -> Callable[[], None]:
        """Lets later texts begin with what was kept; the result forgets it again.

        Raises:
            ValueError, KeyError: the arrays are not of this model.
        """
        if SOURCE in arrays:
            source = tuple(arrays[SOURCE].tolist())
            prefix = f"{SOURCE}."
            self._sources[source] = {
                name.removeprefix(prefix): array
                for name, array in arrays.items()
                if name.startswith(prefix)
            }
            return partial(self._forget_source, source)
        self._check(arrays)
        kept = KeptSequence(_positions(arrays), any_calls, arrays)
        self._sequences.insert(0, kept)
        return partial(self._sequences.remove, kept)

    def _forget_source(self, source: tuple[int, ...]) -> None:
        self._sources.pop(source, None)

    def _check(self, arrays: Mapping[str, Array]) -> None:
        count = len(arrays[KEYS])
        expected: dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]] = {
            buffer.past: ((buffer.heads, count, buffer.width), dtype)
            for buffer, dtype in self._buffers
        }
        expected[CALLS] = ((count, len(SHORT)), np.dtype(np.int32))
        if self._features:
            expected[KEPT_FEATURES] = ((count, self._features), np.dtype(np.float32))
        for name, shape in expected.items():
            if (arrays[name].shape, arrays[name].dtype) != shape:
                raise ValueError(f"{name} is {arrays[name].dtype}{list(arrays[name].shape)}")
        for states in self._states:
            states.check(arrays)

    def best(self, wanted: Sequence[CachedPosition], own: int) -> tuple[KeptSequence, int] | None:
        """What has most of a prompt's positions, and how many; None if all have no more than
        `own`."""
        found = [(kept, kept.usable(wanted)) for kept in self._sequences]
        return _most(found, own)

    def best_in_any_call(
        self, keys: Sequence[Hashable], own: int
    ) -> tuple[KeptSequence, int] | None:
        """The same for a sequence of a batch, whose rows have the same bits in any call."""
        return _most([(kept, kept.equal(keys)) for kept in self._sequences], own)

    def source(self, tokens: Sequence[int]) -> Mapping[str, Array] | None:
        """What the encoder returned of a source; None if it was not kept."""
        return self._sources.get(tuple(tokens)) if self._sources else None


def _most(found: list[tuple[KeptSequence, int]], own: int) -> tuple[KeptSequence, int] | None:
    kept = max(found, key=lambda each: each[1], default=None)
    return kept if kept is not None and kept[1] > own else None


def arrays_of_sequence(
    positions: Sequence[CachedPosition],
    cache: CacheMemory,
    features: npt.NDArray[np.float32] | None,
    states: RecurrentStates | None,
    start: int = 0,
) -> dict[str, Array]:
    """What a cache holds of a sequence, from index `start` on; nothing of none."""
    kind = type(positions[0].key) if positions else None
    positions = list(takewhile(lambda each: _is_known(each) and type(each.key) is kind, positions))
    if not positions or not cache.arrays:
        return {}
    end = start + len(positions)
    keys = [key if isinstance(key, tuple) else (key,) for key, _ in positions]
    calls = [SHORT if call is None else tuple(call) for _, call in positions]
    arrays: dict[str, Array] = {
        KEYS: np.array(keys, np.int64),
        CALLS: np.array(calls, np.int32),
    }
    arrays |= {buffer.past: memory[0, :, start:end] for buffer, memory in cache.arrays.items()}
    if features is not None:
        arrays[KEPT_FEATURES] = features[start:end]
    return arrays if states is None else arrays | states.kept()


def _is_known(position: CachedPosition) -> bool:
    """Whether a head knew the target's token of a position, too."""
    return not (isinstance(position.key, tuple) and None in position.key)


def arrays_of_source(tokens: Sequence[int], values: Mapping[str, Array]) -> dict[str, Array]:
    """What an encoder returned of a source."""
    arrays: dict[str, Array] = {SOURCE: np.array(tokens, np.int64)}
    return arrays | {f"{SOURCE}.{name}": value for name, value in values.items()}


def _positions(arrays: Mapping[str, Array]) -> list[CachedPosition]:
    keys: list[Hashable] = [
        tuple(parts) if len(parts) > 1 else parts[0] for parts in arrays[KEYS].tolist()
    ]
    calls = [
        None if start < 0 else LongCall(start, stop, bool(is_answer))
        for start, stop, is_answer in arrays[CALLS].tolist()
    ]
    return [CachedPosition(*how) for how in zip(keys, calls, strict=True)]
