"""Where the rows of an EAGLE head take their states from: the target's features, or the head."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError

__all__ = ["EaglePositions"]


class EaglePositions:
    """What is known of the positions of one sequence in a head's cache.

    Args:
        width: of a hidden state.

    Attributes:
        hidden: float32 [width], the head's own state of its latest row.
    """

    def __init__(self, width: int) -> None:
        self.hidden: npt.NDArray[np.float32] = np.zeros(width, np.float32)
        self._hidden_position = -1  # the position that returned it
        self._valid = 0

    def valid_length(self, length: int) -> int:
        """How many leading positions of a cache of this length were computed from the target's
        features."""
        return min(self._valid, length)

    def take_features(self, first: int, end: int) -> None:
        """Records a call whose rows, positions first … end - 1, take the target's features."""
        self._valid = end if self.valid_length(first) == first else self._valid

    def takes_features(self, first: int, end: int, target_length: int) -> bool:
        """Records a call of positions first … end - 1, and says whether its rows take the target's
        features; a single row takes `hidden` otherwise.

        Args:
            target_length: positions that the target has scored.

        Raises:
            EdgespecError: the target has not scored the position before, and the head's own state
                is not that of the row before.
        """
        if end <= target_length + 1:  # the target has been at every position before these
            self.take_features(first, end)
            return True
        if end - first == 1 and self._hidden_position == first - 1:
            self._valid = self.valid_length(first)
            return False
        raise EdgespecError(
            f"asked to score positions {first} to {end - 1} where the target has scored "
            f"{target_length}; score later ones one at a time"
        )

    def keep_hidden(self, state: npt.NDArray[np.float32], position: int) -> None:
        """Keeps the state that the row of a position returned."""
        self.hidden[:] = state
        self._hidden_position = position

    def copied(self, length: int) -> None:
        """Records that this many positions, computed from features, were copied from another
        sequence."""
        self._valid = length
        self._hidden_position = -1
