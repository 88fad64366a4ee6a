"""Merges what live texts ask for into calls of several texts.

    loops ── asks ──▶ one call of the draft, or of the target ── answers ──▶ loops

A text waits while others draft, so that one call of the target verifies them all. Prompts are read
in pieces beside the rows of texts that are being written, so that no stream stalls.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence

from edgespec.core.asks import Prefill, Read, Score, TopScore
from edgespec.core.decode import Loop, Round
from edgespec.core.model import common_length
from edgespec.errors import EdgespecError
from edgespec.scheduler.live_text import LiveText
from edgespec.scheduler.load_costs import Load
from edgespec.scheduler.shared_calls import ROWS, TextAsk, Texts, text_model_of

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
        asking = [text for text in self.live if _shares_calls(text)]
        target = [text for text in asking if _texts(text) is self._target]
        drafts = [text for text in asking if _texts(text) is not self._target]
        self._load.live = max(1, sum(not text.is_reading for text in asking))
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
        ask = text.ask
        model = text_model_of(ask) if isinstance(ask, Prefill) else None
        if model is None or not isinstance(ask, Prefill):
            return
        keys = model.position_keys(ask.prompt)
        own = model.kept(keys)
        if any(_reads_more(other, model.texts, ask, keys, own) for other in self.live):
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

    def _compute(self, served: Sequence[tuple[LiveText, TextAsk]], is_draft: bool) -> None:
        texts = _texts(served[0][0])
        asks = [ask for _, ask in served]
        rows, calls = texts.rows, texts.calls
        began = time.perf_counter()
        try:
            answers = texts.compute(asks)
        except EdgespecError as error:
            for text, _ in served:
                text.fail(error)
            return
        rows, calls = texts.rows - rows, texts.calls - calls
        for (text, _), answer in zip(served, answers, strict=True):
            text.answer(answer)
        seconds = time.perf_counter() - began
        reads = [isinstance(ask, Read) for ask in asks]
        if calls == 1 and not any(reads):
            self._load.times.add(rows, seconds, is_draft)
        elif is_draft and all(reads):
            self._load.times.add_draft_reading(seconds, prompts=0)


def _reads_more(
    other: LiveText, texts: Texts, newcomer: Prefill, keys: Sequence[Hashable], own: int
) -> bool:
    """Whether another text is about to have more of a newcomer's prompt than its own cache, which
    has `own` positions of it: enough to wait."""
    ask = other.prompt or other.ask
    if ask is None or (isinstance(ask, Prefill) and ask is not other.prompt):
        return False  # a text that has not begun to read makes no call
    reader = text_model_of(ask)
    if reader is None or reader.texts is not texts:
        return False
    if other.prompt is not None:
        wanted = common_length(other.prompt.prompt, newcomer.prompt)
    else:  # its next call computes what is unread
        wanted = reader.promised(keys)
    return wanted - max(own, reader.computed_length) >= SHARED


def _chosen(texts: Sequence[LiveText]) -> list[tuple[LiveText, TextAsk]]:
    """The texts of one call and what each gets of it: rows of those that are being written first,
    then rows of prompts."""
    served: list[tuple[LiveText, TextAsk]] = []
    room = ROWS
    for text in texts:
        ask = text.ask
        if isinstance(ask, Score | TopScore) and not _unread(text):
            rows = len(ask.tokens) + len(ask.candidates)
            if rows <= room or not served:  # one that has more than a call may have gets its own
                served.append((text, ask))
                room = max(0, room - rows)
    room = min(room, READ_ROWS) if served else room
    for text in texts:
        ask, unread = text.ask, _unread(text)
        if served and (not room or unread > room):
            continue
        if isinstance(ask, Read):
            served.append((text, Read(ask.model, ask.tokens[: room - unread])))
            room -= unread + len(ask.tokens[: room - unread])
        elif isinstance(ask, Score | TopScore) and unread:
            served.append((text, ask))
            room -= unread
    return served


def _compute_alone(text: LiveText) -> None:
    """Computes what a text asks of models that share no calls, up to its next round."""
    while text.ask is not None and text_model_of(text.ask) is None and not text.ready_tokens:
        assert not isinstance(text.ask, Read)
        try:
            answer = text.ask.compute()
        except EdgespecError as error:
            text.fail(error)
        else:
            text.answer(answer)


def _shares_calls(text: LiveText) -> bool:
    """Whether it waits for a call that others share; not while another one reads its prompt."""
    ask = text.ask
    return ask is not None and not isinstance(ask, Prefill) and text_model_of(ask) is not None


def _unread(text: LiveText) -> int:
    """How many rows of its prompt a text's next call has."""
    assert text.ask is not None
    model = text_model_of(text.ask)
    assert model is not None
    return len(model.unread)


def _texts(text: LiveText) -> Texts:
    """The texts that share the call that a text asks for."""
    assert text.ask is not None
    model = text_model_of(text.ask)
    assert model is not None
    return model.texts
