"""Beginnings of texts whose caches are kept in files, so that another process need not compute
them.

A file holds what the caches of the target and the draft had after a prompt, and says of which
models, and by which programs it was computed. It is used only where its bits are those that would
be computed here: so no text and no log-probability depends on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from edgespec.artifact.hosts import GPU
from edgespec.artifact.kept.tensor_file import Arrays, file_bytes, read_tensors, write_tensors
from edgespec.errors import EdgespecError, printable, shortened
from edgespec.pair.opening.runtime import machine_of

if TYPE_CHECKING:
    from edgespec.pair.parts import PairParts

__all__ = ["KeptFile", "PrefixContent", "Prefixes", "identity_of", "open_prefix", "prefix_content"]

KIND = "edgespec prefix 1"
MODEL, RUNTIME = "model", "runtime"  # what a file says of a role, beside its arrays
TARGET, DRAFT = "target", "draft"


@runtime_checkable
class _KeepingModel(Protocol):
    """A model, or one of its sequences, that can say what its cache holds."""

    def kept_arrays(self) -> dict[str, object]: ...


class Prefixes(Protocol):
    """What was kept for a model; see `edgespec_runtimes.ort.keeping.kept_sequence.KeptPrefixes`."""

    def add(self, arrays: Arrays, any_calls: bool) -> Callable[[], None]: ...


class KeptFile:
    """A file that was opened and checked.

    Args:
        path: of the file, for people.
        arrays: of each role.

    Attributes:
        tokens: of the target's positions, or of the source that its encoder read.

    Raises:
        KeyError: the target's arrays lack them.
    """

    def __init__(self, path: Path, arrays: Mapping[str, Arrays]) -> None:
        target = arrays[TARGET]
        tokens = target["source"] if "source" in target else target["keys"]
        self.path = path
        self.tokens: list[int] = tokens.reshape(-1).tolist()
        self._arrays = arrays

    def use(self, parts: PairParts) -> Callable[[], None]:
        """Lets later texts of the pair begin with it; the result forgets it again.

        Raises:
            EdgespecError: the arrays are not of these models.
        """
        any_calls = {
            TARGET: parts.shares_calls,
            DRAFT: parts.shares_calls and _draft_agrees(parts),
        }
        forget: list[Callable[[], None]] = []
        models = {TARGET: parts.target, DRAFT: parts.draft}
        for role, arrays in self._arrays.items():
            prefixes = cast(Prefixes, getattr(models[role], "prefixes"))  # noqa: B009
            try:
                forget.append(prefixes.add(arrays, any_calls[role]))
            except (ValueError, KeyError) as error:
                _all(forget)
                raise EdgespecError(
                    f"{self.path} is not of these models ({error}); delete it, and keep it anew"
                ) from None
        return partial(_all, forget)


def open_prefix(parts: PairParts, path: Path) -> KeptFile:
    """A file, if its numbers are those that would be computed here.

    The draft's are left out where they are of another draft, which changes no text.

    Raises:
        EdgespecError: as `Pair.use_prefix`.
    """
    metadata, arrays = read_tensors(path)
    if metadata.get("kind") != KIND:
        raise EdgespecError(f"{path} holds no kept prefix that this edgespec reads; keep it anew")
    here = identity_of(parts)
    for name, what in ((MODEL, "another model or export"), (RUNTIME, "other programs")):
        if metadata.get(f"{TARGET}.{name}") != here[f"{TARGET}.{name}"]:
            title = printable(metadata.get(f"{TARGET}.title", "?")[:100])
            raise EdgespecError(
                f"{path} was kept with {what} ({title}), whose numbers may be others; keep it "
                "anew with this pair"
            )
    by_role: dict[str, dict[str, object]] = {TARGET: {}, DRAFT: {}}
    for name, array in arrays.items():
        role, _, own = name.partition(".")
        if role not in by_role or not own:
            raise EdgespecError(
                f"{path} is damaged ({shortened(name)}); delete it, and keep it anew"
            )
        by_role[role][own] = array
    same = all(metadata.get(name) == value for name, value in here.items())
    if not same or not by_role[DRAFT] or parts.draft is None:
        del by_role[DRAFT]
    try:
        return KeptFile(path, cast("Mapping[str, Arrays]", by_role))
    except KeyError as error:
        raise EdgespecError(f"{path} has no {error}; delete it, and keep it anew") from None


@dataclass(frozen=True)
class PrefixContent:
    """What a file of a prefix will hold.

    Attributes:
        metadata: of which models, and by which programs.
        arrays: of both roles: views of the caches.
    """

    metadata: Mapping[str, str]
    arrays: Arrays

    @property
    def file_bytes(self) -> int:
        return file_bytes(self.metadata, self.arrays)

    def write(self, path: Path) -> None:
        """Raises EdgespecError where the file cannot be written."""
        try:
            write_tensors(path, self.metadata, self.arrays)
        except OSError as error:
            raise EdgespecError(f"{path} cannot be written: {error.strerror}") from None


def prefix_content(
    parts: PairParts, path: Path, target: object | None = None, draft: object | None = None
) -> PrefixContent:
    """What the caches hold, for a file.

    Args:
        path: of the file, for people.
        target, draft: the sequences of a batch; None: the pair's own.

    Raises:
        EdgespecError: they hold nothing that can be kept.
    """
    models = {TARGET: target or parts.target, DRAFT: draft if target else parts.draft}
    arrays = {
        f"{role}.{name}": array
        for role, model in models.items()
        if isinstance(model, _KeepingModel)
        for name, array in model.kept_arrays().items()
    }
    if not any(name.startswith(f"{TARGET}.") for name in arrays):
        raise EdgespecError(
            f"{path} was not written: the cache is in the memory of {parts.devices[0].provider}, "
            "or holds nothing; keep prompts with the provider cpu"
        )
    return PrefixContent({"kind": KIND, **identity_of(parts)}, cast(Arrays, arrays))


def identity_of(parts: PairParts) -> dict[str, str]:
    """What the bits of the caches depend on."""
    manifest = parts.manifest
    models = {TARGET: manifest.target, DRAFT: manifest.draft}
    said: dict[str, str] = {}
    for (role, model), variant, device in zip(
        models.items(), parts.formats, parts.devices, strict=True
    ):
        if model is None or variant is None:
            continue
        of = model.variants[variant]
        files = [manifest.files[name].sha256 for _, name in sorted(of.graphs.items())]
        files += [each.sha256 for _, each in sorted(manifest.weights(role, variant).items())]
        if manifest.host == GPU:  # its kernels depend on it
            files.append(str(parts.target.capacity))
        machine = machine_of(device)
        here = machine.kernels if of.run_by_kernels and machine.kernels else machine.digest
        said[f"{role}.{MODEL}"] = hashlib.sha256(" ".join(files).encode()).hexdigest()
        said[f"{role}.{RUNTIME}"] = f"{machine.runtime}, {here}"
        said[f"{role}.title"] = f"{model.source} {variant}, {machine.runtime}, {machine.kernels}"
    return said


def _draft_agrees(parts: PairParts) -> bool:
    """Whether rows of the draft have the same bits in any call."""
    model, variant = parts.manifest.draft, parts.formats[1]
    if model is None or variant is None or model.is_eagle_head:
        return False
    shares = bool(getattr(parts.draft, "shares_calls", False))
    return shares and model.variants[variant].run_by_kernels


def _all(calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:
        call()
