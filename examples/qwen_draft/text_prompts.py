"""Prompts about texts: to translate, to find a sentence; and made-up texts with their questions."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from passages import sentences_of
from people import Maker
from sections import read_lines, read_sections

TRANSLATION = read_sections("translation")
EVERYDAY = read_sections("everyday")
RETRIEVAL = read_lines("retrieval")
NOTICES = [notice.split("\n") for notice in "\n".join(read_lines("notices")).split("\n\n")]
SUBJECT = re.compile(r"(?:The|A|An) ([\w -]{3,40}?) (is|are|was|were) ")


@dataclass(frozen=True)
class TextPrompts:
    """paragraphs: by language; texts: English ones, by source."""

    paragraphs: dict[str, list[str]]
    texts: dict[str, list[str]]
    maker: Maker
    rng: random.Random

    def translation(self) -> str:
        """Into one of the other languages or from it, of 8 to 40 words."""
        language = self.rng.choice([name for name in EVERYDAY if name != "English"])
        direction = self.rng.choices(("into", "from"), (55, 45))[0]
        text = self._sentences("English" if direction == "into" else language)
        pattern = self.rng.choice(TRANSLATION[direction])
        return self.maker.make(pattern, {"language": language, "text": text})

    def _sentences(self, language: str) -> str:
        """One to three of those that people say, or one or two in a row of a paragraph."""
        if self.rng.random() < 0.4:
            found = self.rng.sample(EVERYDAY[language], self.rng.choice((1, 2, 2, 3)))
        else:
            english = language == "English"
            text = self.text() if english else self.rng.choice(self.paragraphs[language])
            parts = sentences_of(" ".join(text.split()))
            start = self.rng.randrange(len(parts) or 1)
            found = parts[start : start + self.rng.choice((1, 2))]
        text = " ".join(found)
        return text if 8 <= len(text.split()) <= 40 else self._sentences(language)

    def retrieval(self) -> str:
        """A question that one sentence of a text answers."""
        if self.rng.random() < 0.45:
            text, questions = self.notice()
            question = self.rng.choice(questions)
        else:
            text = self.text()
            question = self._question(text)
        return self.maker.make(self.rng.choice(RETRIEVAL), {"text": text, "question": question})

    def _question(self, text: str) -> str:
        sentence = self.rng.choice(sentences_of(" ".join(text.split())) or [text])
        if subject := SUBJECT.match(sentence):
            return f"What {subject[2]} {sentence[0].lower()}{sentence[1 : subject.end(1)]}?"
        words = [word for word in re.findall(r"[A-Za-z]{6,}", sentence) if text.count(word) == 1]
        return f"What does the text say about {self.rng.choice(words or ['it'])}?"

    def text(self) -> str:
        if self.rng.random() < 0.25:
            return self.notice()[0]
        return self.rng.choice(self.texts[self.rng.choice(list(self.texts))])

    def notice(self) -> tuple[str, list[str]]:
        """A made-up text, and the questions that its sentences answer."""
        title, *lines = self.rng.choice(NOTICES)
        given = {
            slot: self.maker.make(f"{{{slot}}}") for slot in ("building", "course", "creatures")
        }
        kept = sorted(self.rng.sample(range(len(lines)), self.rng.randint(6, len(lines))))
        pairs = [self.maker.make(lines[number], given).split(" => ") for number in kept]
        text = " ".join(sentence for sentence, _ in pairs)
        return f"{self.maker.make(title, given)}\n\n{text}", [question for _, question in pairs]

    def about(self, pattern: str) -> str:
        """A filled pattern, whose {text}, {novel} and {notice} are texts."""
        said = self.rng.sample(EVERYDAY["English"], self.rng.choice((1, 2, 3)))
        given = {"everyday": " ".join(said)}
        if "{text}" in pattern:
            given["text"] = self.text()
        if "{novel}" in pattern:
            given["novel"] = self.rng.choice(self.texts["novels"])
        if "{notice}" in pattern:
            given["notice"] = self.notice()[0]
        return self.maker.make(pattern, given)
