"""Whether an exported model computes what its checkpoint does in transformers."""

from __future__ import annotations

import logging
from pathlib import Path

from edgespec.artifact.languages import Languages
from edgespec.artifact.manifest import Exported
from edgespec.device.device import Device
from edgespec.errors import needs_extra
from edgespec.pair.opening.runtime import open_model
from edgespec_export.checkpoint.sources import Source
from edgespec_export.measure_variants import REFERENCE

__all__ = ["check_same", "need_transformers"]

_log = logging.getLogger("edgespec")


def need_transformers() -> None:
    """Raises EdgespecError if torch or transformers is not installed."""
    with needs_extra("torch"):
        import edgespec_export.verify  # noqa: F401


def check_same(
    source: Source, folder: Path, exported: Exported, languages: Languages | None, device: Device
) -> None:
    """Compares the float32 graphs of a model with its checkpoint; drafts that read their target
    are passed over, since transformers has no such models.

    Args:
        source: the checkpoint.
        folder: of the pair.
        languages: that the model's tokenizer is told, if any.

    Raises:
        EdgespecError: transformers cannot load the checkpoint, or the export differs from it.
    """
    from edgespec_export.verify import check_difference, differences

    if exported.is_eagle_head or exported.shares_encoder:
        _log.info("%s: not verified, transformers has no such drafts", exported.source)
    elif REFERENCE not in exported.variants:
        _log.info("%s: not verified, it has no %s variant", exported.source, REFERENCE)
    else:
        model = open_model(folder, exported, REFERENCE, device=device, min_rows=2)
        found = differences(source.path, exported, model, languages, source.adapter)
        for graph, difference in found.items():
            check_difference(f"{exported.source} {REFERENCE} {graph}", difference)
