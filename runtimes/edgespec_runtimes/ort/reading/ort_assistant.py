"""Runs Gemma 4's assistant, a draft that attends to its target's keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy as np
import numpy.typing as npt

from edgespec.artifact import graph_io
from edgespec.artifact.manifest import Exported
from edgespec.core.model import Candidate
from edgespec.errors import EdgespecError
from edgespec_runtimes.ort.graph_run import GraphRun
from edgespec_runtimes.ort.ort_model import ModelOptions, OrtModel
from edgespec_runtimes.ort.reading.eagle_positions import EaglePositions
from edgespec_runtimes.ort.reading.ort_eagle import checked_features

__all__ = ["OrtAssistant"]


class OrtAssistant(OrtModel):
    """A draft without a cache: a call computes one row, which reads the target's cache.

    The row of a position sees the target's positions before it, and takes the target's state of the
    one just before. Where the target has not been there, it takes its own state of the row before,
    and sees all that the target has scored. Nothing of a position is kept, so a rewind is free, and
    rows of a prompt are not computed.

    Args:
        target: whose cache and states it reads; both hold the same sequence.
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
        variant = _variant_for(target, exported, variant)
        cacheless = replace(exported, layers=0, layer_shapes=())
        super().__init__(folder, cacheless, variant, **options)
        self.shares_calls = False  # it reads the cache of one sequence
        self.returns_top_tokens = False
        self._target = target
        self._target_features = checked_features(target, exported)
        self._read = _arrays_read(target, self.graph.metadata[graph_io.TARGET_LAYERS])
        self._head = EaglePositions(exported.features)
        self._bound: GraphRun | None = None

    def prefill(self, prompt: Sequence[int], assistant_spans: Sequence[range] | None = None) -> int:
        """Starts a sequence and returns its pending token; nothing is computed."""
        self._check_prompt(prompt)
        self.rewind(0)
        self._append(prompt[:-1])
        return prompt[-1]

    def score(
        self, tokens: Sequence[int], candidates: Sequence[Candidate] = ()
    ) -> npt.NDArray[np.float32]:
        """Appends `tokens`; returns the logits after each."""
        self._check_room(len(tokens))
        logits = np.zeros((len(tokens), self.vocab_size), np.float32)
        for row, token in enumerate(tokens):
            seen = min(self.length, self._target.length)
            if seen:  # the first token of a sequence has nothing to attend to: any q is right
                logits[row] = self._logits_after(token, seen)
            self._append([token])
        return logits

    def _logits_after(self, token: int, seen: int) -> npt.NDArray[np.float32]:
        """The row of a token that sees so many positions of the target."""
        position, states = self.length, self._call().states
        if self._head.takes_features(position, position + 1, self._target.length):
            states[graph_io.FUSED_STATES][0] = self._target_features[position - 1]
        else:
            states[graph_io.FUSED_STATES][0] = self._head.hidden
        call = self._call()
        call.set_tokens([token], (), seen - 1)
        with self._computing():
            self._decoder.run(call)
        self._head.keep_hidden(states[graph_io.HIDDEN][0], position)
        row: npt.NDArray[np.float32] = self._decoder.logits_call(1, 0, 0).logits[0]
        return row

    def _call(self) -> GraphRun:
        """The call of one row, with the target's cache among its inputs."""
        call = self._decoder.logits_call(1, 0, 0)
        if call is not self._bound:
            for name, array in self._read.items():
                call.bind_input(name, array)
            self._bound = call
        return call


def _variant_for(target: OrtModel, exported: Exported, variant: str) -> str:
    """The draft's variant with these weights that reads the format of the target's cache.

    Raises:
        EdgespecError: it was not exported.
    """
    dtypes = {buffer.dtype for buffer in target.cache if buffer.width > 1}
    wanted = {name for name, dtype in graph_io.CACHE_FORMATS.items() if dtype in dtypes}
    weights = exported.variants[variant].weights_format
    for name, each in exported.variants.items():
        if each.weights_format == weights and each.cache_format in wanted:
            return name
    raise EdgespecError(
        f"{exported.source} reads its target's cache and was not exported for one in "
        f"{' or '.join(sorted(wanted))}; export the pair with this cache format"
    )


def _arrays_read(target: OrtModel, layers: str) -> dict[str, npt.NDArray[np.generic]]:
    """The target's cache by the names of the draft's inputs.

    Args:
        layers: of the target's cache, one for each layer of the draft's inputs.
    """
    if target.graph.memory is not None:
        raise EdgespecError(
            f"a draft that reads its target's cache cannot read it in the memory of "
            f"{target.graph.provider}; run the target on another provider (cpu)"
        )
    arrays = {buffer.past: array for buffer, array in target.cache.items()}
    read = {}
    for layer, of_target in enumerate(map(int, layers.split(","))):
        names = zip(graph_io.past_names(layer), graph_io.past_names(of_target), strict=True)
        for name, theirs in names:
            read[name] = arrays[theirs]
            if graph_io.scale_name(theirs) in arrays:
                read[graph_io.scale_name(name)] = arrays[graph_io.scale_name(theirs)]
    return read
