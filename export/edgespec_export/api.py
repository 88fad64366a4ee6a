"""Exporting, end to end: read two checkpoints, write a folder, measure it, let it appear."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

from edgespec import __version__
from edgespec.artifact.manifest import Exported, Manifest, write_manifest
from edgespec.artifact.staging import staged, stamps
from edgespec.core.device import Device
from edgespec.core.model import Model
from edgespec.drafters.vocabulary_map import Vocabulary, open_vocabulary
from edgespec.errors import EdgespecError, needs_extra
from edgespec.pair.runtime import measure_row_invariance, open_model
from edgespec.pair.sample_prompts import sample_texts
from edgespec.pair.tokenizer import load_tokenizer
from edgespec.pair.variant_quality import EagleScorer, Scorer, distance, samples_for

__all__ = ["export_pair"]

REFERENCE = "fp32"

Progress = Callable[[str, int], Callable[[int], object]]


def export_pair(
    target: str,
    draft: str | None,
    folder: str | Path,
    *,
    target_formats: Sequence[str] | None = ("fp32",),
    draft_formats: Sequence[str] = ("fp32",),
    cache_formats: Sequence[str] = ("fp32",),
    verify: bool = False,
    measure: bool = True,
    replace: bool = False,
    threads: int | None = None,
    say: Callable[[str], object] = lambda _: None,
    progress: Progress = lambda _what, _bytes: lambda _done: None,
) -> Manifest:
    """Converts a target and a draft to a folder that `edgespec.load` opens.

    Args:
        target, draft: a checkpoint folder, a GGUF file, a hub id or a short name; without a draft
            the pair speculates by prompt lookup.
        folder: must not exist, or hold a pair and `replace` be true.
        target_formats, draft_formats: number formats to write; the first is the default. For
            `target_formats` None chooses int8 or fp32 (`edgespec_export.default_format`).
        cache_formats: of the target's keys and values; each is a variant of each target format, and
            those of one target format share its weights.
        verify: compare every float32 graph with the original model in transformers; what other
            formats lose against float32 is measured anyway, where both are exported.
        measure: load the models and measure row-invariance and quality. A machine with too little
            memory for that leaves it to the first use of the pair.
        threads: for the measurements.
        say: told one line about each step.
        progress: told what is being written and its bytes; returns what to tell of bytes done.

    Raises:
        EdgespecError: one line that names what is wrong; `folder` is then as it was.
    """
    with needs_extra("export"):
        from edgespec_export.checkpoint.checkpoint import open_checkpoint
        from edgespec_export.checkpoint.sources import resolve
        from edgespec_export.default_format import candidate_formats, with_chosen_format
        from edgespec_export.write_pair import float32_bytes, write_pair

    sources = [resolve(name) for name in (target, draft) if name is not None]
    paths = [source.path for source in sources]
    device = Device(threads)
    recipe = _recipe(paths, target_formats or [], draft_formats, cache_formats)
    with staged(Path(folder), replace=replace, recipe=recipe) as aside:
        for role, source in zip(("target", "draft"), sources, strict=False):
            say(f"{role}: {source.label}")
        checkpoints = [open_checkpoint(source) for source in sources]
        formats = target_formats
        if formats is None:
            formats = candidate_formats(float32_bytes(checkpoints[0]), measure)
        manifest = write_pair(
            checkpoints[0],
            checkpoints[1] if draft is not None else None,
            aside,
            target_formats=formats,
            draft_formats=draft_formats,
            cache_formats=cache_formats,
            progress=progress,
        )
        if verify:
            for source, exported in zip(sources, _models(manifest), strict=True):
                _verify(source.path, aside, exported, device, say)
        if measure:
            target_model = _measured(aside, manifest.target, device, say)
            manifest = _compared(
                aside, dataclasses.replace(manifest, target=target_model), device, say
            )
        if target_formats is None:
            manifest = with_chosen_format(aside, manifest)
        write_manifest(manifest, aside)
    return manifest


def _recipe(paths: Sequence[Path], *formats: Sequence[str]) -> str:
    """What an export is made from: the same recipe gives the same bytes."""
    files = [stamps(path) for path in paths]
    return json.dumps({"edgespec": __version__, "files": files, "formats": formats})


def _models(manifest: Manifest) -> list[Exported]:
    return [model for model in (manifest.target, manifest.draft) if model is not None]


def _measured(
    folder: Path, exported: Exported, device: Device, say: Callable[[str], object]
) -> Exported:
    """The target with the verdict on each of its variants."""
    variants = {}
    for name, variant in exported.variants.items():
        is_row_invariant = measure_row_invariance(folder, exported, name, device)
        kept = (
            "row-invariant"
            if is_row_invariant.is_row_invariant
            else "NOT row-invariant: no exact target"
        )
        say(
            f"target {name}: {kept}, calls of {is_row_invariant.min_rows} to {is_row_invariant.max_rows} positions"
        )
        variants[name] = dataclasses.replace(variant, row_invariance=is_row_invariant)
    return dataclasses.replace(exported, variants=variants)


def _compared(
    folder: Path, manifest: Manifest, device: Device, say: Callable[[str], object]
) -> Manifest:
    """The manifest with the distance of each variant from its model's float32 one, if any."""
    vocabulary = open_vocabulary(folder, manifest)
    tokenizer = load_tokenizer(folder)
    target, draft = manifest.target, manifest.draft

    def texts(exported: Exported, shown: Callable[[Sequence[int]], list[int]]) -> list[list[int]]:
        return [shown(tokenizer.encode(text).ids) for text in sample_texts(exported)]

    open_target = partial(open_model, folder, target, device=device, min_rows=2)
    target = _with_distances(target, texts(target, list), open_target, say)
    if draft is not None:
        open_draft = _draft_opener(folder, draft, open_target, target, vocabulary, device)
        draft = _with_distances(draft, texts(draft, vocabulary.to_draft_ids), open_draft, say)
    return dataclasses.replace(manifest, target=target, draft=draft)


def _draft_opener(
    folder: Path,
    draft: Exported,
    open_target: Callable[[str], Model],
    target: Exported,
    vocabulary: Vocabulary,
    device: Device,
) -> Callable[[str], Scorer]:
    """What opens a variant of the draft, behind its target if it reads one."""

    @cache
    def opened_target() -> Model:
        return open_target(next(iter(target.variants)))

    def opened(variant: str) -> Scorer:
        if not draft.is_eagle_head:
            return open_model(folder, draft, variant, device=device, min_rows=2)
        model = open_model(folder, draft, variant, device=device, target=opened_target())
        return EagleScorer(model, opened_target(), vocabulary.to_target_ids)

    return opened


def _with_distances(
    exported: Exported,
    sources: Sequence[list[int]],
    open_variant: Callable[[str], Scorer],
    say: Callable[[str], object],
) -> Exported:
    """A model with the distance of each variant from its float32 one.

    Args:
        sources: sample texts, in the model's own numbers of tokens.
        open_variant: opens a variant by its name.
    """
    if REFERENCE not in exported.variants or len(exported.variants) == 1:
        return exported
    reference = open_variant(REFERENCE)
    samples = samples_for(reference, sources, exported.is_encoder_decoder)
    variants = dict(exported.variants)
    for name in variants:
        if name != REFERENCE:
            found = distance(reference, open_variant(name), samples, REFERENCE)
            say(f"{exported.source} {name}: {found}, {found.positions} positions")
            variants[name] = dataclasses.replace(variants[name], distance=found)
    return dataclasses.replace(exported, variants=variants)


def _verify(
    source: Path,
    folder: Path,
    exported: Exported,
    device: Device,
    say: Callable[[str], object],
) -> None:
    with needs_extra("torch"):
        from edgespec_export.verify import TOLERANCE, differences

    if exported.is_eagle_head:
        say(f"{exported.source}: nothing to verify, transformers has no model that reads another")
        return
    if REFERENCE not in exported.variants:
        say(f"{exported.source}: nothing to verify, there is no {REFERENCE} variant")
        return
    model = open_model(folder, exported, REFERENCE, device=device, min_rows=2)
    for graph, difference in differences(source, exported, model).items():
        name = f"{exported.source} {REFERENCE} {graph}"
        say(f"{name}: max |difference| {difference:.1e} (tolerance {TOLERANCE:.0e})")
        if not difference <= TOLERANCE:  # NaN is a difference too
            raise EdgespecError(
                f"{name} differs from the original by {difference:.1e}, more than "
                f"{TOLERANCE:.0e}; the export was not kept"
            )
