"""Transcribes sound window by window: 30 seconds, of which the next window begins where the last
finished segment ended (Radford et al. 2022, section 4.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from edgespec.artifact.speech_format import SpeechFormat
from edgespec.audio.log_mel import FRAMES_PER_SECOND, Spectrogram, SpectrogramWindow
from edgespec.audio.resampling import resampled
from edgespec.audio.sound import Sound
from edgespec.core.array_types import Logits
from edgespec.core.decode import Round
from edgespec.core.logit_edits import LogitEdit
from edgespec.errors import EdgespecError, UsageError, shortened
from edgespec.speech.segments import TokenSegment, segments_of
from edgespec.speech.speech_model import RuledDraft, SpeechModel
from edgespec.speech.token_rules import TokenRules
from edgespec.speech.transcript import Segment, Transcript

__all__ = ["SpeechOptions", "TextStart", "Transcriber"]

TASKS = ("transcribe", "translate")
# Mean log-probability from which a text is believed, however silent the window.
MIN_MEAN_LOGPROB = -1.0


class SpeechOptions(TypedDict, total=False):
    """The keyword arguments of `Transcriber.options`."""

    language: str | None
    task: str
    timestamps: bool
    use_previous: bool
    no_speech: float | None


@dataclass(frozen=True)
class TextStart:
    """The beginning of a window's text.

    Attributes:
        prompt: token ids of the target.
        rules: on the tokens after them.
        draft: the draft model with its own beginning; None if the pair has none.
        emitted: tokens of the windows before.
        logits: whether the rows of logits are needed, too.
    """

    prompt: list[int]
    rules: TokenRules
    draft: RuledDraft | None
    emitted: int
    logits: bool


@dataclass(frozen=True)
class _Options:
    """What is asked for; `Transcriber.options` explains it."""

    language: str | None
    task: str
    timestamps: bool
    use_previous: bool
    no_speech: float | None


class Transcriber:
    """Transcribes with a target and maybe a draft.

    Args:
        target, draft: the models.
        speech, draft_speech: their speech formats.
        to_draft_ids: token ids of the draft for those of the target.
        decode: the text of token ids.
        rounds: decodes the text of one window, up to and with the token that ends it.
    """

    def __init__(
        self,
        target: SpeechModel,
        draft: SpeechModel | None,
        *,
        speech: SpeechFormat,
        draft_speech: SpeechFormat | None,
        to_draft_ids: Callable[[Sequence[int]], list[int]],
        decode: Callable[[Sequence[int]], str],
        rounds: Callable[[TextStart], Iterator[Round]],
    ) -> None:
        self._target, self._draft = target, draft
        self._speech, self._draft_speech = speech, draft_speech
        self._to_draft_ids = to_draft_ids
        self._decode = decode
        self._rounds = rounds

    def options(
        self,
        *,
        language: str | None = None,
        task: str = "transcribe",
        timestamps: bool = True,
        use_previous: bool = False,
        no_speech: float | None = 0.6,
    ) -> _Options:
        """Checked options of a transcript.

        Args:
            language: code of the spoken language; None finds it in the first window.
            task: "transcribe", or "translate" to English.
            timestamps: let the model say when; without, a window is one segment.
            use_previous: the text of earlier windows is the beginning of the next one's.
            no_speech: a window is silent if this is less than the probability of silence, and its
                text is improbable (less than e⁻¹ per token); None believes every text.

        Raises:
            UsageError: an option is not one of those.
        """
        speech = self._speech
        if task not in TASKS:
            raise UsageError(f"task is {shortened(task)}; give one of: {', '.join(TASKS)}")
        if task == "translate" and speech.translate is None:
            raise UsageError("this model knows English only and translates nothing")
        if language is not None and language not in (speech.languages or {"en": 0}):
            known = ", ".join(speech.languages or ["en"])
            raise UsageError(f"language is {shortened(language)}; this model knows {known}")
        if no_speech is not None and not 0 <= no_speech <= 1:
            raise UsageError(f"no_speech is {shortened(no_speech)}; give 0 to 1, or None")
        if not speech.is_multilingual:
            language = "en"
        return _Options(language, task, timestamps, use_previous, no_speech)

    def segments(self, sound: Sound, options: _Options, result: Transcript) -> Iterator[Segment]:
        """Transcribes; adds to `result` and yields each segment.

        Raises:
            EdgespecError: the sound has less than a frame, or cannot be read.
        """
        speech = self._speech
        spectrogram = Spectrogram(resampled(sound), speech.mel_bins)
        if not spectrogram.frames:
            raise EdgespecError(
                f"the sound has {sound.length} samples; give at least 10 milliseconds of sound"
            )
        result.language = options.language
        said: list[int] = []
        emitted = 0
        start = 0
        while start < spectrogram.frames:
            frames = min(speech.frames, spectrogram.frames - start)
            silence = self._hear(spectrogram.window(start, speech.frames), result)
            before = said if options.use_previous else []
            tokens, logprob = self._text(options, result, before, emitted, silence)
            emitted += len(tokens)
            result.seconds = (start + frames) / FRAMES_PER_SECOND
            if logprob is not None and logprob < MIN_MEAN_LOGPROB:
                start += frames
                continue
            found = segments_of(tokens, speech, frames)
            for part in found.segments:
                segment = self._segment(part, start)
                if segment.text:
                    said += segment.token_ids
                    result.segments.append(segment)
                    yield segment
            start += found.advance

    def _hear(self, window: SpectrogramWindow, result: Transcript) -> float:
        """Gives both models the window; finds the language, if it is not known yet.

        Returns the probability of silence.
        """
        speech = self._speech
        self._target.hear(window)
        if self._draft is not None:
            self._draft.hear(window)
        logits = self._target.score([self._target.prefill([speech.start])])[0]
        if result.language is None:
            codes, tokens = zip(*speech.languages.items(), strict=True)
            result.language = codes[int(logits[list(tokens)].argmax())]
        if speech.no_speech is None:
            return 0.0
        return float(np.exp(_log_softmax(logits)[speech.no_speech]))

    def _text(
        self,
        options: _Options,
        result: Transcript,
        before: Sequence[int],
        emitted: int,
        silence: float,
    ) -> tuple[list[int], float | None]:
        """A window's tokens, without the one that ends them, and their mean log-probability; None
        where it is not asked for, because the window is not silent."""
        speech = self._speech
        silent = options.no_speech is not None and silence > options.no_speech
        rules = TokenRules(speech, timestamps=options.timestamps)
        start = TextStart(
            prompt=_prompt(speech, options, result.language, before, self._target.capacity),
            rules=rules,
            draft=self._ruled_draft(options, result.language, before),
            emitted=emitted,
            logits=silent,
        )
        tokens: list[int] = []
        logprobs: list[float] = []
        for round_ in self._rounds(start):
            if silent and round_.logits is not None:
                logprobs += _logprobs(round_.logits, round_.tokens, tokens, rules)
            tokens += round_.tokens
        if tokens and tokens[-1] == speech.end:
            tokens.pop()
        return tokens, sum(logprobs) / len(logprobs) if logprobs else None

    def _ruled_draft(
        self, options: _Options, language: str | None, before: Sequence[int]
    ) -> RuledDraft | None:
        if self._draft is None or self._draft_speech is None:
            return None
        speech = self._draft_speech
        read = self._to_draft_ids(before)
        prompt = _prompt(speech, options, language, read, self._draft.capacity)
        return RuledDraft(self._draft, TokenRules(speech, timestamps=options.timestamps), prompt)

    def _segment(self, part: TokenSegment, start: int) -> Segment:
        """A segment of the sound, from one of a window that begins at frame `start`."""
        text = self._decode([token for token in part.tokens if token < self._speech.end])
        begins, ends = ((start + frame) / FRAMES_PER_SECOND for frame in (part.start, part.end))
        return Segment(begins, ends, text.strip(), part.tokens)


def _prompt(
    speech: SpeechFormat,
    options: _Options,
    language: str | None,
    before: Sequence[int],
    capacity: int,
) -> list[int]:
    """What a text begins with: maybe the end of what was said before, then language and task."""
    prompt = [speech.start]
    if speech.is_multilingual and language is not None:
        task = speech.translate if options.task == "translate" else speech.transcribe
        # A draft may know fewer languages than its target.
        named = [speech.languages.get(language), task]
        prompt += [token for token in named if token is not None]
    if not options.timestamps:
        prompt.append(speech.no_timestamps)
    if not before or speech.previous is None:
        return prompt
    return [speech.previous, *before[-(capacity // 2 - 1) :], *prompt]


def _logprobs(
    rows: np.ndarray, tokens: Sequence[int], before: Sequence[int], rules: LogitEdit
) -> list[float]:
    """log p of a round's tokens, given those before the round."""
    return [
        float(_log_softmax(rules(row, [*before, *tokens[:index]]))[token])
        for index, (row, token) in enumerate(zip(rows, tokens, strict=True))
    ]


def _log_softmax(logits: Logits) -> Logits:
    shifted = logits - logits.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))
