"""Claim: a file is short enough to read at once, and a function fits a screen.

A source file has at most 400 lines, one of tests 700, a function 60 with its docstring. Tables are
excepted, by name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "docs", "edgespec", "examples", "export", "runtimes", "scripts", "tests")
KINDS = {".cpp", ".css", ".h", ".html", ".inc", ".js", ".mjs", ".py", ".pyi", ".ts"}
NOT_OURS = {"build", "dist", "node_modules", "third_party", "__pycache__"}
TABLES = {
    "runtimes/kernels/src/schema/operators.inc",
    "runtimes/native/src/text/unicode_tables.inc",
}


def files_below(folder: Path) -> Iterator[Path]:
    """Files that are ours: none that was built or installed."""
    for entry in folder.iterdir():
        if entry.is_file():
            yield entry.relative_to(ROOT)
        elif entry.is_dir() and entry.name not in NOT_OURS:
            yield from files_below(entry)


def sources() -> list[Path]:
    """Source files of the checkout, relative to it."""
    found = [file for folder in FOLDERS for file in files_below(ROOT / folder)]
    return sorted(file for file in found if file.suffix in KINDS)


def is_test(file: Path) -> bool:
    return "tests" in file.parts


def lines(file: Path) -> int:
    return len((ROOT / file).read_text(encoding="utf-8").splitlines())


def long_functions(source: str, limit: int) -> list[str]:
    """Names of functions with more lines than `limit`."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > limit
    ]


def test_all_sources_are_found():
    files = {file.as_posix() for file in sources()}
    assert files >= TABLES
    assert {"edgespec/core/decode.py", "runtimes/js/src/core/decode.ts"} <= files
    assert not any("node_modules" in name for name in files)


@pytest.mark.parametrize("tests", [False, True])
def test_no_file_is_longer_than_its_limit(tests):
    limit = 700 if tests else 400
    files = [file for file in sources() if is_test(file) == tests]
    assert len(files) > 100
    long = {file.as_posix(): lines(file) for file in files if lines(file) > limit}
    assert {name: count for name, count in long.items() if name not in TABLES} == {}


def test_the_facade_leaves_the_work_to_others():
    assert lines(Path("edgespec/pair/pair.py")) <= 350


def test_no_function_is_longer_than_a_screen():
    long = {
        file.as_posix(): names
        for file in sources()
        if file.suffix == ".py" and not is_test(file)
        if (names := long_functions((ROOT / file).read_text(encoding="utf-8"), 60))
    }
    assert long == {}


def test_a_long_function_is_found():
    source = "def f():\n" + "    pass\n" * 60
    assert long_functions(source, 60) == ["f"]
    assert long_functions(source, 61) == []
