"""examples/smollm2_draft/all: long texts and their questions, and nothing that judges the draft."""

from __future__ import annotations

import gzip
import json
import random
import re
import struct
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from draft_sources import LONG, PYTHON, write_packages

sys.path.append(str(Path(__file__).parents[2] / "examples" / "smollm2_draft"))
sys.path.append(str(Path(__file__).parents[2] / "examples" / "qwen_draft"))
import all_kinds
import long_prompts
import long_texts
from asking import question_of
from overlap import BENCHMARKS
from passages import FOLDERS
from people import OF_FILE, Maker, Words
from texts import HELP_FOLDERS

WHOLE = LONG.strip()
KINDS = ("chat", "code", "find", "long", "maths", "question")
RETRIEVAL = next(
    one["prompt"]
    for one in json.loads((BENCHMARKS / "six_kinds.json").read_text(encoding="utf-8"))
    if one["kind"] == "retrieval"
)


@pytest.fixture
def maker() -> Maker:
    words = Words(named=all_kinds.read_named(), explanations=["A thing."])
    for kind in [*OF_FILE.values(), "place", "somebody", "word"]:
        words.of_kind[kind].append("apple")
    return Maker(words, random.Random(0))


@pytest.mark.parametrize("kind", KINDS)
def test_every_line_can_be_filled(kind, maker):
    given = {"text": "TEXT", "question": "QUESTION"} if kind in ("find", "long") else {}
    for pattern in long_prompts.read_lines(kind):
        for _ in range(30):
            prompt = maker.make(pattern, given)
            assert prompt
            assert not re.search(r"[{|}]", prompt) or kind == "code", prompt
            for slot, text in given.items():
                assert (text in prompt) == (f"{{{slot}}}" in pattern)


def test_every_slot_has_its_words():
    known = {"number", "sentence", "gloss", "code", "place", "somebody", "word", *OF_FILE.values()}
    known |= set(all_kinds.read_named()) | {"text", "question", "unit"}
    for kind in (*KINDS, "reports", "words"):
        for line in long_prompts.read_lines(kind):
            slots = set(re.findall(r"\{(?:an? )?([^{}|]*)\}", line))
            assert slots <= known, (kind, slots - known)


def test_code_keeps_its_indentation(maker):
    shown = [maker.make("{snippet}") for _ in range(200)]
    assert any("\n    print(" in code for code in shown)
    assert not any("\t" in code or "\\t" in code for code in shown)


def test_a_report_has_the_answer_to_its_question(maker):
    long = long_prompts.LongPrompts({}, maker, random.Random(0))
    for _ in range(200):
        text, question = long._report()
        assert question.endswith("?")
        assert len(text.split("\n\n")) >= 2
        assert not set("{|}>") & set(text + question)
        if question == "What was nailed to the door?":
            assert "a notice of sale was nailed to the door" in text


def test_every_report_can_be_drawn_whole():
    for title, *lines in long_prompts.REPORTS:
        assert "=>" not in title
        assert len(lines) >= 12
        assert all(line.count(" => ") == 1 and line.endswith("?") for line in lines)


@pytest.mark.parametrize(
    ("sentence", "questions"),
    [
        ("Anna Berg repaired the old clock.", {"Who repaired the old clock?"}),
        ("The old mill was in the valley.", {"Where was the old mill?"}),
        ("The roof was closed because it leaked badly.", {"Why was the roof closed?"}),
        ("They have built 24 bridges there.", {"How many bridges are mentioned?"}),
        ("It all began in May 1920 there.", {"What happened in May 1920?"}),
        ("The town had many schools then.", {"What did the town have?"}),
        ("However came nobody out of it.", {"What is said about"}),
    ],
)
def test_a_question_is_made_from_a_sentence(sentence, questions):
    asked = " ".join(question_of(sentence, random.Random(seed)) for seed in range(30))
    assert all(question in asked for question in questions)
    assert "However" not in asked or questions == {"What is said about"}


def test_long_texts_are_whole_paragraphs_that_follow_each_other():
    paragraphs = [f"{number}. {LONG}".strip() for number in range(200)]
    found = list(long_texts.long_texts(paragraphs, random.Random(0)))
    assert len(found) > 20
    for text in found:
        assert long_texts.SHORTEST <= len(text) <= long_texts.LONGEST
        first = int(text.split(".")[0])
        parts = text.split("\n\n")
        assert parts == paragraphs[first : first + len(parts)]
    assert not list(long_texts.long_texts(["a" * (long_texts.LONGEST + 1)], random.Random(0)))


def _catalogue(pairs: dict[str, str]) -> bytes:
    """A GNU message catalogue."""
    texts = [("", "Content-Type: text/plain; charset=UTF-8\n"), *sorted(pairs.items())]
    columns = [[text.encode() for text in column] for column in zip(*texts, strict=True)]
    start, tables, body = 28 + 16 * len(texts), b"", b""
    for text in columns[0] + columns[1]:
        tables += struct.pack("<II", len(text), start + len(body))
        body += text + b"\0"
    head = struct.pack("<7I", 0x950412DE, 0, len(texts), 28, 28 + 8 * len(texts), 0, 0)
    return head + tables + body


@pytest.fixture
def root(tmp_path) -> Path:
    """The folder of unpacked packages: of each what is read, but little."""
    write_packages(tmp_path, FOLDERS, HELP_FOLDERS)
    files = {
        "usr/share/doc/anarchism/html/a.html": f"<p class=a>Is &amp;\n {LONG}<p>{LONG}</p>"
        "<p>No.</p>",
        "usr/share/games/endless-sky/data/map.txt": f"\tdescription `\t{WHOLE}`\n\tspaceport `No.`",
        "usr/share/games/freeciv/civ2civ3/a.ruleset": f'a = _("\\\n\\"So\\"\\n{LONG}'
        '\\n\\n\\\nNo.\\\n")',
        "usr/share/games/wesnoth/1.16/data/campaigns/a/b/c.cfg": f'story= _ "{WHOLE}"\n'
        f'message= _ "{{VARIABLE}} {WHOLE}"\nname= _ "B {WHOLE}"\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    for name in long_texts.RULES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        text = f"1. Rules\n\n   {name}:\n   {LONG}\n\n   * a list:\n"
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    for code in long_texts.CATALOGUES.values():
        file = tmp_path / "usr/share/games/wesnoth/1.16/locale" / code / "LC_MESSAGES/a.mo"
        file.parent.mkdir(parents=True)
        pairs = {WHOLE: f"{code} {WHOLE}", f"<b>{WHOLE}": WHOLE, "Short.": "Kort."}
        file.write_bytes(_catalogue(pairs))
    return tmp_path


def test_paragraphs_are_read_from_the_packages(root):
    pages = long_texts.read_pages(root / "usr/share/doc/anarchism/html", "*.html")
    assert pages == [f"Is & {WHOLE}", WHOLE]
    assert long_texts.read_places(root) == [WHOLE]
    assert long_texts.read_histories(root) == [f'"So" {WHOLE}']
    assert long_texts.read_stories(root) == [WHOLE]
    assert long_texts.read_rules(root) == [f"{name}: {WHOLE}" for name in long_texts.RULES]
    assert long_texts.read_translations(root) == [
        (language, WHOLE, f"{code} {WHOLE}") for language, code in long_texts.CATALOGUES.items()
    ]


def test_a_story_is_translated_from_or_into_its_language(maker):
    english, dutch = "One two three four five six seven.", "Een twee drie vier vijf zes zeven."
    stories = long_prompts.StoryPrompts([("Dutch", english, dutch)], maker, random.Random(0))
    made = {stories.translation() for _ in range(100)}
    assert all((english in prompt) != (dutch in prompt) for prompt in made)
    assert all("Dutch" in prompt for prompt in made if english in prompt)
    assert not any(re.search("(into|to|in) Dutch", prompt) for prompt in made if dutch in prompt)


@pytest.fixture
def collected() -> all_kinds.Collected:
    """With a tokenizer whose tokens are words."""
    tokenizer = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = Whitespace()
    return all_kinds.Collected(tokenizer)


def test_what_judges_and_what_is_documented_is_left_out(collected):
    held_out = (all_kinds.HERE / "held_out.txt").read_text(encoding="utf-8").splitlines()
    readme = (all_kinds.HERE / "README.md").read_text(encoding="utf-8")
    for judging in (RETRIEVAL[:2000], RETRIEVAL[200:500], held_out[1]):
        assert collected._why_not(judging) == "shared with what judges"
    assert collected._why_not(f"Explain: {readme[300:400]}") == "shared with the documentation"
    assert collected._why_not(f"{all_kinds.INSTRUCTION}\n\nA text of its own.") == ""
    assert RETRIEVAL.startswith(all_kinds.INSTRUCTION)


def test_a_prompt_has_at_most_690_tokens(collected):
    most = all_kinds.MOST_TOKENS - all_kinds.AROUND
    assert collected._why_not("word " * most) == ""
    assert collected._why_not("word " * (most + 1)) == "too short or too long"


def test_each_kind_is_made_of_the_packages(root, monkeypatch):
    library = root / "python"
    library.mkdir()
    (library / "a.py").write_text(PYTHON, encoding="utf-8")
    monkeypatch.setattr(all_kinds.qwen.sysconfig, "get_path", lambda name: str(library))
    for folder in ("doc/debian-history/docs/a.en.html", "doc/debian/FAQ/a.en.html"):
        page = root / "usr/share" / folder
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text("".join(f"<p>{n} {LONG}</p>" for n in range(40)), encoding="utf-8")
    monkeypatch.setattr(long_prompts, "GENRES", {"manuals": 1, "histories": 1, "reports": 2})
    kinds = all_kinds.prompts_by_kind(root, random.Random(0))
    assert kinds.keys() == all_kinds.SHARES.keys()
    made = {kind: [make() for _ in range(60)] for kind, make in kinds.items()}
    assert all(len(set(prompts)) > 20 for prompts in made.values())
    assert any("two numbers that are given" in prompt for prompt in made["code"])
    for kind in ("summary", "retrieval"):
        assert any(WHOLE in prompt for prompt in made[kind])
        assert sum(len(prompt) > 800 for prompt in made[kind]) > 50


def test_kinds_have_their_shares(tmp_path, monkeypatch, capsys):
    numbers = iter(range(10_000))
    makers = {kind: lambda: f"prompt {next(numbers)}" for kind in all_kinds.SHARES}
    monkeypatch.setattr(all_kinds, "prompts_by_kind", lambda root, rng: makers)
    tokenizer = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    monkeypatch.setattr("sys.argv", ["", "ROOT", str(tmp_path / "tokenizer.json"), "1000"])
    all_kinds.main()
    printed = capsys.readouterr()
    prompts = [json.loads(line) for line in printed.out.splitlines()]
    assert len(set(prompts)) == len(prompts) == 1000
    assert prompts != sorted(prompts, key=lambda one: int(one.split()[1])), "shuffled"
    wanted = dict(re.findall(r"^(\w+) +(\d+) prompts of", printed.err, re.MULTILINE))
    assert wanted == {kind: str(share) for kind, share in all_kinds.SHARES.items()}
