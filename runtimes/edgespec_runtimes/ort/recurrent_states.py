"""The states of recurrent layers: at a few lengths of the text, so that it can be rewound.

A call takes the states of one slot, goes once more through the positions that were kept since, and
writes the states of `kept` positions into another slot. So a rewind drops the slots beyond it, and
the next call starts at one before it (docs/decisions/0045-states.md). Sequences that share calls
have slots in one memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from edgespec.artifact import graph_io
from edgespec_runtimes.ort.cache_memory import lazy_zeros

__all__ = [
    "RecurrentStates",
    "Slot",
    "StateMemory",
    "Step",
    "recurrent_layers",
]

MOST_SLOTS = 5  # of a sequence
# One slot is kept for each of the latest so many positions: a draft rewinds by as many one-row
# calls as tokens were rejected.
BLOCK = graph_io.MAX_ROWS - 1
SLOTS, RECENT = "slots", "recent"  # names of what is kept


def recurrent_layers(session: ort.InferenceSession) -> list[graph_io.StateShape]:
    """The recurrent layers of a decoder graph; none of most."""
    shapes = {value.name: value.shape for value in session.get_inputs()}
    layers: list[graph_io.StateShape] = []
    while (past := graph_io.state_names(len(layers))[0]) in shapes:
        rows, _ = graph_io.recent_rows_names(len(layers))
        layers.append(graph_io.StateShape(shapes[past][1], shapes[rows][2]))
    return layers


class StateMemory:
    """What the recurrent layers of some sequences keep.

    Attributes:
        states: float32 [slots, numbers] for each layer; slot 0 has the states of no positions.
        rows: float32 [sequences, RECENT_ROWS, row] for each layer, the inputs of recent positions.
    """

    def __init__(self, layers: Sequence[graph_io.StateShape], sequences: int) -> None:
        slots, recent = 1 + sequences * MOST_SLOTS, graph_io.RECENT_ROWS
        self.states = [lazy_zeros((slots, layer.state), np.float32) for layer in layers]
        self.rows = [lazy_zeros((sequences, recent, layer.row), np.float32) for layer in layers]


@dataclass(eq=False)
class Slot:
    """The states of all layers after `length` positions.

    Attributes:
        number: of the slot in the memory.
        is_long: a long call made it, so a prompt ends there.
    """

    number: int
    length: int = 0
    is_long: bool = False


@dataclass
class _Recent:
    """Which positions' inputs are there: start … end - 1."""

    start: int = 0
    end: int = 0

    def rewind(self, length: int) -> None:
        if length < self.start:
            self.start = self.end = length
        self.end = min(self.end, length)

    def overwrite(self, first: int, stop: int) -> None:
        """Positions first … stop - 1 are about to be written over the oldest."""
        self.rewind(first)
        self.start = max(self.start, stop - graph_io.RECENT_ROWS)
        self.end = max(self.end, self.start)

    def written(self, first: int, stop: int) -> None:
        if self.end < first:
            self.start = first
        self.end = stop


@dataclass(frozen=True)
class Step:
    """One sequence's part of a call: the slot it starts from, the one it writes, and what it does
    with the positions.

    Attributes:
        states: of the sequence.
        length: positions before the call.
        rows: of the sequence in the call, padding included.
        count: of these, positions that stay unless they are rewound.
        kept: positions after which the states are written; later rows are kept.
    """

    states: RecurrentStates
    source: Slot
    target: Slot
    length: int
    rows: int
    count: int
    kept: int

    @property
    def numbers(self) -> tuple[int, int, int, int, int, int]:
        """The sequence's row of `graph_io.STATE_STEPS`."""
        of, source, target = self.states, self.source, self.target
        return of.start, of.number, source.number, target.number, source.length, self.kept


class RecurrentStates:
    """The slots of one sequence.

    Args:
        memory: that sequences share.
        number: of the sequence there.

    Attributes:
        start: index of its first position in the cache.
    """

    def __init__(self, memory: StateMemory, number: int = 0) -> None:
        self.number = number
        self.start = 0
        self._memory = memory
        first = 1 + number * MOST_SLOTS
        self._start = Slot(0)
        self._slots: list[Slot] = []
        self._unused = [Slot(first + index) for index in range(MOST_SLOTS)]
        self._recent = _Recent()

    def rewind(self, length: int) -> None:
        """Forgets every position from `length` on."""
        self._unused += [slot for slot in self._slots if slot.length > length]
        self._slots = [slot for slot in self._slots if slot.length <= length]
        self._recent.rewind(length)

    def step(self, length: int, rows: int, count: int, certain: int = 0) -> Step | None:
        """How a call with so many rows after `length` positions is made; None if no slot has what
        it needs (`restart`).

        Args:
            count: rows that are no padding.
            certain: leading rows that stay, or go together.
        """
        kept = length + _certain(rows, count, certain)
        most = graph_io.RECENT_ROWS - (length + rows - kept)
        for source in sorted(self._known(), key=lambda slot: -slot.length):
            again = length - source.length
            if again == 0 or (again <= most and self._has_rows(source.length, length)):
                return Step(self, source, self._free(source), length, rows, count, kept)
        return None

    def restart(self, length: int) -> int:
        """The position before `length` from which on it has to be computed once more."""
        return self.reach(length - 1)

    def reach(self, length: int) -> int:
        """The last position up to `length` after which a call can start."""
        furthest = 0
        for slot in self._known():
            reach = slot.length
            if self._has_rows(reach):
                reach = min(self._recent.end, reach + graph_io.RECENT_ROWS - graph_io.MAX_ROWS)
            furthest = max(furthest, min(reach, length))
        return furthest

    def copy(self, other: RecurrentStates, length: int) -> None:
        """Takes over what another sequence in the memory has of its first `length` positions."""
        self.rewind(0)
        slots = [slot for slot in other._slots if slot.length <= length]
        if not slots:
            return
        source, target = max(slots, key=lambda slot: slot.length), self._free(self._start)
        for states in self._memory.states:
            states[target.number] = states[source.number]
        for rows in self._memory.rows:
            rows[self.number] = rows[other.number]
        target.length, target.is_long = source.length, source.is_long
        self._slots.append(target)
        self._recent = replace(other._recent)
        self._recent.rewind(length)

    def kept(self) -> dict[str, npt.NDArray[np.generic]]:
        """What a file can keep: int64 `slots` [slots, 2], the length of each and whether it is
        long, `recent` [2], start and end; of layer l float32 `states.l` [slots, numbers] and
        `rows.l` [RECENT_ROWS, row]."""
        slots = [(slot.length, slot.is_long) for slot in self._slots]
        numbers = [slot.number for slot in self._slots]
        arrays: dict[str, npt.NDArray[np.generic]] = {
            SLOTS: np.array(slots, np.int64).reshape(-1, 2),
            RECENT: np.array([self._recent.start, self._recent.end], np.int64),
        }
        for layer, states in enumerate(self._memory.states):
            arrays[f"states.{layer}"] = states[numbers]
            arrays[f"rows.{layer}"] = self._memory.rows[layer][self.number]
        return arrays

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]], length: int) -> None:
        """Takes over what `kept` said, as far as it is of the first `length` positions."""
        self.rewind(0)
        for number, (slot_length, is_long) in enumerate(arrays[SLOTS].tolist()):
            if slot_length > length:
                continue
            slot = self._unused.pop()
            slot.length, slot.is_long = slot_length, bool(is_long)
            for layer, states in enumerate(self._memory.states):
                states[slot.number] = arrays[f"states.{layer}"][number]
            self._slots.append(slot)
        for layer, rows in enumerate(self._memory.rows):
            rows[self.number] = arrays[f"rows.{layer}"]
        self._recent = _Recent(*arrays[RECENT].tolist())
        self._recent.rewind(length)

    def check(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Raises ValueError or KeyError if `restore` cannot take them."""
        slots = len(arrays[SLOTS])
        if slots > MOST_SLOTS or arrays[SLOTS].shape[1:] != (2,) or arrays[RECENT].shape != (2,):
            raise ValueError(f"{slots} slots of states")
        for layer, states in enumerate(self._memory.states):
            found = arrays[f"states.{layer}"].shape, arrays[f"rows.{layer}"].shape
            if found != ((slots, *states.shape[1:]), self._memory.rows[layer].shape[1:]):
                raise ValueError(f"states of layer {layer} have the shapes {found}")

    def bound(self, slot: Slot) -> Iterator[npt.NDArray[np.float32]]:
        """The states of a slot, [1, numbers] for each layer."""
        return (states[slot.number : slot.number + 1] for states in self._memory.states)

    def begin(self, step: Step) -> None:
        """A call is about to be made: what it overwrites is lost, should it fail."""
        if step.target in self._slots:
            self._slots.remove(step.target)
        self._unused.append(step.target)
        if step.kept < step.length + step.rows:
            self._recent.overwrite(step.kept, step.length + step.rows)

    def end(self, step: Step) -> None:
        """The call was made."""
        step.target.length, step.target.is_long = step.kept, step.kept > step.length
        self._unused.remove(step.target)
        self._slots.append(step.target)
        if step.kept < step.length + step.rows:
            self._recent.written(step.kept, step.length + step.count)

    def _known(self) -> Iterator[Slot]:
        yield self._start
        yield from self._slots

    def _has_rows(self, start: int, end: int | None = None) -> bool:
        """Whether the inputs of positions start … end - 1 are kept; of any from `start` on."""
        last = start if end is None else end
        return self._recent.start <= start and last <= self._recent.end

    def _free(self, source: Slot) -> Slot:
        """A slot to write, other than `source`."""
        if self._unused:
            return self._unused.pop()
        return next(slot for slot in self._by_worth() if slot is not source)

    def _by_worth(self) -> Iterator[Slot]:
        """The slots, those first that are missed least: a block's second, older ends of prompts."""
        slots = sorted(self._slots, key=lambda slot: slot.length)
        short = [slot for slot in slots if not slot.is_long]
        blocks: set[int] = set()
        for slot in short:
            block = slot.length // BLOCK
            if block in blocks:
                yield slot
            blocks.add(block)
        yield from [slot for slot in slots if slot.is_long][:-1]
        yield from short
        yield from slots


def _certain(rows: int, count: int, certain: int) -> int:
    """After how many rows of a call its states are written. A long call's rows are not kept but the
    states after those that are not rewound in part."""
    if rows <= graph_io.MAX_ROWS:
        return 0
    return certain if rows - certain <= graph_io.MAX_ROWS else count
