"""Models whose layers differ: windowed ones, which see the last positions only, and global ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgespec_export.components.attention.heads import Heads
from edgespec_export.families.model_config import Config

__all__ = ["GLOBAL", "WINDOWED", "all_but_every", "heads_of_kind", "layer_kinds"]

WINDOWED = "sliding_attention"
GLOBAL = "full_attention"


def all_but_every(period: int, layers: int) -> tuple[str, ...]:
    """The kinds of layers of which every `period`-th is global."""
    return tuple(GLOBAL if layer % period == 0 else WINDOWED for layer in range(1, layers + 1))


def layer_kinds(config: Config, default: Sequence[str]) -> tuple[str, ...]:
    """The kind of each layer, as listed or by default.

    Raises:
        ValueError: the list has another length or other kinds.
    """
    kinds = tuple(config.get("layer_types", default))
    if len(kinds) != len(default) or not set(kinds) <= {WINDOWED, GLOBAL}:
        found = sorted(set(map(str, kinds)))
        raise ValueError(f"layer_types has {len(kinds)} of {len(default)} layers: {found}")
    return kinds


def heads_of_kind(heads: Heads, kind: str, window: int, positions: int) -> Heads:
    """The heads of a layer. A window of all positions hides nothing."""
    return replace(heads, window=window) if kind == WINDOWED and window < positions else heads
