"""The tensors that read and write a model's residual stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["ResidualStream"]


@dataclass(frozen=True)
class ResidualStream:
    """Names of the tensors around a residual stream, for formats that rotate it.

    Attributes:
        is_rotated: weights rotate the whole stream at export. If not, a graph rotates what
            `rotated_reads` read at every call, and tables, readers and writers are not named.
        tables: the embedding, whose rows are the stream's first values, and an untied head.
        readers: matrices that read the stream, each with the name of the RMS norm before it. Every
            reader of these norms must be here; the head's norm keeps its weights.
        writers: matrices whose output is added to the stream, and their biases.
        down_projs: matrices that read products: after the feed-forward's activation, and after a
            gated convolution. No weights can rotate the outliers of these rows away, so a graph
            rotates them at every call.
        rotated_reads: matrices of a stream that is not rotated, or of its norm, whose input has
            outliers; a graph rotates it at every call, too.
    """

    is_rotated: bool
    tables: frozenset[str]
    readers: Mapping[str, str]
    writers: frozenset[str]
    down_projs: frozenset[str]
    rotated_reads: frozenset[str] = frozenset()
