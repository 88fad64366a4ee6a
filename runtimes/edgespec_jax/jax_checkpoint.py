"""A checkpoint for the JAX path, read by the exporter's readers.

Nothing else in `edgespec_jax` knows the exporter: the second implementation shares no arithmetic
with the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import resolve
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.families.tensor_check import fitted

__all__ = ["ExporterCheckpoint", "open_jax_checkpoint"]


@dataclass(frozen=True)
class ExporterCheckpoint:
    """An open checkpoint as `edgespec_jax.jax_weights.JaxCheckpoint`; weights stay on disk."""

    label: str
    config: dict[str, Any]
    eos_token_ids: tuple[int, ...]
    weights: Weights

    def names(self) -> Iterable[str]:
        return self.weights.names()

    def tensor(self, name: str) -> npt.NDArray[Any]:
        return np.asarray(self.weights.read(name))


def open_jax_checkpoint(name: str) -> ExporterCheckpoint:
    """A checkpoint folder, GGUF file, hub id or short name, downloaded if it is on the hub.

    Raises:
        EdgespecError: it is not a checkpoint, its config has an unknown key or value, or its
            tensors are not those of its config.
    """
    checkpoint = open_checkpoint(resolve(name))
    family = fitted(checkpoint)  # refuses what no family understands
    if family.widest_window is not None:
        raise EdgespecError(
            f"{checkpoint.label}: has layers with a sliding_window; the JAX path has none"
        )
    return ExporterCheckpoint(
        checkpoint.label, checkpoint.config, checkpoint.eos_token_ids, checkpoint.weights
    )
