"""The prompts of the draft's training: python make_prompts.py ROOT COUNT > prompts.jsonl

ROOT holds the Debian packages that `run` unpacks. Half of the prompts are about code. One JSON
string a line, shuffled; no duplicates, nothing of the benchmarks (overlap.py), fixed seed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import sysconfig
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "smollm2_draft"))

from braces import functions_in
from code_prompts import CodePrompts
from functions import Function, functions
from overlap import Benchmarks
from people import HERE as SMOLLM2
from people import Maker, read_handbook, read_wordnet
from sections import read_lines
from text_prompts import TextPrompts
from texts import read_foldoc, read_help, read_novels, texts_of

KINDS = {  # of 60 000
    "write": 10000,
    "edit": 10000,
    "explain": 10000,
    "translation": 8000,
    "summary": 4000,
    "retrieval": 4300,
    "question": 4700,
    "chat": 5300,
    "maths": 3700,
}
SHORTEST, LONGEST = 8, 1600  # characters
SOURCES = {
    "C": "usr/src/uwsgi/**/*.c",
    "C++": "usr/lib/*/qt5/examples/**/*.cpp",
    "Go": "usr/share/go-1.19/src/**/*.go",
    "JavaScript": "usr/share/nodejs/**/*.js",
    "Rust": "usr/src/rustc-1.63.0/library/[acs]*/src/**/*.rs",
}
JAVA = "usr/lib/jvm/openjdk-17/lib/src.zip"
Prompt = Callable[[], str]


def read_functions(root: Path) -> dict[str, list[Function]]:
    """Short ones by language, each once."""
    found = {language: list(_functions_of(root, language)) for language in SOURCES}
    folders = (Path(sysconfig.get_path("stdlib")), root / "usr/lib/python3/dist-packages")
    found["Python"] = [one for folder in folders for one in functions(folder)]
    with zipfile.ZipFile(root / JAVA) as sources:
        names = [name for name in sources.namelist() if name.startswith("java.base/java/")]
        files = [sources.read(name).decode("utf-8", "replace") for name in sorted(names)]
    found["Java"] = [one for text in files for one in functions_in(text, "Java")]
    return {
        language: list({one.source: one for one in group if one.is_short}.values())
        for language, group in found.items()
    }


def _functions_of(root: Path, language: str) -> Iterator[Function]:
    for file in sorted(root.glob(SOURCES[language])):
        if "test" not in str(file.relative_to(root)):
            text = file.read_text(encoding="utf-8", errors="replace")
            yield from functions_in(text, language)


def read_named() -> dict[str, str]:
    """The alternatives of words.txt."""
    return dict(line.split(": ", 1) for line in read_lines("words"))


def prompts_by_kind(root: Path, rng: random.Random) -> dict[str, Prompt]:
    """What makes another prompt of a kind, whenever it is called."""
    words = read_wordnet(root / "usr/share/wordnet")
    words.paragraphs = read_handbook(root / "usr/share/doc/debian-handbook/html")
    words.named = read_named()
    sources = {
        "handbook": words.paragraphs["English"],
        "help": read_help(root, "English"),
        "foldoc": read_foldoc(root),
        "novels": read_novels(root),
    }
    known = set(sources["help"])
    paragraphs = {
        language: group + [one for one in read_help(root, language) if one not in known]
        for language, group in words.paragraphs.items()
    }
    texts = {source: list(texts_of(group, rng)) for source, group in sources.items()}
    maker = Maker(words, rng)
    code = CodePrompts(read_functions(root), maker, rng)
    text = TextPrompts(paragraphs, texts, maker, rng)

    def filled(patterns: list[str]) -> Prompt:
        return lambda: text.about(rng.choice(patterns))

    def mixed(*parts: tuple[int, Prompt]) -> Prompt:
        makers, weights = [make for _, make in parts], [weight for weight, _ in parts]
        return lambda: rng.choices(makers, weights)[0]()

    own = {
        kind: filled(read_lines(kind)) for kind in ("write", "summary", "question", "chat", "maths")
    }
    people = filled((SMOLLM2 / "requests.txt").read_text(encoding="utf-8").splitlines())
    return {
        "write": mixed((45, code.described), (35, own["write"]), (20, code.around)),
        "edit": code.edit,
        "explain": code.explain,
        "translation": text.translation,
        "summary": own["summary"],
        "retrieval": text.retrieval,
        "question": mixed((75, own["question"]), (25, people)),
        "chat": mixed((75, own["chat"]), (25, people)),
        "maths": own["maths"],
    }


class Collected:
    """Distinct prompts, none of them long or a benchmark's."""

    def __init__(self) -> None:
        self.prompts: dict[str, None] = {}
        self.left_out: Counter[str] = Counter()
        self._benchmarks = Benchmarks()

    def add(self, make: Prompt, count: int) -> None:
        """So many more.

        Raises:
            SystemExit: there are not so many.
        """
        wanted = len(self.prompts) + count
        for _ in range(50 * count):
            if len(self.prompts) == wanted:
                return
            prompt = make().strip()
            if why := self._why_not(prompt):
                self.left_out[why] += 1
            else:
                self.prompts[prompt] = None
        if left := wanted - len(self.prompts):
            raise SystemExit(
                f"error: {count} prompts of a kind, but {left} not found; ask for fewer"
            )

    def print(self, rng: random.Random) -> None:
        """The prompts as JSON strings in random order, and how many were left out and why."""
        print("left out:", dict(self.left_out), file=sys.stderr)
        prompts = list(self.prompts)
        rng.shuffle(prompts)
        for prompt in prompts:
            print(json.dumps(prompt, ensure_ascii=False))

    def _why_not(self, prompt: str) -> str:
        if not SHORTEST <= len(prompt) <= LONGEST:
            return "too short or too long"
        if prompt in self.prompts:
            return "made before"
        return "shared with a benchmark" if self._benchmarks.shared(prompt) else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("count", type=int)
    arguments = parser.parse_args()
    rng = random.Random(0)
    collected = Collected()
    for kind, make in prompts_by_kind(arguments.root, rng).items():
        wanted = round(arguments.count * KINDS[kind] / sum(KINDS.values()))
        collected.add(make, wanted)
        mean = sum(map(len, list(collected.prompts)[-wanted:])) / wanted
        print(f"{kind:12} {wanted:6} prompts, mean {mean:4.0f} characters", file=sys.stderr)
    collected.print(rng)


if __name__ == "__main__":
    main()
