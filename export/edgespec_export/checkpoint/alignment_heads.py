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
    pairs = listed if isinstance(listed, list) else [listed]
    found = [head for pair in pairs if (head := _head(pair, layers, heads)) is not None]
    if found and len(found) == len(pairs):
        return tuple(sorted(set(found)))
    _log.warning(
        "%s: alignment_heads is %s, not [[layer, head], …] of %d layers with %d heads; words will "
        "have no times",
        label,
        shortened(listed),
        layers,
        heads,
    )
    return ()


def _head(pair: object, layers: int, heads: int) -> tuple[int, int] | None:
    """A layer and one of its heads; None if that is something else."""
    if not (isinstance(pair, list) and [type(number) for number in pair] == [int, int]):
        return None
    layer, head = pair
    return (layer, head) if 0 <= layer < layers and 0 <= head < heads else None
