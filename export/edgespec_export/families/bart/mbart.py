"""mBART and mBART-50: a BART with norms before the blocks, and one after each stack.

Liu et al. (2020, arXiv 2001.08210). The language of a text is its start token or its forced first
token, which the generation config names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from edgespec_export.components.norms.layer_norm import LayerNorm
from edgespec_export.components.norms.norm import NoNorm, Norm
from edgespec_export.families.bart.bart import Bart
from edgespec_export.families.bart.completed_weights import PREFIX

__all__ = ["MBart"]


@dataclass(frozen=True, kw_only=True)
class MBart(Bart):
    """The shape of an mBART."""

    family = "mbart"
    model_types: ClassVar[tuple[str, ...]] = ("mbart",)
    legacy: ClassVar[Mapping[str, bool]] = {
        **Bart.legacy,
        "add_final_layer_norm": True,
        "normalize_before": True,
    }

    def before(self, norm: LayerNorm) -> Norm:
        return norm

    def after(self, norm: LayerNorm) -> Norm:
        return NoNorm()

    def stack_norm(self, stack: str) -> Norm:
        return self._norm(f"{PREFIX}{stack}.layer_norm")
