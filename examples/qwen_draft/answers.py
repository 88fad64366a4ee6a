"""Answers that the target reads: python answers.py COUNT FOLDER... > answers.jsonl

Functions from the Python files below the folders, as answers to a request for them, and sections of
the Markdown files, as answers to a question about their heading. The folders decide whose text and
licence it is; it is read where it is, not kept here. No duplicates, fixed seed.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from described import described
from functions import Function, functions

FEWEST, MOST = 200, 1400  # characters of an answer
OPENINGS = (
    "",
    "",
    "Here is the function:\n\n",
    "Certainly! Here is a Python function that does this:\n\n",
    "To do this, you can write a function `{name}`:\n\n",
)
CLOSINGS = ("", "", "\n\n{summary}")
ABOUT_HEADING = (
    "Explain {heading}.",
    "What should I know about {heading}?",
    "Write a section of a manual about {heading}.",
    "Tell me about {heading}.",
)
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def code(folder: Path, rng: random.Random) -> Iterator[tuple[str, str]]:
    """A request and a function that has a docstring."""
    for one in functions(folder):
        fits = 30 < len(one.summary) < 300 and FEWEST < len(one.source) < MOST
        if fits and _is_whole(one.source):
            yield described(one, "Python", rng), _reply(one, rng)


def _is_whole(source: str) -> bool:
    """Whether it is a function still, without the indentation that it had."""
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _reply(one: Function, rng: random.Random) -> str:
    source = one.source if rng.random() < 0.5 else _without_docstring(one.source)
    block = f"```python\n{source}\n```"
    words = rng.choice(OPENINGS) + "{block}" + rng.choice(CLOSINGS)
    return words.format(block=block, **vars(one))


def _without_docstring(source: str) -> str:
    """The function with its docstring left out, if something follows it."""
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    first, *rest = function.body
    if not rest or ast.get_docstring(function) is None:
        return source
    lines = source.splitlines()
    return "\n".join(lines[: first.lineno - 1] + lines[first.end_lineno :])


def prose(folder: Path, rng: random.Random) -> Iterator[tuple[str, str]]:
    """A question and a section of a Markdown file."""
    for file in sorted(folder.rglob("*.md")):
        parts = _HEADING.split(file.read_text(encoding="utf-8", errors="replace"))
        for heading, body in zip(parts[1::2], parts[2::2], strict=True):
            name = re.sub(r"[`*_\[\]]|\(.*?\)", "", heading).strip()
            body = re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL).strip()[:MOST]
            if len(body) > FEWEST and name:
                yield rng.choice(ABOUT_HEADING).format(heading=name), body


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("folder", type=Path, nargs="+")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", SyntaxWarning)  # of other people's backslashes
    rng = random.Random(0)
    folders = arguments.folder
    made = [pair for folder in folders for kind in (code, prose) for pair in kind(folder, rng)]
    made = list({answer[:200]: (prompt, answer) for prompt, answer in made}.values())
    print(f"{len(made)} found", file=sys.stderr)
    for prompt, answer in rng.sample(made, min(arguments.count, len(made))):
        print(json.dumps({"prompt": prompt, "answer": answer}))


if __name__ == "__main__":
    main()
