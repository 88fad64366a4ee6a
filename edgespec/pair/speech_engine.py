"""From a sound to the stream of its transcript."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from edgespec.artifact.speech_format import SpeechFormat
from edgespec.audio.resampling import resampled
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
from edgespec.pair.drafting import DraftChoice, Drafting, loop_of
from edgespec.pair.opening.runtime import open_voice_model
from edgespec.pair.parts import PairParts
from edgespec.pair.window_drafting import WindowDrafting
from edgespec.speech.speech_model import SpeechModel
from edgespec.speech.speech_options import CheckedOptions, checked_options
from edgespec.speech.transcribing import TextStart, Transcriber
from edgespec.speech.transcript import Segment, Transcript
from edgespec.speech.transcription_options import TranscriptionOptions, parted
from edgespec.speech.voices import SpokenSound, VoiceOptions, spoken_ranges
from edgespec.speech.word_times import WordTimer

if TYPE_CHECKING:
    from edgespec.pair.opening.runtime import OrtSpeech, VoiceModel

__all__ = ["SoundInput", "SpeechEngine", "TranscriptStream"]

SoundInput = str | PathLike[str] | npt.NDArray[Any] | Sound


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

    Attributes:
        window_drafting: what windows took with the draft model and without it.
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
        self.window_drafting = WindowDrafting()
        self._draft_speech = draft_speech

    def stream(self, sound: SoundInput, options: TranscriptionOptions) -> TranscriptStream:
        """The transcript of a sound as it grows; see `edgespec.Pair.stream_transcript`."""
        given, decoding = parted(options)
        voices = _voices(decoding.pop("voices", False))
        checked = checked_options(self.speech, **given)
        result = Transcript()
        rounds = _WindowRounds(self, checked, result, **decoding)
        transcriber = Transcriber(
            cast("SpeechModel", self.parts.target),
            cast("SpeechModel | None", self.parts.draft) if rounds.uses_draft else None,
            speech=self.speech,
            draft_speech=self._draft_speech,
            to_draft_ids=self.parts.vocabulary.to_draft_ids,
            decode=self._decoded,
            rounds=rounds,
            word_timer=self._word_timer() if checked.word_times else None,
        )
        opened = _opened(sound)
        result.duration = opened.length / opened.rate
        before = self._encoded(checked.prompt)

        def segments() -> Iterator[Segment]:
            with self.parts.occupied():
                read = transcriber.segments
                if voices is not None:
                    read = partial(spoken_segments, transcriber, voices, self.voice_model)
                for segment in read(opened, checked, before, result):
                    result.segments.append(segment)
                    yield segment

        return TranscriptStream(segments(), result)

    def _word_timer(self) -> WordTimer:
        """Raises UsageError if the target was exported without what it needs."""
        target = cast("OrtSpeech", self.parts.target)
        target.check_alignment()
        return WordTimer(target.alignment, self._decoded)

    def _encoded(self, prompt: str | None) -> list[int]:
        """The tokens of what is taken for said before."""
        if not prompt or not prompt.strip():
            return []
        encoding = self.parts.tokenizer.encode(f" {prompt.strip()}", add_special_tokens=False)
        return [token for token in encoding.ids if token < self.speech.end]

    @cached_property
    def voice_model(self) -> VoiceModel:
        """Says where somebody speaks; opened when it is first asked for."""
        return open_voice_model()

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
        options: CheckedOptions,
        result: Transcript,
        *,
        seed: int = 0,
        gamma: int | str | None = None,
        draft: bool | str = True,
    ) -> None:
        self._engine, self._result = engine, result
        self._draft, self._gamma = draft, gamma
        self._seed = Coupled(seed, 0).seed
        self._last_tokens = (engine.speech.end,)
        choices = [self._choice(temperature) for temperature in options.temperatures]
        for temperature, choice in zip(options.temperatures, choices, strict=True):
            self._drafter(choice, Sampling(temperature), None)  # checks γ and the drafter
        self.uses_draft = any(choice.uses_model for choice in choices)
        result.seed = self._seed if any(options.temperatures) else None

    def __call__(self, start: TextStart) -> Iterator[Round]:
        """The rounds of a window's text."""
        choice = self._choice(start.temperature)
        by_clock = choice.uses_model and self._draft is True and self._gamma in (None, "auto")
        if not by_clock or not choice.keeps_text:
            yield from self._decoded(start, choice)
            return
        windows = self._engine.window_drafting
        drafts = windows.drafts()
        if not drafts:
            choice = self._engine.drafting.choice(False, None, None, start.temperature == 0)
        began = self._result.stats.seconds, self._result.stats.tokens
        yield from self._decoded(start, choice)
        stats = self._result.stats
        windows.count(drafts, stats.seconds - began[0], stats.tokens - began[1])

    def _decoded(self, start: TextStart, choice: DraftChoice) -> Iterator[Round]:
        parts, sampling = self._engine.parts, Sampling(start.temperature)
        drafter, gamma = self._drafter(choice, sampling, start)
        loop = loop_of(drafter, gamma, choice.rule)(
            parts.target,
            prompt=start.prompt,
            process=SamplingProcessor(sampling),
            # Texts of windows share no noise.
            randomness=Coupled(self._seed, len(start.prompt) + start.emitted),
            max_new_tokens=parts.target.capacity,
            ends=self._last_tokens.__contains__,
            logits=True,
            edit=start.rules,
        )
        rounds = decoded(loop)
        if parts.remembered is not None:
            rounds = parts.remembered.watched(rounds)
        return counted(rounds, self._result.stats, parts.seconds)

    def _choice(self, temperature: float) -> DraftChoice:
        """What drafts at a temperature, and the rule of its text."""
        choice = self._engine.drafting.choice(self._draft, self._gamma, None, temperature == 0)
        if not (choice.kind is None or isinstance(choice.kind, str)):
            raise UsageError("draft is an object of your own; a transcript takes a drafter's name")
        return choice

    def _drafter(
        self, choice: DraftChoice, sampling: Sampling, start: TextStart | None
    ) -> tuple[Drafter | None, Controller]:
        """The drafter of a text, None if it is decoded plainly, and the controller of its γ."""
        return self._engine.drafting.drafter(
            choice,
            SamplingProcessor(sampling),
            last_tokens=self._last_tokens,
            draft=start.draft if start else None,
        )


def spoken_segments(
    transcriber: Transcriber,
    voices: VoiceOptions,
    model: VoiceModel,
    sound: Sound,
    options: CheckedOptions,
    before: Sequence[int],
    result: Transcript,
) -> Iterator[Segment]:
    """The segments of the parts of a sound in which somebody speaks."""
    whole = resampled(sound)
    ranges = spoken_ranges(model.probabilities(whole), whole.length, voices)
    spoken = SpokenSound(whole, ranges)
    if ranges:
        for segment in transcriber.segments(spoken, options, before, result):
            _, result.seconds = spoken.original(0, result.seconds)
            yield _in_whole_sound(segment, spoken, voices.padding)
    result.seconds = result.duration


def _in_whole_sound(segment: Segment, spoken: SpokenSound, padding: float) -> Segment:
    """A segment of what is spoken, at its time in the whole sound."""
    start, end = spoken.original(segment.start, segment.end, padding)
    times = [spoken.original(word.start, word.end) for word in segment.words]
    words = (
        replace(word, start=round(begins, 2), end=round(ends, 2))
        for word, (begins, ends) in zip(segment.words, times, strict=True)
    )
    return replace(segment, start=start, end=end, words=tuple(words))


def _voices(given: object) -> VoiceOptions | None:
    """What counts as a voice, if only voices are to be transcribed."""
    if isinstance(given, VoiceOptions):
        return given
    if not isinstance(given, bool):
        raise UsageError(f"voices is {shortened(given)}; give True, False, or VoiceOptions(…)")
    return VoiceOptions() if given else None


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
