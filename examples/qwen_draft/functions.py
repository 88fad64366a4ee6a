"""The functions of Python files, by Python's own parser.

They are read where they are, not kept here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LEFT_OUT = ("test", "tests", "site-packages", "idlelib", "lib2to3", "turtledemo")
FEWEST_LINES, MOST_LINES, MOST_COLUMNS, MOST_CHARACTERS = 3, 25, 100, 1350


@dataclass(frozen=True)
class Function:
    """A function, with the first sentence of its docstring or comment ("" without one)."""

    language: str
    name: str
    arguments: str  # as written
    summary: str
    source: str

    @property
    def is_short(self) -> bool:
        """Whether it can be shown in a prompt."""
        lines = self.source.split("\n")
        fits = max(map(len, lines)) <= MOST_COLUMNS and len(self.source) <= MOST_CHARACTERS
        return fits and FEWEST_LINES <= len(lines) <= MOST_LINES

    @property
    def is_described(self) -> bool:
        """Whether its summary is enough to write it."""
        return bool(self.name) and 30 < len(self.summary) < 260 and len(self.arguments) < 80

    @property
    def parameters(self) -> list[str]:
        """Their names: first or last of a parameter, as the language has it."""
        plain = re.sub(r"\[[^]]*\]|<[^>]*>|=[^,]*", "", self.arguments)
        pieces = [(part, re.findall(r"\w+", part.split(":")[0])) for part in plain.split(",")]
        first = self.language == "Go"
        names = [words[0 if first or ":" in part else -1] for part, words in pieces if words]
        return [name for name in names if len(name) > 1 and name not in ("self", "void", "this")]


def functions(folder: Path) -> Iterator[Function]:
    """The short functions in the Python files below a folder, in the order of the files' names."""
    for file in sorted(folder.rglob("*.py")):
        if not set(LEFT_OUT) & set(file.relative_to(folder).parts):
            text = file.read_text(encoding="utf-8", errors="replace")
            lines = text.split("\n")  # ast's lines: a form feed ends none
            for node in _nodes(text):
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("__"):
                    yield _function(node, lines)


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
    return Function("Python", node.name, arguments, words, source)
