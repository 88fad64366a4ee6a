"""The states of recurrent layers: at a few lengths of the text, so that it can be rewound.

A call takes the states of one slot, goes once more through the positions that were kept since, and
writes the states of `kept` positions into another slot. So a rewind drops the slots beyond it, and
the next call starts at one before it (docs/decisions/0045-states.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from edgespec.artifact import graph_io
from edgespec_runtimes.ort.cache_memory import lazy_zeros

__all__ = ["RecurrentLayer", "RecurrentStates", "Slot", "Step", "recurrent_layers"]

MOST_SLOTS = 5
# One slot is kept for each of the latest so many positions: a draft rewinds by as many one-row
# calls as tokens were rejected.
BLOCK = graph_io.MAX_ROWS - 1


@dataclass(frozen=True)
class RecurrentLayer:
    """What a recurrent layer keeps.

    Attributes:
        state: numbers of its state.
        row: numbers of a recent position.
    """

    number: int
    state: int
    row: int


def recurrent_layers(session: ort.InferenceSession) -> list[RecurrentLayer]:
    """The recurrent layers of a decoder graph; none of most."""
    shapes = {value.name: value.shape for value in session.get_inputs()}
    layers: list[RecurrentLayer] = []
    while (past := graph_io.state_names(len(layers))[0]) in shapes:
        rows, _ = graph_io.recent_rows_names(len(layers))
        layers.append(RecurrentLayer(len(layers), shapes[past][0], shapes[rows][2]))
    return layers


@dataclass(eq=False)
class Slot:
    """The states of all layers after `length` positions.

    Attributes:
        arrays: float32 [numbers] for each layer.
        is_long: a long call made it, so a prompt ends there.
    """

    arrays: Sequence[npt.NDArray[np.float32]]
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
    """One call: the slot it starts from, the one it writes, and what it does with the positions.

    Attributes:
        rows: of the call, padding included.
        count: of these, positions that stay unless they are rewound.
    """

    source: Slot
    target: Slot
    length: int
    rows: int
    count: int

    @property
    def is_long(self) -> bool:
        return self.rows > graph_io.MAX_ROWS

    @property
    def kept(self) -> int:
        """A long call is not rewound in part, so its rows are not kept but the states after it."""
        return self.length + (self.count if self.is_long else 0)


@dataclass
class RecurrentStates:
    """The slots of one text.

    Attributes:
        rows: float32 [1, RECENT_ROWS, row] for each layer, the inputs of recent positions.
    """

    layers: Sequence[RecurrentLayer]
    rows: Sequence[npt.NDArray[np.float32]] = field(init=False)

    def __post_init__(self) -> None:
        recent = graph_io.RECENT_ROWS
        self.rows = [lazy_zeros((1, recent, layer.row), np.float32) for layer in self.layers]
        zeros = lazy_zeros((max(layer.state for layer in self.layers),), np.float32)
        self._start = Slot([zeros[: layer.state] for layer in self.layers])
        self._slots: list[Slot] = []
        self._unused: list[Slot] = []
        self._recent = _Recent()

    def rewind(self, length: int) -> None:
        """Forgets every position from `length` on."""
        self._unused += [slot for slot in self._slots if slot.length > length]
        self._slots = [slot for slot in self._slots if slot.length <= length]
        self._recent.rewind(length)

    def step(self, length: int, rows: int, count: int) -> Step | None:
        """How a call with so many rows after `length` positions is made; None if no slot has what
        it needs (`restart`)."""
        most = graph_io.RECENT_ROWS - (rows if rows <= graph_io.MAX_ROWS else 0)
        for source in sorted(self._known(), key=lambda slot: -slot.length):
            again = length - source.length
            if again == 0 or (again <= most and self._has_rows(source.length, length)):
                return Step(source, self._free(source), length, rows, count)
        return None

    def restart(self, length: int) -> int:
        """The position before `length` from which on it has to be computed once more."""
        furthest = 0
        for slot in self._known():
            reach = slot.length
            if self._has_rows(reach):
                reach = min(self._recent.end, reach + graph_io.RECENT_ROWS - graph_io.MAX_ROWS)
            furthest = max(furthest, min(reach, length - 1))
        return furthest

    def begin(self, step: Step) -> None:
        """A call is about to be made: what it overwrites is lost, should it fail."""
        if step.target in self._slots:
            self._slots.remove(step.target)
        if not step.is_long:
            self._recent.overwrite(step.length, step.length + step.rows)

    def end(self, step: Step) -> None:
        """The call was made."""
        step.target.length, step.target.is_long = step.kept, step.is_long
        self._slots.append(step.target)
        if not step.is_long:
            self._recent.written(step.length, step.length + step.count)

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
        if len(self._slots) < MOST_SLOTS:
            return Slot([lazy_zeros((layer.state,), np.float32) for layer in self.layers])
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
