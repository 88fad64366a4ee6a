"""Runs a draft that reads its target's encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Unpack

import onnxruntime as ort

from edgespec.artifact import graph_io
from edgespec.artifact.manifest import Exported
from edgespec.errors import EdgespecError
from edgespec_runtimes.ort.ort_model import ModelOptions, OrtModel

__all__ = ["OrtSharedEncoder"]


class OrtSharedEncoder(OrtModel):
    """A decoder whose cross-attention reads what the target's encoder said of the same source.

    Args:
        target: whose encoder it reads; it must have started the same text before.
        options: as the other arguments, those of `OrtModel`.
    """

    def __init__(
        self,
        folder: Path,
        exported: Exported,
        variant: str,
        target: OrtModel,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(folder, exported, variant, **options)
        self._target = target
        self.shares_calls = False  # its encoder reads the target's states of one text

    def _encoder_inputs(self, prompt: Sequence[int]) -> Mapping[str, ort.OrtValue]:
        states = self._target.encoder_states
        length = 0 if states is None else states.shape()[0]
        if states is None or length != len(prompt):
            raise EdgespecError(
                f"the draft was given {len(prompt)} source tokens, and its target's encoder has "
                f"read {length}; start the target's text first"
            )
        return {graph_io.FEATURES: states}
