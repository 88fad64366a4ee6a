"""The number formats that an export is asked for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from edgespec.artifact.hosts import GPU, HOSTS, NPU, WEB
from edgespec.errors import UsageError, shortened
from edgespec_export.components.attention.cache_formats import CACHE_FORMATS
from edgespec_export.default_format import candidate_formats
from edgespec_export.hosts import gpu, npu, web
from edgespec_export.quantization.formats import FORMATS

__all__ = ["RequestedFormats", "formats_for"]

# Of a target where none is asked for; without a host see `default_format`.
USUAL: dict[str | None, tuple[str, ...]] = {WEB: ("int8",), GPU: ("fp32",), NPU: ("fp16",)}


def formats_for(
    host: str | None,
    target: Sequence[str] | None,
    draft: Sequence[str],
    caches: Sequence[str],
) -> RequestedFormats:
    """The formats that were asked for, with the host's usual one of the target for None."""
    return RequestedFormats(USUAL.get(host) if target is None else target, draft, caches)


@dataclass(frozen=True)
class RequestedFormats:
    """Names of formats; the first of each model is its default.

    Attributes:
        target: None leaves the choice to the export.
        caches: of the target's keys and values.
    """

    target: Sequence[str] | None
    draft: Sequence[str]
    caches: Sequence[str]

    def check(self, host: str | None) -> None:
        """Raises UsageError if a format or host is unknown, a list is empty, or the host runs
        none of them."""
        target = ("int8", "fp32") if self.target is None else self.target
        known = npu.NPU_FORMATS if host == NPU else FORMATS
        _check_known("target format", known, target)
        _check_known("draft format", known, self.draft)
        _check_known("cache format", CACHE_FORMATS, self.caches)
        if host == WEB:
            web.check_formats(target, self.draft, self.caches)
        elif host == GPU:
            gpu.check_formats(target, self.draft, self.caches)
        elif host == NPU:
            npu.check_caches(self.caches)
        elif host is not None:
            raise UsageError(f"no host {shortened(host)}; there is: {', '.join(HOSTS)}")

    def target_formats(self, float32_bytes: int, measure: bool) -> Sequence[str]:
        """Those of a target of this size; `measure` is whether they may be compared."""
        return candidate_formats(float32_bytes, measure) if self.target is None else self.target


def _check_known(what: str, known: Collection[str], given: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise UsageError(f"no {what} {shortened(name)}; there is: {', '.join(known)}")
    if not given:
        raise UsageError(f"no {what} is given; there is: {', '.join(known)}")
