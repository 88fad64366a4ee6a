"""The pair of a speech model: it transcribes sound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, Unpack, cast

import numpy as np
import numpy.typing as npt

from edgespec.artifact.speech_format import SpeechFormat
from edgespec.audio.sound import ArraySound, Sound
from edgespec.audio.sound_file import open_sound
from edgespec.core.decode import Round, decoded, plain, speculate
from edgespec.core.randomness import Coupled
from edgespec.core.sampling import Sampling
from edgespec.core.stats import counted
from edgespec.core.verification import RULES
from edgespec.costs.controller import Controller
from edgespec.errors import UsageError, shortened
from edgespec.pair.pair import Pair
from edgespec.pair.round_clock import CostClock
from edgespec.speech.speech_model import SpeechModel
from edgespec.speech.transcribing import SpeechOptions, TextStart, Transcriber
from edgespec.speech.transcript import Segment, Transcript

if TYPE_CHECKING:
    from edgespec.core.draft import Drafter

__all__ = ["SoundInput", "SpeechPair", "TranscriptStream", "TranscriptionOptions"]

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


class SpeechPair(Pair):
    """A speech model, perhaps a smaller one that drafts for it, and their tokenizer.

    Args:
        speech, draft_speech: speech formats of the target and of the draft; all others are those
            of `Pair`.
    """

    def __init__(
        self,
        *arguments: Any,
        speech: SpeechFormat,
        draft_speech: SpeechFormat | None,
        **named: Any,
    ) -> None:
        super().__init__(*arguments, **named)
        self._speech, self._draft_speech = speech, draft_speech

    def stream(self, *_: object, **__: object) -> NoReturn:
        """Raises UsageError: there is nothing to continue."""
        raise UsageError(
            f"{self.manifest.target.source} makes text of sound, not of a prompt; use: edgespec "
            "transcribe PAIR FILE (Pair.transcribe)"
        )

    def stream_transcript(
        self, sound: SoundInput, **options: Unpack[TranscriptionOptions]
    ) -> TranscriptStream:
        """Starts a transcript and returns an iterator over its segments.

        The text is the target's own, whatever drafts: each verified row keeps to the same rules on
        timestamps and suppressed tokens.

        Args:
            sound: the path of a sound file: WAV, or with the package soundfile FLAC, MP3 or Ogg;
                samples at 16 kHz, [samples] or [samples, channels], as floats from -1 to 1; or an
                `edgespec.audio.sound.Sound`, such as `ArraySound(samples, rate)`. A file is read
                window by window, however long it is.
            options: `language`, `task`, `timestamps`, `use_previous` and `no_speech` are explained
                in `edgespec.speech.transcribing.Transcriber.options`; `temperature` (0 is greedy),
                `seed`, `gamma` and `draft` in `Pair.stream`.

        Raises:
            UsageError: an argument is out of range. Another stream that is running is found with
                the first segment.
            EdgespecError: the sound cannot be read.
        """
        given = cast("dict[str, Any]", options)
        decoding = {name: given.pop(name) for name in DECODING if name in given}
        result = Transcript()
        rounds = _WindowRounds(self, result, **decoding)
        transcriber = Transcriber(
            cast("SpeechModel", self.target),
            cast("SpeechModel | None", self.draft) if rounds.uses_draft else None,
            speech=self._speech,
            draft_speech=self._draft_speech,
            to_draft_ids=self.vocabulary.to_draft_ids,
            decode=self._decoded,
            rounds=rounds,
        )
        checked = transcriber.options(**given)
        opened = _opened(sound)

        def segments() -> Iterator[Segment]:
            with self._occupied():
                yield from transcriber.segments(opened, checked, result)

        return TranscriptStream(segments(), result)

    def _decoded(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))


class _WindowRounds:
    """Decodes the texts of windows, plainly or with a draft.

    Attributes:
        uses_draft: the draft model may run.
    """

    def __init__(
        self,
        pair: SpeechPair,
        result: Transcript,
        *,
        temperature: float = 0.0,
        seed: int | None = None,
        gamma: int | str | None = None,
        draft: bool | str = True,
    ) -> None:
        kind = pair._draft_kind(draft, gamma)
        if not (kind is None or isinstance(kind, str)):
            raise UsageError("draft is an object of your own; a transcript takes a drafter's name")
        self._pair, self._result, self._kind = pair, result, kind
        self._gamma = "auto" if gamma is None else gamma
        self._sampling = Sampling(temperature)
        self._seed = Coupled(seed, 0).seed
        self._last_tokens = (pair._speech.end,)
        self._drafting(None)  # checks γ and the drafter
        self.uses_draft = kind in ("model", "both")
        result.seed = None if self._sampling.greedy else self._seed

    def __call__(self, start: TextStart) -> Iterator[Round]:
        """The rounds of a window's text."""
        pair = self._pair
        process = self._sampling.processor()
        drafting = self._drafting(start)
        shared: dict[str, Any] = {
            "prompt": start.prompt,
            "process": process,
            # Windows share no noise.
            "randomness": Coupled(self._seed, len(start.prompt) + start.emitted),
            "max_new_tokens": pair.target.capacity,
            "ends": self._last_tokens.__contains__,
            "logits": start.logits,
            "edit": start.rules,
        }
        if drafting is None:
            loop = plain(pair.target, **shared)
        else:
            rule = RULES["token" if self._sampling.greedy else "coupled"]
            drafter, gamma = drafting
            loop = speculate(pair.target, drafter, rule=rule, gamma=gamma, **shared)
        rounds = decoded(loop)
        if pair._remembered is not None:
            rounds = pair._remembered.watched(rounds)
        return counted(rounds, self._result.stats, pair.seconds)

    def _drafting(self, start: TextStart | None) -> tuple[Drafter, Controller] | None:
        """The drafter of a text and the controller of its γ; None decodes plainly."""
        if self._kind is None:
            return None
        clock: CostClock | None = self._pair.clock if self._gamma == "auto" else None
        return self._pair.drafter(
            self._kind,
            self._gamma,
            self._sampling.processor(),
            self._last_tokens,
            clock=clock,
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
