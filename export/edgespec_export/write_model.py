"""Writes one model: a variant for each number format and each format of the cache."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from edgespec.artifact.graph_io import DECODER
from edgespec.artifact.hosts import GPU
from edgespec.artifact.manifest import Exported, FusedBlocks, Variant
from edgespec.artifact.speech_format import write_speech_format
from edgespec.artifact.static_calls import StaticCalls
from edgespec_export.calibration.calibrated import Calibration, calibrated
from edgespec_export.checkpoint.checkpoint import Checkpoint
from edgespec_export.checkpoint.speech_tokens import speech_format
from edgespec_export.components.attention.attention import Attention
from edgespec_export.components.attention.cache_formats import CACHE_FORMATS
from edgespec_export.components.attention.choose_attention import attention_for
from edgespec_export.components.attention.heads import Heads
from edgespec_export.components.attention.kv_cache import ResidentCache
from edgespec_export.components.attention.standard_attention import Standard
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.families import Family
from edgespec_export.families.family import Sound
from edgespec_export.hosts import gpu, npu
from edgespec_export.passes.fuse_blocks import Fusion
from edgespec_export.progress import Progress
from edgespec_export.quantization.formats import FORMATS
from edgespec_export.write_graphs import write_graphs
from edgespec_export.write_static import write_static_graphs

__all__ = ["ModelWriter"]

_log = logging.getLogger("edgespec")


@dataclass(frozen=True)
class ModelWriter:
    """Writes the models of one pair.

    Attributes:
        folder: of the pair.
        calibration: for the formats that need one.
        progress: see `edgespec_export.export_pair.export_pair`.
        shard_bytes: no file of weights becomes larger.
        host: what the graphs are for, see `edgespec.artifact.hosts`.
        fixed: the calls of graphs for NPUs, whose shapes are fixed.
    """

    folder: Path
    calibration: Calibration
    progress: Progress
    shard_bytes: int = sys.maxsize
    host: str | None = None
    fixed: npu.FixedCalls | None = None

    def check(self, family: Family) -> None:
        """Raises EdgespecError for a model that has no graph for the host."""
        if self.host == GPU:
            gpu.check_family(family)
        elif self.fixed is not None:
            npu.check_family(family)

    def write(
        self,
        checkpoint: Checkpoint,
        family: Family,
        role: str,
        formats: Sequence[str],
        caches: Sequence[str],
    ) -> Exported:
        """Writes a model's graphs and weights; returns what the manifest says of it.

        Args:
            role: "target" or "draft".
            formats, caches: names of number formats and of formats of the cache.
        """
        if role == "draft" or self.host is not None:
            family = family.without_alignment()
        if self.host is None and any(CACHE_FORMATS[cache].stored == "int8" for cache in caches):
            family = family.with_balanced_keys()
        if family.sound is not None:
            self._write_speech_format(checkpoint, family, family.sound, role)
        variants: dict[str, Variant] = {}
        fixed = None if family.target_inputs else self.fixed  # such a draft runs on the processor
        if fixed is not None and fixed.capacity_for(family) < fixed.capacity:
            _log.info("%s has %d positions, so that is its capacity", role, family.positions)
        for weights_format in dict.fromkeys(formats):  # without repetitions
            if fixed is None:
                variants |= self._variants(checkpoint, family, role, weights_format, caches)
            else:
                calls = fixed.calls_of(family, weights_format)
                variants[weights_format] = self._static(
                    checkpoint, family, role, weights_format, calls
                )
        reads = family.input_vocab_size
        return Exported(
            family=family.family,
            source=checkpoint.label,
            vocab_size=family.vocab_size,
            layers=family.cache_layers,
            kv_heads=family.kv_heads,
            head_size=family.head_size,
            capacity=fixed.capacity_for(family) if fixed else family.capacity,
            positions=fixed.capacity_for(family) if fixed else family.positions,
            start_token=family.start_token,
            variants=variants,
            features=family.features,
            input_vocab_size=None if reads == family.vocab_size else reads,
            layer_shapes=family.layer_shapes,
            states=family.states,
            block_rows=family.block_rows,
        )

    def _variants(
        self,
        checkpoint: Checkpoint,
        family: Family,
        role: str,
        weights_format: str,
        caches: Sequence[str],
    ) -> dict[str, Variant]:
        """Writes a model in one number format, with a decoder graph for each format of the cache.

        The variants share their weights and all other graphs.
        """
        relative = Path(role) / weights_format
        (self.folder / relative).mkdir(parents=True, exist_ok=True)
        decoders = {cache: _with_cache(DECODER, cache) for cache in caches}
        fusions = self._write_graphs(checkpoint, family, relative, weights_format, decoders)
        known = FORMATS[weights_format]
        variants = {}
        for cache, decoder in decoders.items():
            files = {**{name: name for name in family.graphs}, DECODER: decoder}
            graphs = {name: (relative / f"{file}.onnx").as_posix() for name, file in files.items()}
            blocks = {
                name: _blocks(fusions[file]) for name, file in files.items() if file in fusions
            }
            variants[_with_cache(weights_format, cache)] = Variant(
                graphs,
                weights_format,
                CACHE_FORMATS[cache].stored,
                CACHE_FORMATS[cache].attention,
                run_by_kernels=known.run_by_kernels and self.host != GPU,
                row_cost=known.row_cost,
                blocks=blocks,
            )
            for name in blocks:
                _log.info("%s %s %s: %s", role, weights_format, files[name], fusions[files[name]])
        return variants

    def _static(
        self,
        checkpoint: Checkpoint,
        family: Family,
        role: str,
        weights_format: str,
        calls: StaticCalls,
    ) -> Variant:
        """Writes a model in one number format, with graphs of fixed shapes."""
        relative = Path(role) / weights_format
        (self.folder / relative).mkdir(parents=True, exist_ok=True)
        done = self.progress(" ".join(relative.parts), checkpoint.float32_bytes)
        scratch = self.folder / "calibration"
        with npu.number_format(
            weights_format, checkpoint, family, self.calibration, scratch
        ) as made:
            files = write_static_graphs(
                checkpoint.weights,
                family,
                self.folder / relative,
                number_format=made,
                calls=calls,
                progress=done,
            )
        graphs = {name: (relative / f"{file}.onnx").as_posix() for name, file in files.items()}
        return Variant(graphs, weights_format, "fp32", static=calls)

    def _write_graphs(
        self,
        checkpoint: Checkpoint,
        family: Family,
        relative: Path,
        weights_format: str,
        decoders: Mapping[str, str],
    ) -> dict[str, Fusion]:
        """Writes all graphs of one number format; returns what was fused in each file.

        Args:
            relative: their folder, within that of the pair.
            decoders: the decoder file of each format of the cache.
        """
        done = self.progress(" ".join(relative.parts), checkpoint.float32_bytes)
        with self._calibrated(weights_format, checkpoint, family) as made:
            return write_graphs(
                checkpoint.weights,
                family,
                self.folder / relative,
                number_format=made,
                attentions={
                    file: self._attention(family.heads, cache) for cache, file in decoders.items()
                },
                progress=done,
                shard_bytes=self.shard_bytes,
                host=self.host,
            )

    def _attention(self, heads: Heads, cache: str) -> Attention:
        if self.host == GPU:
            return Standard(ResidentCache())
        return attention_for(heads, cache)

    def _calibrated(
        self, weights_format: str, checkpoint: Checkpoint, family: Family
    ) -> AbstractContextManager[NumberFormat]:
        if self.host == GPU:
            return nullcontext(gpu.GPU_FORMATS[weights_format]())
        scratch = self.folder / "calibration"
        return calibrated(weights_format, checkpoint, family, self.calibration, scratch)

    def _write_speech_format(
        self, checkpoint: Checkpoint, family: Family, sound: Sound, role: str
    ) -> None:
        written = speech_format(
            checkpoint.tokenizer,
            checkpoint.generation,
            mel_bins=sound.mel_bins,
            frames=sound.frames,
            vocab_size=family.vocab_size,
            label=checkpoint.label,
        )
        folder = self.folder / role
        folder.mkdir(parents=True, exist_ok=True)
        write_speech_format(written, folder)


def _blocks(fusion: Fusion) -> FusedBlocks:
    return FusedBlocks(fusion.fused, fusion.fused + len(fusion.obstacles))


def _with_cache(name: str, cache: str) -> str:
    """The name of a variant or a file; a cache format other than fp32 is part of it."""
    return name if cache == "fp32" else f"{name}-cache-{cache}"
