"""Prompts about long texts, to sum up or to answer from, and translations of stories."""

from __future__ import annotations

import random
from pathlib import Path

from asking import question_of
from passages import sentences_of
from people import Maker
from text_prompts import TRANSLATION

PATTERNS = Path(__file__).parent / "all_kinds"
GENRES = {  # how often each is taken
    "novels": 3,
    "essays": 2,
    "stories": 3,
    "places": 3,
    "rules": 2,
    "histories": 2,
    "manuals": 2,
    "reports": 9,
}
SAME_PARAGRAPH, PARAGRAPH = 0.7, "\n\n"


def read_lines(name: str) -> list[str]:
    """The lines of a file of all_kinds/."""
    return (PATTERNS / f"{name}.txt").read_text(encoding="utf-8").splitlines()


REPORTS = [one.split("\n") for one in "\n".join(read_lines("reports")).split("\n\n")]


class LongPrompts:
    """texts: by genre; the genre "reports" is made up, with its questions."""

    def __init__(self, texts: dict[str, list[str]], maker: Maker, rng: random.Random) -> None:
        self._texts, self._maker, self._rng = texts, maker, rng
        self._asking, self._finding = read_lines("long"), read_lines("find")

    def summary(self) -> str:
        return self._maker.make(self._rng.choice(self._asking), {"text": self._text()[0]})

    def retrieval(self) -> str:
        text, question = self._text()
        pattern = self._rng.choice(self._finding)
        return self._maker.make(pattern, {"text": text, "question": question})

    def _text(self) -> tuple[str, str]:
        genre = self._rng.choices(list(GENRES), list(GENRES.values()))[0]
        if genre == "reports":
            return self._report()
        text = self._rng.choice(self._texts[genre])
        return text, question_of(text, self._rng)

    def _report(self) -> tuple[str, str]:
        """A made-up text in paragraphs, and a question that one of its sentences answers."""
        title, *lines = self._rng.choice(REPORTS)
        kept = sorted(self._rng.sample(range(len(lines)), self._rng.randint(8, len(lines))))
        pairs = [self._maker.make(lines[number]).split(" => ") for number in kept]
        text = self._maker.make(title)
        for at, (sentence, _) in enumerate(pairs):
            same = at and self._rng.random() < SAME_PARAGRAPH
            text += f"{' ' if same else PARAGRAPH}{sentence}"
        return text, self._rng.choice(pairs)[1]


class StoryPrompts:
    """stories: a language, the English text and its translation into that language."""

    def __init__(
        self, stories: list[tuple[str, str, str]], maker: Maker, rng: random.Random
    ) -> None:
        self._stories, self._maker, self._rng = stories, maker, rng

    def translation(self) -> str:
        """Of one to three sentences in a row, from or into the other language."""
        language, english, translated = self._rng.choice(self._stories)
        direction, source = self._rng.choice((("into", english), ("from", translated)))
        parts = sentences_of(source) or [source]
        start = self._rng.randrange(len(parts))
        text = " ".join(parts[start : start + self._rng.choice((1, 2, 3))])
        pattern = self._rng.choice(TRANSLATION[direction])
        return self._maker.make(pattern, {"language": language, "text": text})
