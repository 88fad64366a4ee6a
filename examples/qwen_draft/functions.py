"""Coding tasks about real functions: python functions.py COUNT > tasks.jsonl

Functions and their docstrings are those of Python's own library (PSF licence), which every Python
has; they are read where they are, not kept here. One JSON string a line, as the tasks have several
lines; no duplicates, fixed seed.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LEFT_OUT = ("test", "tests", "site-packages", "idlelib", "lib2to3", "turtledemo")
MOST_LINES, FEWEST_LINES, MOST_COLUMNS = 14, 4, 90
LANGUAGES = ("Python", "JavaScript", "TypeScript", "Java", "Go", "C++", "Rust", "C#")
ABOUT_CODE = (
    "Explain step by step what this function does.",
    "Explain this code.",
    "What does this function return? Give an example.",
    "Add type hints to this function. Return the whole function.",
    "Add a docstring and comments to this function.",
    "Write unit tests with pytest for this function.",
    "Rewrite this function so that it is easier to read.",
    "Make this function faster, if possible.",
    "Find bugs in this function, if there are any.",
    "Add error handling to this function.",
    "Rename the variables of this function so that they say more.",
    "Rewrite this function in {language}.",
    "Translate this Python function to {language}.",
)
FROM_WORDS = (
    "Write a function {name}({arguments}) in Python. {summary}",
    "Write a Python function: {summary}",
    'Implement this function in Python:\n\ndef {name}({arguments}):\n    """{summary}"""',
    'Complete this function.\n\n```python\ndef {name}({arguments}):\n    """{summary}"""\n```',
    "Write a {language} function {name} for this description: {summary}",
    "How would you write this in {language}? {summary}",
)


@dataclass(frozen=True)
class Function:
    """A function of the library, with the first sentence of its docstring ("" without one)."""

    name: str
    arguments: str
    summary: str
    source: str


def functions(folder: Path) -> Iterator[Function]:
    """The short functions in the Python files below a folder, in the order of the files' names."""
    for file in sorted(folder.rglob("*.py")):
        if not set(LEFT_OUT) & set(file.relative_to(folder).parts):
            text = file.read_text(encoding="utf-8", errors="replace")
            for node in _nodes(text):
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("__"):
                    yield _function(node, text.splitlines())


def _nodes(text: str) -> Iterator[ast.AST]:
    """Of a file; none of one for another Python."""
    try:
        yield from ast.walk(ast.parse(text))
    except SyntaxError:
        return


def _function(node: ast.FunctionDef, lines: list[str]) -> Function:
    own = lines[node.lineno - 1 : node.end_lineno]
    source = "\n".join(line[node.col_offset :] for line in own)
    arguments = ast.unparse(node.args).removeprefix("self, ").removeprefix("self")
    words = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
    return Function(node.name, arguments, words, source)


def tasks(found: list[Function], rng: random.Random) -> Iterator[str]:
    """Endless tasks: half of them about code that is given, half from a description."""
    shown = [one for one in found if _is_short(one.source)]
    described = [one for one in found if 30 < len(one.summary) < 300]
    while True:
        language = rng.choice(LANGUAGES)
        if rng.random() < 0.5:
            one = rng.choice(shown)
            yield f"{rng.choice(ABOUT_CODE).format(language=language)}\n\n{one.source}"
        else:
            one = rng.choice(described)
            yield rng.choice(FROM_WORDS).format(language=language, **vars(one))


def _is_short(source: str) -> bool:
    lines = source.split("\n")
    fits = max(map(len, lines)) <= MOST_COLUMNS
    return fits and FEWEST_LINES <= len(lines) <= MOST_LINES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    arguments = parser.parse_args()
    found = list(functions(Path(sysconfig.get_path("stdlib"))))
    made: dict[str, None] = {}
    for task in tasks(found, random.Random(0)):
        made[task] = None
        if len(made) == arguments.count:
            break
    print("\n".join(map(json.dumps, made)))


if __name__ == "__main__":
    main()
