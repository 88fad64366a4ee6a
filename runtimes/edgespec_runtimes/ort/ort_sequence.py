"""One of several sequences of a model: implements
`edgespec.scheduler.shared_calls.SequenceModel`."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from edgespec.artifact import graph_io
from edgespec.artifact.manifest import Exported
from edgespec.core.model import Candidate, TopTokens, common_length
from edgespec.core.requests import Read, Score, TopScore
from edgespec.errors import EdgespecError
from edgespec.scheduler.shared_calls import SequenceBatch
from edgespec_runtimes.ort.cached_sequence import CachedSequence, Layout
from edgespec_runtimes.ort.keeping.kept_sequence import Array, KeptPrefixes, KeptSequence
from edgespec_runtimes.ort.prefill import MAX_PREFILL_ROWS, CachedPosition
from edgespec_runtimes.ort.recurrent_states import RecurrentStates, Step

__all__ = ["OrtSequence"]

LAST_ROWS = 64  # of a prompt, at most, that wait for the call of the first token


class SharedCache(SequenceBatch, Protocol):
    """What one of several sequences asks of the cache that they share.

    Attributes:
        start_token: of an encoder-decoder.
        returns_top_tokens, scores_candidates: see `edgespec.core.model`.
        prefixes: beginnings of texts that were kept, which prompts may begin with.
    """

    prefixes: KeptPrefixes
    start_token: int | None
    returns_top_tokens: bool
    scores_candidates: bool

    def encode(self, source: Sequence[int], start: int) -> int:
        """Keeps what the encoder returns of a source from position `start` on; the source's length.

        The encoder does not run where another sequence has the same source: that one's is copied.
        """
        ...

    def copy_positions(self, source: int, destination: int, count: int) -> None:
        """Copies what indices of the cache hold over what others hold."""
        ...

    def restore(
        self, kept: KeptSequence, states: RecurrentStates | None, start: int, count: int
    ) -> None:
        """Copies what was kept of `count` positions into the cache, from index `start` on."""
        ...

    def kept_arrays(
        self, positions: Sequence[CachedPosition], states: RecurrentStates | None, start: int
    ) -> dict[str, Array]:
        """What the cache holds of these positions, from index `start` on."""
        ...


class OrtSequence(CachedSequence):
    """A sequence that has a part of a shared cache.

    Its own calls work, too; `OrtBatch.compute` makes calls of several sequences.

    Args:
        batch: of the sequences that share the cache.
        start: index in the cache of its first position.
        capacity: positions of its part.

    Attributes:
        unread: the last tokens of a prompt, which are part of the sequence but not computed yet:
            the sequence's next call has their rows, too, and the first token comes a call earlier.
        source: first position and length of its source in the memory of cross-attention.
        seconds: its share, by rows, of the time of calls.
        states: of recurrent layers; None without such.
    """

    def __init__(self, batch: SharedCache, exported: Exported, start: int, capacity: int) -> None:
        super().__init__(exported, capacity)
        self.batch = batch
        self.start = start
        self.unread: Sequence[int] = ()
        self.source = (start, 0)
        self.states: RecurrentStates | None = None
        self._encoded: object = None  # a mark of what the encoder returned of the source
        self.seconds = 0.0

    @property
    def returns_top_tokens(self) -> bool:
        return self.batch.returns_top_tokens

    @property
    def scores_candidates(self) -> bool:
        return self.batch.scores_candidates

    # --- prompts ---

    def prefill(self, prompt: Sequence[int], assistant_spans: Sequence[range] | None = None) -> int:
        """See `edgespec.core.model.Model.prefill`."""
        reading = self.reading(prompt, assistant_spans)
        while True:
            try:
                self.batch.compute([next(reading)])
            except StopIteration as end:
                return cast(int, end.value)

    def reading(
        self, prompt: Sequence[int], assistant_spans: Sequence[range] | None = None
    ) -> Generator[Read, None, int]:
        """Yields the pieces of a prompt that are not in the cache yet; returns the pending token.

        Rows have the same bits in any call, so all equal leading positions are kept.
        """
        self._check_prompt(prompt)
        start_token = self.batch.start_token
        if start_token is not None:
            self.rewind(0)
            self.source = self.start, self.batch.encode(prompt, self.start)
            self._encoded = object()
            return start_token
        known = prompt[:-1]
        keys = self.position_keys(known)
        self.rewind(self.kept(keys))
        self.rewind(self.computed_length)
        self._restore(keys)
        apart = len(known) - LAST_ROWS
        while self.length < apart:
            yield Read(self, known[self.length : apart][:MAX_PREFILL_ROWS])
        self.unread = known[self.length :]
        self._append(self.unread)
        return prompt[-1]

    def position_keys(self, prompt: Sequence[int]) -> Sequence[Hashable]:
        """What the positions of a prompt are computed from: its tokens."""
        return prompt

    def kept(self, keys: Sequence[Hashable]) -> int:
        """How many leading positions with these keys the cache holds already; 0 where an encoder
        takes the prompt."""
        return min(self.valid_length, self.computed_length, self.promised(keys))

    def promised(self, keys: Sequence[Hashable]) -> int:
        """The same with what is unread: the sequence's next call computes it."""
        if self.batch.start_token is not None:
            return 0
        return common_length((at.key for at in self._cached), keys)

    @property
    def computed_length(self) -> int:
        """Positions in the cache without those that are unread."""
        return self.length - len(self.unread)

    def rewind(self, length: int) -> None:
        """Forgets every position from `length` on."""
        unread = max(0, length - self.computed_length)
        super().rewind(length)
        self.unread = self.unread[:unread]
        self._rewind_states()

    def _rewind_states(self) -> None:
        """Positions whose states are not kept any more, and cannot be made of what is kept, are
        unread again: rows have the same bits in any call."""
        if self.states is None:
            return
        computed = self.computed_length
        self.states.rewind(computed)
        reach = self.states.reach(computed)
        if reach < computed:
            self.states.rewind(reach)
            self.unread = [cast(int, key) for key in self.cached_keys(self.length, reach)]

    def state_steps(self, rows: int, is_read: bool) -> list[Step]:
        """What a call with so many rows of the sequence does with its states; empty without such.

        Args:
            is_read: they are of a prompt, and are not rewound in part.
        """
        if self.states is None:
            return []
        certain = rows if is_read else len(self.unread)
        step = self.states.step(self.computed_length, rows, rows, certain)
        assert step is not None, "a rewind leaves states that a call can start from"
        return [step]

    def copy(self, other: OrtSequence, length: int) -> None:
        """Takes over the first positions of another sequence of the same model."""
        if not 0 <= length <= other.length:
            raise EdgespecError(f"cannot copy {length} positions of {other.length}")
        equal = 0
        if self._encoded is other._encoded:
            same = common_length(self._cached, other._cached)
            equal = min(length, self.valid_length, self.computed_length, same)
        self.batch.copy_positions(other.start + equal, self.start + equal, length - equal)
        self._cached, self.unread = other._cached[:length], ()
        self.source, self._encoded = other.source, other._encoded
        if self.states is not None and other.states is not None:
            self.states.copy(other.states, length)
            self._rewind_states()
        self._copied(length)

    def _copied(self, length: int) -> None:
        """Records that so many positions were not computed here; most models need not know."""

    def _restore(self, keys: Sequence[Hashable]) -> None:
        """Copies a beginning that was kept into the sequence's part of the cache, where more of it
        is wanted than that has."""
        found = self.batch.prefixes.best_in_any_call(keys, self.length)
        if found is None:
            return
        kept, count = found
        self.rewind(0)
        self.batch.restore(kept, self.states, self.start, count)
        self._cached += [CachedPosition(key, None) for key in keys[:count]]
        self._copied(count)
        self._rewind_states()
        self.rewind(self.computed_length)

    def kept_arrays(self) -> dict[str, Array]:
        """What the cache holds of the sequence, by the names of `keeping.kept_sequence`."""
        if self.batch.start_token is not None:
            return {}
        positions = self._cached[: min(self.valid_length, self.computed_length)]
        return self.batch.kept_arrays(positions, self.states, self.start)

    # --- calls ---

    def score(
        self, tokens: Sequence[int], candidates: Sequence[Candidate] = ()
    ) -> npt.NDArray[np.float32]:
        """See `edgespec.core.model.CandidateModel.score`."""
        (logits,) = self.batch.compute([Score(self, tokens, candidates)])
        return cast(npt.NDArray[np.float32], logits)

    def top_tokens(
        self,
        tokens: Sequence[int],
        candidates: Sequence[Candidate] = (),
        *,
        skip: int = 0,
        probabilities: bool = False,
    ) -> TopTokens:
        """See `edgespec.core.model.TopTokensModel.top_tokens`."""
        request = TopScore(self, tokens, candidates, skip, probabilities)
        (top,) = self.batch.compute([request])
        return cast(TopTokens, top)

    def candidate_room(self, count: int) -> int:
        """How many candidates a call with `count` tokens may have now."""
        if not self.scores_candidates:
            return 0
        return max(0, min(graph_io.MAX_ROWS, self.capacity - self.length) - count)

    def layouts(self, tokens: Sequence[int], candidates: Sequence[Candidate]) -> list[Layout]:
        """Where the rows of unread tokens, of these, then of their candidates, are.

        Raises:
            EdgespecError: there is no room for them.
        """
        count = len(tokens)
        if tokens or not self.unread:
            self._check_room(count + len(candidates))
        start, length = self.start, self.length
        line = [(start, i, start + i) for i in range(self.computed_length, length + count)]
        return line + [
            (start, length + parent + 1, start + length + count + i)
            for i, (parent, _) in enumerate(candidates)
        ]

    def computed(
        self, tokens: Sequence[int], candidates: Sequence[Candidate], layouts: Sequence[Layout]
    ) -> None:
        """Records a call that computed these rows: its tokens are in the cache, its candidates
        known."""
        alternatives = layouts[len(self.unread) + len(tokens) :]
        self._candidates = [
            (candidate.token, layout)
            for candidate, layout in zip(candidates, alternatives, strict=True)
        ]
        self.unread = ()
        self._append(tokens)

    def _copy_position(self, source: int, destination: int) -> None:
        self.batch.copy_positions(source, destination, 1)

    def _capacity_advice(self) -> str:
        return " or give more capacity" if self.capacity != self.max_positions else ""
