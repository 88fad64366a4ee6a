"""Transcribes sound window by window: 30 seconds, of which the next window begins where the last
finished segment ended (Radford et al. 2022, section 4.5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from edgespec.artifact.speech_format import SpeechFormat
from edgespec.audio.log_mel import FRAMES_PER_SECOND, Spectrogram, SpectrogramWindow
from edgespec.audio.resampling import resampled
from edgespec.audio.sound import Sound
from edgespec.core.array_types import LogitRows
from edgespec.core.decode import Round
from edgespec.core.logit_edits import LogitEdit
from edgespec.errors import EdgespecError
from edgespec.speech.log_sums import logprob
from edgespec.speech.segments import FRAMES_PER_STEP, TokenSegment, segments_of
from edgespec.speech.speech_model import RuledDraft, SpeechModel
from edgespec.speech.speech_options import CheckedOptions
from edgespec.speech.token_rules import TokenRules
from edgespec.speech.transcript import Segment, Transcript
from edgespec.speech.window_text import (
    WindowText,
    compression,
    is_silent,
    needs_another,
)
from edgespec.speech.word_times import WordTimer, within
from edgespec.speech.words import Word

__all__ = ["TextStart", "Transcriber"]

# A text that was decoded above this is no good beginning for the next window's.
HIGHEST_OF_PREVIOUS = 0.5


@dataclass(frozen=True)
class TextStart:
    """The beginning of a window's text.

    Attributes:
        prompt: token ids of the target.
        rules: on the tokens after them.
        draft: the draft model with its own beginning; None if the pair has none.
        emitted: tokens that were decoded before, in other windows or at other temperatures.
        temperature: of the text.
    """

    prompt: list[int]
    rules: TokenRules
    draft: RuledDraft | None
    emitted: int
    temperature: float


class Transcriber:
    """Transcribes with a target and maybe a draft.

    Args:
        target, draft: the models.
        speech, draft_speech: their speech formats.
        to_draft_ids: token ids of the draft for those of the target.
        decode: the text of token ids.
        rounds: decodes the text of one window, up to and with the token that ends it.
        word_timer: says when words are spoken; None if that is not asked for.
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
        word_timer: WordTimer | None = None,
    ) -> None:
        self._target, self._draft = target, draft
        self._speech, self._draft_speech = speech, draft_speech
        self._to_draft_ids = to_draft_ids
        self._decode = decode
        self._rounds = rounds
        self._word_timer = word_timer
        self._emitted = 0

    def segments(
        self, sound: Sound, options: CheckedOptions, before: Sequence[int], result: Transcript
    ) -> Iterator[Segment]:
        """Transcribes; yields each segment, and says in `result` how far it is.

        Args:
            before: tokens of `options.prompt`.

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
        said = list(before)
        start = self._emitted = 0
        while start < spectrogram.frames:
            frames = min(speech.frames, spectrogram.frames - start)
            window = spectrogram.window(start, speech.frames)
            if window[:, :frames].max() == window[:, :frames].min():
                # Nothing is above the floor, and models would invent something, such as "you".
                start += frames
                result.seconds = start / FRAMES_PER_SECOND
                continue
            language, silence = self._hear(window, options, result)
            text = self._believed(options, language, said, silence)
            result.seconds = (start + frames) / FRAMES_PER_SECOND
            if is_silent(text, options):
                start += frames
                continue
            found = segments_of(text.tokens, speech, frames)
            words = self._word_times(found.segments, options, language, start, frames)
            for part, spoken in zip(found.segments, words, strict=True):
                segment = self._segment(part, start, text, spoken)
                if segment.text:
                    said += segment.token_ids
                    yield segment
            if not options.use_previous or text.temperature > HIGHEST_OF_PREVIOUS:
                said = []
            start += found.advance

    def _hear(
        self, window: SpectrogramWindow, options: CheckedOptions, result: Transcript
    ) -> tuple[str | None, float]:
        """Gives both models the window. Returns its language, if no other is known, and the
        probability of silence; the first window with speech decides the transcript's language."""
        speech = self._speech
        self._target.hear(window)
        if self._draft is not None:
            self._draft.hear(window)
        logits = self._target.score([self._target.prefill([speech.start])])[0]
        silence = 0.0
        if speech.no_speech is not None:
            silence = math.exp(logprob(logits, speech.no_speech))
        if result.language is not None:
            return result.language, silence
        codes, tokens = zip(*speech.languages.items(), strict=True)
        of_languages = logits[list(tokens)]
        likeliest = int(of_languages.argmax())
        if options.no_speech is None or silence <= options.no_speech:
            result.language = codes[likeliest]
            result.language_probability = math.exp(logprob(of_languages, likeliest))
        return codes[likeliest], silence

    def _believed(
        self,
        options: CheckedOptions,
        language: str | None,
        before: Sequence[int],
        silence: float,
    ) -> WindowText:
        """A window's text at the first temperature whose text is good, else at the last one."""
        for temperature in options.temperatures:
            text = self._text(options, language, before, silence, temperature)
            if not needs_another(text, options):
                break
        return text

    def _text(
        self,
        options: CheckedOptions,
        language: str | None,
        before: Sequence[int],
        silence: float,
        temperature: float,
    ) -> WindowText:
        """A window's text at a temperature."""
        speech = self._speech
        rules = TokenRules(speech, timestamps=options.timestamps)
        start = TextStart(
            prompt=_prompt(speech, options, language, before, self._target.capacity),
            rules=rules,
            draft=self._ruled_draft(options, language, before),
            emitted=self._emitted,
            temperature=temperature,
        )
        tokens: list[int] = []
        logprobs: list[float] = []
        for round_ in self._rounds(start):
            if round_.logits is not None:
                logprobs += _logprobs(round_.logits, round_.tokens, tokens, rules)
            tokens += round_.tokens
        self._emitted += len(tokens)
        if tokens and tokens[-1] == speech.end:
            tokens.pop()
        # The token that ends a text counts, also where the cache was full before it came.
        mean = sum(logprobs) / (len(tokens) + 1)
        return WindowText(tokens, temperature, mean, compression(self._words(tokens)), silence)

    def _ruled_draft(
        self, options: CheckedOptions, language: str | None, before: Sequence[int]
    ) -> RuledDraft | None:
        if self._draft is None or self._draft_speech is None:
            return None
        speech = self._draft_speech
        read = self._to_draft_ids(before)
        prompt = _prompt(speech, options, language, read, self._draft.capacity)
        return RuledDraft(self._draft, TokenRules(speech, timestamps=options.timestamps), prompt)

    def _word_times(
        self,
        parts: Sequence[TokenSegment],
        options: CheckedOptions,
        language: str | None,
        start: int,
        frames: int,
    ) -> list[tuple[Word, ...]]:
        """The words of the segments of a window that begins at frame `start`."""
        if self._word_timer is None:
            return [() for _ in parts]
        speech = self._speech
        untimed = replace(options, timestamps=False)
        texts = [[token for token in part.tokens if token < speech.end] for part in parts]
        words = self._word_timer.words(
            texts,
            _prompt(speech, untimed, language, (), self._target.capacity),
            steps=frames // FRAMES_PER_STEP,
            begins=start / FRAMES_PER_SECOND,
            language="en" if options.task == "translate" else language,
        )
        return list(words)

    def _segment(
        self, part: TokenSegment, start: int, text: WindowText, words: tuple[Word, ...]
    ) -> Segment:
        """A segment of the sound, from one of a window that begins at frame `start`."""
        begins, ends = ((start + frame) / FRAMES_PER_SECOND for frame in (part.start, part.end))
        return Segment(
            begins,
            ends,
            self._words(part.tokens),
            part.tokens,
            text.temperature,
            text.logprob,
            text.compression,
            text.silence,
            within(words, begins, ends),
        )

    def _words(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without timestamps and without white space around it."""
        return self._decode([token for token in tokens if token < self._speech.end]).strip()


def _prompt(
    speech: SpeechFormat,
    options: CheckedOptions,
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
    rows: LogitRows, tokens: Sequence[int], before: Sequence[int], rules: LogitEdit
) -> list[float]:
    """log p of each token of a round, given those before it."""
    return [
        logprob(rules(row, [*before, *tokens[:index]]), token)
        for index, (row, token) in enumerate(zip(rows, tokens, strict=True))
    ]
