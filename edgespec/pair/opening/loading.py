"""Opens an exported pair: its models, their row invariance on this machine, and their costs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from edgespec.artifact.graph_io import MAX_ROWS
from edgespec.artifact.kept.used_mark import mark_used
from edgespec.artifact.manifest import TOKENIZER, Manifest, Variant, read_manifest
from edgespec.artifact.row_invariance import RowInvariance
from edgespec.artifact.speech_format import read_speech_format
from edgespec.chat.chat_template import read_chat_template
from edgespec.costs.cost_model import Costs, estimated_costs
from edgespec.device.device import CPU, variant_title
from edgespec.device.kernels import kernels_for
from edgespec.drafters.corpus import read_corpus
from edgespec.drafters.registry import available
from edgespec.drafters.remembered_texts import RememberedTexts
from edgespec.drafters.vocabulary_map import open_vocabulary
from edgespec.pair.keeping.identity import identity
from edgespec.pair.keeping.kept_file import KeptFile, open_prefix
from edgespec.pair.opening.invariance_cache import invariance_here, known_invariance
from edgespec.pair.opening.memory_estimate import check_memory, estimated_memory
from edgespec.pair.opening.runtime import checked_capacity, open_model
from edgespec.pair.opening.setup import (
    LoadRequest,
    ResolvedSetup,
    profile_of_this_machine,
    resolve_setup,
)
from edgespec.pair.pair import Pair
from edgespec.pair.parts import OneAtATime, PairParts
from edgespec.pair.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from edgespec.pair.opening.runtime import OrtModel

__all__ = ["LoadOptions", "default_capacity", "load", "possible_capacity"]

logger = logging.getLogger("edgespec")


class LoadOptions(TypedDict, total=False):
    """The keyword arguments of `load`, which explains them."""

    threads: int | None
    capacity: int | None
    target_format: str | None
    draft_format: str | None
    provider: str | None
    draft_provider: str | None
    allow_inexact: bool
    remember: str | Path | None
    corpus: Sequence[str | Path]
    wait: bool
    prefix: str | Path | None


def load(
    folder: str | Path,
    *,
    threads: int | None = None,
    capacity: int | None = None,
    target_format: str | None = None,
    draft_format: str | None = None,
    provider: str | None = None,
    draft_provider: str | None = None,
    allow_inexact: bool = False,
    remember: str | Path | None = None,
    corpus: Sequence[str | Path] = (),
    wait: bool = False,
    prefix: str | Path | None = None,
) -> Pair:
    """Opens the pair that `edgespec export` wrote to `folder`.

    What is not given comes from the profile of `edgespec tune`, if there is one. On a machine that
    has not run the target, its row invariance is measured first; the logger "edgespec" says so.

    Args:
        threads: for each model; None takes the physical cores.
        capacity: positions that each cache holds; None takes the exporter's choice.
        target_format, draft_format: which exported variant; None takes the first.
        provider, draft_provider: see `edgespec providers`; None: as tuned, the target's, or cpu.
        allow_inexact: speculate even on a target that is not row-invariant; it is not measured.
        remember: a folder that keeps the newest 65 536 tokens of outputs, for later drafts.
        corpus: text files that are looked up for drafts, of at most 1 000 000 tokens.
        wait: a thread waits while another makes a text, instead of getting a UsageError.
        prefix: a file of `Pair.save_prefix`, which texts begin with where they can.

    Raises:
        EdgespecError: the folder is not a pair, is damaged, or cannot be run here.
    """
    manifest, tokenizer = read_manifest(folder := Path(folder)), load_tokenizer(folder)
    request = LoadRequest(threads, target_format, draft_format, provider, draft_provider)
    setup = resolve_setup(manifest, profile_of_this_machine(folder, manifest), request)
    capacity = _capacity(manifest, setup, capacity)
    kept = _kept_prompt(prefix, manifest, setup, capacity)
    invariance = _invariance(folder, manifest, setup, capacity, is_measured=not allow_inexact)
    target, draft = _models(folder, manifest, setup, invariance, capacity)
    parts = PairParts(
        manifest,
        tokenizer,
        target,
        draft,
        vocabulary=open_vocabulary(folder, manifest),
        costs=_costs(manifest, setup, invariance),
        formats=(setup.target_format, setup.draft_format),
        devices=(setup.device, setup.draft_device),
        tuned=setup.tuned,
        exact=bool(invariance and invariance.is_row_invariant),
        allow_inexact=allow_inexact,
        corpus=read_corpus([Path(file) for file in corpus], tokenizer) if corpus else None,
        remembered=None if remember is None else _remembered(Path(remember), manifest),
        shares_calls=_shares_calls(manifest, setup, target, invariance),
        template=read_chat_template(folder, manifest.files),
        occupied=OneAtATime(waits=wait),
    )
    return _pair(folder, parts, kept)


def _mark_used(folder: Path, parts: PairParts) -> None:
    """For `edgespec list`, which says of the default target whether it is exact here."""
    is_default = parts.formats[0] == next(iter(parts.manifest.target.variants))
    tested = parts.exact or not parts.allow_inexact
    known = is_default and tested and parts.devices[0].provider == CPU
    mark_used(folder, parts.exact if known else None)


def _kept_prompt(
    prefix: str | Path | None, manifest: Manifest, setup: ResolvedSetup, capacity: int
) -> KeptFile | None:
    """Refuses a wrong file before anything is measured or opened."""
    if prefix is None:
        return None
    formats = setup.target_format, setup.draft_format
    devices = setup.device, setup.draft_device
    return open_prefix(identity(manifest, formats, devices, capacity), Path(prefix))


def _invariance(
    folder: Path, manifest: Manifest, setup: ResolvedSetup, capacity: int, *, is_measured: bool
) -> RowInvariance | None:
    """The target's on this machine."""
    found = invariance_here if is_measured else known_invariance
    return found(folder, manifest, setup.target_format, setup.device, capacity)


def _shares_calls(
    manifest: Manifest,
    setup: ResolvedSetup,
    target: OrtModel,
    invariance: RowInvariance | None,
) -> bool:
    """Whether texts that share calls of the target have their own bits: measured with a few rows,
    and true with any number where no product is ONNX Runtime's."""
    measured = invariance is not None and invariance.texts
    variant = manifest.target.variants[setup.target_format]
    return target.shares_calls and measured and variant.run_by_kernels


def _pair(folder: Path, parts: PairParts, kept: KeptFile | None) -> Pair:
    """The pair of these parts: speech models need their speech formats."""
    _mark_used(folder, parts)
    drafting = parts.drafting()
    if not parts.manifest.target.is_speech:
        pair = Pair(parts, drafting)
        if kept is not None:
            pair.text_engine.use_prefix(kept)
        return pair
    from edgespec.pair.speech_engine import SpeechEngine

    draft = None if parts.manifest.draft is None else read_speech_format(folder / "draft")
    speech = SpeechEngine(parts, drafting, read_speech_format(folder / "target"), draft)
    return Pair(parts, drafting, speech)


def _remembered(folder: Path, manifest: Manifest) -> RememberedTexts:
    digest = manifest.files[TOKENIZER].sha256
    return RememberedTexts(folder, digest, manifest.target.vocab_size)


def _rows(variant: Variant, invariance: RowInvariance | None) -> tuple[int, int]:
    """The fewest and the most positions of a call; the usual ones where nothing was measured."""
    if invariance is not None:
        return invariance.min_rows, invariance.max_rows
    return 2, variant.static.widest if variant.static else MAX_ROWS


def _models(
    folder: Path,
    manifest: Manifest,
    setup: ResolvedSetup,
    invariance: RowInvariance | None,
    capacity: int,
) -> tuple[OrtModel, OrtModel | None]:
    """The target, and the draft if there is one."""
    variant = manifest.target.variants[setup.target_format]
    min_rows, max_rows = _rows(variant, invariance)
    target = open_model(
        folder,
        manifest.target,
        setup.target_format,
        capacity=capacity,
        device=setup.device,
        min_rows=min_rows,
        max_rows=max_rows,
        candidates=bool(invariance and invariance.candidates),
    )
    what = variant_title(f"target {setup.target_format}", setup.device.provider)
    _log_operators(what, target.graph.operators)
    if manifest.draft is None or setup.draft_format is None:
        return target, None
    draft = open_model(
        folder,
        manifest.draft,
        setup.draft_format,
        capacity=target.capacity,
        device=setup.draft_device,
        target=target,
    )
    what = variant_title(f"draft {setup.draft_format}", setup.draft_device.provider)
    _log_operators(what, draft.graph.operators)
    return target, draft


def _log_operators(model: str, operators: tuple[int, int] | None) -> None:
    """How many of a model's operators its provider runs; None on the processor."""
    if operators is not None:
        runs, all_of_them = operators
        others = "" if runs == all_of_them else ", the others on the processor"
        logger.info("%s: %d of %d operators%s", model, runs, all_of_them, others)


def default_capacity(manifest: Manifest) -> int:
    """The exporter's choice, or less where the draft has fewer positions."""
    most = manifest.draft.positions if manifest.draft else None
    return min(manifest.target.capacity, most or manifest.target.capacity)


def possible_capacity(manifest: Manifest, asked: int | None) -> int:
    """The capacity asked for, or the default.

    Raises:
        UsageError: one of the models has fewer positions.
    """
    capacity = default_capacity(manifest) if asked is None else asked
    for model in filter(None, (manifest.target, manifest.draft)):
        checked_capacity(model, capacity)
    return capacity


def _capacity(manifest: Manifest, setup: ResolvedSetup, asked: int | None) -> int:
    """The same, checked before anything is measured or opened: the caches must fit into memory."""
    capacity = possible_capacity(manifest, asked)
    if setup.device.provider == CPU:  # the memory of others is not known
        formats = setup.target_format, setup.draft_format
        estimate = estimated_memory(manifest, formats, capacity)
        check_memory(estimate, manifest.target.source, asked=asked is not None)
    return capacity


def _costs(
    manifest: Manifest, setup: ResolvedSetup, invariance: RowInvariance | None
) -> dict[str, Costs]:
    """Costs of rounds by the name of the drafter: as tuned, or estimated from the models' sizes."""
    variant = manifest.target.variants[setup.target_format]
    min_rows, max_rows = _rows(variant, invariance)
    longest = max_rows - 1
    kernels = kernels_for(setup.device)
    estimate = partial(
        estimated_costs,
        manifest.bytes("target", setup.target_format),
        longest=longest,
        row_cost=variant.row_cost,
        min_rows=min_rows,
        kernels=kernels.target if kernels else None,
    )
    draft_bytes = manifest.bytes("draft", setup.draft_format) if setup.draft_format else 0
    costs = {
        named.name: named.costs(estimate(draft_bytes if named.uses_model else 0))
        for named in available(setup.draft_format is not None)
        if not named.parts
    }
    tuned = setup.tuned.known_costs() if setup.tuned else {}
    return costs | {name: found.up_to(longest) for name, found in tuned.items()}
