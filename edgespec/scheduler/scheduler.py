"""Merges the requests of live texts into calls of several texts.

    loops ── requests ──▶ one call of the draft, or of the target ── answers ──▶ loops

A text waits while others draft, so that one call of the target verifies them all. Prompts are read
in pieces beside the rows of texts that are being written, so that no stream stalls.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence

from edgespec.core.decode import Loop, Round
from edgespec.core.model import common_length
from edgespec.core.requests import Prefill, Read, Score, TopScore
from edgespec.errors import EdgespecError
from edgespec.scheduler.live_text import LiveText
from edgespec.scheduler.load_costs import Load
from edgespec.scheduler.shared_calls import ROWS, SharedRequest, Texts, text_model_of

__all__ = ["Scheduler"]

READ_ROWS = 64  # of a call for prompts, while other texts are being written
SHARED = 16  # positions of a prompt that are worth waiting for, and copying


class Scheduler:
    """Live texts and the calls that they share.

    Args:
        target: the texts of the target; those of other models are drafts. None if it shares no
            calls: then each text is computed alone.
        load: is told how many texts are live, and what calls take.

    Attributes:
        live: texts that have not ended, the one that waited longest first.
    """

    def __init__(self, target: Texts | None, load: Load) -> None:
        self._target = target
        self._load = load
        self.live: list[LiveText] = []

    def add(self, loop: Loop) -> tuple[Iterator[Round], LiveText]:
        """The rounds of a text with this loop, which starts with the next step; and its state."""
        text = LiveText(loop, self.step)
        self.live.append(text)
        return text.rounds(), text

    def step(self) -> None:
        """Makes one call for the texts that draft, or else one for those that verify and read."""
        for text in self.live:
            if text.is_new:
                text.start()
            _compute_alone(text)
            self._begin_reading(text)
        self._drop_ended()
        waiting = [text for text in self.live if _shares_calls(text)]
        target = [text for text in waiting if _texts(text) is self._target]
        drafts = [text for text in waiting if _texts(text) is not self._target]
        self._load.live = max(1, sum(not text.is_reading for text in waiting))
        is_drafting = any(not text.is_reading for text in drafts)
        if target and not is_drafting:
            self._call(target, is_draft=False)
        if drafts:
            self._call(drafts, is_draft=True)

    def _drop_ended(self) -> None:
        for text in self.live:
            if text.ended:
                self._load.times.add_text(text.tokens)
        self.live = [text for text in self.live if not text.ended]

    def _begin_reading(self, text: LiveText) -> None:
        """Lets a text read its prompt, after what another text has of it was copied. It waits while
        another text is still reading the same."""
        request = text.request
        model = text_model_of(request) if isinstance(request, Prefill) else None
        if model is None or not isinstance(request, Prefill):
            return
        keys = model.position_keys(request.prompt)
        own = model.kept(keys)
        if any(_reads_more(other, model.texts, request, keys, own) for other in self.live):
            return
        donor = max(model.texts.texts, key=lambda other: other.kept(keys))
        length = donor.kept(keys)
        if length - own >= SHARED:
            model.copy(donor, length)
        began = time.perf_counter()
        text.begin_reading()
        if model.texts is not self._target:
            self._load.times.add_draft_reading(time.perf_counter() - began, prompts=1)

    def _call(self, texts: Sequence[LiveText], is_draft: bool) -> None:
        """One call for as many of the texts as it has rows."""
        served = _chosen(texts)
        self._compute(served, is_draft)
        moved = {id(text) for text, _ in served}
        later = [text for text in self.live if id(text) in moved]
        self.live = [text for text in self.live if id(text) not in moved] + later

    def _compute(self, served: Sequence[tuple[LiveText, SharedRequest]], is_draft: bool) -> None:
        texts = _texts(served[0][0])
        requests = [request for _, request in served]
        rows, calls = texts.rows, texts.calls
        began = time.perf_counter()
        try:
            answers = texts.compute(requests)
        except EdgespecError as error:
            for text, _ in served:
                text.fail(error)
            return
        rows, calls = texts.rows - rows, texts.calls - calls
        for (text, _), answer in zip(served, answers, strict=True):
            text.answer(answer)
        seconds = time.perf_counter() - began
        reads = [isinstance(request, Read) for request in requests]
        if calls == 1 and not any(reads):
            self._load.times.add(rows, seconds, is_draft)
        elif is_draft and all(reads):
            self._load.times.add_draft_reading(seconds, prompts=0)


def _reads_more(
    other: LiveText, texts: Texts, newcomer: Prefill, keys: Sequence[Hashable], own: int
) -> bool:
    """Whether another text is about to have more of a newcomer's prompt than its own cache, which
    has `own` positions of it: enough to wait."""
    request = other.prompt or other.request
    if request is None or (isinstance(request, Prefill) and request is not other.prompt):
        return False  # a text that has not begun to read makes no call
    reader = text_model_of(request)
    if reader is None or reader.texts is not texts:
        return False
    if other.prompt is not None:
        wanted = common_length(other.prompt.prompt, newcomer.prompt)
    else:  # its next call computes what is unread
        wanted = reader.promised(keys)
    return wanted - max(own, reader.computed_length) >= SHARED


def _chosen(texts: Sequence[LiveText]) -> list[tuple[LiveText, SharedRequest]]:
    """The texts of one call and what each gets of it: rows of those that are being written first,
    then rows of prompts."""
    served: list[tuple[LiveText, SharedRequest]] = []
    room = ROWS
    for text in texts:
        request = text.request
        if isinstance(request, Score | TopScore) and not _unread(text):
            rows = len(request.tokens) + len(request.candidates)
            if rows <= room or not served:  # one that has more than a call may have gets its own
                served.append((text, request))
                room = max(0, room - rows)
    room = min(room, READ_ROWS) if served else room
    for text in texts:
        request, unread = text.request, _unread(text)
        if served and (not room or unread > room):
            continue
        if isinstance(request, Read):
            served.append((text, Read(request.model, request.tokens[: room - unread])))
            room -= unread + len(request.tokens[: room - unread])
        elif isinstance(request, Score | TopScore) and unread:
            served.append((text, request))
            room -= unread
    return served


def _compute_alone(text: LiveText) -> None:
    """Computes what a text requests of models that share no calls, up to its next round."""
    while (
        text.request is not None and text_model_of(text.request) is None and not text.ready_tokens
    ):
        assert not isinstance(text.request, Read)
        try:
            answer = text.request.compute()
        except EdgespecError as error:
            text.fail(error)
        else:
            text.answer(answer)


def _shares_calls(text: LiveText) -> bool:
    """Whether it waits for a call that others share; not while another one reads its prompt."""
    request = text.request
    return (
        request is not None
        and not isinstance(request, Prefill)
        and text_model_of(request) is not None
    )


def _unread(text: LiveText) -> int:
    """How many rows of its prompt a text's next call has."""
    assert text.request is not None
    model = text_model_of(text.request)
    assert model is not None
    return len(model.unread)


def _texts(text: LiveText) -> Texts:
    """The texts that share the call that a text requests."""
    assert text.request is not None
    model = text_model_of(text.request)
    assert model is not None
    return model.texts
