"""Claim: modules import each other in no circle, also for types only."""

from __future__ import annotations

import graphlib

import grimp
import pytest

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


@pytest.mark.parametrize(
    "imports",
    [{"a": {"b"}, "b": {"a"}}, {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": set()}],
)
def test_a_circle_is_found(imports):
    assert circle(imports)
