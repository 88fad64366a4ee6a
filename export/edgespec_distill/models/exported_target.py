"""A target as it will run: an exported model, many texts in one call.

What a draft learns is then what it will have to agree with: the target in its number format, not
the checkpoint in float32. A draft starts from the weights of the torch model beside it.
"""

from __future__ import annotations

import dataclasses
import logging
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from edgespec.artifact.manifest import Exported
from edgespec.artifact.typed_json import read_json, write_json
from edgespec.core.array_types import LogitRows
from edgespec.core.requests import Read, Score
from edgespec.device.device import HERE
from edgespec.errors import UsageError
from edgespec.pair.opening.runtime import open_model
from edgespec.scheduler.shared_calls import ROWS, SequenceModel
from edgespec_distill.data.examples import Text
from edgespec_distill.models.causal import Causal
from edgespec_distill.models.seq2seq import Seq2Seq
from edgespec_distill.models.trainable import DecodeState, GeneratingModel, Rows
from edgespec_export.calibration.calibrated import Calibration
from edgespec_export.calibration.texts import BUILT_IN, calibration_texts
from edgespec_export.checkpoint.checkpoint import Checkpoint
from edgespec_export.families.tensor_check import fitted
from edgespec_export.progress import no_progress
from edgespec_export.write_model import ModelWriter

if TYPE_CHECKING:
    from edgespec.pair.opening.runtime import OrtModel

__all__ = ["as_exported"]

logger = logging.getLogger("edgespec")

DESCRIPTION = "exported.json"  # in the folder of an exported target


def as_exported(
    target: GeneratingModel,
    checkpoint: Checkpoint,
    weights_format: str,
    layers: Sequence[int],
    work: Path,
) -> GeneratingModel:
    """The same target, whose texts, distributions and features come from its export.

    Args:
        weights_format: of the export, which is made in `work` unless it is there.
        layers: whose outputs are the features, counted from 1; none without features.

    Raises:
        UsageError: texts cannot share calls of this export here.
    """
    folder = work / f"target-{weights_format}"
    if not folder.exists():
        logger.info(f"exporting the target in {weights_format}, which will write the texts")
        _export(checkpoint, weights_format, layers, folder)
    exported = read_json(Exported, folder / DESCRIPTION)
    variant = next(iter(exported.variants))
    model = open_model(folder, exported, variant, capacity=1, device=HERE)
    if not model.shares_calls:
        raise UsageError(
            f"texts cannot share calls of {checkpoint.label} in {weights_format} here, so it would "
            "write one at a time; give another --target-format, one that kernels run"
        )
    if isinstance(target, Seq2Seq):
        return ExportedSeq2Seq(target, model, layers)
    assert isinstance(target, Causal)
    return ExportedCausal(target, model, layers)


def _export(
    checkpoint: Checkpoint, weights_format: str, layers: Sequence[int], folder: Path
) -> None:
    """Writes the target's graphs; the folder appears whole or not at all."""
    family = fitted(checkpoint)
    family = (family.with_layer_outputs(layers) if layers else None) or family
    aside = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    writer = ModelWriter(aside, Calibration(calibration_texts(BUILT_IN), HERE), no_progress)
    exported = writer.write(checkpoint, family, "target", [weights_format], ["fp32"])
    write_json(dataclasses.asdict(exported), aside / DESCRIPTION)
    aside.rename(folder)


class ExportedSeq2Seq(Seq2Seq):
    """An exported encoder-decoder; its features are of its decoder's positions."""

    def __init__(self, target: Seq2Seq, runtime: OrtModel, layers: Sequence[int]) -> None:
        super().__init__(target.model, target.vocabulary, target.start_in(target.vocabulary))
        self._runtime, self._reading = runtime, _Reading(runtime)
        self.feature_layers = layers

    def begin(self, prompts: Rows, max_new_tokens: int) -> DecodeState:
        return _begun(self._runtime, prompts, max_new_tokens, self.model)

    def logits(self, texts: Sequence[Text]) -> Tensor:
        return torch.cat([self._reading.logits(text).to(self.model.dtype) for text in texts])

    def features(self, texts: Sequence[Text]) -> list[Tensor]:
        """The features at all positions of the decoder: [tokens of an output, layers · width]."""
        return [self._reading.output_features(text, self.model.dtype) for text in texts]

    def shown_positions(self, text: Text) -> int:
        """How many positions of a text have features."""
        return len(text.output)


class ExportedCausal(Causal):
    """An exported decoder-only model."""

    def __init__(self, target: Causal, runtime: OrtModel, layers: Sequence[int]) -> None:
        super().__init__(target.model, target.vocabulary)
        self._runtime, self._reading = runtime, _Reading(runtime)
        self.feature_layers = layers

    def begin(self, prompts: Rows, max_new_tokens: int) -> DecodeState:
        return _begun(self._runtime, prompts, max_new_tokens, self.model)

    def logits(self, texts: Sequence[Text]) -> Tensor:
        return torch.cat([self._reading.logits(text).to(self.model.dtype) for text in texts])

    def features(self, texts: Sequence[Text]) -> list[Tensor]:
        """See `Causal.features`."""
        return [self._reading.features(text, self.model.dtype) for text in texts]


def _begun(runtime: OrtModel, prompts: Rows, max_new_tokens: int, model: Any) -> _ExportedState:
    """Texts after prompts.

    Raises:
        UsageError: the target has no positions for the longest of them, or no memory for all.
    """
    longest, most = max(map(len, prompts)), runtime.max_positions
    if most is not None and longest + max_new_tokens > most:
        raise UsageError(
            f"a prompt has {longest} tokens, and {max_new_tokens} are to follow; the target has "
            f"{most} positions: leave it out or give a lower --max-new-tokens"
        )
    return _ExportedState(runtime, prompts, longest + max_new_tokens, model.dtype)


class _ExportedState:
    """Texts that an exported target generates; implements `DecodeState`.

    Args:
        capacity: positions of each.
        dtype: of features.
    """

    logits: Tensor

    def __init__(self, runtime: OrtModel, prompts: Rows, capacity: int, dtype: torch.dtype) -> None:
        self._batch, self._dtype = runtime.make_batch(len(prompts), capacity), dtype
        self._sequences = self._batch.sequences
        # One memory for all steps: pieces of each step's own would leave gaps, soon gigabytes.
        self._logits = np.empty((len(prompts), runtime.vocab_size), np.float32)
        pending = [
            sequence.prefill(prompt)
            for sequence, prompt in zip(self._sequences, prompts, strict=True)
        ]
        self._score(pending)
        self._begun = [sequence.length for sequence in self._sequences]

    def add(self, tokens: Tensor) -> None:
        self._score(tokens.tolist())

    def keep_rows(self, rows: Tensor) -> None:
        self._sequences = [self._sequences[row] for row in rows.tolist()]

    def features(self, row: int, outputs: int) -> Tensor | None:
        kept = self._batch.features
        if kept is None:
            return None
        first = self._batch.sequences[row].start
        return _features(kept, slice(first, first + self._begun[row] + outputs - 1), self._dtype)

    def _score(self, tokens: Sequence[int]) -> None:
        """Appends a token to each text."""
        requests = [
            Score(sequence, [token])
            for sequence, token in zip(self._sequences, tokens, strict=True)
        ]
        answers = (rows for call in _calls(requests) for rows in self._batch.compute(call))
        kept = self._logits[: len(tokens)]
        for own, logits in zip(kept, answers, strict=True):
            own[:] = cast(LogitRows, logits)[0]
        self.logits = torch.from_numpy(kept)


def _calls(requests: Sequence[Score]) -> Iterator[list[Score]]:
    """The requests of each call: as many as have room for their rows."""
    call: list[Score] = []
    rows = 0
    for request in requests:
        own = len(cast(SequenceModel, request.model).unread) + len(request.tokens)
        if call and rows + own > ROWS:
            yield call
            call, rows = [], 0
        call.append(request)
        rows += own
    if call:
        yield call


class _Reading:
    """A sequence that reads texts, one after another.

    It is kept, as a sequence of their own for each would keep its cache until Python looks for
    objects that refer to each other.
    """

    def __init__(self, runtime: OrtModel) -> None:
        self._runtime = runtime
        self._batch = runtime.make_batch(1, 1)

    def logits(self, text: Text) -> Tensor:
        """[tokens of the output, vocabulary] that predict an output."""
        sequence = self._sequence(len(text))
        tokens = [sequence.prefill([*text.prompt]), *text.output[:-1]]
        parts = [
            np.array(sequence.score(tokens[first : first + ROWS // 2]))
            for first in range(0, len(tokens), ROWS // 2)
        ]
        return torch.from_numpy(np.concatenate(parts))

    def features(self, text: Text, dtype: torch.dtype) -> Tensor:
        """At all positions of a text but the last: [n, layers · width]."""
        sequence = self._sequence(len(text))
        sequence.prefill([*text.prompt, *text.output])
        self._batch.compute([Read(sequence, ())])
        assert self._batch.features is not None
        return _features(self._batch.features, slice(0, len(text) - 1), dtype)

    def output_features(self, text: Text, dtype: torch.dtype) -> Tensor:
        """At the positions that predict a text's output: [n, layers · width]."""
        sequence = self._sequence(len(text))
        tokens = [sequence.prefill([*text.prompt]), *text.output[:-1]]
        for first in range(0, len(tokens), ROWS):
            self._batch.compute([Read(sequence, tokens[first : first + ROWS])])
        assert self._batch.features is not None
        return _features(self._batch.features, slice(0, len(tokens)), dtype)

    def _sequence(self, positions: int) -> SequenceModel:
        """Empty, with room for so many positions."""
        if self._batch.sequences[0].capacity < positions:
            self._batch = self._runtime.make_batch(1, positions)
        sequence = self._batch.sequences[0]
        sequence.rewind(0)
        return sequence


def _features(kept: npt.NDArray[np.float32], positions: slice, dtype: torch.dtype) -> Tensor:
    """What the target returned at positions of its cache: [positions, size]."""
    return torch.tensor(kept[positions], dtype=dtype)
