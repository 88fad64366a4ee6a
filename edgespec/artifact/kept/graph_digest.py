"""What the files that are kept beside a graph hold for: one graph with its weights, which are told
by sizes and times, since reading them takes about as long as loading them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import NamedTuple

__all__ = ["WeightFile", "graph_digest", "weight_files"]


class WeightFile(NamedTuple):
    """A file of weights, and when it was changed last, in nanoseconds since 1970."""

    name: str
    bytes: int
    changed: int


def weight_files(graph: Path) -> list[WeightFile]:
    """Those beside a graph, by their names."""
    found = [(path.name, path.stat()) for path in sorted(graph.parent.glob("weights*.data"))]
    return [WeightFile(name, of.st_size, of.st_mtime_ns) for name, of in found]


def graph_digest(graph: Path, weights: list[WeightFile], *made_by: object) -> str:
    """In hexadecimal digits.

    Args:
        weights: `weight_files` of the graph.
        made_by: what else it depends on, as JSON takes it.
    """
    recipe = [hashlib.sha256(graph.read_bytes()).hexdigest(), weights, *made_by]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()
