"""Which layers of a Llama-like model see a window of positions only.

Mistral's and Phi-3's layers all have the window; Ministral's are listed; Qwen's have it from a
layer on, or as listed, if `use_sliding_window` asks for it. docs/decisions/0027-windows.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgespec.errors import EdgespecError, shortened
from edgespec_export.families.llama_like.llama_kinds import Windows
from edgespec_export.families.model_config import Config
from edgespec_export.families.windows import GLOBAL, WINDOWED

__all__ = ["layer_windows"]


def layer_windows(
    config: Config, kind: Windows, layers: int, positions: int, label: str
) -> tuple[int | None, ...]:
    """How many positions the queries of each layer see, their own included; None: all before them.

    A window of all positions hides nothing.

    Raises:
        EdgespecError: a window in a model type that has none, or layers of other kinds.
        ValueError: a window or a list of layers that is none.
    """
    window = _window(config, kind)
    kinds = _kinds(config, kind, layers, window, label)
    if window is None or window >= positions:
        return (None,) * layers
    if kind == "none" and WINDOWED in kinds:
        raise EdgespecError(
            f"{label}: config.json says sliding_window = {window!r}; edgespec exports only models "
            f"of this type that attend to all of their {positions} positions"
        )
    return tuple(window if of_layer == WINDOWED else None for of_layer in kinds)


def _window(config: Config, kind: Windows) -> int | None:
    """The window that counts, whatever layers have it."""
    asked = config.flag("use_sliding_window", kind != "asked")
    if config.get("sliding_window") is None or (kind == "asked" and not asked):
        return None
    return config.count("sliding_window", 1)


def _kinds(
    config: Config, kind: Windows, layers: int, window: int | None, label: str
) -> Sequence[str]:
    """The kind of each layer: as listed, where layers may differ, or by its number."""
    asked_from = config.get("max_window_layers", 0)
    first = asked_from if kind == "asked" else 0
    by_number = [
        WINDOWED if window is not None and layer >= first else GLOBAL for layer in range(layers)
    ]
    listed = config.get("layer_types", by_number)
    known = {GLOBAL} if window is None else {GLOBAL, WINDOWED}
    if kind == "every":
        known = set(by_number)
    others = sorted(set(listed) - known)
    if others:
        raise EdgespecError(
            f"{label}: config.json has layers of kind {', '.join(map(shortened, others))} in "
            f"layer_types; with sliding_window = {window!r} edgespec exports only "
            f"{' and '.join(map(repr, sorted(known)))} here"
        )
    if len(listed) != layers:
        raise ValueError(f"layer_types has {len(listed)} of {layers} layers")
    return list(listed)
