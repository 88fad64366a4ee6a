"""What may be asked of a transcript, and its checks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from edgespec.artifact.speech_format import SpeechFormat
from edgespec.core.distribution_options import Sampling
from edgespec.errors import UsageError, shortened

__all__ = ["TEMPERATURES", "CheckedOptions", "SpeechOptions", "checked_options"]

TASKS = ("transcribe", "translate")
TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


class SpeechOptions(TypedDict, total=False):
    """The keyword arguments of `checked_options`."""

    language: str | None
    task: str
    timestamps: bool
    use_previous: bool
    prompt: str | None
    temperature: float | Sequence[float]
    no_speech: float | None
    min_logprob: float | None
    max_compression: float | None
    word_times: bool


@dataclass(frozen=True)
class CheckedOptions:
    """What is asked for; `checked_options` explains it."""

    language: str | None
    task: str
    timestamps: bool
    use_previous: bool
    prompt: str | None
    temperatures: tuple[float, ...]
    no_speech: float | None
    min_logprob: float | None
    max_compression: float | None
    word_times: bool


def checked_options(
    speech: SpeechFormat,
    *,
    language: str | None = None,
    task: str = "transcribe",
    timestamps: bool = True,
    use_previous: bool = False,
    prompt: str | None = None,
    temperature: float | Sequence[float] = TEMPERATURES,
    no_speech: float | None = 0.6,
    min_logprob: float | None = -1.0,
    max_compression: float | None = 2.4,
    word_times: bool = False,
) -> CheckedOptions:
    """Checked options of a transcript.

    Args:
        speech: the target's.
        language: code of the spoken language; None finds it in the first window with speech.
        task: "transcribe", or "translate" to English.
        timestamps: let the model say when; without, a window is one segment.
        use_previous: the text of earlier windows is the beginning of the next one's.
        prompt: stands before the first window's text as if it had been said: names, spelling.
        temperature: of the text; 0 is greedy. Of several, a window's text is decoded at the first;
            where it is improbable (`min_logprob`) or repeats itself (`max_compression`), again at
            the next one. A single one is what comes.
        no_speech: a window is silent, and its text left out, if its probability of silence is above
            this, and its text improbable (`min_logprob`); None believes every text.
        min_logprob: mean log-probability of a token below which a text is improbable; None takes
            every text for probable when it is decoded, and for improbable where no speech is.
        max_compression: how many times smaller zlib makes a text that does not repeat itself; None
            lets it.
        word_times: say when each word is spoken (`Segment.words`). Texts stay the same.

    Raises:
        UsageError: an option is not one of those.
    """
    _check_task(task, speech)
    if language is not None and language not in (speech.languages or {"en": 0}):
        known = ", ".join(speech.languages or ["en"])
        raise UsageError(f"language is {shortened(language)}; this model knows {known}")
    _check_prompt(prompt, speech)
    if not isinstance(word_times, bool):
        raise UsageError(f"word_times is {shortened(word_times)}; give True or False")
    _check("no_speech", no_speech, 0, 1)
    _check("min_logprob", min_logprob, -math.inf, 0)
    _check("max_compression", max_compression, 0, math.inf)
    return CheckedOptions(
        language if speech.is_multilingual else "en",
        task,
        timestamps,
        use_previous,
        prompt,
        _temperatures(temperature),
        no_speech,
        min_logprob,
        max_compression,
        word_times,
    )


def _check_task(task: object, speech: SpeechFormat) -> None:
    if task not in TASKS:
        raise UsageError(f"task is {shortened(task)}; give one of: {', '.join(TASKS)}")
    if task == "translate" and speech.translate is None:
        raise UsageError("this model knows English only and translates nothing")


def _check_prompt(prompt: object, speech: SpeechFormat) -> None:
    if prompt is not None and not isinstance(prompt, str):
        raise UsageError(f"prompt is {shortened(prompt)}; give text")
    if prompt and speech.previous is None:
        raise UsageError("this model has no token for what was said before, so it takes no prompt")


def _temperatures(given: float | Sequence[float]) -> tuple[float, ...]:
    several = not isinstance(given, str) and isinstance(given, Sequence)
    temperatures = tuple(given) if isinstance(given, Sequence) and several else (given,)
    if not temperatures:
        raise UsageError("temperature is an empty list; give at least one, such as 0")
    return tuple(Sampling(value).temperature for value in temperatures)  # type: ignore[arg-type]


def _check(name: str, value: object, low: float, high: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (number and low <= value <= high):  # type: ignore[operator]
        limits = f"{low:g} to {high:g}".replace("-inf to 0", "0 or less")
        limits = limits.replace("0 to inf", "0 or more")
        raise UsageError(f"{name} is {shortened(value)}; give {limits}, or None")
