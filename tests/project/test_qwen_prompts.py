"""examples/qwen_draft: each kind of prompt is made of what it should, nothing of a benchmark."""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path

import pytest

from draft_sources import LONG, PYTHON, SOURCES, write_packages

sys.path.append(str(Path(__file__).parents[2] / "examples" / "smollm2_draft"))
sys.path.append(str(Path(__file__).parents[2] / "examples" / "qwen_draft"))
import code_prompts
import functions
import make_prompts
import overlap
import text_prompts
import texts
from braces import functions_in
from code_prompts import CodePrompts
from described import DESCRIBED, described
from functions import Function
from passages import FOLDERS
from people import INNERMOST, OF_FILE, Maker, Words
from sections import PATTERNS
from text_prompts import TextPrompts

BENCHMARK = json.loads((overlap.BENCHMARKS / "six_kinds.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("language", SOURCES)
def test_a_function_between_braces_is_found_whole(language):
    (found,) = functions_in(SOURCES[language], language)
    assert found.name.endswith("add")
    assert found.parameters == ["one", "other"]
    assert re.fullmatch("(Adds|add adds) two numbers that are given.", found.summary)
    assert found.source.startswith(("static int", "int Sum", "func", "public int", "pub fn"))
    assert found.source.endswith("\n}")
    assert not found.source.startswith(" ")
    assert "//!" not in found.source
    assert found.is_short
    assert found.is_described


def test_a_function_behind_a_form_feed_is_whole(tmp_path):
    (tmp_path / "a.py").write_text(f"a = 1\n\x0c\n{PYTHON}", encoding="utf-8")
    (found,) = functions.functions(tmp_path)
    assert found.source == PYTHON.rstrip()
    assert found.summary == "Adds two numbers that are given."
    assert found.parameters == ["one", "other"]


def test_a_mistake_is_one_place_behind_the_first_line():
    source = "if a == b and c:\n    return a == b, a == c\n"
    made = {code_prompts.with_mistake(source, random.Random(seed)) for seed in range(20)}
    first = source.split("\n")[0]
    assert made == {
        f"{first}\n    return a {x} b, a {y} c\n" for x, y in (("!=", "=="), ("==", "!="))
    }
    assert code_prompts.with_mistake("def f():\n    pass", random.Random(0)).endswith("pass")


def test_every_slot_has_its_words():
    named = make_prompts.read_named()
    made = {"number", "sentence", "code", "place", *OF_FILE.values(), *named}
    given = {
        "around": {"language", "unit"},
        "chat": {"everyday", "notice", "novel"},
        "edit": {"language", "other", "parameter", "unit"},
        "explain": {"language", "name", "parameter", "unit"},
        "summary": {"text"},
        "described": {"arguments", "language", "name", "summary"},
        "retrieval": {"question", "text"},
        "translation": {"language", "text"},
        "words": {"unit"},
    }
    for file in PATTERNS.glob("*.txt"):
        slots = set(re.findall(r"\{(?:an? )?([^{}|]*)\}", file.read_text(encoding="utf-8")))
        assert slots <= made | given.get(file.stem, set()), file.name


@pytest.fixture
def maker() -> Maker:
    return Maker(Words(named=make_prompts.read_named()), random.Random(0))


@pytest.fixture
def about_texts(maker) -> TextPrompts:
    return TextPrompts({"German": [LONG]}, {"novels": [LONG]}, maker, random.Random(0))


def test_a_notice_has_the_answers_to_its_questions(about_texts):
    for _ in range(100):
        text, questions = about_texts.notice()
        assert 6 <= len(questions) <= 8
        assert texts.FEWEST_WORDS <= len(text.split()) <= texts.MOST_WORDS
        assert not set("{|}>") & set(text + "".join(questions))
        for building in re.findall(r"When will the (.*) be closed", " ".join(questions)):
            assert f"The {building} will be closed from" in text


def test_a_question_names_what_its_text_has(about_texts):
    for text in (
        "Nobody mentioned umbrellas today.",
        "The old bridge was closed for a year. The new bridge is open.",
    ):
        question = about_texts._question(text)
        asked = re.fullmatch(r"What (?:does the text say about|was|is) (.*)\?", question)
        assert asked[1].lower() in text.lower()


def test_translations_have_eight_to_forty_words(about_texts, monkeypatch):
    everyday = {"English": ["One two three four."] * 3, "German": ["Eins zwei drei vier."] * 3}
    monkeypatch.setattr(text_prompts, "EVERYDAY", everyday)
    for _ in range(100):
        made = about_texts._sentences("German")
        assert 8 <= len(made.split()) <= 40
        prompt = about_texts.translation()
        assert ("zwei" in prompt) <= ("English" in prompt)
        assert ("One two" in prompt) <= bool(re.search("(in|into|to) German", prompt))


def test_a_description_is_asked_for_in_its_language():
    one = Function("Python", "add", "x={}", "Adds {x} to one.", PYTHON)
    made = {described(one, "Python", random.Random(seed)) for seed in range(200)}
    assert len(made) == len(DESCRIBED["any"]) + len(DESCRIBED["Python"])
    assert 'def add(x={}):\n    """Adds {x} to one."""' in made
    other = {described(one, "Go", random.Random(seed)) for seed in range(200)}
    assert len(other) == len(DESCRIBED["any"])
    assert all("Adds {x} to one." in prompt for prompt in made | other)


def test_code_is_shown_whole(maker):
    one = Function("Python", "add", "one", "", PYTHON)
    code = CodePrompts({name: [one] for name in code_prompts.SHARES}, maker, random.Random(0))
    for _ in range(200):
        assert PYTHON in code.explain()
        assert PYTHON in code.around()
    edits = [code.edit() for _ in range(200)]
    whole = [prompt for prompt in edits if PYTHON in prompt]
    assert 140 < len(whole) < 190, "the others have a mistake"
    assert not any("pathlib" in prompt or "lambda" in prompt for prompt in whole)
    assert any("docstring and add" in prompt for prompt in whole)


@pytest.mark.parametrize(("length", "is_shared"), [(overlap.LENGTH, True), (59, False)])
def test_a_passage_of_a_benchmark_is_found(length, is_shared):
    benchmark = next(one["prompt"] for one in BENCHMARK if len(one["prompt"]) > 400)
    words = " ".join(benchmark.split())
    start = words.index(" ", 100) + 1
    prompt = f"@{words[start : start + length].upper()}@ and more".replace(" ", "\n ")
    assert bool(overlap.Benchmarks().shared(prompt)) == is_shared


def test_the_end_of_a_benchmark_is_found():
    words = " ".join(max((one["prompt"] for one in BENCHMARK), key=len).split())
    assert overlap.Benchmarks().shared(f"@{words[-overlap.LENGTH :]}")


def test_a_short_benchmark_itself_is_found():
    short = min((one["prompt"] for one in BENCHMARK), key=len)
    assert len(short) < overlap.LENGTH
    assert overlap.Benchmarks().shared(f" {short}\n")
    assert not overlap.Benchmarks().shared(short[1:])


def test_a_file_that_has_a_benchmark_is_refused_in_one_line(tmp_path, monkeypatch, capsys):
    file = tmp_path / "prompts.jsonl"
    monkeypatch.setattr("sys.argv", ["overlap.py", str(file)])
    file.write_text('"Hello."\n', encoding="utf-8")
    overlap.main()
    assert "none of 1 prompts" in capsys.readouterr().out
    file.write_text('"Hello."\n' + json.dumps(BENCHMARK[0]["prompt"]), encoding="utf-8")
    with pytest.raises(SystemExit, match=r"^error: 1 of 2 prompts of .*: leave them out$"):
        overlap.main()


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    """The folder of unpacked packages, and Python's own library in it."""
    write_packages(tmp_path, FOLDERS, texts.HELP_FOLDERS)
    library = tmp_path / "python"
    library.mkdir()
    long = "def long():\n" + "    pass\n" * functions.MOST_LINES
    (library / "a.py").write_text(PYTHON + long, encoding="utf-8")
    monkeypatch.setattr(make_prompts.sysconfig, "get_path", lambda name: str(library))
    return tmp_path


def test_texts_are_read_from_the_packages(root):
    assert texts.read_help(root, "Dutch") == [f"In Dutch <one>. {LONG.rstrip()}"]
    assert texts.read_foldoc(root) == [f"A link. {LONG.rstrip()}"]
    assert texts.read_novels(root) == [f'She said: "{LONG.rstrip()}"'] * 2
    found = list(texts.texts_of(["One two three. " * 10, "Four. " * 60] * 4, random.Random(0)))
    assert [60 <= len(text.split()) <= 250 and "\n\n" in text for text in found] == [True] * 2
    assert not list(texts.texts_of(["a " * 251], random.Random(0)))


def test_prompts_have_their_shares_and_nothing_twice(root, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["make_prompts.py", str(root), "120"])
    make_prompts.main()
    printed = capsys.readouterr()
    prompts = [json.loads(line) for line in printed.out.splitlines()]
    assert len(prompts) == len(set(prompts)) == 120
    wanted = dict(re.findall(r"^(\w+) +(\d+) prompts", printed.err, re.MULTILINE))
    assert wanted == {kind: str(round(count / 500)) for kind, count in make_prompts.KINDS.items()}
    assert not any(INNERMOST.search(prompt) for prompt in prompts if "add" not in prompt)
    assert "other(" not in printed.out
    assert "def long" not in printed.out


def test_a_benchmark_is_left_out_and_too_few_are_refused():
    collected = make_prompts.Collected()
    answers = iter(
        ["Hello there.", BENCHMARK[0]["prompt"], "Hello there.", "Hi", "x" * 1601, "Good day."]
    )
    collected.add(lambda: next(answers), 2)
    assert list(collected.prompts) == ["Hello there.", "Good day."]
    assert sorted(collected.left_out.values()) == [1, 1, 2]
    with pytest.raises(SystemExit, match="error: 1 prompts of a kind, but 1 not found"):
        collected.add(lambda: "Hello there.", 1)
