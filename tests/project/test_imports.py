"""Claim: modules import each other in no circle, in Python and TypeScript, also for types only."""

from __future__ import annotations

import graphlib
import re
from pathlib import Path

import grimp
import pytest

SCRIPTS = Path(__file__).parents[2] / "runtimes" / "js" / "src"
FROM = re.compile(r"(?:from|import)\s*\(?\s*\"(\.[^\"]+)\.js\"")
PACKAGES = ("edgespec", "edgespec_distill", "edgespec_export", "edgespec_jax", "edgespec_runtimes")


def circle(imports: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle; empty if there are none."""
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_no_circle_of_imports():
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert len(imports) > 300
    assert circle(imports) == []


def test_no_circle_of_imports_in_typescript():
    imports = {
        file: {(file.parent / f"{name}.ts").resolve() for name in FROM.findall(file.read_text())}
        for file in SCRIPTS.resolve().rglob("*.ts")
    }
    assert len(imports) > 60
    assert sum(map(len, imports.values())) > 150
    assert all(found in imports for names in imports.values() for found in names)
    assert circle({str(file): set(map(str, names)) for file, names in imports.items()}) == []


@pytest.mark.parametrize(
    "imports",
    [{"a": {"b"}, "b": {"a"}}, {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": set()}],
)
def test_a_circle_is_found(imports):
    assert circle(imports)
