"""Whether a checkpoint's tensors are those of the model that its config describes."""

from __future__ import annotations

import hashlib

import numpy as np

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.checkpoint import Checkpoint
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.families import Family, family_of

__all__ = ["fitted"]

ROWS = 4096  # of a table, made float32 at once


def fitted(checkpoint: Checkpoint) -> Family:
    """Its family as the tensors have it: a head that differs from a tied embedding is its own.

    So transformers sees it, which ties two tensors only if they are equal or one is absent.

    Raises:
        EdgespecError: it is of no known family, a tensor is missing or of another shape, or another
            copy of the embedding differs from it, which would be a model that no family here has.
    """
    family, weights = family_of(checkpoint.config, checkpoint.label), checkpoint.weights
    heads = {family.head} if family.tied_head else set()
    differing = _differing(weights, family.table, heads.union(family.copies))
    for copy in sorted(differing - heads):
        raise EdgespecError(
            f"{family.label}: tensor {copy!r} differs from {family.table!r}; edgespec exports only "
            "models that have one embedding"
        )
    if differing:
        family = family.with_own_head()
    _check_shapes(family, weights)
    return family


def _check_shapes(family: Family, weights: Weights) -> None:
    for name, expected in family.shapes():
        shape = weights.shape(name)
        if shape != expected:
            raise EdgespecError(
                f"{family.label}: tensor {name!r} is {list(shape)}, and config.json asks for "
                f"{list(expected)}; config.json belongs to another model"
            )


def _differing(weights: Weights, table: str, copies: set[str]) -> set[str]:
    """Those of some tensors that are there and are not the table's equals."""
    there = copies.intersection(weights.names())
    if not there:
        return set()
    digest = _digest(weights, table)
    return {name for name in there if _digest(weights, name) != digest}


def _digest(weights: Weights, name: str) -> bytes:
    """Of a table's numbers as float32: two tables are never in memory together."""
    digest = hashlib.sha256(str(weights.shape(name)).encode())
    tensor = weights.read(name)
    for first in range(0, len(tensor), ROWS):
        digest.update(tensor[first : first + ROWS].astype(np.float32).tobytes())
    return digest.digest()
