"""Beginnings of texts whose caches are kept in files, so that another process need not compute
them.

A file holds what the caches of the target and the draft had after a prompt, and says of which
models, and by which programs it was computed. It is used only where its bits are those that would
be computed here: so no text and no log-probability depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from edgespec.artifact.kept.tensor_file import Arrays, file_bytes, read_tensors, write_tensors
from edgespec.errors import EdgespecError, shortened
from edgespec.pair.keeping.identity import DRAFT, TARGET, check_target, identity_of

if TYPE_CHECKING:
    from edgespec.pair.parts import PairParts

__all__ = ["KeptFile", "PrefixContent", "Prefixes", "open_prefix", "prefix_content"]

KIND = "edgespec prefix 1"


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


def open_prefix(here: Mapping[str, str], path: Path) -> KeptFile:
    """A file, if its numbers are those that would be computed here.

    The draft's are left out where they are of another draft, which changes no text.

    Args:
        here: the `identity` of the pair that is to use it.

    Raises:
        EdgespecError: as `Pair.use_prefix`.
    """
    metadata, arrays = read_tensors(path)
    if metadata.get("kind") != KIND:
        raise EdgespecError(f"{path} holds no kept prefix that this edgespec reads; keep it anew")
    check_target(path, metadata, here)
    by_role: dict[str, dict[str, object]] = {TARGET: {}, DRAFT: {}}
    for name, array in arrays.items():
        role, _, own = name.partition(".")
        if role not in by_role or not own:
            raise EdgespecError(
                f"{path} is damaged ({shortened(name)}); delete it, and keep it anew"
            )
        by_role[role][own] = array
    same = all(metadata.get(name) == value for name, value in here.items())
    if not same or not by_role[DRAFT] or "draft.model" not in here:
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
