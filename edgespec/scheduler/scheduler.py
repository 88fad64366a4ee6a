"""Merges the requests of live sequences into calls of several sequences.

    loops ── requests ──▶ one call of the draft, or of the target ── answers ──▶ loops

A sequence waits while others draft, so that one call of the target verifies them all. Prompts are
read in pieces beside the rows of sequences that are being written, so that no stream stalls.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence

from edgespec.core.decode import Loop, Round
from edgespec.core.model import common_length
from edgespec.core.requests import Prefill, Read, Score, TopScore
from edgespec.errors import EdgespecError
from edgespec.scheduler.live_sequence import LiveSequence
from edgespec.scheduler.load_costs import Load
from edgespec.scheduler.shared_calls import ROWS, SequenceBatch, SharedRequest, sequence_model_of

__all__ = ["Scheduler"]

READ_ROWS = 64  # of a call for prompts, while other sequences are being written
SHARED = 16  # positions of a prompt that are worth waiting for, and copying


class Scheduler:
    """Live sequences and the calls that they share.

    Args:
        target: the sequences of the target; those of other models are drafts. None if it shares no
            calls: then each sequence is computed alone.
        load: records how many sequences are live, and how long calls take.

    Attributes:
        live: sequences that have not ended, the one that waited longest first.
    """

    def __init__(self, target: SequenceBatch | None, load: Load) -> None:
        self._target = target
        self._load = load
        self.live: list[LiveSequence] = []

    def add(self, loop: Loop) -> tuple[Iterator[Round], LiveSequence]:
        """The rounds of a sequence with this loop, which starts with the next step; and its
        state."""
        sequence = LiveSequence(loop, self.step)
        self.live.append(sequence)
        return sequence.rounds(), sequence

    def step(self) -> None:
        """Makes one call for the sequences that draft, or else one for those that verify and
        read."""
        for sequence in self.live:
            if sequence.is_new:
                sequence.start()
            _compute_alone(sequence)
            self._begin_reading(sequence)
        self._drop_ended()
        waiting = [sequence for sequence in self.live if _shares_calls(sequence)]
        target = [sequence for sequence in waiting if _batch_of(sequence) is self._target]
        drafts = [sequence for sequence in waiting if _batch_of(sequence) is not self._target]
        self._load.live = max(1, sum(not sequence.is_reading for sequence in waiting))
        is_drafting = any(not sequence.is_reading for sequence in drafts)
        if target and not is_drafting:
            self._call(target, is_draft=False)
        if drafts:
            self._call(drafts, is_draft=True)

    def _drop_ended(self) -> None:
        for sequence in self.live:
            if sequence.ended:
                self._load.times.add_sequence(sequence.tokens)
        self.live = [sequence for sequence in self.live if not sequence.ended]

    def _begin_reading(self, sequence: LiveSequence) -> None:
        """Lets a sequence read its prompt, after what another sequence has of it was copied. It
        waits while another sequence is still reading the same."""
        request = sequence.request
        model = sequence_model_of(request) if isinstance(request, Prefill) else None
        if model is None or not isinstance(request, Prefill):
            return
        keys = model.position_keys(request.prompt)
        own = model.kept(keys)
        if any(_reads_more(other, model.batch, request, keys, own) for other in self.live):
            return
        donor = max(model.batch.sequences, key=lambda other: other.kept(keys))
        length = donor.kept(keys)
        if length - own >= SHARED:
            model.copy(donor, length)
        began = time.perf_counter()
        sequence.begin_reading()
        if model.batch is not self._target:
            self._load.times.add_draft_reading(time.perf_counter() - began, prompts=1)

    def _call(self, sequences: Sequence[LiveSequence], is_draft: bool) -> None:
        """One call for as many of the sequences as it has rows."""
        served = _chosen(sequences)
        self._compute(served, is_draft)
        moved = {id(sequence) for sequence, _ in served}
        later = [sequence for sequence in self.live if id(sequence) in moved]
        self.live = [sequence for sequence in self.live if id(sequence) not in moved] + later

    def _compute(
        self, served: Sequence[tuple[LiveSequence, SharedRequest]], is_draft: bool
    ) -> None:
        batch = _batch_of(served[0][0])
        requests = [request for _, request in served]
        rows, calls = batch.rows, batch.calls
        began = time.perf_counter()
        try:
            answers = batch.compute(requests)
        except EdgespecError as error:
            for sequence, _ in served:
                sequence.fail(error)
            return
        rows, calls = batch.rows - rows, batch.calls - calls
        for (sequence, _), answer in zip(served, answers, strict=True):
            sequence.answer(answer)
        seconds = time.perf_counter() - began
        reads = [isinstance(request, Read) for request in requests]
        if calls == 1 and not any(reads):
            self._load.times.add(rows, seconds, is_draft)
        elif is_draft and all(reads):
            self._load.times.add_draft_reading(seconds, prompts=0)


def _reads_more(
    other: LiveSequence, batch: SequenceBatch, newcomer: Prefill, keys: Sequence[Hashable], own: int
) -> bool:
    """Whether another sequence is about to have more of a newcomer's prompt than its own cache,
    which
    has `own` positions of it: enough to wait."""
    request = other.prompt or other.request
    if request is None or (isinstance(request, Prefill) and request is not other.prompt):
        return False  # a sequence that has not begun to read makes no call
    reader = sequence_model_of(request)
    if reader is None or reader.batch is not batch:
        return False
    if other.prompt is not None:
        wanted = common_length(other.prompt.prompt, newcomer.prompt)
    else:  # its next call computes what is unread
        wanted = reader.promised(keys)
    return wanted - max(own, reader.computed_length) >= SHARED


def _chosen(sequences: Sequence[LiveSequence]) -> list[tuple[LiveSequence, SharedRequest]]:
    """The sequences of one call and what each gets of it: rows of those that are being written
    first, then rows of prompts."""
    served: list[tuple[LiveSequence, SharedRequest]] = []
    room = ROWS
    for sequence in sequences:
        request = sequence.request
        if isinstance(request, Score | TopScore) and not _unread(sequence):
            rows = len(request.tokens) + len(request.candidates)
            if rows <= room or not served:  # one that has more than a call may have gets its own
                served.append((sequence, request))
                room = max(0, room - rows)
    room = min(room, READ_ROWS) if served else room
    for sequence in sequences:
        request, unread = sequence.request, _unread(sequence)
        if served and (not room or unread > room):
            continue
        if isinstance(request, Read):
            served.append((sequence, Read(request.model, request.tokens[: room - unread])))
            room -= unread + len(request.tokens[: room - unread])
        elif isinstance(request, Score | TopScore) and unread:
            served.append((sequence, request))
            room -= unread
    return served


def _compute_alone(sequence: LiveSequence) -> None:
    """Computes what a sequence requests of models that share no calls, up to its next round."""
    while (
        sequence.request is not None
        and sequence_model_of(sequence.request) is None
        and not sequence.ready_tokens
    ):
        assert not isinstance(sequence.request, Read)
        try:
            answer = sequence.request.compute()
        except EdgespecError as error:
            sequence.fail(error)
        else:
            sequence.answer(answer)


def _shares_calls(sequence: LiveSequence) -> bool:
    """Whether it waits for a call that others share; not while another one reads its prompt."""
    request = sequence.request
    return (
        request is not None
        and not isinstance(request, Prefill)
        and sequence_model_of(request) is not None
    )


def _unread(sequence: LiveSequence) -> int:
    """How many rows of its prompt a sequence's next call has."""
    assert sequence.request is not None
    model = sequence_model_of(sequence.request)
    assert model is not None
    return len(model.unread)


def _batch_of(sequence: LiveSequence) -> SequenceBatch:
    """The sequences that share the call that one of them requests."""
    assert sequence.request is not None
    model = sequence_model_of(sequence.request)
    assert model is not None
    return model.batch
