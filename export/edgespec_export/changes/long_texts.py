"""Models whose texts pass the length that they were first trained on: `--long-texts`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from edgespec.errors import UsageError
from edgespec_export.checkpoint.checkpoint import Checkpoint
from edgespec_export.families.rotary.longrope import has_longrope, with_long_factors_only

__all__ = ["with_long_factors"]


def with_long_factors(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    """A target, and its draft if it has one, with longrope's factors for long texts.

    A draft without longrope stays as it is.

    Raises:
        UsageError: the target has no longrope.
    """
    target = checkpoints[0]
    if not has_longrope(target.config):
        raise UsageError(
            f"--long-texts is for models with longrope, and {target.label} has none; leave it out"
        )
    return [
        dataclasses.replace(one, config=with_long_factors_only(one.config))
        if has_longrope(one.config)
        else one
        for one in checkpoints
    ]
