"""Requests like those of people: python people.py WORDNET HANDBOOK COUNT > people.txt

Sentences of requests.txt, or of --patterns, filled with nouns, example sentences and explanations
of WordNet 3.0 (Princeton, its own free licence; Debian's package wordnet-base) and with paragraphs
of HANDBOOK (passages.py). In a sentence, `{a|b|}` is one of the alternatives between the bars,
which may be nested; `{animal}` is a noun of that kind, and `{an animal}` the same after "a" or
"an". One line each, no duplicates, none of held_out.txt and six_kinds.json, fixed seed.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from passages import FOLDERS, read_paragraphs, sentences_of

HERE = Path(__file__).parent
SIX_KINDS = HERE.parents[1] / "benchmarks" / "prompts" / "six_kinds.json"
INNERMOST = re.compile(r"\{([^{}]*)\}")
EXAMPLE = re.compile(r'"([^";]{20,90})"')
OF_FILE = {  # WordNet's lexicographer files, lexnames(5WN)
    4: "activity",
    5: "animal",
    6: "thing",
    8: "body",
    9: "idea",
    11: "event",
    12: "feeling",
    13: "food",
    18: "job",
    19: "phenomenon",
    20: "plant",
    22: "process",
    26: "condition",
    27: "substance",
}
Counts = dict[tuple[str, int, int], int]
LANGUAGES = (
    "French, German, Spanish, Italian, Portuguese, Dutch, Swedish, Polish, Japanese, Chinese"
)


@dataclass
class Words:
    """Material: words by kind, sentences, explanations, paragraphs by language.

    named: alternatives, `a|b|c`, by the slot that stands for them.
    """

    of_kind: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    sentences: list[str] = field(default_factory=list)
    explanations: list[str] = field(default_factory=list)
    paragraphs: dict[str, list[str]] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)


def read_wordnet(folder: Path) -> Words:
    """Words of tagged texts (frequent ones several times), people, places, sentences."""
    words = Words()
    common = _common_meanings(folder / "cntlist.rev")
    for part in ("noun", "verb", "adj", "adv"):
        for line in _entries(folder / f"data.{part}"):
            entry, explanation = line.split(" | ", 1)
            sentences = [_sentence(found) for found in EXAMPLE.findall(explanation)]
            words.sentences += [sentence for sentence in sentences if sentence.count(" ") > 3]
            _add(words, entry.split(), part, common)
            if part == "noun" and 60 < len(explanation) < 200 and '"' not in explanation:
                words.explanations.append(_sentence(explanation.strip()))
    return words


def _common_meanings(file: Path) -> Counts:
    """The number of occurrences in tagged texts, by word, lexicographer file and number in it."""
    found = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        key, _, count = line.split()
        word, rest = key.split("%")
        _, lexicographer, number, *_ = rest.split(":")
        found[word, int(lexicographer), int(number)] = int(count)
    return found


def _entries(file: Path) -> Iterator[str]:
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("  "):  # the licence
            yield line


def _add(words: Words, fields: list[str], part: str, common: Counts) -> None:
    """Adds the first word of an entry (wndb(5WN)) to its kind."""
    lexicographer, word, number = int(fields[1]), fields[4], int(fields[5], 16)
    name = word.replace("_", " ").split("(")[0]
    if "@i" in fields and lexicographer in (15, 18):  # instances, not kinds
        words.of_kind["place" if lexicographer == 15 else "somebody"].append(name)
        return
    times = common.get((word.lower(), lexicographer, number), 0).bit_length()
    words.of_kind["word"] += [name] * times
    if part == "noun" and lexicographer in OF_FILE and name.islower():
        words.of_kind[OF_FILE[lexicographer]] += [name] * times


def _sentence(text: str) -> str:
    text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?" else text + "."


class Maker:
    """Fills sentences at random."""

    def __init__(self, words: Words, rng: random.Random) -> None:
        self._words, self._rng = words, rng
        self._code = (HERE / "code.txt").read_text(encoding="utf-8").splitlines()

    def make(self, pattern: str, given: Mapping[str, str] | None = None) -> str:
        r"""A filled pattern, on one line but for what stands as \n in it; \t are four spaces.

        given: texts by slot, which are put in as they are, the same one for each such slot.
        """
        given = given or {}
        while found := INNERMOST.search(pattern):
            part = self._rng.choice(found[1].split("|"))
            if "|" in found[1]:
                filled = part
            else:
                filled = f"\0{part}\0" if part in given else self._filled(part)
            pattern = pattern[: found.start()] + filled + pattern[found.end() :]
        lines = " ".join(pattern.split()).replace("\\n", "\n").replace("\\t", " " * 4)
        words, *rest = lines.split("\0")
        slots_and_words = [given[part] if at % 2 == 0 else part for at, part in enumerate(rest)]
        return "".join([words, *slots_and_words])

    def _filled(self, slot: str) -> str:
        pick = self._rng.choice
        if slot in self._words.named:
            return f"{{{self._words.named[slot]}}}"
        article, _, kind = slot.rpartition(" ")
        if kind in self._words.of_kind:
            word = pick(self._words.of_kind[kind])
            return f"{'an' if word[0] in 'aeiou' else 'a'} {word}" if article else word
        if slot == "number":
            return str(round(self._rng.lognormvariate(2.8, 1)) + 2)
        if slot == "half sentence":
            sentence = pick(self._words.sentences).split()
            return " ".join(sentence[: len(sentence) // 2 + 1])
        if slot == "text":
            return self._text()
        if slot == "text with question":
            return self._text_with_question()
        if article in self._words.paragraphs:
            return pick(sentences_of(pick(self._words.paragraphs[article])) or [""])
        of = {
            "language": LANGUAGES.split(", "),
            "sentence": self._words.sentences,
            "gloss": self._words.explanations,
            "code": self._code,
        }
        # A kind without its noun, such as {animals}, is itself the noun.
        return pick(of[slot]) if slot in of else slot

    def _text(self) -> str:
        """One or two paragraphs that follow each other."""
        paragraphs = self._words.paragraphs["English"]
        first = self._rng.randrange(len(paragraphs) - 1)
        return " ".join(paragraphs[first : first + self._rng.choice((1, 1, 2))])

    def _text_with_question(self) -> str:
        """A text, and a question for four words in a row of one of its sentences."""
        text = self._text()
        words = self._rng.choice(sentences_of(text) or [text]).rstrip(".!?").split()
        first = self._rng.randrange(max(1, len(words) - 4))
        return f"{text} Question: What is said about {' '.join(words[first : first + 4])}?"


def read_handbook(folder: Path) -> dict[str, list[str]]:
    """Paragraphs by language that a pattern can hold; a translation that is missing is left out."""
    found: dict[str, list[str]] = {}
    for language in FOLDERS:
        known = set(found.get("English", ()))
        paragraphs = read_paragraphs(folder, language)
        found[language] = [
            one for one in paragraphs if one not in known and not set("{|}") & set(one)
        ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wordnet", type=Path, help="/usr/share/wordnet")
    parser.add_argument("handbook", type=Path, help="/usr/share/doc/debian-handbook/html")
    parser.add_argument("count", type=int)
    parser.add_argument("--patterns", type=Path, default=HERE / "requests.txt")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    words = read_wordnet(arguments.wordnet)
    words.paragraphs = read_handbook(arguments.handbook)
    maker = Maker(words, rng)
    patterns = arguments.patterns.read_text(encoding="utf-8").splitlines()
    made = set((HERE / "held_out.txt").read_text(encoding="utf-8").splitlines())
    made |= {one["prompt"] for one in json.loads(SIX_KINDS.read_text(encoding="utf-8"))}
    left = arguments.count
    while left:
        request = maker.make(rng.choice(patterns))
        if request not in made:
            made.add(request)
            print(request)
            left -= 1


if __name__ == "__main__":
    main()
