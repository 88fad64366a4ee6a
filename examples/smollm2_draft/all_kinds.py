"""Prompts of all kinds: python all_kinds.py ROOT TOKENIZER COUNT > prompts.jsonl

ROOT holds the Debian packages that `all` unpacks. One JSON string a line,
shuffled; none twice, none longer than 690 tokens with the chat's, fixed seed. Nothing of
benchmarks/prompts and nothing of this project's documentation is in them.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "qwen_draft"))

import make_prompts as qwen
from code_prompts import CodePrompts
from long_prompts import LongPrompts, StoryPrompts, read_lines
from long_texts import (
    long_texts,
    read_histories,
    read_pages,
    read_places,
    read_rules,
    read_stories,
    read_translations,
)
from overlap import LENGTH, passages, squeezed
from people import Maker, read_handbook, read_wordnet
from text_prompts import TextPrompts
from texts import read_foldoc, read_help, read_novels, texts_of
from tokenizers import Tokenizer

HERE = Path(__file__).parent
SHARES = {  # of 1000
    "people": 272,
    "wider": 80,
    "chat": 135,
    "question": 125,
    "maths": 120,
    "translation": 100,
    "summary": 54,
    "retrieval": 54,
    "code": 60,
}
MOST_TOKENS, AROUND = 690, 30  # AROUND: the chat's own
INSTRUCTION = (  # of the retrieval prompts that judge: no text, so that it may be trained on
    "Read the following text and answer the question with the sentence that contains the answer."
)
Prompt = Callable[[], str]


def read_named() -> dict[str, str]:
    """The alternatives of both words.txt."""
    return qwen.read_named() | dict(line.split(": ", 1) for line in read_lines("words"))


def read_texts(root: Path, rng: random.Random) -> dict[str, list[str]]:
    """Long texts by genre."""
    share = root / "usr/share"
    paragraphs = {
        "novels": read_novels(root),
        "essays": read_pages(share / "doc/anarchism/html", "*.html"),
        "stories": read_stories(root),
        "places": read_places(root),
        "rules": read_rules(root),
        "histories": read_pages(share / "doc/debian-history/docs", "*.en.html")
        + read_histories(root),
        "manuals": read_handbook(share / "doc/debian-handbook/html")["English"]
        + read_help(root, "English")
        + read_pages(share / "doc/debian/FAQ", "*.en.html"),
    }
    return {
        genre: [text for _ in range(6) for text in long_texts(group, rng)]
        for genre, group in paragraphs.items()
    }


def prompts_by_kind(root: Path, rng: random.Random) -> dict[str, Prompt]:
    """What makes another prompt of a kind, whenever it is called."""
    words = read_wordnet(root / "usr/share/wordnet")
    words.paragraphs = read_handbook(root / "usr/share/doc/debian-handbook/html")
    today = Maker(words, rng)
    wide_words = read_wordnet(root / "usr/share/wordnet")
    wide_words.paragraphs, wide_words.named = words.paragraphs, read_named()
    maker = Maker(wide_words, rng)
    texts = read_texts(root, rng)
    for genre, group in texts.items():
        print(f"{genre:12} {len(group):6} texts", file=sys.stderr)
    short = {
        source: list(texts_of(group, rng))
        for source, group in {
            "foldoc": read_foldoc(root),
            "help": read_help(root, "English"),
            "novels": read_novels(root),
            "stories": read_stories(root),
            "places": read_places(root),
        }.items()
    }
    paragraphs = {
        language: group + read_help(root, language) for language, group in words.paragraphs.items()
    }
    text = TextPrompts(paragraphs, short, maker, rng)
    code = CodePrompts(qwen.read_functions(root), maker, rng)
    long = LongPrompts(texts, maker, rng)
    stories = StoryPrompts(read_translations(root), maker, rng)

    def filled(with_words: Maker, lines: list[str]) -> Prompt:
        return lambda: with_words.make(rng.choice(lines))

    def mixed(*parts: tuple[int, Prompt]) -> Prompt:
        makers, weights = [make for _, make in parts], [weight for weight, _ in parts]
        return lambda: rng.choices(makers, weights)[0]()

    def of_qwen(kind: str) -> Prompt:
        lines = qwen.read_lines(kind)
        return lambda: text.about(rng.choice(lines))

    def of_file(name: str) -> Prompt:
        return filled(today, (HERE / name).read_text(encoding="utf-8").splitlines())

    return {
        "people": of_file("requests.txt"),
        "wider": of_file("wider.txt"),
        "chat": mixed((70, filled(maker, read_lines("chat"))), (30, of_qwen("chat"))),
        "question": mixed((75, filled(maker, read_lines("question"))), (25, of_qwen("question"))),
        "maths": mixed((80, filled(maker, read_lines("maths"))), (20, of_qwen("maths"))),
        "translation": mixed((50, text.translation), (50, stories.translation)),
        "summary": long.summary,
        "retrieval": long.retrieval,
        "code": mixed(
            (50, filled(maker, read_lines("code"))),
            (20, of_qwen("write")),
            (10, code.described),
            (10, code.edit),
            (10, code.explain),
        ),
    }


def documentation() -> set[str]:
    """Every passage of this project's own texts that is long enough to tell."""
    root = HERE.parents[1]
    files = [
        file for part in ("*.md", "docs/**/*.md", "examples/**/*.md") for file in root.glob(part)
    ]
    return {
        passage
        for file in files
        for passage in passages(squeezed(file.read_text(encoding="utf-8")))
        if len(passage) == LENGTH
    }


class Collected(qwen.Collected):
    """Distinct prompts, none of them long, a benchmark's or this project's."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._judging = set((HERE / "held_out.txt").read_text(encoding="utf-8").splitlines())
        self._documentation = documentation()

    def tokens(self, prompt: str) -> int:
        """With the chat's own."""
        return len(self._tokenizer.encode(prompt, add_special_tokens=False)) + AROUND

    def _why_not(self, prompt: str) -> str:
        if len(prompt) < qwen.SHORTEST or self.tokens(prompt) > MOST_TOKENS:
            return "too short or too long"
        if prompt in self.prompts:
            return "made before"
        own = prompt.replace(INSTRUCTION, "")
        if prompt in self._judging or self._benchmarks.shared(own):
            return "shared with what judges"
        if self._documentation & set(passages(squeezed(own))):
            return "shared with the documentation"
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("tokenizer", type=Path, help="the target's tokenizer.json")
    parser.add_argument("count", type=int)
    arguments = parser.parse_args()
    rng = random.Random(21)
    collected = Collected(Tokenizer.from_file(str(arguments.tokenizer)))
    for kind, make in prompts_by_kind(arguments.root, rng).items():
        wanted = round(arguments.count * SHARES[kind] / sum(SHARES.values()))
        collected.add(make, wanted)
        tokens = sum(map(collected.tokens, list(collected.prompts)[-wanted:]))
        print(f"{kind:12} {wanted:6} prompts of {tokens:9} tokens", file=sys.stderr)
    collected.print(rng)


if __name__ == "__main__":
    main()
