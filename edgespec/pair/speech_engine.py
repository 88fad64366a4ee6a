"""From a sound to the stream of its transcript."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np
import numpy.typing as npt

from edgespec.artifact.speech_format import SpeechFormat
from edgespec.audio.sound import ArraySound, Sound
from edgespec.audio.sound_file import open_sound
from edgespec.core.decode import Round, decoded
from edgespec.core.distribution_options import Sampling
from edgespec.core.draft import Drafter
from edgespec.core.randomness import Coupled
from edgespec.core.sampling import SamplingProcessor
from edgespec.core.stats import counted
from edgespec.costs.controller import Controller
from edgespec.errors import UsageError, shortened
from edgespec.pair.drafting import Drafting, loop_of
from edgespec.pair.parts import PairParts
from edgespec.speech.speech_model import SpeechModel
from edgespec.speech.transcribing import SpeechOptions, TextStart, Transcriber
from edgespec.speech.transcript import Segment, Transcript

__all__ = ["SoundInput", "SpeechEngine", "TranscriptStream", "TranscriptionOptions"]

SoundInput = str | PathLike[str] | npt.NDArray[Any] | Sound


class DecodingOptions(TypedDict, total=False):
    """How a transcript is decoded; see `Pair.stream`."""

    temperature: float
    seed: int | None
    gamma: int | str | None
    draft: bool | str


DECODING = tuple(DecodingOptions.__annotations__)


class TranscriptionOptions(SpeechOptions, DecodingOptions, total=False):
    """The keyword arguments of `Pair.transcribe`."""


class TranscriptStream:
    """Iterates over the segments of a transcript; `result` grows with them and ends complete.

    The pair is occupied from the first segment to the end, or until the stream is closed.
    """

    def __init__(self, segments: Iterator[Segment], result: Transcript) -> None:
        self._segments = segments
        self.result = result

    def __iter__(self) -> TranscriptStream:
        return self

    def __next__(self) -> Segment:
        return next(self._segments)

    def close(self) -> None:
        """Ends the transcript, if it has not ended yet; another text may then begin."""
        cast("Any", self._segments).close()

    def __enter__(self) -> TranscriptStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SpeechEngine:
    """Transcribes with a speech model, and perhaps a smaller one that drafts for it.

    Args:
        parts: of the pair.
        drafting: what drafts are made from.
        speech, draft_speech: speech formats of the target and of the draft.
    """

    def __init__(
        self,
        parts: PairParts,
        drafting: Drafting,
        speech: SpeechFormat,
        draft_speech: SpeechFormat | None,
    ) -> None:
        self.parts = parts
        self.drafting = drafting
        self.speech = speech
        self._draft_speech = draft_speech

    def stream(self, sound: SoundInput, options: TranscriptionOptions) -> TranscriptStream:
        """The transcript of a sound as it grows; see `edgespec.Pair.stream_transcript`."""
        given = cast("dict[str, Any]", dict(options))
        decoding = {name: given.pop(name) for name in DECODING if name in given}
        result = Transcript()
        rounds = _WindowRounds(self, result, **decoding)
        transcriber = Transcriber(
            cast("SpeechModel", self.parts.target),
            cast("SpeechModel | None", self.parts.draft) if rounds.uses_draft else None,
            speech=self.speech,
            draft_speech=self._draft_speech,
            to_draft_ids=self.parts.vocabulary.to_draft_ids,
            decode=self._decoded,
            rounds=rounds,
        )
        checked = transcriber.options(**given)
        opened = _opened(sound)

        def segments() -> Iterator[Segment]:
            with self.parts.occupied():
                yield from transcriber.segments(opened, checked, result)

        return TranscriptStream(segments(), result)

    def _decoded(self, tokens: Sequence[int]) -> str:
        return str(self.parts.tokenizer.decode(list(tokens), skip_special_tokens=True))


class _WindowRounds:
    """Decodes the texts of windows, plainly or with a draft.

    Attributes:
        uses_draft: the draft model may run.
    """

    def __init__(
        self,
        engine: SpeechEngine,
        result: Transcript,
        *,
        temperature: float = 0.0,
        seed: int | None = None,
        gamma: int | str | None = None,
        draft: bool | str = True,
    ) -> None:
        self._engine, self._result = engine, result
        self._sampling = Sampling(temperature)
        greedy = self._sampling.greedy
        self._choice = engine.drafting.choice(draft, gamma, None, greedy)
        if not (self._choice.kind is None or isinstance(self._choice.kind, str)):
            raise UsageError("draft is an object of your own; a transcript takes a drafter's name")
        self._seed = Coupled(seed, 0).seed
        self._last_tokens = (engine.speech.end,)
        self._drafter(None)  # checks γ and the drafter
        self.uses_draft = self._choice.uses_model
        result.seed = None if greedy else self._seed

    def __call__(self, start: TextStart) -> Iterator[Round]:
        """The rounds of a window's text."""
        parts = self._engine.parts
        drafter, gamma = self._drafter(start)
        loop = loop_of(drafter, gamma, self._choice.rule)(
            parts.target,
            prompt=start.prompt,
            process=SamplingProcessor(self._sampling),
            # Windows share no noise.
            randomness=Coupled(self._seed, len(start.prompt) + start.emitted),
            max_new_tokens=parts.target.capacity,
            ends=self._last_tokens.__contains__,
            logits=start.logits,
            edit=start.rules,
        )
        rounds = decoded(loop)
        if parts.remembered is not None:
            rounds = parts.remembered.watched(rounds)
        return counted(rounds, self._result.stats, parts.seconds)

    def _drafter(self, start: TextStart | None) -> tuple[Drafter | None, Controller]:
        """The drafter of a text, None if it is decoded plainly, and the controller of its γ."""
        return self._engine.drafting.drafter(
            self._choice,
            SamplingProcessor(self._sampling),
            last_tokens=self._last_tokens,
            draft=start.draft if start else None,
        )


def _opened(sound: object) -> Sound:
    """What a caller gives, as sound."""
    if isinstance(sound, str | PathLike):
        return open_sound(Path(fspath(sound)))
    if isinstance(sound, np.ndarray):
        return ArraySound(sound)
    if not all(hasattr(sound, name) for name in ("rate", "length", "read")):
        raise UsageError(
            f"the sound is {shortened(sound)}; give the path of a file, or an array of samples"
        )
    return cast("Sound", sound)
