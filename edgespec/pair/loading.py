"""Opens an exported pair: its models, what this machine says of them, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from edgespec.artifact.graph_io import MAX_ROWS
from edgespec.artifact.manifest import Manifest, RowInvariance, read_manifest
from edgespec.core.cost_model import Costs, estimated_costs
from edgespec.core.device import variant_title
from edgespec.core.kernels import kernels_for
from edgespec.core.model import Model
from edgespec.drafters.vocabulary_map import open_vocabulary
from edgespec.pair.invariance_cache import invariance_here, known_invariance
from edgespec.pair.pair import Pair
from edgespec.pair.runtime import open_model
from edgespec.pair.setup import LoadRequest, ResolvedSetup, profile_of_this_machine, resolve_setup
from edgespec.pair.tokenizer import load_tokenizer

__all__ = ["load"]


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
    say: Callable[[str], object] = lambda _: None,
) -> Pair:
    """Opens an exported pair.

    What is not given comes from the profile that `edgespec tune` wrote, if there is one. Where this
    machine has not run the target before, it is first tested for exactness, and the verdict kept in
    the folder.

    Args:
        folder: written by `edgespec export`.
        threads: for each model; None takes the physical cores.
        capacity: positions that each cache holds; None takes the exporter's choice.
        target_format, draft_format: which exported variant; None takes the first.
        provider: what runs the target, as `edgespec providers` names it; None takes what was
            tuned, or the processor. A target is tested on each by itself.
        draft_provider: of the draft; None takes what was tuned, or the target's if that is given.
        allow_inexact: speculate even on a target that is not row-invariant; it is not tested.
        say: told in a line what takes long.

    Raises:
        EdgespecError: the folder is not a pair, is damaged, or cannot be run here.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    asked = LoadRequest(threads, target_format, draft_format, provider, draft_provider)
    top = resolve_setup(manifest, profile_of_this_machine(folder, manifest, say), asked)
    formats = (top.target_format, top.draft_format)
    if allow_inexact:
        invariance = known_invariance(folder, manifest, top.target_format, top.device)
    else:
        invariance = invariance_here(folder, manifest, top.target_format, top.device, say)
    target, draft = _models(folder, manifest, top, invariance, capacity, say)
    return Pair(
        manifest,
        load_tokenizer(folder),
        target,
        draft,
        vocabulary=open_vocabulary(folder, manifest),
        costs=_costs(manifest, top, invariance),
        formats=formats,
        devices=(top.device, top.draft_device),
        tuned=top.tuned,
        exact=bool(invariance and invariance.is_row_invariant),
        allow_inexact=allow_inexact,
    )


def _rows(invariance: RowInvariance | None) -> tuple[int, int]:
    """The fewest and the most positions of a call; as is usual where nothing was measured."""
    return (invariance.min_rows, invariance.max_rows) if invariance else (2, MAX_ROWS)


def _models(
    folder: Path,
    manifest: Manifest,
    top: ResolvedSetup,
    invariance: RowInvariance | None,
    capacity: int | None,
    say: Callable[[str], object],
) -> tuple[Model, Model | None]:
    """The target, and the draft if there is one."""
    min_rows, max_rows = _rows(invariance)
    target = open_model(
        folder,
        manifest.target,
        top.target_format,
        capacity=_usual_capacity(manifest) if capacity is None else capacity,
        device=top.device,
        min_rows=min_rows,
        max_rows=max_rows,
        candidates=bool(invariance and invariance.candidates),
    )
    what = variant_title(f"target {top.target_format}", top.device.provider)
    _say_who_runs(what, target.operators, say)
    if manifest.draft is None or top.draft_format is None:
        return target, None
    draft = open_model(
        folder,
        manifest.draft,
        top.draft_format,
        capacity=target.capacity,
        device=top.draft_device,
        target=target,
    )
    what = variant_title(f"draft {top.draft_format}", top.draft_device.provider)
    _say_who_runs(what, draft.operators, say)
    return target, draft


def _say_who_runs(
    model: str, operators: tuple[int, int] | None, say: Callable[[str], object]
) -> None:
    if operators is not None:
        taken, count = operators
        say(f"{model}: {taken} of {count} operators, the others on the processor")


def _usual_capacity(manifest: Manifest) -> int:
    """The exporter's choice, or less where the draft cannot tell so many positions apart."""
    most = manifest.draft.positions if manifest.draft else None
    return min(manifest.target.capacity, most or manifest.target.capacity)


def _costs(
    manifest: Manifest, top: ResolvedSetup, invariance: RowInvariance | None
) -> dict[str, Costs]:
    """Of rounds by kind of draft: as tuned, or guessed from the sizes of the models."""
    target_format, draft_format, tuned = top.target_format, top.draft_format, top.tuned
    min_rows, max_rows = _rows(invariance)
    longest = max_rows - 1
    guess = partial(
        estimated_costs,
        manifest.bytes("target", target_format),
        longest=longest,
        target_format=target_format,
        min_rows=min_rows,
        kernels=kernels_for(top.device) is not None,
    )
    costs = {"lookup": guess(0)}
    if draft_format is not None:
        costs["model"] = guess(manifest.bytes("draft", draft_format))
    known = tuned.known_costs() if tuned else {}
    return costs | {kind: found.up_to(longest) for kind, found in known.items()}
