"""Exporting, end to end: reads two checkpoints, writes a folder, measures it, renames it."""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgespec import __version__
from edgespec.artifact.languages import Languages
from edgespec.artifact.manifest import Exported, Manifest, Variant, write_manifest
from edgespec.artifact.staging import check_free, staged, stamps
from edgespec.core.model import Model
from edgespec.device.device import Device
from edgespec.drafters.vocabulary_map import Vocabulary, open_vocabulary
from edgespec.errors import needs_extra
from edgespec.pair.opening.runtime import hear_sample, measure_row_invariance, open_model
from edgespec.pair.opening.variant_quality import (
    PROMPT,
    Scorer,
    TargetReadingScorer,
    distance,
    proposed_ids,
    samples_for,
)
from edgespec.pair.sample_prompts import sample_texts
from edgespec.pair.tokenizer import load_tokenizer
from edgespec_export.progress import Progress, no_progress

if TYPE_CHECKING:
    from edgespec_export.checkpoint.sources import Source

__all__ = ["export_pair"]

REFERENCE = "fp32"  # the variant that other formats and transformers are compared with

_log = logging.getLogger("edgespec")


def export_pair(
    target: str,
    draft: str | None,
    folder: str | Path,
    *,
    target_formats: Sequence[str] | None = ("fp32",),
    draft_formats: Sequence[str] = ("fp32",),
    cache_formats: Sequence[str] = ("fp32",),
    calibration: str = "built-in",
    for_web: bool = False,
    verify: bool = False,
    measure: bool = True,
    replace: bool = False,
    threads: int | None = None,
    progress: Progress = no_progress,
) -> Manifest:
    """Converts a target and a draft to a folder that `edgespec.load` opens.

    All options are checked before a checkpoint is looked up or downloaded. Each step is logged as
    a record of level INFO of the logger "edgespec".

    Args:
        target, draft: a checkpoint folder, a GGUF file, a hub id or a short name. Without a draft
            the pair drafts by prompt lookup.
        folder: must not exist, or hold a pair and `replace` be true.
        target_formats, draft_formats: number formats to write ("fp32", "int8", …); the first is
            the default of the pair. `target_formats` None chooses int8 or fp32 by size or by
            distance (`edgespec_export.default_format`).
        cache_formats: formats of the target's keys and values. Each target format is written with
            each of them; the variants of one target format share their weights.
        calibration: the texts that int4 is calibrated on: "built-in", "none", or a file with texts
            like those of the task, in UTF-8, separated by lines of "%%".
        for_web: only what a browser can use, in files of at most 100 MB, in graphs without
            functions, which open sooner: one format of each model
            (of `edgespec_export.web.WEB_FORMATS`; `target_formats` None is int8), caches of at
            most 2048 positions.
        verify: compare every float32 graph with the original model in transformers. The distance
            of other formats from float32 is measured in any case, where both are exported.
        measure: load the models and measure row invariance and distances. If false, this is left
            to the first use of the pair, as on a machine with too little memory.
        replace: replace the pair in `folder`, if there is one.
        threads: for the measurements; None is the number that the device suggests.
        progress: called with "target fp32" and its size in bytes (all tensors as float32) when a
            variant is begun; returns a function that is called with the bytes done.

    Returns:
        The manifest that was written to `folder`.

    Raises:
        UsageError: an option is wrong, or `folder` must not be written.
        EdgespecError: one line that names the cause, such as a pair that is too large for a
            browser. In both cases `folder` is as it was.
    """
    with needs_extra("export"):
        from edgespec_export import web
        from edgespec_export.calibration.calibrated import Calibration
        from edgespec_export.calibration.texts import calibration_texts
        from edgespec_export.checkpoint.sources import resolve
        from edgespec_export.default_format import candidate_formats, with_chosen_format
        from edgespec_export.families.drafts.eagle3.head_checkpoint import open_checkpoints
        from edgespec_export.write_pair import check_formats, float32_bytes, write_pair

    if for_web and target_formats is None:
        target_formats = ("int8",)
    explicit = ("int8", "fp32") if target_formats is None else target_formats
    check_formats(explicit, draft_formats, cache_formats)
    if for_web:
        web.check_formats(explicit, draft_formats, cache_formats)
    device = Device(threads)
    texts = calibration_texts(calibration)
    folder = Path(folder)
    check_free(folder, replace=replace)
    compare = _transformers_comparison(device) if verify else None
    sources = [resolve(name) for name in (target, draft) if name is not None]
    options = [target_formats or ["chosen"], draft_formats, cache_formats, texts]
    recipe = _recipe(sources, *options, ["web"] if for_web else [])
    with staged(folder, replace=replace, recipe=recipe) as partial_folder:
        for role, source in zip(("target", "draft"), sources, strict=False):
            _log.info("%s: %s", role, source.label)
        checkpoints = open_checkpoints(sources[0], sources[1] if draft is not None else None)
        sizes = [float32_bytes(checkpoint) for checkpoint in checkpoints]
        formats = candidate_formats(sizes[0], measure) if target_formats is None else target_formats
        if for_web:
            web.check_model(checkpoints[0].config.get("model_type"))
            web.check_estimate(list(zip(sizes, [formats[0], draft_formats[0]], strict=False)))
        manifest = write_pair(
            checkpoints[0],
            checkpoints[1] if draft is not None else None,
            partial_folder,
            target_formats=formats,
            draft_formats=draft_formats,
            cache_formats=cache_formats,
            calibration=Calibration(texts, device),
            progress=progress,
            shard_bytes=web.SHARD_BYTES if for_web else sys.maxsize,
            inline=for_web,
        )
        if for_web:
            manifest = web.with_limited_capacity(manifest)
            web.check_memory(web.memory(manifest))
        if compare is not None:
            for source, exported in zip(sources, _models(manifest), strict=True):
                compare(source.path, partial_folder, exported, manifest.languages)
        if measure:
            manifest = _measured(partial_folder, manifest, device)
        if target_formats is None:
            manifest = with_chosen_format(partial_folder, manifest)
        write_manifest(manifest, partial_folder)
    if for_web:
        web.log_sizes(manifest)
    return manifest


def _recipe(sources: Sequence[Source], *options: Sequence[str]) -> str:
    """The inputs of an export as text: the same recipe gives the same bytes."""
    files = [stamps(source.path) for source in sources]
    return json.dumps({"edgespec": __version__, "files": files, "options": options})


def _models(manifest: Manifest) -> Iterator[Exported]:
    yield manifest.target
    if manifest.draft is not None:
        yield manifest.draft


# --- measurements --------------------------------------------------------------------------------


def _measured(folder: Path, manifest: Manifest, device: Device) -> Manifest:
    """The manifest with row invariance and distances of its variants."""
    variants = {
        name: _with_row_invariance(folder, manifest.target, name, variant, device)
        for name, variant in manifest.target.variants.items()
    }
    target = dataclasses.replace(manifest.target, variants=variants)
    return _with_distances(folder, dataclasses.replace(manifest, target=target), device)


def _with_row_invariance(
    folder: Path, exported: Exported, name: str, variant: Variant, device: Device
) -> Variant:
    measured = measure_row_invariance(folder, exported, name, device)
    outcome = (
        "row-invariant"
        if measured.is_row_invariant
        else "NOT row-invariant: it cannot verify a draft exactly"
    )
    rows = f"calls of {measured.min_rows} to {measured.max_rows} positions"
    _log.info("target %s: %s, %s", name, outcome, rows)
    return dataclasses.replace(variant, row_invariance=measured)


def _with_distances(folder: Path, manifest: Manifest, device: Device) -> Manifest:
    """The manifest with the distance of each variant from its model's float32 variant, if any."""
    vocabulary = open_vocabulary(folder, manifest)
    tokenizer = load_tokenizer(folder)
    target, draft = manifest.target, manifest.draft

    def sample_ids(exported: Exported) -> list[list[int]]:
        return [tokenizer.encode(text).ids for text in sample_texts(exported)]

    open_target = partial(_opened, folder, target, device=device)
    target = _with_distances_of(target, sample_ids(target), open_target)
    if draft is not None:
        samples = [_draft_sample(ids, draft, vocabulary) for ids in sample_ids(draft)]
        open_draft = _draft_opener(folder, draft, open_target, target, vocabulary, device)
        draft = _with_distances_of(draft, samples, open_draft)
    return dataclasses.replace(manifest, target=target, draft=draft)


def _draft_sample(tokens: list[int], draft: Exported, vocabulary: Vocabulary) -> list[int]:
    """A text of the target, in the ids of the draft's logits."""
    if draft.input_vocab_size is None:
        return vocabulary.to_draft_ids(tokens)
    return proposed_ids(tokens, vocabulary, draft.vocab_size)


def _opened(folder: Path, exported: Exported, variant: str, device: Device) -> Model:
    """A model that texts can be scored with; a speech model has heard a sample."""
    model = open_model(folder, exported, variant, device=device, min_rows=2)
    hear_sample(folder, exported, variant, model)
    return model


def _draft_opener(
    folder: Path,
    draft: Exported,
    open_target: Callable[[str], Model],
    target: Exported,
    vocabulary: Vocabulary,
    device: Device,
) -> Callable[[str], Scorer]:
    """A function that opens a variant of the draft; one that reads its target together with it."""

    @cache
    def opened_target() -> Model:
        return open_target(next(iter(target.variants)))

    def opened(variant: str) -> Scorer:
        if not (draft.is_eagle_head or draft.shares_encoder):
            return _opened(folder, draft, variant, device)
        model = open_model(folder, draft, variant, device=device, target=opened_target())
        return TargetReadingScorer(model, opened_target(), vocabulary)

    return opened


def _with_distances_of(
    exported: Exported, sources: Sequence[list[int]], open_variant: Callable[[str], Scorer]
) -> Exported:
    """A model with the distance of each variant from its float32 variant, if it has one.

    Args:
        sources: sample texts as token ids of this model.
        open_variant: opens a variant by its name.
    """
    if REFERENCE not in exported.variants or len(exported.variants) == 1:
        return exported
    sources = [tokens for tokens in sources if len(tokens) > PROMPT or exported.is_encoder_decoder]
    if not sources:  # a draft may have nothing of the sample texts
        return exported
    reference = open_variant(REFERENCE)
    samples = samples_for(reference, sources, exported.is_encoder_decoder)
    variants = dict(exported.variants)
    for name in variants:
        if name != REFERENCE:
            found = distance(reference, open_variant(name), samples, REFERENCE)
            _log.info("%s %s: %s, %d positions", exported.source, name, found, found.positions)
            variants[name] = dataclasses.replace(variants[name], distance=found)
    return dataclasses.replace(exported, variants=variants)


# --- comparison with transformers ----------------------------------------------------------------


def _transformers_comparison(
    device: Device,
) -> Callable[[Path, Path, Exported, Languages | None], None]:
    """A function that compares an exported model with its checkpoint in transformers.

    Its arguments are the checkpoint, the folder of the pair, the exported model and its languages.

    Raises:
        EdgespecError: torch or transformers is not installed; from the function: transformers
            cannot load the checkpoint, or the export differs from it.
    """
    with needs_extra("torch"):
        from edgespec_export.verify import check_difference, differences

    def compare(
        source: Path, folder: Path, exported: Exported, languages: Languages | None
    ) -> None:
        if exported.is_eagle_head or exported.shares_encoder:
            _log.info("%s: not verified, transformers has no such drafts", exported.source)
        elif REFERENCE not in exported.variants:
            _log.info("%s: not verified, it has no %s variant", exported.source, REFERENCE)
        else:
            model = open_model(folder, exported, REFERENCE, device=device, min_rows=2)
            for graph, difference in differences(source, exported, model, languages).items():
                check_difference(f"{exported.source} {REFERENCE} {graph}", difference)

    return compare
