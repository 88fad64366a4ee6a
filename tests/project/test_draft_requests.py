"""What the chat draft is trained on: every sentence can be filled, and no test text is in it."""

from __future__ import annotations

import json
import random
import re
import runpy
import sys
from pathlib import Path

import pytest

from draft_sources import write_handbook, write_wordnet

EXAMPLE = Path(__file__).parents[2] / "examples" / "smollm2_draft"
sys.path.append(str(EXAMPLE))  # as for the script itself
PEOPLE = runpy.run_path(str(EXAMPLE / "people.py"))
PATTERNS = [
    pattern
    for name in ("requests.txt", "wider.txt")
    for pattern in (EXAMPLE / name).read_text(encoding="utf-8").splitlines()
]


@pytest.fixture
def wordnet(tmp_path) -> Path:
    write_wordnet(tmp_path)
    return tmp_path


@pytest.fixture
def handbook(tmp_path) -> Path:
    write_handbook(tmp_path, PEOPLE["FOLDERS"])
    return tmp_path


def test_paragraphs_are_read_by_language_without_what_is_not_translated(handbook):
    found = PEOPLE["read_handbook"](handbook)
    assert [len(paragraphs) for paragraphs in found.values()] == [2, 1, 1, 1, 1, 1, 1]
    assert all(found[language][-1].startswith(f"{language} has one word") for language in found)


def test_a_question_asks_for_words_of_its_text(handbook):
    words = PEOPLE["Words"](paragraphs={"English": ["One sentence of six plain words."] * 2})
    request = PEOPLE["Maker"](words, random.Random(1)).make("Read. {text with question}")
    text, question = request.removeprefix("Read. ").split(" Question: What is said about ")
    assert question.removesuffix("?") in text


def test_given_texts_are_put_in_as_they_are():
    words = PEOPLE["Words"](named={"thing": "tree|{number} trees"})
    code = 'f = {"a|b": {}}\n\n    return  "\\n"'
    made = PEOPLE["Maker"](words, random.Random(0)).make(
        r"{Show|Print}  {thing}:\n{code}\n{unit} {code}", {"code": code, "unit": "{a|b}"}
    )
    first, rest = made.split("\n", 1)
    assert re.fullmatch(r"(Show|Print) (tree|\d+ trees):", first)
    assert rest == f"{code}\n{{a|b}} {code}"


def test_wordnet_is_read_by_kind(wordnet):
    words = PEOPLE["read_wordnet"](wordnet)
    assert set(words.of_kind["animal"]) == {"dog"}
    assert words.of_kind["animal"].count("dog") == (42).bit_length(), "frequent words come oftener"
    assert words.of_kind["somebody"] == ["Curie"]
    assert set(words.of_kind["word"]) == {"dog", "able"}, "a word of no tagged text is too rare"
    assert words.sentences == ["The dog barked all night long."]
    assert len(words.explanations) == 1


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_sentence_can_be_filled(pattern):
    words = PEOPLE["Words"](sentences=["One two three four five."], explanations=["A thing."])
    for kind in [*PEOPLE["OF_FILE"].values(), "place", "somebody", "word"]:
        words.of_kind[kind].append("apple")
    paragraph = "This sentence of a paragraph has eight words. A short one."
    words.paragraphs = {language: [paragraph, paragraph] for language in PEOPLE["FOLDERS"]}
    maker = PEOPLE["Maker"](words, random.Random(0))
    for _ in range(200):
        request = maker.make(pattern)
        assert request
        assert not set("{|}") & set(request), request
        assert "a apple" not in request.split(), request


def test_what_judges_the_draft_is_not_trained_on(wordnet, handbook, monkeypatch, capsys):
    judging = (EXAMPLE / "held_out.txt").read_text(encoding="utf-8").splitlines()
    kinds = json.loads(PEOPLE["SIX_KINDS"].read_text(encoding="utf-8"))
    monkeypatch.setattr("sys.argv", ["people.py", str(wordnet), str(handbook), "5"])
    maker = PEOPLE["Maker"]
    replies = iter([*judging[:3], kinds[0]["prompt"], "one", "two", "two", "three", "four", "five"])
    monkeypatch.setattr(maker, "make", lambda self, pattern: next(replies))
    PEOPLE["main"]()
    assert capsys.readouterr().out.split() == ["one", "two", "three", "four", "five"]
