"""The tensors that read and write a model's residual stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["ResidualStream"]


@dataclass(frozen=True)
class ResidualStream:
    """Names of the tensors around a residual stream, for formats that rotate it.

    Attributes:
        tables: the embedding, whose rows are the stream's first values, and an untied head.
        readers: matrices that read the stream, each with the name of the RMS norm before it. Every
            reader of these norms must be here; the head's norm keeps its weights.
        writers: matrices whose output is added to the stream, and their biases.
        down_projs: matrices after the feed-forward's activation. No weights can rotate the
            outliers of these activations away, so a graph rotates them at every call.
        normed: matrices that read an RMS norm of a stream that may not be rotated. A graph rotates
            the norm at every call, too.
    """

    tables: frozenset[str]
    readers: Mapping[str, str]
    writers: frozenset[str]
    down_projs: frozenset[str]
    normed: frozenset[str] = frozenset()
