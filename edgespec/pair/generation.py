"""Rounds of tokens become a stream of text, with its result and its statistics."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from edgespec.core.decode import Round
from edgespec.core.stats import Stats, counted
from edgespec.pair.logprobs import TopLogprobs, token_logprobs
from edgespec.pair.scoring.text_scores import TextScores
from edgespec.pair.tokenizer import GrowingText

__all__ = [
    "Chunk",
    "Generation",
    "Progress",
    "Settings",
    "StopCondition",
    "Stream",
    "stream_of",
]


@dataclass(frozen=True)
class Chunk:
    """A token as it is emitted.

    Attributes:
        token: its id; None in a last chunk that only releases text held back.
        text: what became final with it; empty while a character or a stop string may be unfinished.
        from_draft: the draft proposed it and the target accepted it.
        start: the index in the whole text of the token's first character. Tokens within one
            character have the same; one of a stop string may be after the text's end.
        logprob: the token's log-probability under the target, before penalties, temperature and
            truncation; None unless asked for.
        top_logprobs: the most probable tokens in its stead and their log-probabilities, as many as
            asked for.
    """

    token: int | None
    text: str
    from_draft: bool = False
    logprob: float | None = None
    top_logprobs: TopLogprobs = ()
    start: int = 0


@dataclass(frozen=True)
class Settings:
    """How a text was generated, defaults and profile resolved.

    Its distribution depends on `target_format` and `provider` alone. The rest decides the speed
    and, with the seed, which text is drawn.

    Attributes:
        target_format: the variant that ran.
        provider: what it ran on.
        draft: name of the drafter, "none", or the class of the caller's own.
        draft_format, draft_provider: of the draft model; None if none ran.
        gamma: tokens drafted a round, or "auto"; None without a draft.
        rule: "coupled", "token" or "block"; without a draft "coupled", if it sampled, or None.
    """

    target_format: str
    provider: str
    draft: str
    draft_format: str | None
    draft_provider: str | None
    gamma: int | str | None
    rule: str | None


@dataclass
class Generation:
    """What was generated.

    Attributes:
        text: without special tokens and without the stop string.
        token_ids: every emitted token, an end-of-text token included.
        finish_reason: "eos", "stop", "max_tokens", or "capacity" when the cache is full.
        prompt_tokens: how many tokens the prompt has, its chat format included.
        seed: draws the same text again, with the same settings.
        settings: how it was generated.
        stats: counts and times.
        logprobs: one for each token, when asked for.
        top_logprobs: those of each token, when asked for, see `Chunk`.
        starts: of each token in the text, see `Chunk`.
        opens_thinking: the prompt ends within thinking, so the text begins in it.
        prompt_scores: of the prompt's own tokens, when asked for.
        dropped_messages: the oldest ones, which the model did not read, see `Pair.when_full`.
    """

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    finish_reason: str = ""
    prompt_tokens: int = 0
    seed: int | None = None
    settings: Settings = field(kw_only=True)
    stats: Stats = field(default_factory=Stats)
    logprobs: list[float] = field(default_factory=list)
    top_logprobs: list[TopLogprobs] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    opens_thinking: bool = False
    prompt_scores: TextScores | None = None
    dropped_messages: int = 0


class Progress(Protocol):
    """A loop that runs whenever any of several loops does.

    Attributes:
        ready_tokens: how many tokens can be taken without computing anything.
        ended: no more come.
    """

    @property
    def ready_tokens(self) -> int: ...
    @property
    def ended(self) -> bool: ...

    def close(self) -> None:
        """Ends the loop, if it has not ended yet."""
        ...


class Stream:
    """Iterates over the `Chunk`s of a generation; `result` grows with them and ends complete.

    The pair, or the slot of a batch, is occupied from the first chunk to the last token. A stream
    of a pair that is left before that frees it when it is closed, at the end of a `with` block, or
    when nothing refers to it any more.

    Args:
        chunks: of the text.
        result: is filled in by them.
        progress: of a text that is computed beside others; None for one that is computed alone.

    Attributes:
        result: of the generation; it grows with the chunks.
        ended: all chunks were taken, or the stream was closed.
    """

    def __init__(
        self, chunks: Generator[Chunk, None, None], result: Generation, progress: Progress | None
    ) -> None:
        self._chunks = chunks
        self._progress = progress
        self.result = result
        self.ended = False

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Chunk:
        try:
            return next(self._chunks)
        except BaseException:
            self.close()
            raise

    def ready(self) -> list[Chunk]:
        """The chunks that the latest steps of a batch brought; ends the text with its last. A text
        that is computed alone computes its next chunk now.

        Raises:
            EdgespecError: the text cannot be made.
        """
        if self._progress is None:
            return list(islice(self, 1))
        chunks = [next(self) for _ in range(self._progress.ready_tokens)]
        if self._progress.ended and not self.ended:
            chunks += self
        return chunks

    def close(self) -> None:
        """Ends the generation, if it has not ended yet; another text may then begin."""
        self.ended = True
        self._chunks.close()
        if self._progress is not None:
            self._progress.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class StopCondition:
    """Called with every emitted token in order; says whether the text ends with it, and why.

    Attributes:
        reason: "eos", "stop", or empty while the text is not at its end.
        pieces: the text that became final with each token.
        starts: the index of each token's first character.
    """

    def __init__(self, text: GrowingText, last_tokens: Collection[int]) -> None:
        self._text = text
        self._last_tokens = frozenset(last_tokens)
        self.reason = ""
        self.pieces: list[str] = []
        self.starts: list[int] = []

    def __call__(self, token: int) -> bool:
        self.starts.append(self._text.characters)
        self.pieces.append(self._text.add(token))
        if token in self._last_tokens:
            self.reason = "eos"
        elif self._text.stopped:
            self.reason = "stop"
        return bool(self.reason)

    def rest(self) -> str:
        """The text that was held back when the text ended; it may contain a stop string."""
        rest = self._text.end()
        if self._text.stopped and not self.reason:
            self.reason = "stop"
        return rest


def stream_of(
    rounds: Iterator[Round],
    stop: StopCondition,
    result: Generation,
    *,
    max_new_tokens: int | None,
    model_seconds: Callable[[], tuple[float, float]],
    top_logprobs: int | None,
    occupied: AbstractContextManager[object],
    progress: Progress | None,
) -> Stream:
    """The stream of a generation whose rounds are not computed yet.

    Args:
        rounds: from `edgespec.core.decode`, which tells `stop` each token.
        result: is filled in.
        model_seconds: time spent so far in the target and in the draft.
        top_logprobs: how many to report besides each token's own; None for no log-probabilities.
        occupied: is entered before the first round, and left after the last.
        progress: of a text that is computed beside others.
    """

    shared_since = None if progress is None else time.perf_counter()

    def chunks() -> Generator[Chunk, None, None]:
        with ExitStack() as running:
            running.enter_context(occupied)
            for round_ in counted(rounds, result.stats, model_seconds, shared_since):
                probabilities = _logprobs(round_, top_logprobs)
                if stop.reason or len(stop.pieces) == max_new_tokens:
                    running.close()  # that was the last round
                for index, (token, (probability, top)) in enumerate(
                    zip(round_.tokens, probabilities, strict=True)
                ):
                    text = stop.pieces[len(result.token_ids)]
                    start = stop.starts[len(result.token_ids)]
                    result.starts.append(start)
                    result.token_ids.append(token)
                    result.text += text
                    if probability is not None:
                        result.logprobs.append(probability)
                        result.top_logprobs.append(top)
                    drafted = index < round_.accepted + round_.committed
                    yield Chunk(token, text, drafted, probability, top, start)
        rest = stop.rest()
        full = "max_tokens" if len(result.token_ids) == max_new_tokens else "capacity"
        result.finish_reason = stop.reason or full
        if rest:
            result.text += rest
            yield Chunk(None, rest)

    return Stream(chunks(), result, progress)


def _logprobs(round_: Round, top: int | None) -> list[tuple[float | None, TopLogprobs]]:
    """Those of each emitted token; none if `top` is None."""
    if top is None:
        return [(None, ())] * len(round_.tokens)
    assert round_.logits is not None
    return [*token_logprobs(round_.logits, round_.tokens, top)]
