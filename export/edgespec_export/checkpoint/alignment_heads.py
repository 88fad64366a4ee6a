"""Which heads of a Whisper's cross-attention follow the sound, from its generation config."""

from __future__ import annotations

import logging

from edgespec.errors import shortened

__all__ = ["alignment_heads"]

_log = logging.getLogger("edgespec")


def alignment_heads(
    listed: object, layers: int, heads: int, label: str
) -> tuple[tuple[int, int], ...]:
    """Layer and head of each; none, with a line in the log, if the list fits no such model: no text
    depends on it, only the times of words.

    Args:
        listed: [[layer, head], …], or None.
        layers, heads: of the decoder, and of each of its layers.
        label: of the checkpoint, for the log.
    """
    if listed is None:
        return ()
    found = listed if isinstance(listed, list) else [listed]
    if found and all(_is_head(pair, layers, heads) for pair in found):
        return tuple(sorted({(layer, head) for layer, head in found}))
    _log.warning(
        "%s: alignment_heads is %s, not [[layer, head], …] of %d layers with %d heads; words will "
        "have no times",
        label,
        shortened(listed),
        layers,
        heads,
    )
    return ()


def _is_head(pair: object, layers: int, heads: int) -> bool:
    return (
        isinstance(pair, list)
        and [type(number) for number in pair] == [int, int]
        and 0 <= pair[0] < layers
        and 0 <= pair[1] < heads
    )
