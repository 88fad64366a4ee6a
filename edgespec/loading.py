"""Opens an exported pair: its models, what this machine says of them, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from edgespec.contract import MAX_ROWS, Exported, Manifest, RowInvariance, read_manifest
from edgespec.costs import Costs, estimated_costs
from edgespec.device import CPU, Device, placed
from edgespec.errors import UsageError
from edgespec.model import Model
from edgespec.pair import Pair
from edgespec.profile import PROFILE, Profile, read_profile
from edgespec.runtimes import describe, open_model, provider_name
from edgespec.tokenizer import load_tokenizer
from edgespec.verdicts import known_verdict, verdict_here
from edgespec.vocabulary import open_vocabulary

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
        provider: what runs the target, as `edgespec providers` names it; None takes the processor.
            What is exact on one need not be on another: each is tested by itself.
        draft_provider: of the draft; None takes the target's.
        allow_inexact: speculate even on a target that is not row-invariant; it is not tested.
        say: told in a line what takes long.

    Raises:
        EdgespecError: the folder is not a pair, is damaged, or cannot be run here.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    profile = _profile_of_this_machine(folder, manifest, say)
    if profile is not None:
        threads = profile.threads if threads is None else threads
        draft_provider = draft_provider or (None if provider else profile.draft_provider)
        provider = provider or profile.provider
        target_format = target_format or profile.target_format
        draft_format = draft_format or profile.draft_format
    target_format = _variant(manifest.target, target_format, "target")
    draft_format = _variant(manifest.draft, draft_format, "draft") if manifest.draft else None
    device = Device(threads, provider_name(provider or CPU))
    draft_device = Device(threads, provider_name(draft_provider or device.provider))
    if allow_inexact:
        invariance = known_verdict(folder, manifest, target_format, device)
    else:
        invariance = verdict_here(folder, manifest, target_format, device, say)
    formats, devices = (target_format, draft_format), (device, draft_device)
    tuned = profile and profile.of(*formats, *devices)
    target, draft = _models(folder, manifest, formats, devices, invariance, capacity, say)
    return Pair(
        manifest,
        load_tokenizer(folder),
        target,
        draft,
        vocabulary=open_vocabulary(folder, manifest),
        costs=_costs(manifest, formats, invariance, tuned),
        formats=formats,
        devices=devices,
        tuned=tuned,
        exact=bool(invariance and invariance.verdict),
        allow_inexact=allow_inexact,
    )


def _profile_of_this_machine(
    folder: Path, manifest: Manifest, say: Callable[[str], object]
) -> Profile | None:
    profile = read_profile(folder, manifest)
    if profile is not None and not _is_of_this_machine(profile):
        say(f"{folder / PROFILE} was measured on another machine and is not used: tune the pair")
        return None
    return profile


def _is_of_this_machine(profile: Profile) -> bool:
    try:
        describe(profile.draft_device)
        return profile.measured_on == describe(profile.device)
    except UsageError:  # such a provider is not here
        return False


def _variant(exported: Exported, format_: str | None, role: str) -> str:
    """The variant asked for, or the first."""
    name = format_ or next(iter(exported.variants))
    if name not in exported.variants:
        there = ", ".join(exported.variants)
        raise UsageError(f"the {role} was not exported as {name!r}; there is: {there}")
    return name


def _rows(invariance: RowInvariance | None) -> tuple[int, int]:
    """The fewest and the most positions of a call; as is usual where nothing was measured."""
    return (invariance.min_rows, invariance.max_rows) if invariance else (2, MAX_ROWS)


def _models(
    folder: Path,
    manifest: Manifest,
    formats: tuple[str, str | None],
    devices: tuple[Device, Device],
    invariance: RowInvariance | None,
    capacity: int | None,
    say: Callable[[str], object],
) -> tuple[Model, Model | None]:
    """The target, and the draft if there is one."""
    target_format, draft_format = formats
    device, draft_device = devices
    min_rows, max_rows = _rows(invariance)
    target = open_model(
        folder,
        manifest.target,
        target_format,
        capacity=_usual_capacity(manifest) if capacity is None else capacity,
        device=device,
        min_rows=min_rows,
        max_rows=max_rows,
    )
    _say_who_runs(placed(f"target {target_format}", device.provider), target.operators, say)
    if manifest.draft is None or draft_format is None:
        return target, None
    draft = open_model(
        folder,
        manifest.draft,
        draft_format,
        capacity=target.capacity,
        device=draft_device,
        target=target,
    )
    _say_who_runs(placed(f"draft {draft_format}", draft_device.provider), draft.operators, say)
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
    manifest: Manifest,
    formats: tuple[str, str | None],
    invariance: RowInvariance | None,
    tuned: Profile | None,
) -> dict[str, Costs]:
    """Of rounds by kind of draft: as tuned, or guessed from the sizes of the models."""
    target_format, draft_format = formats
    min_rows, max_rows = _rows(invariance)
    longest = max_rows - 1
    guess = partial(
        estimated_costs, longest=longest, target_format=target_format, min_rows=min_rows
    )
    costs = {"lookup": guess(0.0)}
    if draft_format is not None:
        share = manifest.bytes("draft", draft_format) / manifest.bytes("target", target_format)
        costs["model"] = guess(share)
    known = tuned.known_costs() if tuned else {}
    return costs | {kind: found.up_to(longest) for kind, found in known.items()}
