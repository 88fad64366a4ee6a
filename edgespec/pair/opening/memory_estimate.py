"""How much memory a pair takes when its caches are full.

Caches take memory as texts grow, so a pair that is too large for a machine starts, and is ended in
the middle of a long text. This says so before.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from edgespec.artifact.graph_io import RECENT_ROWS, cache_buffers
from edgespec.artifact.manifest import TOKENIZER, Exported, Manifest
from edgespec.device.memory_limit import memory_limit
from edgespec.errors import UsageError

__all__ = ["MemoryEstimate", "check_memory", "estimated_memory"]

logger = logging.getLogger("edgespec")

# Measured by benchmarks/memory.py: Python, NumPy, ONNX Runtime and edgespec with two models, a
# tokenizer per byte of its file, and weights per byte of theirs: what is read of them as they lie,
# in the order of the kernels, or in ONNX Runtime's copies.
PROGRAMS, TOKENIZER_FACTOR, WEIGHTS_FACTOR = 114_000_000, 7, 1.25
STATE_SLOTS = 5  # of a recurrent layer, for each text
FLOAT = 4  # bytes
MB = 1_000_000


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that are resident when `texts` caches of `capacity` positions are full.

    Attributes:
        texts, capacity: that it is of.
        programs: the process and its tokenizer.
        weights: of target and draft. Those that kernels have packed are mapped: all processes of
            the pair share them, and the system can take them back.
        position: of one position of a text, in all caches.
        states: of one text's recurrent layers.
    """

    texts: int
    capacity: int
    programs: int
    weights: int
    position: int
    states: int

    @property
    def caches(self) -> int:
        return self.texts * (self.capacity * self.position + self.states)

    @property
    def total(self) -> int:
        return self.programs + self.weights + self.caches

    def most_capacity(self, limit: int) -> int:
        """Positions of each text that fit into so many bytes; below 1 if not even one does."""
        room = limit - self.programs - self.weights - self.texts * self.states
        return room // (self.texts * max(1, self.position))

    def to_dict(self) -> dict[str, int]:
        """With what is computed from it."""
        return {**dataclasses.asdict(self), "caches": self.caches, "total": self.total}

    def __str__(self) -> str:
        of = "a text" if self.texts == 1 else f"{self.texts} texts"
        return (
            f"about {self.total / MB:.0f} MB when {of} of {self.capacity} positions "
            f"{'fills its cache' if self.texts == 1 else 'fill their caches'}: programs "
            f"{self.programs / MB:.0f}, weights {self.weights / MB:.0f}, caches "
            f"{self.caches / MB:.0f} ({self.position / 1000:.1f} KB a position, as it is written)"
        )


def estimated_memory(
    manifest: Manifest, formats: tuple[str, str | None], capacity: int, texts: int = 1
) -> MemoryEstimate:
    """The memory of a pair on the processor.

    Args:
        formats: variants of the target and of the draft.
        capacity: positions of each cache.
        texts: that are made at once.
    """
    tokenizer = manifest.files.get(TOKENIZER)
    models = list(_models(manifest, formats))
    return MemoryEstimate(
        texts,
        capacity,
        PROGRAMS + TOKENIZER_FACTOR * (tokenizer.bytes if tokenizer else 0),
        int(WEIGHTS_FACTOR * sum(manifest.bytes(role, name) for role, _, name in models)),
        sum(_position_bytes(model, name) for _, model, name in models)
        + (FLOAT * manifest.target.features if manifest.draft else 0),
        sum(_state_bytes(model) for _, model, _ in models),
    )


def check_memory(estimate: MemoryEstimate, what: str, *, asked: bool, others: int = 0) -> None:
    """Says where a machine has less memory than its pairs will take.

    Args:
        what: the model, for people.
        others: bytes that the process needs for other pairs.
        asked: the capacity or the number of texts was given. A default may be more than texts use:
            then it is only logged.

    Raises:
        UsageError: it was given.
    """
    limit = memory_limit()
    if limit is None or estimate.total + others <= limit:
        return
    limit -= others
    most = estimate.most_capacity(limit)
    way_out = f"give capacity {most} or less" if most > 0 else "take a smaller format or model"
    line = (
        f"{what} takes {estimate}, and there are {max(0, limit) / MB:.0f} MB "
        f"{'left ' if others else ''}here; {way_out}"
        f"{', or fewer texts' if estimate.texts > 1 else ''}"
    )
    if asked:
        raise UsageError(line)
    logger.warning("%s", line)


def _models(
    manifest: Manifest, formats: tuple[str, str | None]
) -> Iterator[tuple[str, Exported, str]]:
    """Role, model and variant of those that are loaded."""
    for role, model, name in zip(
        ("target", "draft"), (manifest.target, manifest.draft), formats, strict=True
    ):
        if model is not None and name is not None:
            yield role, model, name


def _position_bytes(model: Exported, variant: str) -> int:
    """Bytes of a position's keys and values; of a source's, too, where an encoder reads it."""
    buffers = cache_buffers(model.cache_shapes, model.variants[variant].cache_format)
    own = sum(each.heads * each.width * np.dtype(each.dtype).itemsize for each in buffers)
    source = 0
    if model.start_token is not None and not model.is_eagle_head:
        source = sum(2 * FLOAT * shape.kv_heads * shape.head_size for shape in model.cache_shapes)
    return own + source


def _state_bytes(model: Exported) -> int:
    return FLOAT * sum(
        (1 + STATE_SLOTS) * each.state + RECENT_ROWS * each.row for each in model.states
    )
