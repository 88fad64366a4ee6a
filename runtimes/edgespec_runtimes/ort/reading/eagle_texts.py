"""Several texts of an EAGLE head that share its calls, each beside its target's text."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from itertools import zip_longest

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from edgespec.artifact import graph_io
from edgespec.artifact.manifest import Exported
from edgespec.core.asks import Read
from edgespec.errors import EdgespecError
from edgespec_runtimes.ort.decoder_graph import DecoderGraph
from edgespec_runtimes.ort.ort_call import Call
from edgespec_runtimes.ort.ort_shared_calls import OrtTexts, SharedRows
from edgespec_runtimes.ort.ort_text import OrtText
from edgespec_runtimes.ort.prefill import CachedPosition

__all__ = ["EagleText", "EagleTexts"]


class EagleTexts(OrtTexts):
    """The texts of an EAGLE head, one for each of its target's.

    Args:
        target: whose features they read.
        fusion: the session of the feature fusion.
        capacity: positions of each.

    Raises:
        UsageError: there is no memory for their caches.
    """

    def __init__(
        self,
        target: OrtTexts,
        graph: DecoderGraph,
        fusion: ort.InferenceSession,
        exported: Exported,
        variant: str,
        capacity: int,
    ) -> None:
        assert target.features is not None
        self._target = target
        self._target_features = target.features
        self._fusion = fusion
        self._width: int = fusion.get_outputs()[0].shape[1]
        count = len(target.texts)
        super().__init__(graph, None, exported, variant, count, capacity, candidates=False)

    def _text(self, exported: Exported, number: int, start: int, capacity: int) -> EagleText:
        target = self._target.texts[number]
        return EagleText(self, exported, start, capacity, target, self._width)

    def _set_states(self, call: Call, rows: SharedRows) -> None:
        """Rows take the fused features of the position before them, zeros before the first, or the
        hidden state of the row before them."""
        states = call.states[graph_io.FUSED_STATES]
        fused: list[int] = []  # rows
        read: list[int] = []  # for each, the index of the features that it takes
        for part in rows.parts:
            text = part.text
            assert isinstance(text, EagleText)
            numbers = rows.of_tokens(part)
            first = text.computed_length
            if not text.begins(first + len(numbers)):
                states[numbers[0]] = text.hidden
                continue
            if first == 0:
                states[numbers[0]] = 0
            before = text.target.start + first - 1
            fused += numbers[int(first == 0) :]
            read += range(before + (first == 0), before + len(numbers))
        if fused:
            features = {graph_io.FEATURES: self._target_features[read]}
            (found,) = self._fusion.run([graph_io.FUSED_STATES], features)
            states[fused] = np.asarray(found)

    def _store_states(self, call: Call, rows: SharedRows) -> None:
        hidden = call.states[graph_io.HIDDEN]
        for part in rows.parts:
            assert isinstance(part.text, EagleText)
            part.text.keep_hidden(hidden[rows.of_tokens(part)[-1]], len(part.tokens))


class EagleText(OrtText):
    """A text of an EAGLE head; see `edgespec_runtimes.ort.reading.ort_eagle.OrtEagle`.

    Args:
        target: the same text of the target, whose features it reads.
        width: of a hidden state.

    Attributes:
        hidden: [width], of the latest row.
    """

    def __init__(
        self,
        texts: EagleTexts,
        exported: Exported,
        start: int,
        capacity: int,
        target: OrtText,
        width: int,
    ) -> None:
        super().__init__(texts, exported, start, capacity)
        self.target = target
        self.hidden = np.zeros(width, np.float32)
        self._hidden_position = -1  # the position that returned it
        self._valid_length = 0

    def reading(
        self, prompt: Sequence[int], answers: Sequence[range] | None = None
    ) -> Generator[Read, None, int]:
        if self.target.unread:
            yield Read(self.target, ())
        return (yield from super().reading(prompt, answers))

    @property
    def valid_length(self) -> int:
        """Leading positions of the cache that were computed from the target's features."""
        return min(self._valid_length, self.length)

    def begins(self, end: int) -> bool:
        """Is told of a call up to position `end`. Whether its rows take the target's features; the
        one row takes the hidden state otherwise.

        Raises:
            EdgespecError: the target has not been there, nor the head just before.
        """
        first = self.computed_length
        if (
            end <= self.target.computed_length + 1
        ):  # the target has been at every position before these
            self._valid_length = end if self.valid_length == first else self.valid_length
            return True
        if end - first == 1 and self._hidden_position == first - 1:
            self._valid_length = self.valid_length
            return False
        raise EdgespecError(
            f"asked to score positions {first} to {end - 1} where the target has scored "
            f"{self.target.computed_length}; score later ones one at a time"
        )

    def keep_hidden(self, state: npt.NDArray[np.float32], count: int) -> None:
        """Keeps the hidden state of the last row of a call of so many."""
        self.hidden[:] = state
        self._hidden_position = self.length + count - 1

    def position_keys(self, prompt: Sequence[int]) -> Sequence[Hashable]:
        """The head's and the target's token ids, as of `OrtEagle`."""
        return self._keys(prompt, 0)

    def copy(self, other: OrtText, length: int) -> None:
        super().copy(other, length)
        self._valid_length = length
        self._hidden_position = -1

    def _append(self, tokens: Sequence[int]) -> None:
        self._cached += [CachedPosition(key, None) for key in self._keys(tokens, self.length)]

    def _keys(self, tokens: Sequence[int], start: int) -> list[Hashable]:
        """Of tokens from position `start` on."""
        return list(zip_longest(tokens, self.target.cached_keys(start + len(tokens), start)))
