"""What an export measures of the models it wrote: row invariance, and distances from float32."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from edgespec.artifact.manifest import Exported, Manifest, Variant
from edgespec.core.model import Model
from edgespec.device.device import Device
from edgespec.drafters.vocabulary_map import Vocabulary, open_vocabulary
from edgespec.pair.opening.runtime import hear_sample, measure_row_invariance, open_model
from edgespec.pair.opening.sample_prompts import sample_texts
from edgespec.pair.opening.variant_quality import (
    PROMPT,
    Scorer,
    TargetReadingScorer,
    distance,
    proposed_ids,
    samples_for,
)
from edgespec.pair.tokenizer import load_tokenizer

__all__ = ["REFERENCE", "measured", "with_row_invariance"]

REFERENCE = "fp32"  # the variant that other formats and transformers are compared with

_log = logging.getLogger("edgespec")


def measured(folder: Path, manifest: Manifest, device: Device, *, chooses: bool) -> Manifest:
    """The manifest with row invariance and distances of its variants.

    Args:
        chooses: `with_chosen_format` comes next, so that float32 is measured for row invariance
            only where another format lacks it. `with_row_invariance` does what is left.
    """
    if chooses:
        variants = manifest.target.variants.items()
        others = [name for name, variant in variants if variant.weights_format != REFERENCE]
        manifest = with_row_invariance(folder, manifest, device, others)
        if not all(_is_row_invariant(manifest.target.variants[name]) for name in others):
            manifest = with_row_invariance(folder, manifest, device)
    else:
        manifest = with_row_invariance(folder, manifest, device)
    return _with_distances(folder, manifest, device)


def with_row_invariance(
    folder: Path, manifest: Manifest, device: Device, names: Sequence[str] | None = None
) -> Manifest:
    """The manifest with the row invariance of those of the target's variants that lack it.

    Args:
        names: of the variants; None for all.
    """
    target = manifest.target
    variants = {
        name: _with_row_invariance(folder, target, name, variant, device)
        if variant.row_invariance is None and (names is None or name in names)
        else variant
        for name, variant in target.variants.items()
    }
    return dataclasses.replace(manifest, target=dataclasses.replace(target, variants=variants))


def _is_row_invariant(variant: Variant) -> bool:
    return variant.row_invariance is not None and variant.row_invariance.is_row_invariant


def _with_row_invariance(
    folder: Path, exported: Exported, name: str, variant: Variant, device: Device
) -> Variant:
    found = measure_row_invariance(folder, exported, name, device)
    outcome = (
        "row-invariant"
        if found.is_row_invariant
        else "NOT row-invariant: it cannot verify a draft exactly"
    )
    rows = f"calls of {found.min_rows} to {found.max_rows} positions"
    _log.info("target %s: %s, %s", name, outcome, rows)
    return dataclasses.replace(variant, row_invariance=found)


def _with_distances(folder: Path, manifest: Manifest, device: Device) -> Manifest:
    """The manifest with the distance of each variant from its model's float32 variant, if any."""
    vocabulary = open_vocabulary(folder, manifest)
    tokenizer = load_tokenizer(folder)
    target, draft = manifest.target, manifest.draft
    opener = _Opener(folder, target, vocabulary, device)

    def sample_ids(exported: Exported) -> list[list[int]]:
        return [tokenizer.encode(text).ids for text in sample_texts(exported)]

    target = _with_distances_of(target, sample_ids(target), opener.target)
    if draft is not None:
        samples = [_draft_sample(ids, draft, vocabulary) for ids in sample_ids(draft)]
        draft = _with_distances_of(draft, samples, opener.draft)
    return dataclasses.replace(manifest, target=target, draft=draft)


def _draft_sample(tokens: list[int], draft: Exported, vocabulary: Vocabulary) -> list[int]:
    """A text of the target, in the ids of the draft's logits."""
    if draft.input_vocab_size is None:
        return vocabulary.to_draft_ids(tokens)
    return proposed_ids(tokens, vocabulary, draft.vocab_size)


class _Opener:
    """Opens models that texts can be scored with; one that reads sound has a sample of it."""

    def __init__(
        self, folder: Path, target: Exported, vocabulary: Vocabulary, device: Device
    ) -> None:
        self._folder, self._target = folder, target
        self._vocabulary, self._device = vocabulary, device

    def target(self, exported: Exported, variant: str) -> Model:
        """A variant of a model that runs alone."""
        model = open_model(self._folder, exported, variant, device=self._device, min_rows=2)
        hear_sample(self._folder, exported, variant, model)
        return model

    def draft(self, exported: Exported, variant: str) -> Scorer:
        """A variant of a draft; one that reads its target is scored together with it."""
        if not (exported.is_eagle_head or exported.shares_encoder):
            return self.target(exported, variant)
        target = self._read_target
        model = open_model(self._folder, exported, variant, device=self._device, target=target)
        return TargetReadingScorer(model, target, self._vocabulary)

    @cached_property
    def _read_target(self) -> Model:
        """The target that drafts read, in its default variant."""
        return self.target(self._target, next(iter(self._target.variants)))


def _with_distances_of(
    exported: Exported,
    sources: Sequence[list[int]],
    open_variant: Callable[[Exported, str], Scorer],
) -> Exported:
    """A model with the distance of each variant from its float32 variant, if it has one.

    Args:
        sources: sample texts as token ids of this model.
        open_variant: opens a variant of a model by its name.
    """
    if REFERENCE not in exported.variants or len(exported.variants) == 1:
        return exported
    sources = [tokens for tokens in sources if len(tokens) > PROMPT or exported.is_encoder_decoder]
    if not sources:  # a draft may have nothing of the sample texts
        return exported
    reference = open_variant(exported, REFERENCE)
    samples = samples_for(reference, sources, exported.is_encoder_decoder)
    variants = dict(exported.variants)
    for name in variants:
        if name != REFERENCE:
            found = distance(reference, open_variant(exported, name), samples, REFERENCE)
            _log.info("%s %s: %s, %d positions", exported.source, name, found, found.positions)
            variants[name] = dataclasses.replace(variants[name], distance=found)
    return dataclasses.replace(exported, variants=variants)
