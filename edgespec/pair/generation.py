"""Rounds of tokens become a stream of text, with its result and its statistics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgespec.core.decode import Round
from edgespec.core.stats import Stats, counted
from edgespec.pair.tokenizer import GrowingText

__all__ = ["Chunk", "Generation", "Settings", "StopCondition", "Stream", "stream_of"]


@dataclass(frozen=True)
class Chunk:
    """A token as it is emitted.

    Attributes:
        token: its id; None in a last chunk that only releases text held back.
        text: the text it settled; empty while a character or a stop string may be unfinished.
        from_draft: the draft proposed it and the target accepted it.
        logprob: the token's log-probability under the target, before temperature and truncation;
            None unless asked for.
    """

    token: int | None
    text: str
    from_draft: bool = False
    logprob: float | None = None


@dataclass(frozen=True)
class Settings:
    """How a text was generated, defaults and profile resolved.

    Which distribution it follows depends on `target_format` and `provider` alone; the rest decides how fast
    it comes and, with the seed, which text of this distribution is drawn.

    Attributes:
        target_format: the variant that ran.
        provider: what it ran on.
        draft: "model", "lookup", "both", "none", or the class of the caller's own.
        draft_format, draft_provider: of the draft model; None if none ran.
        gamma: tokens drafted a round, or "auto"; None without a draft.
        rule: "token" or "block"; None without a draft.
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
    """

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    finish_reason: str = ""
    prompt_tokens: int = 0
    seed: int | None = None
    settings: Settings = field(kw_only=True)
    stats: Stats = field(default_factory=Stats)
    logprobs: list[float] = field(default_factory=list)


class Stream:
    """Iterates over the `Chunk`s of a generation; `result` grows with them and ends complete."""

    def __init__(self, chunks: Iterator[Chunk], result: Generation) -> None:
        self._chunks = chunks
        self.result = result

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Chunk:
        return next(self._chunks)


class StopCondition:
    """Is told every emitted token in order; says whether the text ends with it, and why.

    Attributes:
        reason: "eos", "stop", or empty while the text goes on.
        pieces: the text that each token settled.
    """

    def __init__(self, text: GrowingText, last_tokens: Collection[int]) -> None:
        self._text = text
        self._last_tokens = frozenset(last_tokens)
        self.reason = ""
        self.pieces: list[str] = []

    def __call__(self, token: int) -> bool:
        self.pieces.append(self._text.add(token))
        if token in self._last_tokens:
            self.reason = "eos"
        elif self._text.stopped:
            self.reason = "stop"
        return bool(self.reason)

    def rest(self) -> str:
        """Text that was held back when the text ended; a stop string may be found in it."""
        rest = self._text.end()
        if self._text.stopped and not self.reason:
            self.reason = "stop"
        return rest


def stream_of(
    rounds: Iterator[Round],
    ending: StopCondition,
    result: Generation,
    *,
    max_new_tokens: int | None,
    model_seconds: Callable[[], tuple[float, float]],
    logprobs: bool,
) -> Stream:
    """The stream of a generation whose rounds are yet to be computed.

    Args:
        rounds: from `edgespec.core.decode`, which tells `ending` each token.
        result: is filled in.
        model_seconds: time spent so far in the target and in the draft.
        logprobs: compute them.
    """

    def chunks() -> Iterator[Chunk]:
        for round_ in counted(rounds, result.stats, model_seconds):
            probabilities = _logprobs(round_) if logprobs else [None] * len(round_.tokens)
            for place, (token, probability) in enumerate(
                zip(round_.tokens, probabilities, strict=True)
            ):
                text = ending.pieces[len(result.token_ids)]
                result.token_ids.append(token)
                result.text += text
                if probability is not None:
                    result.logprobs.append(probability)
                yield Chunk(token, text, place < round_.accepted + round_.committed, probability)
        rest = ending.rest()
        full = "max_tokens" if len(result.token_ids) == max_new_tokens else "capacity"
        result.finish_reason = ending.reason or full
        if rest:
            result.text += rest
            yield Chunk(None, rest)

    return Stream(chunks(), result)


def _logprobs(round_: Round) -> list[float]:
    """log p(token) of each emitted token: log-softmax of the target's logits."""
    assert round_.logits is not None
    rows = round_.logits[: len(round_.tokens)].astype(np.float64)
    highest = rows.max(axis=-1)
    totals = np.log(np.exp(rows - highest[:, None]).sum(axis=-1))
    top: npt.NDArray[np.float64] = rows[np.arange(len(rows)), list(round_.tokens)]
    return [float(value) for value in top - highest - totals]
